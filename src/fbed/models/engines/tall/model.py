"""The model of an outcome with many rows: which engine fits a set of variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fbed.models.base import Fit, FittedModel, Model
from fbed.models.engines.tall.factor import NotTall
from fbed.models.engines.tall.fit import TallFit
from fbed.models.engines.tall.row_questions import Verbs, base_of
from fbed.models.engines.tall.screen import EarlierVerbs, Screen

_MANY_FITS = 4  # of candidates of one scan, beyond which brackets tell too little and a quick ordinary model goes on


class TallModel:
    """An outcome with many rows; `careful` makes the ordinary model of the same data."""

    has_likelihood = True

    def __init__(
        self,
        name: str,
        sums: Verbs,
        careful: Callable[[], Model],
        notes: tuple[str, ...] = (),
        kind: type[TallFit] = TallFit,
    ) -> None:
        self._notes, self._kind = notes, kind
        self.name, self.n, self.sums, self.design = name, sums.n, sums, sums.design
        self.block_size = self.design.table.n_variables  # threads share the rows, not the candidates
        self._careful = careful
        at_hand = hasattr(sums, "change") and not hasattr(sums, "project")
        self.screen = Screen(cast("EarlierVerbs", sums)) if at_hand else None
        self.null_deviance = self._null_deviance()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know, with what the verbs have to tell."""
        return (*self._notes, *getattr(self.sums, "notes", ()))

    @cached_property
    def careful(self) -> Model:
        """The ordinary model, made when it is asked for."""
        return self._careful()

    @property
    def _ordinary_is_quick(self) -> bool:
        return getattr(self.sums, "sparse_classes", False) and not self.design.is_stored

    @cached_property
    def rare(self) -> NDArray[np.bool_]:
        """Variables of one column that is mostly 0, which can be looked at where it is not."""
        out = np.zeros(len(self.design.varying), dtype=bool)
        if getattr(self.sums, "knows_rare", False):
            single = np.flatnonzero(self.design.varying)
            out[single] = self.design.mostly_zero[self.design.positions(single)]
        return out

    @property
    def tells_scores(self) -> bool:
        """Whether its fits tell the scores of their rows: not where these are elsewhere, or several trials are one row.

        Who compares rows in pairs has to compare trials.
        """
        return hasattr(self.sums, "row_scores") and not getattr(self.sums, "trials_share_rows", False)

    @property
    def events(self) -> float:
        """How many events the rows have."""
        return self.sums.events

    @property
    def n_predictors(self) -> int:
        """Linear predictors of a row."""
        return getattr(self.sums, "n_predictors", 1)

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> Fit:
        """Maximise the likelihood on a set of variables; `near` is the fit that the search had before."""
        selected = tuple(selected)
        if _needs_care(near, selected) or (self._ordinary_is_quick and _is_hard(near)):
            return self.careful.fit(selected, near)
        known = near.known(selected) if isinstance(near, TallFit) else None
        if known is not None:
            return known
        if isinstance(near, TallFit) and near.fails(selected):
            return self.careful.fit(selected, near)
        try:
            return self._kind(self, selected, near.start(selected) if isinstance(near, TallFit) else None)
        except NotTall:
            return self.careful.fit(selected, near)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients and standard errors on the scale of the user's data."""
        fit = self.fit(selected, near)
        return fit.describe() if isinstance(fit, TallFit) else self.careful.describe(selected, fit)

    def _null_deviance(self) -> float:
        try:
            return self._kind(self, (), None).deviance
        except NotTall:  # offsets may be as far apart as predictors are under separation
            return self.careful.describe(()).null_deviance - base_of(self.sums)


def _needs_care(near: Fit | None, selected: tuple[int, ...]) -> bool:
    """Whether a part of S was fitted with care already: a maximum at infinity stays there, whatever joins the model."""
    if near is None or isinstance(near, TallFit):
        return False
    known = near if hasattr(near, "selected") else getattr(near, "span", None)
    return set(getattr(known, "selected", ())) <= set(selected) if known is not None else False


def _is_hard(near: Fit | None) -> bool:
    """Whether a fit nearby had to answer by fits, or is one of the ordinary model already."""
    return near.n_larger > _MANY_FITS if isinstance(near, TallFit) else near is not None
