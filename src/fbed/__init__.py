"""fbed: forward-backward selection with early dropping, exact stepwise and Markov-blanket feature selection."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fbed.api.paths import PathResult, path
from fbed.api.progress import Progress
from fbed.api.selection import select
from fbed.errors import InvalidInput
from fbed.result.result import Result
from fbed.rules.criteria import AIC, BIC, EBIC, LikelihoodRatio
from fbed.tables.plink import Genotypes, genotypes
from fbed.tuning.tune import tune

if TYPE_CHECKING:
    from fbed.api.estimator import FBEDSelector
    from fbed.inference.equivalents import EquivalentsResult, equivalents
    from fbed.inference.familywise import SelectionTest, selection_test
    from fbed.inference.inclusion import InclusionResult, inclusion
    from fbed.inference.ipss import IPSSResult, ipss
    from fbed.inference.multisplit import MultisplitResult, multisplit
    from fbed.inference.stability import StabilityResult, stability
    from fbed.tuning.predictors import FBEDClassifier, FBEDCox, FBEDRegressor

__version__ = "0.2.0"
__all__ = [
    "AIC",
    "BIC",
    "EBIC",
    "EquivalentsResult",
    "FBEDClassifier",
    "FBEDCox",
    "FBEDRegressor",
    "FBEDSelector",
    "Genotypes",
    "IPSSResult",
    "InclusionResult",
    "InvalidInput",
    "LikelihoodRatio",
    "MultisplitResult",
    "PathResult",
    "Progress",
    "Result",
    "SelectionTest",
    "StabilityResult",
    "equivalents",
    "genotypes",
    "inclusion",
    "ipss",
    "multisplit",
    "path",
    "select",
    "selection_test",
    "stability",
    "tune",
]


_LATER = {
    "FBEDSelector": "fbed.api.estimator",
    "FBEDClassifier": "fbed.tuning.predictors",
    "FBEDCox": "fbed.tuning.predictors",
    "FBEDRegressor": "fbed.tuning.predictors",
    "EquivalentsResult": "fbed.inference.equivalents",
    "IPSSResult": "fbed.inference.ipss",
    "InclusionResult": "fbed.inference.inclusion",
    "MultisplitResult": "fbed.inference.multisplit",
    "SelectionTest": "fbed.inference.familywise",
    "StabilityResult": "fbed.inference.stability",
    "equivalents": "fbed.inference.equivalents",
    "inclusion": "fbed.inference.inclusion",
    "ipss": "fbed.inference.ipss",
    "multisplit": "fbed.inference.multisplit",
    "selection_test": "fbed.inference.familywise",
    "stability": "fbed.inference.stability",
}


def __getattr__(name: str) -> Any:
    """Some on first use: importing scikit-learn and scipy.stats takes several times as long as everything else here."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
