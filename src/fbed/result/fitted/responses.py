"""What a family predicts from its linear predictors, and how likely an outcome is under them.

Everything is written in the coefficients that people see, so that a model that was saved predicts bit for bit what it
predicted before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from fbed.errors import InvalidInput
from fbed.rules.p_values import Floats
from fbed.tables.columns import listing

if TYPE_CHECKING:
    from fbed.result.fitted.model import FinalModel

IDENTITY = ("gaussian", "mixed", "quantile", "robust")
PREDICTING = (
    *IDENTITY,
    "gee",
    "binomial",
    "multinomial",
    "ordinal",
    "poisson",
    "negative_binomial",
    "gamma",
    "cox",
    "weibull",
)
"""Families whose models predict new rows; the others are tests without a model, or models of ranks."""

_TOGETHER = 16  # terms that are added in one go, one after another in every row, of up to
_VALUES = 2**17  # values in all,
_ROWS = 64  # which NumPy does where there are more rows than terms: along one row it would add in pairs


@dataclass(frozen=True)
class Layout:
    """Where the parts of a model are among its coefficients."""

    n_terms: int
    n_predictors: int = 1
    intercept: bool = True

    @property
    def size(self) -> int:
        """Coefficients of one predictor."""
        return self.n_terms + self.intercept

    @property
    def n_linear(self) -> int:
        """Coefficients of all predictors; further parameters come after them."""
        return self.size * self.n_predictors


def layout(family: str, n_terms: int, n_classes: int) -> Layout:
    """How the coefficients of a family are laid out."""
    if family == "multinomial":
        return Layout(n_terms, n_classes - 1)
    return Layout(n_terms, intercept=family not in ("cox", "ordinal"))


def predictors(model: FinalModel, terms: Floats) -> Floats:
    """Linear predictors, rows × predictors; a sum over terms in their order, so that all tables give the same bits."""
    return predictors_of_several([model], terms)[0]


def predictors_of_several(models: Sequence[FinalModel], terms: Floats) -> list[Floats]:
    """The same of models with the same terms, all in one go over these."""
    out = np.repeat(np.concatenate([_constants(model) for model in models])[:, None], len(terms), axis=1)
    slopes = np.vstack([slopes_of(model) for model in models])
    columns = np.asfortranarray(terms).T
    step = max(1, min(_TOGETHER, _VALUES // max(1, out.size))) if len(terms) >= _ROWS else 1
    for first in range(0, len(columns), step):
        beta, x = slopes.T[first : first + step, :, None], columns[first : first + step, None]
        if len(beta) == 1:
            out += beta[0] * x[0]
            continue
        parts = np.empty((1 + len(beta), *out.shape))
        parts[0] = out
        np.multiply(beta, x, out=parts[1:])
        np.add.reduce(parts, axis=0, out=out)
    ends = np.cumsum([model.layout.n_predictors for model in models])
    return [part.T for part in np.split(out, ends[:-1])]


def constants(model: FinalModel, n_rows: int) -> Floats:
    """Linear predictors before any term is added, rows × predictors."""
    return np.tile(_constants(model), (n_rows, 1))


def _constants(model: FinalModel) -> Floats:
    where = model.layout
    return _linear(model)[:, 0] if where.intercept else np.zeros(where.n_predictors)


def slopes_of(model: FinalModel) -> Floats:
    """What a term adds to each predictor, predictors × terms."""
    return _linear(model)[:, int(model.layout.intercept) :]


def _linear(model: FinalModel) -> Floats:
    where = model.layout
    return np.array((model.reached or model.coefficients)[: where.n_linear]).reshape(where.n_predictors, where.size)


def mean(model: FinalModel, eta: Floats) -> Floats:
    """The expected outcome of every row, or the probability of each class."""
    one = eta[:, 0]
    if model.family == "multinomial":
        return _softmax(eta)
    if model.family == "ordinal":
        return _cells(model, one)
    with np.errstate(over="ignore"):  # far from the rows it was fitted on a model may expect more than any number
        if model.family == "cox":
            return np.exp(one - model.center)
        if model.family == "weibull":
            return np.exp(one) * special.gamma(1.0 + _further(model, "scale"))
        return _INVERSE[model.link](one)


_INVERSE = {"identity": lambda eta: eta, "logit": special.expit, "log": np.exp}


def _softmax(eta: Floats) -> Floats:
    whole = np.column_stack([np.zeros(len(eta)), eta])
    odds = np.exp(whole - whole.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _cells(model: FinalModel, eta: Floats) -> Floats:
    """P(class) = F(θ_j − η) − F(θ_{j−1} − η), each taken in the tail where it is not 1."""
    thresholds = np.array([-np.inf, *model.coefficients[model.layout.n_linear :], np.inf])
    below = special.expit if model.link == "logit" else special.ndtr
    u, low = thresholds[None, 1:] - eta[:, None], thresholds[None, :-1] - eta[:, None]
    flip = low > 0
    return np.where(flip, below(-low) - below(-u), below(u) - below(low))


def survival(model: FinalModel, eta: Floats, times: Floats, stratum: Any = None) -> Floats:
    """P(T > t), rows × times."""
    if model.family == "weibull":
        with np.errstate(divide="ignore", over="ignore"):
            z = (np.log(times)[None, :] - eta) / _further(model, "scale")
            return np.exp(-np.exp(z))
    if model.family != "cox" or not model.baseline:
        raise InvalidInput(f"family {model.family!r} has no survival function: that is for 'cox' and 'weibull'")
    with np.errstate(divide="ignore", over="ignore"):  # on the scale of logarithms 0 times infinity does not come up
        return np.exp(-np.exp(np.log(_cumulative_hazards(model, times, stratum, len(eta))) + eta - model.center))


def _cumulative_hazards(model: FinalModel, times: Floats, stratum: Any, n_rows: int) -> Floats:
    """Of the stratum, or of the stratum of every row; a row for all, or a row a row."""
    known = {str(part.stratum): part for part in model.baseline}
    stratified = model.baseline[0].stratum is not None
    if stratum is None and stratified and len(known) > 1:
        raise InvalidInput(f"the model has strata, {listing(list(known))}: say which with stratum=, for all or a row")
    if stratum is None:
        return model.baseline[0].at(times)[None, :]
    if not stratified:
        raise InvalidInput("the model was fitted without strata: leave stratum= out")
    wanted = [str(label) for label in np.atleast_1d(np.asarray(stratum, dtype=object)).tolist()]
    if np.ndim(stratum) and len(wanted) != n_rows:
        raise InvalidInput(f"stratum must be one label, or one for each of the {n_rows} rows, got {len(wanted)}")
    strange = sorted(set(wanted) - set(known))
    if strange:
        raise InvalidInput(f"no event of a stratum {listing(strange)} was seen; the model knows {listing(list(known))}")
    hazards = {label: known[label].at(times) for label in set(wanted)}
    return np.array([hazards[label] for label in wanted])


def _further(model: FinalModel, name: str) -> float:
    return model.coefficients[model.terms.index(name)]


def classes_of(model: FinalModel, response: Floats) -> list[object]:
    """The most likely class of every row."""
    if response.ndim == 1:
        response = np.column_stack([1.0 - response, response])
    known = ~np.isnan(response).any(axis=1)
    best = np.where(known, np.nan_to_num(response).argmax(axis=1), -1)
    return [None if i < 0 else model.classes[i] for i in best.tolist()]
