"""The ordinary model of rows that lie elsewhere, for what sums over rows cannot answer: models that are next to
collinear or separated. The columns of the model, and some candidates at a time, are brought into memory, if they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fbed.errors import InvalidInput
from fbed.larger_than_memory.designs import FarDesign
from fbed.larger_than_memory.digest import batches
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Indices, Model
from fbed.rules.criteria import Evidence

_COPIES = 4  # of the design columns that an ordinary model makes


class GatheredModel:
    """An ordinary model that `make` builds on the columns at hand; `room` is the number of bytes for them."""

    has_likelihood = True

    def __init__(self, name: str, design: FarDesign, make: Callable[[Design], Model], room: int) -> None:
        self.name, self.design, self.make, self.room = name, design, make, room
        self.n = design.n
        self.block_size = design.table.n_variables

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> Fit:
        """Fit the model on a set of variables."""
        return GatheredFit(self, tuple(selected))

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients, as ever."""
        return self.on(tuple(selected), ()).describe(selected)

    def on(self, selected: tuple[int, ...], candidates: Sequence[int]) -> Model:
        """The model with the columns of some variables."""
        if self.most(selected) < len(candidates):
            width = int(self.design.width[[*selected, *candidates]].sum())
            size = 8 * self.design.n_rows * width * _COPIES
            raise InvalidInput(
                f"the model of {len(selected)} variables is next to collinear or separated, and to decide about it "
                f"takes its columns in memory, about {size:,} bytes of which {self.room:,} are allowed: raise "
                "memory_limit, leave out the columns that repeat others or the outcome, or select on a sample of rows"
            )
        return self.make(self.design.near([*selected, *candidates]))

    def most(self, selected: tuple[int, ...]) -> int:
        """How many columns of candidates fit in beside those of the model; negative when not even these do."""
        columns = self.room // (8 * _COPIES * max(1, self.design.n_rows))
        return int(columns - self.design.width[list(selected)].sum())


class GatheredFit:
    """The fit on S, made where S and some candidates are at hand."""

    def __init__(self, model: GatheredModel, selected: tuple[int, ...]) -> None:
        self.model, self.selected = model, selected
        self._alone = model.on(selected, ()).fit(selected)

    @property
    def saturated(self) -> bool:
        """Whether the outcome is explained completely."""
        return self._alone.saturated

    def gains(self, candidates: Indices) -> Evidence:
        """Evidence for adding each candidate, some of them at a time."""
        widest = max(1, int(self.model.design.width[candidates].max(initial=1)))
        together = max(1, self.model.most(self.selected) // widest)
        found = [
            self.model.on(self.selected, some).fit(self.selected).gains(np.array(some, dtype=np.intp))
            for some in batches(candidates.tolist(), together)
        ]
        return Evidence(
            np.concatenate([part.statistic for part in found]),
            np.concatenate([part.df for part in found]),
            np.concatenate([part.log_p for part in found]),
            found[0].reference,
        )

    def losses(self, variables: Indices) -> Evidence:
        """Evidence against removing each variable."""
        return self._alone.losses(variables)
