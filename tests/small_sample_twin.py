"""The jackknife variance and its degrees of freedom by whole n × n matrices, as the papers write them."""

from __future__ import annotations

import numpy as np
import statsmodels.api as sm
from scipy import stats


def rows_of(cluster):
    return [np.flatnonzero(cluster == c) for c in np.unique(cluster)]


def linear(Z, y, extras):
    """Least squares: derivatives of the means, working covariance, residuals and coefficients."""
    fit = sm.OLS(y, Z).fit()
    return Z, np.eye(len(y)), fit.resid, fit.params


def generalised(family):
    """The same of a generalised linear model by statsmodels."""

    def fit(Z, y, extras):
        found = sm.GLM(y, Z, family=family).fit(tol=1e-13, maxiter=200)
        return _glm_parts(Z, y, found.params, family)

    return fit


def negative_binomial(Z, y, extras):
    """The dispersion by maximum likelihood, then taken as known."""
    start = np.append(sm.Poisson(y, Z).fit(disp=0).params, 0.5)
    found = sm.NegativeBinomial(y, Z).fit(start, disp=0, maxiter=1000, gtol=1e-9)
    return _glm_parts(Z, y, found.params[:-1], sm.families.NegativeBinomial(alpha=found.params[-1]))


def _glm_parts(Z, y, params, family):
    mean = family.fitted(Z @ params)
    return Z / family.link.deriv(mean)[:, None], np.diag(family.variance(mean)), y - mean, params


def equations(family):
    """Estimating equations with an exchangeable correlation; the variance of the estimates is checked on the way."""

    def fit(Z, y, extras):
        order = np.argsort(extras["cluster"], kind="stable")
        y, Z, cluster = y[order], Z[order], extras["cluster"][order]
        model = sm.GEE(y, Z, cluster, family=family, cov_struct=sm.cov_struct.Exchangeable())
        found = model.fit(maxiter=200, ctol=1e-10, cov_type="bias_reduced")
        D, variance, residual, params = _glm_parts(Z, y, found.params, family)
        root = np.sqrt(np.diag(variance))
        same = cluster[:, None] == cluster
        correlation = np.where(same, float(model.cov_struct.dep_params), 0.0)
        np.fill_diagonal(correlation, 1.0)
        extras["cluster"] = cluster
        return D, root[:, None] * correlation * root, residual, params

    return fit


def left_out_test(D, variance, residual, estimate, groups, own_dispersion=False):
    """F, its degrees of freedom and log p-value of the last coefficients, `estimate`.

    `D` holds the derivatives of the means (n × K), `variance` the working covariance of the rows (n × n), `groups` the
    rows of every cluster; with `own_dispersion` the clusters' mean squares scale the covariances of the z_c. With
    H = D(DᵀV⁻¹D)⁻¹DᵀV⁻¹, A_c = (I − H_cc)⁻¹ and the rows C that pick the last coefficients,

        z_c = C(DᵀV⁻¹D)⁻¹D_cᵀV_c⁻¹A_c r_c = P_cᵀ(y − μ),   P_cᵀ = C(DᵀV⁻¹D)⁻¹D_cᵀV_c⁻¹A_c(I − H)_c.
    """
    n, q = len(residual), len(estimate)
    inverse = np.linalg.inv(variance)
    bread = np.linalg.inv(D.T @ inverse @ D)
    hat = D @ bread @ D.T @ inverse
    P = []
    for rows in groups:
        here = np.ix_(rows, rows)
        A = np.linalg.pinv(np.eye(len(rows)) - hat[here], rcond=1e-9)  # a cluster may be all that shows an effect of S
        P.append((bread @ D[rows].T @ inverse[here] @ A)[-q:] @ (np.eye(n) - hat)[rows])
    P = np.array(P)
    changes = P @ residual
    square = estimate @ np.linalg.solve(changes.T @ changes, estimate)
    K = np.einsum("cqi,dpi->cdqp", P @ variance, P)
    if own_dispersion:
        squares, sizes = np.array([(np.mean(residual[g] ** 2 / np.diag(variance)[g]), len(g)) for g in groups]).T
        ratio = squares / (sizes @ squares / sizes.sum())
        factor = np.sqrt(1.0 + (ratio - 1.0) * sizes / (sizes + 2.0))
        K = K * (factor[:, None] * factor)[:, :, None, None]
    omega = np.einsum("ccqp->qp", K)
    value, vectors = np.linalg.eigh(omega)
    root = vectors @ np.diag(value**-0.5) @ vectors.T
    scaled = root @ K @ root
    pairs = (np.einsum("cdqq->cd", scaled) ** 2 + np.einsum("cdqp,cdpq->cd", scaled, scaled)).sum()
    eta = q * (q + 1) / pairs
    denominator = eta - q + 1
    if denominator <= 0:
        return 0.0, denominator, 0.0
    f = square * denominator / (eta * q)
    return f, denominator, stats.f.logsf(f, q, denominator)
