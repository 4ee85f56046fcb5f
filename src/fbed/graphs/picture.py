"""A picture of the neighbourhood of a target: its Markov blanket, and what a selection found of it.

The rows go down with the arrows: parents above the target, children below it, spouses at its sides. What was found,
missed or added in error differs by fill, by outline and by a mark, so that no one needs to tell colours apart.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from fbed.graphs.mixed import MixedGraph, Node, Nodes
from fbed.graphs.recovery import Recovery
from fbed.graphs.roles import Role

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW: dict[Role, int] = {
    "ancestor": 0,
    "parent": 1,
    "parent of district": 1,
    "target": 2,
    "spouse": 2,
    "district": 2,
    "child": 3,
    "child's district": 3,
    "descendant": 4,
    "other": 4,
}

# Lengths are in widths of a character, which makes the size of a box known before anything is drawn.
_PADDING = 2.4
_GAP = 2.6
_BOX_HEIGHT = 2.6
_ROW_HEIGHT = 8.0
_WRAPPED_HEIGHT = 4.4  # between the lines of a row that is too long for one
_WIDEST = 90.0  # of a line: wider pictures are not read on a page
_INCH = 1 / 12  # of a length, at this size of text
_FONT = 8.0
_SWEEPS = 4  # lines are ordered by each other's order, which settles after a few rounds


@dataclass(frozen=True)
class _Look:
    """How the nodes of one kind are drawn."""

    label: str
    fill: str
    text: str
    edge: str
    line: Literal["-", "--", ":"] = "-"
    mark: str = ""


# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
_TARGET = _Look("target", "#000000", "#ffffff", "#000000")
_BLANKET = _Look("Markov blanket", "#cfe6f5", "#000000", "#0072b2")
_FOUND = _Look("found", "#cfe6f5", "#000000", "#0072b2", mark="✓ ")
_MISSED = _Look("missed", "#ffffff", "#000000", "#d55e00", line="--", mark="− ")
_EXTRA = _Look("extra", "#fbe3a6", "#000000", "#8a6100", line=":", mark="+ ")


def draw_blanket(
    graph: MixedGraph, target: Node, found: Nodes | None = None, *, ax: "Axes | None" = None, title: str | None = None
) -> "Axes":
    """Draw a target with its Markov blanket, and what a selection found, missed and added.

    Nodes outside the blanket appear when they were found; edges when both of their ends appear.

    Parameters
    ----------
    graph : DAG or MAG
        The truth.
    target : node
        Whose blanket.
    found : nodes, optional
        What was selected; by default the blanket alone is drawn.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure, as large as the names need.
    title : str, optional
        By default the target, with precision and recall when something was selected.

    Returns
    -------
    matplotlib.axes.Axes
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("draw_blanket needs matplotlib: pip install matplotlib") from error
    recovery = Recovery(graph, target, graph.markov_blanket(target) if found is None else found)
    looks = _looks(recovery, compared=found is not None)
    boxes = _layout(recovery, looks)
    left, right, bottom, top = _extent(boxes.values())
    if ax is None:
        size = (max((right - left) * _INCH, 4.2), (top - bottom) * _INCH + 0.9)
        _, ax = plt.subplots(figsize=size, layout="constrained")
    ax.set(xlim=(left, right), ylim=(bottom, top))
    ax.axis("off")
    patches = {node: _draw_box(ax, boxes[node], look, str(node)) for node, look in looks.items()}
    _draw_edges(ax, graph, boxes, patches, target)
    _draw_legend(ax, looks)
    ax.set_title(_title(recovery, found is not None) if title is None else title, fontsize=_FONT + 2)
    return ax


def _title(recovery: Recovery, compared: bool) -> str:
    name = f"Markov blanket of {recovery.target}"
    return f"{name}: precision {recovery.precision:.2f}, recall {recovery.recall:.2f}" if compared else name


def _looks(recovery: Recovery, compared: bool) -> dict[Node, _Look]:
    looks = {recovery.target: _TARGET}
    looks |= dict.fromkeys(recovery.hit, _FOUND if compared else _BLANKET)
    looks |= dict.fromkeys(recovery.missed, _MISSED)
    looks |= dict.fromkeys(recovery.extra, _EXTRA)
    return looks


# -- layout --------------------------------------------------------------------------------------------------


@dataclass
class _Box:
    """The middle of a node's box, its width, and the row and line that it is in."""

    width: float
    row: int
    line: int
    y: float
    x: float = 0.0

    @property
    def half(self) -> float:
        return self.width / 2


def _layout(recovery: Recovery, looks: dict[Node, _Look]) -> dict[Node, _Box]:
    """Rows by role, wrapped when too long, each line ordered by where its neighbours are."""
    widths = {node: len(look.mark) + len(str(node)) + _PADDING for node, look in looks.items()}
    boxes: dict[Node, _Box] = {}
    lines: list[list[Node]] = []
    y = 0.0
    for row, members in enumerate(_rows(recovery, looks)):
        for line in _wrapped(members, widths):
            boxes |= {node: _Box(widths[node], row, len(lines), y) for node in line}
            lines.append(line)
            y -= _WRAPPED_HEIGHT
        y -= _ROW_HEIGHT - _WRAPPED_HEIGHT
    for line in lines:
        _spread([boxes[node] for node in line])
    for _ in range(_SWEEPS):
        for line in lines:
            _untangle(line, recovery.graph, boxes)
    return boxes


def _rows(recovery: Recovery, nodes: Iterable[Node]) -> list[list[Node]]:
    """The nodes from ancestors to descendants, the target in the middle of its row."""
    rows: dict[int, list[Node]] = {}
    for node in nodes:
        rows.setdefault(_ROW[recovery.roles[node]], []).append(node)
    beside = rows[_ROW["target"]]
    beside.remove(recovery.target)
    beside.insert(len(beside) // 2, recovery.target)
    return [members for _, members in sorted(rows.items())]


def _wrapped(members: list[Node], widths: dict[Node, float]) -> list[list[Node]]:
    """Lines with about as many nodes each, none much longer than what can be read."""
    total = sum(widths[node] + _GAP for node in members)
    n_lines = max(1, math.ceil(total / _WIDEST))
    cuts = [round(i * len(members) / n_lines) for i in range(n_lines + 1)]
    return [members[start:end] for start, end in pairwise(cuts)]


def _spread(line: Sequence[_Box]) -> None:
    """Put boxes side by side, in their order, around the middle of the picture."""
    x = -(sum(box.width for box in line) + _GAP * (len(line) - 1)) / 2
    for box in line:
        box.x = x + box.half
        x += box.width + _GAP


def _untangle(line: Sequence[Node], graph: MixedGraph, boxes: dict[Node, _Box]) -> None:
    """Order a line by the mean place of each node's neighbours in other lines."""

    def pull(node: Node) -> float:
        places = [boxes[n].x for n in graph.adjacent(node) if n in boxes and boxes[n].line != boxes[node].line]
        return sum(places) / len(places) if places else boxes[node].x

    _spread([boxes[node] for node in sorted(line, key=pull)])


def _extent(boxes: Iterable[_Box]) -> tuple[float, float, float, float]:
    every = list(boxes)
    return (
        min(box.x - box.half for box in every) - _GAP,
        max(box.x + box.half for box in every) + _GAP,
        min(box.y for box in every) - _BOX_HEIGHT,
        max(box.y for box in every) + _BOX_HEIGHT,
    )


# -- drawing -------------------------------------------------------------------------------------------------


def _draw_box(ax: "Axes", box: _Box, look: _Look, name: str) -> Any:
    from matplotlib.patches import FancyBboxPatch

    patch = FancyBboxPatch(
        (box.x - box.half, box.y - _BOX_HEIGHT / 2),
        box.width,
        _BOX_HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.6",
        facecolor=look.fill,
        edgecolor=look.edge,
        linestyle=look.line,
        linewidth=1.4,
        zorder=2,
    )
    ax.add_patch(patch)
    ax.text(box.x, box.y, look.mark + name, ha="center", va="center", fontsize=_FONT, color=look.text, zorder=3)
    return patch


def _draw_edges(ax: "Axes", graph: MixedGraph, boxes: dict[Node, _Box], patches: dict[Node, Any], target: Node) -> None:
    for style, edges in (("-|>", graph.directed), ("<|-|>", graph.bidirected)):
        for a, b in edges:
            if a in boxes and b in boxes:
                _draw_edge(ax, (boxes[a], boxes[b]), (patches[a], patches[b]), style, strong=target in (a, b))


def _draw_edge(ax: "Axes", ends: tuple[_Box, _Box], patches: tuple[Any, Any], style: str, strong: bool) -> None:
    from matplotlib.patches import FancyArrowPatch

    start, end = ends
    bend = 0.25 if _something_between(start, end) else 0.0
    arrow = FancyArrowPatch(
        (start.x, start.y),
        (end.x, end.y),
        patchA=patches[0],
        patchB=patches[1],
        arrowstyle=style,
        mutation_scale=9,
        shrinkA=0,
        shrinkB=1,
        connectionstyle=f"arc3,rad={bend if start.x <= end.x else -bend}",
        color="#333333" if strong else "#999999",
        linewidth=1.1 if strong else 0.8,
        zorder=1.5 if strong else 1,
    )
    ax.add_patch(arrow)


def _something_between(start: _Box, end: _Box) -> bool:
    """Whether a straight line would run through a row, or along a line, of other boxes."""
    if start.line == end.line:
        return abs(start.x - end.x) > start.half + end.half + 1.5 * _GAP
    return abs(start.row - end.row) != 1


def _draw_legend(ax: "Axes", looks: dict[Node, _Look]) -> None:
    from matplotlib.patches import Patch

    shown = [look for look in (_TARGET, _BLANKET, _FOUND, _MISSED, _EXTRA) if look in looks.values()]
    handles = [
        Patch(facecolor=look.fill, edgecolor=look.edge, linestyle=look.line, linewidth=1.4, label=_entry(look, looks))
        for look in shown
    ]
    ax.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(shown), frameon=False, fontsize=_FONT
    )


def _entry(look: _Look, looks: dict[Node, _Look]) -> str:
    if look is _TARGET:
        return look.label
    return f"{look.mark}{look.label} ({sum(other is look for other in looks.values())})"
