"""What a node is to a target: the parts of the Markov blanket by name, for reports."""

from typing import Literal, get_args

from fbed.graphs.walks import Links, closure

BlanketRole = Literal["parent", "child", "district", "spouse", "child's district", "parent of district"]
Role = Literal["target", BlanketRole, "ancestor", "descendant", "other"]

#: The roles that make up the Markov blanket.
BLANKET_ROLES: tuple[BlanketRole, ...] = get_args(BlanketRole)

#: All roles, in their order.
ROLES: tuple[Role, ...] = ("target", *BLANKET_ROLES, "ancestor", "descendant", "other")


def spouses(links: Links, target: int) -> set[int]:
    """The other parents of the target's children."""
    shared = {parent for child in links.children[target] for parent in links.parents[child]}
    return shared - {target}


def roles(links: Links, target: int) -> list[Role]:
    """The role of every node, where a node that has several gets the first of the order of `Role`."""
    district = closure(links.siblings, [target])
    child_districts = closure(links.siblings, links.children[target])
    members: dict[Role, list[int] | tuple[int, ...] | set[int]] = {
        "target": [target],
        "parent": links.parents[target],
        "child": links.children[target],
        "district": district,
        "spouse": spouses(links, target),
        "child's district": child_districts,
        "parent of district": {p for node in district + child_districts for p in links.parents[node]},
        "ancestor": closure(links.parents, [target]),
        "descendant": closure(links.children, [target]),
    }
    found: list[Role] = ["other"] * len(links)
    for role, nodes in reversed(members.items()):  # the first of the order is written last, and stays
        for node in nodes:
            found[node] = role
    return found
