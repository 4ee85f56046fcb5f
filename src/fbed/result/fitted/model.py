"""The final model: what was estimated, how well it fits, and what it predicts for rows of any table.

It holds everything that a prediction needs and no data, so that it can be saved as JSON and read back anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed.errors import InvalidInput
from fbed.models.base import MAXIMUM_LIKELIHOOD, FittedModel
from fbed.result.fitted import responses
from fbed.result.fitted.checks import Baseline, Check
from fbed.result.fitted.columns import Column, plain
from fbed.result.fitted.rows import terms_of
from fbed.rules.p_values import Floats
from fbed.tables.extras import read_extras
from fbed.tables.table import Name

KINDS = ("response", "link", "class", "survival")
"""What can be predicted."""


@dataclass(frozen=True)
class FinalModel(FittedModel):
    """The model on the selected variables.

    p-values, standard errors and intervals are naive: those of a model that was fixed in advance. After selection they
    are too small, by an unknown amount.

    Attributes
    ----------
    terms, coefficients, standard_errors : of every parameter; `to_frame()` has them as a table.
    deviance, null_deviance : what the family calls so; the residual sum of squares of a linear model.
    log_likelihood, null_log_likelihood : constants included; None for a family without a likelihood.
    n, n_parameters : sample size of the criteria (events of a Cox model), and parameters estimated.
    link : 'identity', 'logit', 'log' or 'probit'.
    classes : of a categorical outcome; the last of two is the one that is modelled.
    columns : how the columns of a table become terms, with the levels of categories, the reference first.
    inflation : variance inflation of each variable, by its name.
    checks : tests of what the model assumes.
    baseline : cumulative hazards of a Cox model, by stratum, at the mean linear predictor `center`.
    estimation : how the coefficients were estimated, in words.
    """

    n: float = math.nan
    n_variables: int = 0
    n_parameters: int = 0
    log_likelihood: float | None = None
    null_log_likelihood: float | None = None
    link: str = "identity"
    classes: tuple[Any, ...] = ()
    columns: tuple[Column, ...] = ()
    inflation: Mapping[str, float] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    baseline: tuple[Baseline, ...] = ()
    center: float = 0.0
    has_offset: bool = False
    estimation: str = MAXIMUM_LIKELIHOOD

    # -- how well it fits --------------------------------------------------------------------------------------------

    @property
    def covariance(self) -> Floats | None:
        """Of the coefficients, naive; without further parameters where these have none."""
        if self.correlation is None or self.standard_errors is None:
            return None
        errors = np.array(self.standard_errors[: len(self.correlation)])
        return np.array(self.correlation) * errors[:, None] * errors

    @property
    def aic(self) -> float | None:
        """−2·log-likelihood + 2·parameters."""
        return None if self.log_likelihood is None else -2.0 * self.log_likelihood + 2.0 * self.n_parameters

    @property
    def bic(self) -> float | None:
        """−2·log-likelihood + log n·parameters."""
        if self.log_likelihood is None:
            return None
        return -2.0 * self.log_likelihood + math.log(self.n) * self.n_parameters

    @property
    def r_squared(self) -> tuple[str, float] | None:
        """R² of a linear model, or McFadden's pseudo-R² where there is a likelihood of classes, counts or hazards."""
        if self.family == "gaussian":
            return ("R²", 1.0 - self.deviance / self.null_deviance) if self.null_deviance > 0 else None
        if self.log_likelihood is None or not self.null_log_likelihood or self.family not in _DISCRETE:
            return None
        return "McFadden's pseudo-R²", 1.0 - self.log_likelihood / self.null_log_likelihood

    @property
    def df_residual(self) -> float:
        """Rows less coefficients."""
        return self.n - len(self.terms)

    @property
    def references(self) -> dict[str, Any]:
        """The level that the others of each categorical column are compared with."""
        return {str(column.name): column.levels[0] for column in self.columns if column.levels}

    @cached_property
    def layout(self) -> responses.Layout:
        """Where the parts are among the coefficients."""
        n_terms = sum(column.n_terms for column in self.columns)
        return responses.layout(self.family, n_terms, len(self.classes))

    # -- as a table --------------------------------------------------------------------------------------------------

    def rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """A row a term, the reference levels included: coefficient, standard error, p-value, interval and ratios."""
        from fbed.result.fitted.table import rows

        return rows(self, level)

    def to_frame(self, level: float = 0.95) -> Any:
        """`rows` as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        return pd.DataFrame(self.rows(level)).set_index("term") if self.terms else pd.DataFrame()

    def summary(self) -> str:
        """The table and how well the model fits, for a terminal of 80 columns."""
        from fbed.result.fitted.table import as_text

        return as_text(self)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_markdown(self, level: float = 0.95) -> str:
        """The table for a Markdown document."""
        from fbed.result.fitted.table import as_markdown

        return as_markdown(self, level)

    def to_latex(self, level: float = 0.95) -> str:
        """The table for a LaTeX document; it needs no package."""
        from fbed.result.fitted.table import as_latex

        return as_latex(self, level)

    def to_html(self, level: float = 0.95) -> str:
        """The table for an HTML page."""
        from fbed.result.fitted.table import as_html

        return as_html(self, level)

    # -- new rows ----------------------------------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        kind: str = "response",
        *,
        offset: Any = None,
        exposure: Any = None,
        times: Sequence[float] | None = None,
        stratum: Any = None,
        unseen: str = "error",
    ) -> NDArray[Any]:
        """What the model expects of the rows of a table.

        Parameters
        ----------
        X : table with the columns of the model, found by name; a table without names has all columns of the selection.
        kind : {'response', 'link', 'class', 'survival'}
            'response' is the mean: of two classes the probability of the last, of more a column of probabilities each,
            of a Cox model the hazard relative to that of the mean linear predictor. 'link' is the linear predictor,
            'class' the most likely class, 'survival' the probability to survive each of `times`.
        offset, exposure : as in `fbed.select`, where the model was fitted with one.
        times : of 'survival'.
        stratum : of 'survival', where the model has strata.
            The label of one, or an array of a label a row.
        unseen : {'error', 'missing', 'mean'}
            What becomes of levels that the model has not seen: an error, no prediction, or the mean of the rows that
            the model was fitted on, which then stands for missing values as well.

        Returns
        -------
        Array of a value a row, or of a row a row; NaN where a value that the model needs is missing.
        """
        return self.predict_with_notes(X, kind, offset, exposure, times, stratum, unseen)[0]

    def predict_with_notes(
        self,
        X: Any,
        kind: str = "response",
        offset: Any = None,
        exposure: Any = None,
        times: Sequence[float] | None = None,
        stratum: Any = None,
        unseen: str = "error",
    ) -> tuple[NDArray[Any], list[str]]:
        """Predictions, and what was done about missing values and unseen levels."""
        self._check_can_predict(kind, times)
        terms, notes = terms_of(self.columns, self.n_variables, X, unseen)
        eta = responses.predictors(self, terms)
        eta = eta + self._offset(X, len(eta), offset, exposure)[:, None]
        if kind == "link":
            return (eta[:, 0] if eta.shape[1] == 1 else eta), notes
        if kind == "survival":
            return responses.survival(self, eta, np.asarray(times, dtype=float), stratum), notes
        mean = responses.mean(self, eta)
        if kind == "response":
            return mean, notes
        out = np.empty(len(mean), dtype=object)
        out[:] = responses.classes_of(self, mean)
        return out, notes

    def predict_interval(
        self, X: Any, level: float = 0.95, *, offset: Any = None, exposure: Any = None, unseen: str = "error"
    ) -> Floats:
        """Prediction intervals of a linear model: where the outcome of a new row is expected, a row (low, high) each.

        η ± t·√(σ² + xᵀVx) is exact for a model that was fixed in advance; after selection it is a little too narrow.
        """
        errors = self.covariance
        if self.family != "gaussian" or errors is None or self.df_residual <= 0:
            raise InvalidInput(
                "prediction intervals are for linear models (family 'gaussian') by maximum likelihood that leave "
                f"degrees of freedom; this one is of family {self.family!r}, by {self.estimation}"
            )
        if not 0.0 < level < 1.0:
            raise InvalidInput(f"level must be between 0 and 1, such as 0.95, got {level!r}")
        terms, _ = terms_of(self.columns, self.n_variables, X, unseen)
        middle = self.predict(X, "link", offset=offset, exposure=exposure, unseen=unseen)
        rows = np.column_stack([np.ones(len(terms)), terms])
        variance = self.deviance / self.df_residual + np.einsum("ij,jk,ik->i", rows, errors, rows)
        half = float(special.stdtrit(self.df_residual, 0.5 + level / 2.0)) * np.sqrt(variance)
        return np.column_stack([middle - half, middle + half])

    def _check_can_predict(self, kind: str, times: Sequence[float] | None) -> None:
        if kind not in KINDS:
            raise InvalidInput(f"kind must be 'response', 'link', 'class' or 'survival', got {kind!r}")
        if self.family not in responses.PREDICTING:
            raise InvalidInput(f"family {self.family!r} tests variables, and has no model that predicts")
        if len(self.terms) < self.layout.n_linear or (self.terms and not self.columns and self.n_parameters == 0):
            raise InvalidInput(
                "this model was saved by an earlier version of fbed, without what a prediction needs: make it again"
            )
        if kind == "class" and not self.classes:
            raise InvalidInput(f"family {self.family!r} has no classes: predict the 'response'")
        if (kind == "survival") != (times is not None):
            raise InvalidInput("kind='survival' goes with times=, a list of times, and times= with kind='survival'")

    def _offset(self, X: Any, n_rows: int, offset: Any, exposure: Any) -> Floats:
        if offset is None and exposure is None:
            if self.has_offset:
                raise InvalidInput(
                    "the model was fitted with an offset or exposure: give that of the new rows (0, or 1, for none)"
                )
            return np.zeros(n_rows)
        if not self.has_offset:
            raise InvalidInput("the model was fitted without an offset or exposure: leave it out")
        given = {"offset": offset, "exposure": exposure}
        wide = {
            name: np.full(n_rows, value) if np.isscalar(value) and not isinstance(value, str) else value
            for name, value in given.items()
        }
        found = read_extras(X, n_rows, wide).offset
        assert found is not None
        return found

    # -- saved -------------------------------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold."""
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            **out,
            "classes": [plain(value) for value in self.classes],
            "columns": [column.to_plain() for column in self.columns],
            "inflation": dict(self.inflation),
            "checks": [check.to_plain() for check in self.checks],
            "baseline": [vars(part) for part in self.baseline],
        }

    @classmethod
    def from_plain(cls, saved: Mapping[str, Any]) -> FinalModel:
        """Read back from JSON; a model of schema 2 has estimates only."""
        known = {f.name for f in fields(cls)}
        out = {name: value for name, value in saved.items() if name in known}
        for name in ("coefficients", "standard_errors"):
            out[name] = None if out[name] is None else tuple(_number(value) for value in out[name])
        for name in ("deviance", "null_deviance", "n", "center"):
            if name in out:
                out[name] = _number(out[name])
        ways = out.get("directions") or ()
        if any(ways):  # infinities, which JSON cannot write
            pairs = zip(ways, out["coefficients"], strict=True)
            out["coefficients"] = tuple(way * math.inf if way else value for way, value in pairs)
        for name in ("terms", "classes", "directions", "reached"):
            if out.get(name) is not None:
                out[name] = tuple(out[name])
        if out.get("correlation") is not None:
            out["correlation"] = tuple(tuple(_number(value) for value in row) for row in out["correlation"])
        out["columns"] = tuple(Column.from_plain(column) for column in out.get("columns", ()))
        out["inflation"] = {name: math.inf if v is None else v for name, v in out.get("inflation", {}).items()}
        out["checks"] = tuple(Check(**{**c, "p_value": _number(c["p_value"])}) for c in out.get("checks", ()))
        out["baseline"] = tuple(Baseline.from_plain(part) for part in out.get("baseline", ()))
        return cls(**out)


_DISCRETE = ("binomial", "multinomial", "ordinal", "poisson", "negative_binomial", "cox")


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def names(model: FinalModel) -> dict[str, tuple[Column, float, Name]]:
    """The column, the scale and the variable of every term of the first predictor."""
    return {
        term: (column, scale, column.variable)
        for column in model.columns
        for term, scale in zip(column.terms, column.scales, strict=True)
    }
