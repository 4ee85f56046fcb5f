"""The error of the package, and the wording that its messages share."""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from fbed.errors import InvalidInput


class GraphError(InvalidInput):
    """A graph, a network file or a question about them that makes no sense; the message says what to do."""


@contextmanager
def about(source: object) -> Iterator[None]:
    """Put the name of a file before the errors about what is in it."""
    try:
        yield
    except GraphError as problem:
        raise GraphError(f"{source}: {problem}") from None


def listing(names: Iterable[object], limit: int = 5) -> str:
    """Names for a message, in quotes and cut after `limit`: a network can have thousands of nodes."""
    shown = [repr(name) for name in names]
    more = f" and {len(shown) - limit} more" if len(shown) > limit else ""
    return ", ".join(shown[:limit]) + more if shown else "nothing"


def unknown_node(node: object, where: str, nodes: Iterable[Hashable]) -> GraphError:
    """The error for a node that the graph does not have, with the closest name it does have."""
    known = list(nodes)
    names = {str(name): name for name in known}
    close = get_close_matches(str(node), list(names), n=1)
    hint = f"did you mean {names[close[0]]!r}?" if close else "check the spelling, or add it to the graph."
    return GraphError(f"Unknown node {node!r} in {where}: expected one of {listing(known)}; {hint}")
