"""A slow, obvious FBS and FBED^K that fits every model with statsmodels: what the library must agree with.

Written from the paper's Algorithms 1 and 2 and sharing no code with the library. Plain numeric predictors only.
Where a logistic model separates (some of) the classes its likelihood has no maximum but a supremum, found here in two
steps that are easy to believe: a linear program finds the rows that some direction can push to probability 1, and the
others are fitted alone.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field

import mpmath
import numpy as np
import statsmodels.api as sm
from scipy import optimize, special, stats

COLLINEAR = 1e-12  # residual norm² relative to the centred norm²: in the span of S
TIE = 1e-7  # statsmodels' optimisers stop near 1e-10; different columns of random data never come this close


@dataclass
class Found:
    """What the twin found, and every statistic of every scan."""

    selected: list[int]
    steps: list[tuple[str, int, float, float]] = field(default_factory=list)  # phase, variable, statistic, log p
    scans: list[dict[int, float]] = field(default_factory=list)  # statistic of every tested variable
    tests: dict[str, int] = field(default_factory=lambda: {"forward": 0, "backward": 0})
    status: str = "converged"


@dataclass(frozen=True)
class Rule:
    """One criterion: 'lr', 'aic', 'bic' or 'ebic', with what belongs to it."""

    name: str
    alpha: float = 0.05
    alpha_backward: float | None = None
    gamma: float | None = None
    min_gain: float = 0.0

    def penalty(self, df: int, k: int, n: float, p: int) -> float:
        """What the deviance must fall by, going from k to k + 1 of p variables."""
        if self.name == "aic":
            return 2.0 * df
        if self.name == "bic":
            return math.log(n) * df
        gamma = self.gamma
        if gamma is None:
            gamma = 0.0 if p == 1 else min(max(1 - math.log(n) / (2 * math.log(p)), 0.0), 1.0)
        models = math.log(math.comb(p, k + 1)) - math.log(math.comb(p, k))
        return max(math.log(n) * df + 2 * gamma * models, 0.0)


class Twin:
    """Brute force on one dataset."""

    def __init__(self, X, y, family, rule, weights=None, n_candidates=None):
        X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
        if np.all(weights == np.round(weights)):  # weight 2 is the row twice, weight 0 no row
            times = weights.astype(int)
            X, y, weights = np.repeat(X, times, axis=0), np.repeat(y, times), np.ones(times.sum())
        self.weights, self.n, self.y, self.family, self.rule = weights, weights.sum(), y, family, rule
        self.X = np.column_stack([self._standardised(column) for column in X.T])
        self.p = int(self.X.any(axis=0).sum()) if n_candidates is None else n_candidates
        self.memory = {}
        self.null = self.deviance([])
        self.total = float(weights @ (y - weights @ y / self.n) ** 2)

    def _standardised(self, column):
        """statsmodels' least squares takes a column of size 1e-100 for 0; no statistic depends on the units."""
        if np.ptp(column) == 0:
            return np.zeros(len(column))
        column = column - self.weights @ column / self.n  # first: dividing would round what a large mean has left over
        column = column / np.abs(column).max()
        return column / np.sqrt(self.weights @ column**2 / self.n)

    def matrix(self, S):
        return np.column_stack([np.ones(len(self.y)), self.X[:, list(S)]])

    def degenerate(self, j, S):
        """Constant, or in the span of S."""
        column, root = self.X[:, j], np.sqrt(self.weights)
        if not column.any():
            return True
        A, b = root[:, None] * self.matrix(S), root * column
        left = b - A @ np.linalg.lstsq(A, b, rcond=None)[0]
        return left @ left <= COLLINEAR * (b @ b)

    def rss(self, S):
        fitted = sm.WLS(self.y, self.matrix(S), weights=self.weights).fit()
        return float(self.weights @ fitted.resid**2)

    def deviance(self, S):
        key = frozenset(S)
        if key not in self.memory:
            if self.family == "gaussian":
                self.memory[key] = self.rss(S)
            else:
                self.memory[key] = supremum(self.matrix(sorted(S)), self.y, self.weights)
        return self.memory[key]

    def statistic(self, smaller, larger):
        """Fall of the deviance: −2·log-likelihood is n·log RSS for the linear model."""
        small, large = self.deviance(smaller), self.deviance(larger)
        if self.family == "binomial":
            return max(small - large, 0.0)
        floor = 1e-10 * self.total
        return self.n * math.log(max(small, floor) / max(large, floor))

    def log_p(self, statistic, larger):
        """Logarithm of the p-value of one degree of freedom."""
        if self.family == "binomial":
            return chi2_log_sf(statistic, 1)
        residual_df = self.n - len(larger) - 1
        return f_log_sf(math.expm1(statistic / self.n) * residual_df, 1, residual_df)

    def saturated(self, S):
        if self.family == "binomial":
            return self.deviance(S) <= 1e-6 * self.null
        return self.rss(S) <= 1e-10 * self.total or self.n - len(S) - 2 < 1

    def passes(self, statistic, larger, k, staying=False):
        if self.rule.name != "lr":
            return statistic > self.rule.penalty(1, k, self.n, self.p) + self.rule.min_gain
        alpha = self.rule.alpha_backward if staying and self.rule.alpha_backward is not None else self.rule.alpha
        return statistic > self.rule.min_gain and self.log_p(statistic - self.rule.min_gain, larger) < math.log(alpha)

    def merit(self, statistic, larger, k):
        """Larger is better."""
        if self.rule.name == "lr":
            return -self.log_p(statistic, larger)
        return statistic - self.rule.penalty(1, k, self.n, self.p)

    def search(self, k=1, include=(), exclude=(), max_features=None, backward=True):
        """FBED^k; k = None is FBS."""
        found = Found(list(include))
        candidates = [j for j in range(self.X.shape[1]) if j not in include and j not in exclude]
        run = 0
        while True:
            before = len(found.selected)
            found.status = self.one_run(found, candidates, include, max_features, drop=k is not None)
            if found.status != "converged" or k is None or len(found.selected) == before or run >= k:
                break
            run += 1
        if backward:
            self.backward(found, include)
        return found

    def one_run(self, found, candidates, include, max_features, drop):
        remaining = [j for j in candidates if j not in found.selected]
        while True:
            S = found.selected
            if max_features is not None and len(S) - len(include) >= max_features:
                return "max_features"
            if not remaining:
                return "converged"
            if self.saturated(S):
                return "saturated"
            found.tests["forward"] += len(remaining)
            size = len(S) - len(include)
            statistic = {j: 0.0 if self.degenerate(j, S) else self.statistic(S, [*S, j]) for j in remaining}
            found.scans.append(statistic)
            passing = [j for j in remaining if statistic[j] > 0 and self.passes(statistic[j], [*S, j], size)]
            if not passing:
                return "converged"
            merit = {j: self.merit(statistic[j], [*S, j], size) for j in passing}
            best = min(j for j in passing if merit[j] >= max(merit.values()) * (1 - TIE))
            found.steps.append(("forward", best, statistic[best], self.log_p(statistic[best], [*S, best])))
            found.selected = [*S, best]
            remaining = [j for j in (passing if drop else remaining) if j != best]

    def backward(self, found, include):
        while removable := [j for j in found.selected if j not in include]:
            S = found.selected
            size = len(removable) - 1
            found.tests["backward"] += len(removable)
            statistic = {j: self.statistic([s for s in S if s != j], S) for j in removable}
            found.scans.append(statistic)
            merit = {j: self.merit(statistic[j], S, size) for j in removable}
            slack = TIE * max(1.0, abs(min(merit.values())))
            worst = min(j for j in removable if merit[j] <= min(merit.values()) + slack)
            if statistic[worst] > 0 and self.passes(statistic[worst], S, size, staying=True):
                return
            found.steps.append(("backward", worst, statistic[worst], self.log_p(statistic[worst], S)))
            found.selected = [s for s in S if s != worst]


def chi2_log_sf(x, df):
    log_p = stats.chi2.logsf(x, df)
    if log_p > -600:
        return float(log_p)
    return float(mpmath.log(mpmath.gammainc(df / 2, x / 2, mpmath.inf, regularized=True)))


def f_log_sf(F, df, residual_df):
    log_p = stats.f.logsf(F, df, residual_df)
    if log_p > -600:
        return float(log_p)
    x = residual_df / (residual_df + df * mpmath.mpf(F))
    return float(mpmath.log(mpmath.betainc(residual_df / 2, df / 2, 0, x, regularized=True)))


def supremum(A, y, weights):
    """Infimum of −2·log-likelihood of a logistic regression on the columns of A."""
    deviance = attained(A, y, weights, largest=15)
    if deviance is not None:
        return deviance
    pushed = separable_rows(A, y)
    if pushed.all():
        return 0.0
    rest = ~pushed
    left, size, _ = np.linalg.svd(A[rest], full_matrices=False)
    basis = left[:, size > 1e-9 * size[0]] * math.sqrt(rest.sum())
    deviance = attained(basis, y[rest], weights[rest])
    return carefully(basis, y[rest], weights[rest]) if deviance is None else deviance


def attained(A, y, weights, largest=math.inf):
    """Minimum deviance by statsmodels, or None unless the gradient is 0 there: the likelihood is concave.

    A linear predictor beyond `largest` may be on its way to infinity, and gives None as well.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if np.all(weights == 1):
                beta = sm.Logit(y, A).fit(method="newton", tol=1e-10, maxiter=60, disp=0).params
            else:
                family = sm.families.Binomial()
                beta = sm.GLM(y, A, family=family, freq_weights=weights).fit(tol=1e-12, maxiter=60).params
        except (np.linalg.LinAlgError, sm.tools.sm_exceptions.PerfectSeparationError, ValueError):
            return None
    if not np.all(np.isfinite(A @ beta)) or np.abs(A @ beta).max() > largest:
        return None
    return deviance_at(beta, A, y, weights) if is_stationary(beta, A, y, weights) else None


def deviance_at(beta, A, y, weights):
    return float(2 * weights @ np.logaddexp(0, (1 - 2 * y) * (A @ beta)))


def is_stationary(beta, A, y, weights):
    """Whether the Newton decrement, about what the deviance can still fall, is far below the tests' tolerance."""
    gradient, hessian = gradient_at(beta, A, y, weights), hessian_at(beta, A, y, weights)
    return gradient @ np.linalg.lstsq(hessian, gradient, rcond=None)[0] < 1e-8


def gradient_at(beta, A, y, weights):
    return A.T @ (weights * (special.expit(A @ beta) - y))


def hessian_at(beta, A, y, weights):
    mean = special.expit(A @ beta)
    return A.T @ ((weights * mean * (1 - mean))[:, None] * A)


def carefully(A, y, weights):
    """Minimum deviance by a trust region, for the few models where statsmodels' Newton steps overshoot."""
    found = optimize.minimize(
        lambda beta: deviance_at(beta, A, y, weights) / 2,
        np.zeros(A.shape[1]),
        jac=lambda beta: gradient_at(beta, A, y, weights),
        hess=lambda beta: hessian_at(beta, A, y, weights),
        method="trust-exact",
        options={"gtol": 1e-9, "maxiter": 2000},
    )
    assert is_stationary(found.x, A, y, weights), "the likelihood of rows that cannot be separated has a maximum"
    return deviance_at(found.x, A, y, weights)


def separable_rows(A, y):
    """Rows i with sᵢ·aᵢᵀd > 0 for some d with s·Ad ≥ 0 everywhere: maximise Σt, 0 ≤ t ≤ 1, t ≤ s·Ad."""
    n, k = A.shape
    signed = (2 * y - 1)[:, None] * A
    program = optimize.linprog(
        np.concatenate([np.zeros(k), -np.ones(n)]),
        A_ub=np.hstack([-signed, np.eye(n)]),
        b_ub=np.zeros(n),
        bounds=[(None, None)] * k + [(0, 1)] * n,
        method="highs",
    )
    assert program.status == 0, program.message
    return program.x[k:] > 0.5
