"""Rows in order of time, asked one part after another: what is found in one is carried on to the next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import MomentsAtRisk, ProductsAtRisk
from fbed.clock import check_time
from fbed.larger_than_memory import sources
from fbed.larger_than_memory.designs import FarDesign
from fbed.larger_than_memory.digest import Digest, batches
from fbed.larger_than_memory.joined import JoinedRows, plain
from fbed.larger_than_memory.outline import Outline
from fbed.larger_than_memory.part_risks import AtRisk, RiskPiece
from fbed.larger_than_memory.scratch import Order, Scratch, ScratchRows, in_order, kinds_of
from fbed.larger_than_memory.workers import Crew, Here, Tally, together
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.course import Course, RiskState
from fbed.models.engines.tall.risk_sums import looked_at_group
from fbed.rules.p_values import Floats


class InTime(Here):
    """This process, with parts that are in order of time."""

    def __init__(self, parts: Sequence[ScratchRows], n_threads: int, room: int, loaded: int, tally: Tally) -> None:
        super().__init__(parts, n_threads, room, loaded)
        self.tally = tally
        ends = list(accumulate(part.n_rows for part in parts))
        self.slices = [slice(end - part.n_rows, end) for part, end in zip(parts, ends, strict=True)]

    def follow(self, outline: Outline, course: Course) -> None:
        """From now on the parts know what their columns mean, and when their rows come and go."""
        n = self.slices[-1].stop
        self.pieces = [
            RiskPiece(part, outline, AtRisk(course.rows(rows), rows.start), self.room * part.n_rows // n, self.loaded)
            for part, rows in zip(self.parts, self.slices, strict=True)
        ]

    def carry(self, verb: str, rows: RiskState, sums: Any, *arguments: Any) -> None:
        """Have the parts, one after another, add to sums by a verb of `RiskPiece`."""
        self.tally.passes += 1
        for piece, part in zip(self.pieces, self.slices, strict=True):
            check_time()
            _, n_bytes = piece.answer(verb, (rows.rows(part), sums, *arguments))
            self.tally.bytes_read += n_bytes

    def some(self, variables: Indices) -> list[Indices]:
        """Variables some at a time, as many as may be loaded together: as many in every part, which carry them on."""
        size = together(max(part.n_rows for part in self.parts), self.loaded)
        return [np.array(some, dtype=np.intp) for some in batches(variables.tolist(), size)]


def in_order_of_time(
    crew: Crew,
    outline: Outline,
    found: Digest,
    order: Order,
    keeps: Sequence[NDArray[np.bool_] | None],
    lengths: Sequence[int],
    n_threads: int,
    free: int,
) -> InTime:
    """The rows that are kept, by risk (`order_of_risk`), in a file of their own; `free` bytes of memory may be used."""
    scratch = Scratch(kinds_of(outline, found), len(order), sources.ROWS)
    most = max(len(keep) if keep is not None else n for keep, n in zip(keeps, lengths, strict=True))
    loaded = free // 8  # reading and computing take as much again
    n_bytes = in_order(crew, outline, scratch, order, keeps, lengths, together(most, loaded // n_threads))
    crew.tally.bytes_read += n_bytes
    return InTime(scratch.parts(sources.ROWS), n_threads, free // 4, loaded, crew.tally)


class JoinedRisks:
    """The verbs of survival times. The state of the rows is the coefficients that it follows from; the last is kept."""

    constant = False
    stretch = 2.0

    def __init__(self, crew: InTime, design: FarDesign, course: Course) -> None:
        self.crew, self.course, self.blocks = crew, course, RowBlocks(design)
        self.design: Design = design
        self.n = self.events = course.n_events
        self._rows = JoinedRows(crew)
        self._known: tuple[tuple[int, ...], bytes, RiskState, float] | None = None

    def forget(self) -> None:
        """Make room: the state of the rows is found again when it is asked for."""
        self._known = None

    def start(self) -> Floats:
        """No constant: the baseline hazard is left open."""
        return np.zeros(0)

    def _state(self, selected: Sequence[int], coefficients: Floats) -> tuple[RiskState, float]:
        """The rows at given coefficients, and half the deviance."""
        key = plain(selected), coefficients.tobytes()
        if self._known is None or self._known[:2] != key:
            self.forget()
            self._known = *key, *self.course.state(self._rows.predictors(selected, coefficients))
        return self._known[2:]

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Loss, gradient, information."""
        rows, loss = self._state(selected, coefficients)
        sums = ProductsAtRisk(len(coefficients), 0)
        if len(coefficients):
            self.crew.carry("add_model", rows, sums, plain(selected))
        gradient, information, _ = sums.found()
        return Sweep(loss, gradient, information, coefficients)

    def look(self, rows: Floats, selected: Sequence[int], candidates: Indices) -> Looked:
        """Products of candidates that are single columns of numbers."""
        state, several = self._state(selected, rows)[0], self.crew.some(candidates)
        sums = [ProductsAtRisk(len(rows), len(some)) for some in several]
        self.crew.carry("add_candidates", state, sums, plain(selected), several)
        score, cross, own = zip(*(one.found() for one in sums), strict=True)
        return Looked(np.concatenate(score), np.concatenate(cross, axis=1), np.concatenate(own))

    def look_at_group(self, rows: Floats, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns."""
        return self.look_at_groups(rows, selected, np.array([variable], dtype=np.intp))[0]

    def look_at_groups(self, rows: Floats, selected: Sequence[int], variables: Indices) -> list[Looked]:
        """The same for several of them in one pass."""
        state, widths = self._state(selected, rows)[0], self.design.width[variables].tolist()
        sums = [ProductsAtRisk(len(rows) + int(width), 0) for width in widths]
        self.crew.carry("add_groups", state, sums, plain(selected), variables)
        return [looked_at_group(one, len(rows)) for one in sums]

    def moments(
        self, rows: Floats, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Moments and extremes of the steps of some variables."""
        state, several = self._state(selected, rows)[0], self.crew.some(variables)
        sums = [MomentsAtRisk(len(some)) for some in several]
        self.crew.carry("add_steps", state, sums, plain(selected), several, list(own), along)
        return np.concatenate([one.found() for one in sums], axis=1)

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        found: Sums = self.crew.ask("remainder", plain(selected), int(variable), gamma)
        return found
