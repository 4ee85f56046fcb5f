"""How much of a selection to believe: many searches instead of one, and what they have in common."""

from fbed.inference.inclusion import InclusionResult, inclusion
from fbed.inference.ipss import IPSSResult, ipss
from fbed.inference.multisplit import MultisplitResult, multisplit
from fbed.inference.stability import StabilityResult, stability

__all__ = [
    "IPSSResult",
    "InclusionResult",
    "MultisplitResult",
    "StabilityResult",
    "inclusion",
    "ipss",
    "multisplit",
    "stability",
]
