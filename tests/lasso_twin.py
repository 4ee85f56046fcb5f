"""The lasso path by accelerated proximal gradient steps: slow, plain, and enough where glmnet is not installed."""

import numpy as np
import scipy.sparse as sp
from experiments.lasso import Path


def fit_path(X, y, n_lambda, lambdas=None, enough_variables=None):
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    mean, spread = X.mean(axis=0), X.std(axis=0)
    Z = np.where(spread > 0, (X - mean) / np.where(spread > 0, spread, 1), 0.0)
    if lambdas is None:
        top = np.abs(Z.T @ (y - y.mean())).max(initial=1e-3) / len(y)
        lambdas = top * np.logspace(0, np.log10(1e-4 if X.shape[0] >= X.shape[1] else 1e-2), n_lambda)
    design = np.column_stack([np.ones(len(y)), Z])
    step = 4 * len(y) / np.linalg.norm(design, 2) ** 2
    beta, models = np.zeros(design.shape[1]), []
    for weight in lambdas:
        beta = _descend(design, y, beta, weight, step)
        models.append(beta)
        if enough_variables is not None and (beta[1:] != 0).sum() >= enough_variables:
            break
    table = np.array(models).T
    slopes = table[1:] / np.where(spread > 0, spread, 1)[:, None]
    return Path(np.asarray(lambdas[: len(models)]), table[0] - mean @ slopes, np.arange(X.shape[1]), slopes)


def _descend(design, y, beta, weight, step):
    ahead, momentum = beta, 1.0
    for _ in range(3000):
        gradient = design.T @ (1 / (1 + np.exp(-design @ ahead)) - y) / len(y)
        moved = ahead - step * gradient
        moved[1:] = np.sign(moved[1:]) * np.maximum(np.abs(moved[1:]) - step * weight, 0)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / following * (moved - beta)
        done = np.abs(moved - beta).max() < 1e-7
        beta, momentum = moved, following
        if done:
            break
    return beta
