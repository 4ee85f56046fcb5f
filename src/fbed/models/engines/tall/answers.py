"""What a pass over the rows finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Sweep:
    """One look at a model at given coefficients: half the deviance, and its derivatives."""

    loss: float
    gradient: Floats
    information: Floats
    rows: Any


@dataclass(frozen=True)
class Looked:
    """Products of design columns with the rows' residuals, with the model's columns and with each other.

    The last is the diagonal only for variables of one column.
    """

    score: Floats
    cross: Floats
    own: Floats
