"""Random outcomes of classes, however few their rows, for the engine by sums over rows; as many of them as one likes.

``python tests/tall_class_cases.py 0 1000`` searches with both engines and tells which numbers do not agree.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import sparse

from class_cases import of_classes
from engine_cases import ALGORITHMS, CRITERIA, KINDS, Case, trail_of
from fbed.errors import InvalidInput
from fbed.families import builders
from fbed.models.engines.tall.class_fit import TallClassFit

OUTCOMES = (("multinomial", None), ("ordinal", "logit"), ("ordinal", "probit"))


@contextmanager
def however_short():
    """All classes go by sums over rows."""
    rule = builders._are_tall_classes
    builders._are_tall_classes = lambda request, n_predictors, part=0.0: request.certified and request.test == "lr"
    try:
        yield
    finally:
        builders._are_tall_classes = rule


def columns_of(rng, n, p):
    """Columns of many kinds: tails, few values, next to others, copies, constants, rare ones."""
    X = rng.normal(size=(n, p)) + rng.choice([0.0, 0.5, 2.0]) * rng.normal(size=(n, 1))
    for j in range(p):
        other = X[:, rng.integers(0, j)] if j else rng.normal(size=n)
        kinds = (
            X[:, j],
            X[:, j],
            X[:, j],
            np.sign(X[:, j]) * np.expm1(1.5 * np.abs(X[:, j])),
            np.round(X[:, j]),
            (rng.uniform(size=n) < rng.choice([0.5, 0.1, 0.02])) * rng.choice([1.0, 3.0]),
            other * 10.0 ** rng.integers(-3, 3) + 5.0,
            other + 10.0 ** rng.uniform(-7, -1) * rng.normal(size=n),
            np.full(n, 3.0),
            X[:, j] * 10.0 ** rng.integers(-6, 6) + 10.0 ** rng.integers(0, 4),
        )
        X[:, j] = kinds[rng.integers(len(kinds))]
    return X


def weights_of(rng, n):
    """Frequencies, weights of any size, some of them 0."""
    kind = rng.integers(5)
    if kind < 2:
        return None
    weights = (rng.integers(1, 5, n).astype(float), 10.0 ** rng.uniform(-3, 3, n), rng.uniform(0.2, 3.0, n))[kind - 2]
    return np.where(rng.uniform(size=n) < rng.choice([0.0, 0.1]), 0.0, weights)


def classes_of(rng, X, n_classes, ordered):
    """Codes that depend on some columns, weakly or next to certainly; of any frequency."""
    n, p = X.shape
    ranks = np.argsort(np.argsort(X, axis=0), axis=0) / n - 0.5
    size = rng.choice([0.0, 0.5, 2.0, 10.0], p=[0.1, 0.4, 0.4, 0.1])
    effects = size * rng.normal(size=(p, 1 if ordered else n_classes)) * (rng.uniform(size=(p, 1)) < 0.4)
    if not ordered:
        return (
            ranks @ effects + rng.choice([0.0, 1.0]) * rng.normal(size=n_classes) + rng.gumbel(size=(n, n_classes))
        ).argmax(1)
    signal = ranks @ effects[:, 0] + rng.logistic(size=n)
    inner = np.sort(rng.uniform(size=n_classes - 1)) if rng.uniform() < 0.5 else np.arange(1, n_classes) / n_classes
    return np.searchsorted(np.quantile(signal, inner), signal)


def many_rows(rng, family):
    """Tables that sums over rows are for, and what is hard on them."""
    n, n_classes = (
        int(np.exp(rng.uniform(np.log(150), np.log(4000)))),
        int(rng.integers(2 if family == "ordinal" else 3, 7)),
    )
    X = columns_of(rng, n, int(rng.integers(4, 16)))
    codes = classes_of(rng, X, n_classes, family == "ordinal")
    codes = np.unique(codes, return_inverse=True)[1]
    codes[:2] = 0  # no class of one row
    if rng.uniform() < 0.3:  # a class of two rows
        codes[codes == codes.max()] -= 1
        codes[-2:] = codes.max() + 1
    table = X
    if rng.uniform() < 0.4:
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        for j in range(rng.integers(1, 4)):
            latent = X[:, rng.integers(X.shape[1])] + rng.normal(size=n)
            table[f"c{j}"] = pd.Categorical.from_codes(
                pd.qcut(latent, int(rng.integers(2, 7)), labels=False, duplicates="drop"), categories=list("abcdefgh")
            )
    y = pd.Categorical(codes, ordered=True) if family == "ordinal" else np.array([f"c{code}" for code in codes])
    return Case(table, y, weights_of(rng, n))


def case_of(number):
    """A case, the family and its link."""
    rng = np.random.default_rng([77, number])
    family, link = OUTCOMES[number % len(OUTCOMES)]
    if number // len(OUTCOMES) % 2:
        return rng, many_rows(rng, family), family, link
    case = of_classes(KINDS[number // (2 * len(OUTCOMES)) % len(KINDS)](rng, "gaussian"), rng, family)
    return rng, replace(case, X=case.X.toarray()) if sparse.issparse(case.X) else case, family, link


def searches(number):
    """Trails of both engines for a random case, None where the outcome is refused."""
    rng, case, family, link = case_of(number)
    criterion, algorithm = CRITERIA[rng.integers(len(CRITERIA))], ALGORITHMS[rng.integers(len(ALGORITHMS))]
    options = {**algorithm, "max_features": 4, "link": link if family == "ordinal" else None}
    try:
        exhaustive = trail_of(case, family, criterion, "exhaustive", **options)
        with however_short():
            return exhaustive, trail_of(case, family, criterion, "certified", **options)
    except InvalidInput:  # a class of one row
        return None


class Answered:
    """How many candidates were asked about, and how many fits were made."""

    def __init__(self):
        self.asked = self.fits = 0
        bounds, fit = TallClassFit.gain_bounds, TallClassFit.__init__

        def counted(this, candidates, critical):
            self.asked += len(candidates)
            return bounds(this, candidates, critical)

        def made(this, *given):
            self.fits += 1
            fit(this, *given)

        TallClassFit.gain_bounds, TallClassFit.__init__ = counted, made


def main(first, last):
    from test_certified import assert_same

    warnings.simplefilter("ignore")
    compared = different = 0
    answered = Answered()
    for number in range(first, last):
        try:
            trails = searches(number)
            if trails is None:
                continue
            compared += 1
            assert_same(*trails)
        except Exception as error:
            different += 1
            print(f"{number}: {type(error).__name__} {str(error).splitlines()[:1]}", flush=True)
    print(f"{compared} searches, {different} different; {answered.asked} candidates, {answered.fits} fits")
    return different


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
