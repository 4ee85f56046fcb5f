"""Random outcomes of classes on the predictors of `engine_cases`; run as a program, as many of them as one likes.

``python tests/class_cases.py 0 1000`` searches with both engines and tells which numbers do not agree.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import numpy as np

from engine_cases import ALGORITHMS, CRITERIA, KINDS, trail_of
from fbed.errors import InvalidInput

FAMILIES = ("multinomial", "ordinal")


def of_classes(case, rng, family):
    """3 to 11 classes of very different sizes, by the size of a continuous outcome, sometimes with noise."""
    n = len(case.y)
    standard = (case.y - case.y.mean()) / case.y.std()
    n_classes = int(rng.integers(3, min(12, max(4, n // 4))))
    codes = np.digitize(standard, np.unique(np.quantile(standard, np.sort(rng.uniform(0.05, 0.95, n_classes - 1)))))
    if family == "ordinal":
        return replace(case, y=codes)
    if rng.uniform() < 0.5:
        codes = rng.permutation(n_classes)[codes]
    if rng.uniform() < 0.3:
        codes = np.where(rng.uniform(size=n) < 0.3, rng.integers(0, n_classes, n), codes)
    return replace(case, y=np.array([f"c{code:02d}" for code in codes]))


def searches(number):
    """Trails of both engines for a random case, None where the outcome is refused."""
    rng = np.random.default_rng([99, number])
    kind, family = KINDS[number % len(KINDS)], FAMILIES[number // len(KINDS) % 2]
    case = of_classes(kind(rng, "gaussian"), rng, family)
    criterion, algorithm = CRITERIA[rng.integers(len(CRITERIA))], ALGORITHMS[rng.integers(len(ALGORITHMS))]
    options = {**algorithm, "max_features": 4}
    try:
        return [trail_of(case, family, criterion, engine, **options) for engine in ("exhaustive", "certified")]
    except InvalidInput:  # a class of one row
        return None


def main(first, last):
    from test_certified import assert_same

    warnings.simplefilter("ignore")
    compared = different = 0
    for number in range(first, last):
        if (trails := searches(number)) is None:
            continue
        compared += 1
        try:
            assert_same(*trails)
        except AssertionError:
            different += 1
            print(f"{number}: {KINDS[number % len(KINDS)].__name__}", flush=True)
    print(f"{compared} searches, {different} different")
    return different


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
