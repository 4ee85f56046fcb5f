"""The rows that a model was fitted on, a variable at a time: no table of all terms, no category expanded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fbed.matrix.design import Design
from fbed.result.fitted.responses import constants, slopes_of
from fbed.rules.p_values import Floats
from fbed.tables.encoding import Codes

if TYPE_CHECKING:
    from fbed.result.fitted.model import FinalModel


class TrainingRows:
    """The terms of the selected variables; those of a category are told by its codes."""

    def __init__(self, design: Design, selected: Sequence[int]) -> None:
        self.design, self.selected = design, selected

    def predictors(self, model: FinalModel) -> Floats:
        """Linear predictors, rows × predictors, to the bit those of `responses.predictors`."""
        out, slopes = constants(model, self.design.n_rows), slopes_of(model)
        for variable, own in self._slices():
            beta, codes = slopes[:, own], self._codes(variable)
            if codes is not None:
                out += np.vstack([np.zeros(len(beta)), beta.T])[codes]
            else:
                for slope, x in zip(beta.T, self._terms(variable).T, strict=True):
                    out += x[:, None] * slope
        return out

    def along(self, numbers: Floats) -> Floats:
        """Products of the terms with a number for every row, which add up to 0."""
        out = [np.zeros(0)]
        for variable, own in self._slices():
            codes = self._codes(variable)
            if codes is not None:
                out.append(np.bincount(codes, numbers, own.stop - own.start + 1)[1:].astype(float))
            else:
                out.append(np.array([numbers @ (x - x.mean()) for x in self._terms(variable).T]))
        return np.concatenate(out)

    def _slices(self) -> Iterator[tuple[int, slice]]:
        """Every variable, and where its terms are among all."""
        first = 0
        for variable in self.selected:
            last = first + int(self.design.width[variable])
            yield variable, slice(first, last)
            first = last

    def _codes(self, variable: int) -> Codes | None:
        found = self.design.codes(variable)
        return None if found is None else found[0]

    def _terms(self, variable: int) -> Floats:
        """On the scale of the user's data."""
        center, scale = self.design.moments(variable)
        out = np.asfortranarray(self.design.stack([variable]))
        out *= scale
        out += center
        return out
