"""Directed paths and cycles."""

from collections.abc import Iterable

from fbed.graphs.walks import Links, Neighbours, trace


def topological_order(links: Links) -> list[int]:
    """Parents before children; nodes on or below a directed cycle are missing."""
    waiting = [len(above) for above in links.parents]
    order = [node for node, count in enumerate(waiting) if count == 0]
    for node in order:  # the list grows while it is read
        for child in links.children[node]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    return order


def find_cycle(links: Links, order: Iterable[int]) -> list[int]:
    """A directed cycle among the nodes that are missing from the topological `order`, first node repeated."""
    left = set(range(len(links))).difference(order)
    step = {node: next(parent for parent in links.parents[node] if parent in left) for node in left}
    node = min(left)
    trail: dict[int, None] = {}
    while node not in trail:  # going up never ends among these nodes, so some node comes twice
        trail[node] = None
        node = step[node]
    names = list(trail)
    cycle = names[names.index(node) :]
    return [node, *cycle[::-1]]


def directed_path(children: Neighbours, start: int, end: int) -> list[int]:
    """A shortest directed path from start to end, which must be a descendant of start."""
    previous = {start: start}
    queue = [start]
    for node in queue:  # the list grows while it is read
        for child in children[node]:
            if child not in previous:
                previous[child] = node
                queue.append(child)
    return trace(previous, end)
