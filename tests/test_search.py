"""The search alone, asked with a made-up table of answers: dropping, runs, limits, interrupts, counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fbed.clock import OutOfTime
from fbed.models.base import Bounds
from fbed.rules.criteria import LikelihoodRatio
from fbed.rules.p_values import ChiSquare
from fbed.search.decide_by_bounds import FAVOURITES, Intervals, worst_by_intervals
from fbed.search.scan import Finding, Scan, _favourites
from fbed.search.search import Plan, Trail, search


class Answers:
    """Merit of each variable given S, as a function; a merit above 0 passes."""

    def __init__(self, merit, saturated=lambda S: False):
        self.merit = merit
        self.is_saturated = saturated
        self.asked = []

    def saturated(self, selected):
        return self.is_saturated(tuple(selected))

    def forward(self, selected, candidates, everybody):
        self.asked.append(("forward", tuple(selected), tuple(candidates.tolist())))
        merit = np.array([self.merit(j, frozenset(selected)) for j in candidates.tolist()], dtype=float)
        passes = (merit > 0) if everybody else np.ones(len(merit), dtype=bool)
        return answer(candidates, merit, passes, int(np.argmax(merit)), (merit > 0).any())

    def backward(self, selected, variables):
        self.asked.append(("backward", tuple(selected), tuple(variables.tolist())))
        merit = np.array([self.merit(j, frozenset(selected) - {j}) for j in variables.tolist()], dtype=float)
        return answer(variables, merit, merit > 0, int(np.argmin(merit)), (merit <= 0).any())


def answer(candidates, merit, passes, position, allowed):
    finding = (
        Finding(int(candidates[position]), float(merit[position]), 1.0, -1.0, 0.0, float(merit[position]))
        if allowed
        else None
    )
    return Scan(candidates, passes, finding, (), merit, merit, np.ones(len(candidates)))


def run(ask, p, **plan):
    forced = plan.get("forced", ())
    candidates = np.array([j for j in range(p) if j not in forced], dtype=np.intp)
    trail = Trail(list(forced))
    search(ask, Plan(candidates, **plan), trail)
    return trail


def count(trail, phase):
    return sum(len(step.scan.candidates) for step in trail.steps if step.phase == phase)


def independent(strength):
    """Merit does not depend on S."""
    return Answers(lambda j, S: strength[j])


def chain(length):
    """Variable j passes only when all before it are selected: one variable a run under early dropping."""
    return Answers(lambda j, S: 1.0 if set(range(j)) <= S and j < length else -1.0)


def test_best_first():
    assert run(independent([1, 3, 2]), 3, k=0).selected == [1, 2, 0]


def test_nothing_passes():
    trail = run(independent([-1, -1]), 2, k=5)
    assert (trail.selected, trail.status) == ([], "converged")
    assert [step.action for step in trail.steps] == ["stop"]
    assert (count(trail, "forward"), count(trail, "backward")) == (2, 0)


def test_no_candidates_need_no_scan():
    trail = run(independent([]), 0)
    assert (trail.steps, trail.status) == ([], "converged")


def test_a_variable_is_dropped_given_the_set_before_the_best_entered():
    # 1 fails while S is empty and would pass beside 0: the prose of the paper drops it, its pseudocode would not
    spouse = Answers(lambda j, S: 5.0 if j == 0 else (1.0 if 0 in S else -1.0))
    trail = run(spouse, 2, k=0)
    assert trail.selected == [0]
    assert trail.steps[0].dropped.tolist() == [1]


def test_a_survivor_of_the_first_scan_is_tested_again_and_may_drop_then():
    substitute = Answers(lambda j, S: {0: 5.0, 1: 4.0, 2: 1.0}[j] if j != 1 or 0 not in S else -1.0)
    trail = run(substitute, 3, k=0)
    assert trail.selected == [0, 2]
    assert [step.dropped.tolist() for step in trail.steps if step.phase == "forward"] == [[], [1]]


def test_without_early_dropping_everything_is_tested_in_every_scan():
    ask = chain(3)
    trail = run(ask, 5, early_dropping=False, k=0)
    assert trail.selected == [0, 1, 2]
    assert [len(step.scan.candidates) for step in trail.steps if step.phase == "forward"] == [5, 4, 3, 2]
    assert all(len(step.dropped) == 0 for step in trail.steps)
    assert {step.run for step in trail.steps if step.phase == "forward"} == {0}


@pytest.mark.parametrize("k, selected", [(0, 1), (1, 2), (2, 3), (3, 4), (math.inf, 4)])
def test_k_counts_extra_runs(k, selected):
    trail = run(chain(4), 6, k=k)
    assert trail.selected == list(range(selected))


def test_all_runs_end_with_one_that_adds_nothing():
    trail = run(chain(2), 3, k=math.inf)
    assert [(step.run, step.action) for step in trail.steps if step.phase == "forward"] == [
        (0, "add"),
        (1, "add"),
        (2, "stop"),
    ]


def test_a_run_that_adds_nothing_ends_the_forward_phase_whatever_k():
    trail = run(independent([-1, 2]), 2, k=7)
    assert [step.run for step in trail.steps if step.phase == "forward"] == [0, 1]


def test_a_new_run_considers_all_that_are_not_selected():
    ask = chain(2)
    run(ask, 4, k=1)
    assert [asked[2] for asked in ask.asked if asked[0] == "forward"] == [(0, 1, 2, 3), (1, 2, 3)]


def test_every_evaluation_counts_as_a_test():
    trail = run(chain(2), 4, k=1)
    assert count(trail, "forward") == 4 + 3
    assert count(trail, "backward") == 2


def test_backward_removes_the_worst_and_asks_again():
    # 2 makes 0 and 1 redundant, one after the other
    merit = {0: 9.0, 1: 5.0, 2: 3.0}
    ask = Answers(lambda j, S: {0: -2.0, 1: -1.0}.get(j, 3.0) if 2 in S else merit[j])
    trail = run(ask, 3, k=0)
    assert trail.selected == [2]
    backward = [step for step in trail.steps if step.phase == "backward"]
    assert [step.action for step in backward] == ["remove", "remove", "stop"]
    assert [step.scan.chosen.variable for step in backward[:2]] == [0, 1]
    assert [len(step.scan.candidates) for step in backward] == [3, 2, 1]
    assert all(step.run is None for step in backward)


def test_backward_may_remove_everything():
    times_asked = iter([1.0, -1.0])  # passes when it may enter, no more when it is asked whether it stays
    trail = run(Answers(lambda j, S: next(times_asked)), 1, k=0)
    assert trail.selected == []
    assert [step.action for step in trail.steps] == ["add", "remove"]


def test_backward_runs_even_when_the_last_run_added_nothing():
    trail = run(independent([1, -1]), 2, k=3)
    assert count(trail, "backward") == 1


def test_backward_can_be_left_out():
    trail = run(independent([1, 2]), 2, backward=False)
    assert {step.phase for step in trail.steps} == {"forward"}


def test_forced_variables_come_first_and_are_never_tested():
    ask = independent([1, 2, 3, 4])
    trail = run(ask, 4, forced=(2, 0), k=0)
    assert trail.selected == [2, 0, 3, 1]
    assert all(not {0, 2} & set(asked[2]) for asked in ask.asked)
    assert (count(trail, "forward"), count(trail, "backward")) == (2 + 1, 2)


def test_maximum_ends_the_forward_phase_and_backward_still_runs():
    trail = run(independent([1, 2, 3]), 3, max_features=2)
    assert (trail.selected, trail.status) == ([2, 1], "max_features")
    assert (count(trail, "forward"), count(trail, "backward")) == (3 + 2, 2)


def test_maximum_does_not_count_forced_variables():
    assert run(independent([1, 2, 3]), 3, forced=(0,), max_features=1).selected == [0, 2]


def test_maximum_of_zero_tests_nothing():
    trail = run(independent([1, 2]), 2, max_features=0)
    assert (trail.selected, trail.status, trail.steps) == ([], "max_features", [])


def test_nothing_is_scanned_once_the_outcome_is_explained():
    ask = Answers(lambda j, S: j + 1.0, saturated=lambda S: len(S) == 2)
    trail = run(ask, 4, k=math.inf)
    assert (trail.selected, trail.status) == ([3, 2], "saturated")
    assert (count(trail, "forward"), count(trail, "backward")) == (4 + 3, 2)


def test_interrupt_keeps_what_was_found_without_the_backward_phase():
    def merit(j, S):
        if len(S) == 2:
            raise KeyboardInterrupt
        return j + 1.0

    trail = run(Answers(merit), 4)
    assert (trail.selected, trail.status) == ([3, 2], "interrupted")
    assert [step.phase for step in trail.steps] == ["forward", "forward"]


def test_interrupt_while_listening_keeps_the_step():
    def listen(trail):
        raise KeyboardInterrupt

    trail = Trail([], listen)
    search(independent([1, 2]), Plan(np.arange(2)), trail)
    assert (trail.selected, trail.status, len(trail.steps)) == ([1], "interrupted", 1)


def test_time_limit_keeps_what_was_found():
    def merit(j, S):
        if len(S) == 1:
            raise OutOfTime
        return j + 1.0

    trail = run(Answers(merit), 3)
    assert (trail.selected, trail.status) == ([2], "time_limit")


def test_other_errors_are_not_hidden():
    def merit(j, S):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(Answers(merit), 1)


def test_every_step_is_told():
    told = []
    trail = Trail([], lambda trail: told.append((trail.steps[-1].action, tuple(trail.selected))))
    search(independent([1, -1]), Plan(np.arange(2), k=0), trail)
    assert told == [("add", (0,)), ("stop", (0,))]


def test_favourites_are_those_of_a_full_sort():
    rng = np.random.default_rng(0)
    for n, zeros in [(1, 0.0), (5, 0.5), (40, 0.9), (300, 0.0), (300, 0.5), (300, 0.99), (300, 1.0)]:
        lower = np.where(rng.random(n) < zeros, 0.0, rng.integers(1, 50, size=n) / 7.0)
        upper = lower + rng.random(n)
        order = np.lexsort((-upper, -lower))[: FAVOURITES + 1]
        assert _favourites(lower, upper).tolist() == (order[lower[order] > 0] if lower.any() else order).tolist()


class EnclosedLosses:
    """A fit whose losses are known within intervals until somebody asks; counts how often somebody does."""

    reference = ChiSquare()

    def __init__(self, rng, p):
        self.loss = rng.choice([0.0, 0.5, 2.0, 5.0, 9.0], size=p) * rng.choice([1.0, 1.1], size=p)
        self.known = rng.random(p) < 0.4
        self.slack = rng.choice([0.3, 3.0, 30.0], size=p) * rng.random(p)
        self.asked = 0

    def loss_bounds(self, variables, critical):
        lower, upper = np.maximum(self.loss - self.slack, 0.0), self.loss + self.slack
        lower[self.known] = upper[self.known] = self.loss[self.known]
        return Bounds(lower, upper, np.ones(len(self.loss)), self.reference)

    def resolve_loss(self, variable, enough):
        self.asked += 1
        loss = self.loss[variable]
        return (enough + 1e-3 * (loss - enough), np.inf) if loss > enough else (loss, loss)


def eagerly(fit, rule, p, critical):
    """The same intervals, after everybody who may stay or go has been asked which."""
    known = Intervals(fit, np.arange(p))
    bounds = fit.loss_bounds(known.candidates, None)
    for i in np.flatnonzero((bounds.upper > critical) & (bounds.lower <= critical) & (bounds.lower < bounds.upper)):
        bounds.lower[i], bounds.upper[i] = fit.resolve_loss(i, critical)
    known.put(known.candidates, bounds.lower, bounds.upper, bounds.df)
    return worst_by_intervals(known, rule, p - 1, lambda: None, np.zeros(p))


def test_removals_ask_only_those_who_may_cost_least():
    """The worst is the one of all statistics; nobody is asked who costs more for certain than one who goes."""
    rule = LikelihoodRatio(0.05).bind(100.0, 50)
    critical = float(rule.critical(np.ones(1), 0, ChiSquare(), staying=True)[0])
    asked = eager = 0
    for seed in range(300):
        p = seed % 12 + 1
        fit, again = (EnclosedLosses(np.random.default_rng([6, seed]), p) for _ in range(2))
        known = Intervals(fit, np.arange(p))
        found = worst_by_intervals(known, rule, p - 1, lambda: None, np.zeros(p))
        for evidence in (found, eagerly(again, rule, p, critical)):
            keeps = rule.passes(evidence, p - 1, staying=True)
            assert keeps.all() == (fit.loss > critical).all()
            if not keeps.all():
                worst = np.flatnonzero(evidence.statistic == evidence.statistic.min())
                assert set(worst) == set(np.flatnonzero(fit.loss == fit.loss.min()))
        assert (known.lower <= fit.loss).all()
        assert (fit.loss <= known.upper).all()
        asked, eager = asked + fit.asked, eager + again.asked
    assert asked < eager
