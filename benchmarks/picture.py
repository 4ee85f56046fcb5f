"""What the pictures have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = ("#0b6e99", "#d1495b", "#edae49", "#66a182")  # ours first; told apart by the colour-blind too


def subplots(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "fbed"})
    return plt.subplots(rows, columns, figsize=size, layout="constrained", **options)


def save(figure: Any, file: Path) -> None:
    """As PNG and SVG, the same bytes for the same numbers."""
    figure.savefig(file.with_suffix(".png"), dpi=150, metadata={"Software": None})
    figure.savefig(file.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
