"""fbed: forward-backward selection with early dropping, exact stepwise and Markov-blanket feature selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fbed.doors.paths import PathResult, path
from fbed.doors.progress import Progress
from fbed.doors.selection import select
from fbed.errors import InvalidInput
from fbed.result.result import Result
from fbed.rules.criteria import AIC, BIC, EBIC, LikelihoodRatio
from fbed.tables.plink import Genotypes, genotypes

if TYPE_CHECKING:
    from fbed.doors.estimator import FBEDSelector

__version__ = "0.2.0"
__all__ = [
    "AIC",
    "BIC",
    "EBIC",
    "FBEDSelector",
    "Genotypes",
    "InvalidInput",
    "LikelihoodRatio",
    "PathResult",
    "Progress",
    "Result",
    "genotypes",
    "path",
    "select",
]


def __getattr__(name: str) -> Any:
    """`FBEDSelector` on first use: importing scikit-learn takes several times as long as everything else here."""
    if name == "FBEDSelector":
        from fbed.doors.estimator import FBEDSelector

        return FBEDSelector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
