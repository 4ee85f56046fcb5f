"""Kernel tests of conditional independence, which see any kind of dependence, through causal-learn.

* `kci`: the kernel-based test of Zhang, Peters, Janzing and Schölkopf; its null distribution is approximated by
  a gamma distribution. O(n³) a test: for a few hundred rows.
* `rcit`: the randomised test of Strobl, Zhang and Visweswaran on random Fourier features, 25 degrees of freedom; linear
  in n. The features are drawn from a fixed seed, so that the answer is the same every time.

Both p-values are taken as logarithms from the statistic: 1 − cdf would end at 0 and make the best variables tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

from fbed.models.other_statistics.users_test import Answer, TestFunction
from fbed.rules.p_values import Floats, chi2_log_sf
from fbed.tables.outcomes import Outcome

_drawing = Lock()
_FEATURES = 5  # random features of the candidate and of the outcome


def kernel_test(kind: str) -> TestFunction:
    """The test of a kind, 'kci' or 'rcit'; an ImportError that says what to install when causal-learn is missing."""
    try:
        from causallearn.utils.KCI.KCI import KCI_CInd, KCI_UInd
        from causallearn.utils.RCIT.RCIT import RCIT, RIT
    except ImportError as error:
        raise ImportError("family='kernel' needs causal-learn: pip install causal-learn momentchi2") from error
    if kind == "kci":
        return lambda x, y, z: _kci(KCI_UInd, KCI_CInd, x, y, z)
    return lambda x, y, z: _rcit(RIT, RCIT, x, y, z)


def outcome_columns(outcome: Outcome) -> Floats:
    """The outcome as columns between which a distance makes sense: numbers scaled, classes as indicators."""
    if outcome.categorical and not outcome.ordered:
        codes, labels = outcome.classes("kernel")
        return (codes[:, None] == np.arange(len(labels))).astype(float)
    values = outcome.values if outcome.ordered else outcome.numbers("kernel")
    return np.asarray(((values - values.mean()) / values.std())[:, None])


def _kci(free: Callable[[], Any], given: Callable[[], Any], x: Floats, y: Floats, z: Floats) -> Answer:
    if z.shape[1] == 0:
        test = free()
        statistic, x_kernel, y_kernel = test.HSIC_V_statistic(*test.kernel_matrix(x, y))
        shape, scale = test.get_kappa(x_kernel, y_kernel)
    else:
        test = given()
        statistic, x_kernel, y_kernel = test.KCI_V_statistic(*test.kernel_matrix(x, y, z))
        shape, scale = test.get_kappa(test.get_uuprod(x_kernel, y_kernel)[0])
    log_p = chi2_log_sf(2.0 * float(statistic) / float(scale), 2.0 * float(shape))
    return float(statistic), 2.0 * float(shape), float(log_p)


def _rcit(free: Callable[..., Any], given: Callable[..., Any], x: Floats, y: Floats, z: Floats) -> Answer:
    with _fixed_seed():
        if z.shape[1] == 0:
            _, statistic = free(approx="chi2").compute_pvalue(x, y)
        else:
            _, statistic = given(approx="chi2", num_f2=_FEATURES).compute_pvalue(x, y, z)
    df = float(_FEATURES**2)
    return float(statistic), df, float(chi2_log_sf(float(statistic), df))


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """causal-learn draws from NumPy's global generator, one thread at a time; it is left as it was found."""
    with _drawing:
        state = np.random.get_state()  # noqa: NPY002
        np.random.seed(0)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(state)  # noqa: NPY002
