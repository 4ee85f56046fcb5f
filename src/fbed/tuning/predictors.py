"""`FBEDClassifier`, `FBEDRegressor` and `FBEDCox`: selection, tuning and prediction as one scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fbed.api.estimator import column_as_vector, refuse_names
from fbed.api.progress import Progress
from fbed.errors import InvalidInput
from fbed.result.fitted.columns import plain
from fbed.result.fitted.rows import check_unseen
from fbed.rules.p_values import Floats
from fbed.tables.labels import by_position
from fbed.tables.named import as_frame
from fbed.tables.outcomes import known_rows, read_outcome
from fbed.tables.table import Groups, Name
from fbed.tuning.concordance import concordance_parts
from fbed.tuning.performance import counted
from fbed.tuning.tune import Tuned, tune


class _Tuned(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no type hints
    """What the three estimators share: parameters, the fit, and what is kept of it."""

    _families: tuple[str, ...]

    def __init__(
        self,
        *,
        family: str = "auto",
        cv: Any = 5,
        scoring: str | None = None,
        choose: str = "min",
        final: str = "auto",
        alphas: Iterable[float] | None = None,
        gammas: Iterable[float | None] = (0.0, 0.5, 1.0, None),
        ks: Iterable[float] = (0, 1, math.inf),
        fbs: bool = True,
        backward: bool = True,
        include: Iterable[Name] = (),
        exclude: Iterable[Name] = (),
        groups: Groups | None = None,
        categorical: Iterable[Name] = (),
        missing: str = "error",
        unseen: str | None = None,
        link: str | None = None,
        max_features: int | None = None,
        n_bootstraps: int = 500,
        random_state: int | None = 0,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        progress: bool | Callable[[Progress], None] | None = None,
        resume: str | Path | None = None,
        engine: str = "certified",
    ) -> None:
        self.family = family
        self.cv = cv
        self.scoring = scoring
        self.choose = choose
        self.final = final
        self.alphas = alphas
        self.gammas = gammas
        self.ks = ks
        self.fbs = fbs
        self.backward = backward
        self.include = include
        self.exclude = exclude
        self.groups = groups
        self.categorical = categorical
        self.missing = missing
        self.unseen = unseen
        self.link = link
        self.max_features = max_features
        self.n_bootstraps = n_bootstraps
        self.random_state = random_state
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.progress = progress
        self.resume = resume
        self.engine = engine

    def _fit(self, X: Any, y: Any, family: str, fold_groups: Any, about_rows: dict[str, Any]) -> Tuned:
        for role, values in {"y": y, "groups": fold_groups, **about_rows}.items():
            refuse_names(values, role)
        if as_frame(X) is not None:
            validate_data(self, X, skip_check_array=True)  # the names; the values are the search's business
        given = {role: by_position(X, values) for role, values in about_rows.items() if values is not None}
        options = self.get_params(deep=False)
        if (unseen := options.pop("unseen")) is not None:
            check_unseen(unseen)
        options["family"] = family
        tuned = tune(X, by_position(X, y), fold_groups=by_position(X, fold_groups), **options, **given)
        self._keep(tuned)
        return tuned

    def _keep(self, tuned: Tuned) -> None:
        result, told = tuned.result, tuned.performance
        self.tuned_ = tuned
        self.result_ = result
        self.model_ = tuned.model
        self.performance_ = told
        self.path_ = tuned.cross
        self.best_params_ = tuned.configuration.params
        self.best_index_ = tuned.chosen
        self.best_score_ = float(tuned.values[tuned.chosen])
        self.cv_results_ = tuned.cv_results()
        self.selected_ = result.selected
        self.support_ = result.support
        self.fold_selected_ = tuned.cross.chosen_in(tuned.chosen)
        self.selection_frequency_ = dict(counted(self.fold_selected_))
        self.bbc_score_ = told.scores[0].value
        self.bbc_interval_ = (told.scores[0].low, told.scores[0].high)
        self.bbc_scores_ = {score.name: (score.value, score.low, score.high) for score in told.scores}
        self.n_features_in_ = result.n_variables
        self.coef_, self.intercept_ = _coefficients(tuned)

    def _new_rows(self, X: Any) -> Any:
        """New rows as the model reads them, checked as scikit-learn wants it."""
        check_is_fitted(self)
        if as_frame(X) is not None:
            validate_data(self, X, skip_check_array=True, reset=False)
            return X
        finite: bool | str = True if self.missing == "error" else "allow-nan"
        checked = validate_data(
            self, X, dtype=None, accept_sparse=["csc", "csr"], ensure_all_finite=finite, reset=False
        )
        if self.result_.feature_names is None:
            return checked
        return _named(checked, self.result_.feature_names)

    def _predicted(self, X: Any, kind: str, offset: Any, exposure: Any, **more: Any) -> NDArray[Any]:
        rows, unseen = self._new_rows(X), self._about_unseen()
        about = {"offset": offset, "exposure": exposure, "unseen": unseen}
        predicted, notes = self.model_.predict_with_notes(rows, kind, **about, **more)
        if unseen == "error" and np.isnan(predicted).any():
            raise InvalidInput(
                f"{'; '.join(notes)}: complete those rows or leave them out, or say unseen='missing' or 'mean' (the "
                "mean of the training rows)"
            )
        return predicted

    def _about_unseen(self) -> str:
        """What is done where the model does not know a level, or a value is missing."""
        return self.unseen or ("mean" if self.missing == "indicator" else "error")

    def _check_family(self, found: str) -> None:
        if found not in self._families:
            raise InvalidInput(
                f"{type(self).__name__} is for the families {', '.join(map(repr, self._families))}, not {found!r}"
            )

    def report(self, path: str | Path) -> Path:
        """Write the report, performance included, to one HTML file."""
        check_is_fitted(self)
        return self.result_.report(path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


class FBEDClassifier(ClassifierMixin, _Tuned):  # type: ignore[misc]
    """Classes predicted from few variables: selection by FBED^K, settings chosen by cross-validation, honest scores.

    Every fold searches the whole grid of levels, EBIC parameters and K once, sharing work; the configuration with the
    least out-of-fold deviance (or the one-standard-error rule) is searched again on all rows. BBC-CV says what the
    whole procedure is worth, with no further fits.

    Parameters
    ----------
    family : {'auto', 'binomial', 'multinomial', 'ordinal'}
        'auto' is 'binomial' for two classes and 'multinomial' for more.
    cv, scoring, choose, final, alphas, gammas, ks, fbs, backward, include, exclude, max_features, n_bootstraps, \
random_state, time_limit, n_jobs, progress, resume
        As in `fbed.tune`.
    groups, categorical, missing, link, engine
        As in `fbed.select`: `groups` are of columns. Groups of rows go to `fit`.
    unseen : {'error', 'mean', 'missing'}, optional
        Predictions of rows with a level that the model has not seen, or a missing value: refused, by the mean of the
        training rows, or none (NaN). By default 'mean' with missing='indicator', 'error' otherwise.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    selected_ : tuple
        Names (or indices) of the selected variables, in order of selection; `support_` is a mask of columns.
    coef_, intercept_ : ndarray
        Of all columns, 0 where they were not selected, when every selected column is a single number; else of `terms`
        of `model_`.
    best_params_, best_index_, best_score_, cv_results_
        What was chosen, and the scores of all configurations.
    bbc_score_, bbc_interval_, bbc_scores_
        The honest estimate of the first score of `performance_.scores`, its 95% interval, and all of them.
    fold_selected_, selection_frequency_
        The set of every fold by the chosen configuration, and how often each variable came.
    model_, result_, performance_, path_, tuned_
        The final model, the whole result, what it is worth, folds × configurations, and everything.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import fbed
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = fbed.FBEDClassifier(alphas=(), ks=(0, 1), fbs=False, final="firth").fit(X, y)
    >>> model.selected_[:2]
    ('worst perimeter', 'worst smoothness')
    >>> 0.97 < model.bbc_score_ < 1
    True
    """

    _families = ("binomial", "multinomial", "ordinal")

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        offset: Any = None,
        exposure: Any = None,
        cluster: Any = None,
    ) -> Self:
        """Tune, select and fit.

        Parameters
        ----------
        X : table of n_samples × n_features
        y : the class of every row
        sample_weight : frequencies, optional
        groups : rows that stay in one fold together, optional
        offset, exposure, cluster : as in `fbed.select`, optional

        Returns
        -------
        self
        """
        y = column_as_vector(y)
        labels = self._labels(X, y)
        family = self.family
        if family == "auto":
            family = "binomial" if len(labels) == 2 else "multinomial"
        self._check_family(family)
        about = {"sample_weight": sample_weight, "offset": offset, "exposure": exposure, "cluster": cluster}
        tuned = self._fit(X, y, family, groups, about)
        places = {plain(label): place for place, label in enumerate(tuned.model.classes)}
        there = [plain(label) in places for label in labels.tolist()]  # missing='drop' may leave out all of a class
        self.classes_ = labels[there]
        self._order = [places[plain(label)] for label in self.classes_.tolist()]
        return self

    def _labels(self, X: Any, y: Any) -> NDArray[Any]:
        from sklearn.utils.multiclass import check_classification_targets

        if y is None:
            raise InvalidInput("requires y to be passed, but the target y is None: give the class of every row")
        values = np.asarray(y)
        known = known_rows(y, len(values)) if self.missing == "drop" and values.ndim == 1 else None
        values = values if known is None else values[known]
        if values.ndim == 1 and values.dtype.kind in "fc":
            check_classification_targets(check_array(values, ensure_2d=False, input_name="y"))
        outcome = read_outcome(y, len(np.asarray(y)), known)
        if len(outcome.levels) < 2:
            raise InvalidInput(f"y holds one class only ({outcome.levels[0]!r}): there is nothing to tell apart")
        try:
            return np.unique(values)
        except TypeError as error:
            raise InvalidInput(f"y holds labels of several types, {error}: make all of them text or numbers") from error

    def predict_proba(self, X: Any, offset: Any = None, exposure: Any = None) -> Floats:
        """Probability of every class, a column each in the order of `classes_`."""
        mean = self._predicted(X, "response", offset, exposure)
        both = np.column_stack([1.0 - mean, mean]) if mean.ndim == 1 else mean
        return np.asarray(both[:, self._order])

    def predict(self, X: Any, offset: Any = None, exposure: Any = None) -> NDArray[Any]:
        """The most likely class of every row; None where there is no prediction."""
        probabilities = self.predict_proba(X, offset, exposure)
        best, unknown = np.asarray(self.classes_[probabilities.argmax(axis=1)]), np.isnan(probabilities).any(axis=1)
        if unknown.any():
            best = best.astype(object)
            best[unknown] = None
        return best

    def predict_log_proba(self, X: Any, offset: Any = None, exposure: Any = None) -> Floats:
        """Logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, offset, exposure))

    def decision_function(self, X: Any, offset: Any = None, exposure: Any = None) -> Floats:
        """Log odds of the last of two classes; of more classes the log probabilities, a column each."""
        if len(self._check().classes_) > 2:
            return self.predict_log_proba(X, offset, exposure)
        eta = np.asarray(self._predicted(X, "link", offset, exposure), dtype=np.float64)
        return eta if self._order == [0, 1] else -eta

    def _check(self) -> Self:
        check_is_fitted(self)
        return self


class FBEDRegressor(RegressorMixin, _Tuned):  # type: ignore[misc]
    """Numbers predicted from few variables: selection by FBED^K, settings chosen by cross-validation, honest scores.

    Parameters
    ----------
    family : {'gaussian', 'poisson', 'negative_binomial', 'gamma', 'mixed', 'binomial'}
        'auto' is 'gaussian'; 'binomial' is for successes out of `trials`, and predicts their probability.
    cv, scoring, choose, final, alphas, gammas, ks, fbs, backward, include, exclude, max_features, n_bootstraps, \
random_state, time_limit, n_jobs, progress, resume
        As in `fbed.tune`.
    groups, categorical, missing, link, engine
        As in `fbed.select`: `groups` are of columns. Groups of rows go to `fit`.
    unseen : {'error', 'mean', 'missing'}, optional
        Predictions of rows with a level that the model has not seen, or a missing value: refused, by the mean of the
        training rows, or none (NaN). By default 'mean' with missing='indicator', 'error' otherwise.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, best_params_, best_index_, best_score_, cv_results_, bbc_score_, \
bbc_interval_, bbc_scores_, fold_selected_, selection_frequency_, model_, result_, performance_, path_, tuned_
        As in `fbed.FBEDClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import fbed
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = fbed.FBEDRegressor(choose="1se").fit(X, y)
    >>> model.selected_
    ('bmi', 's5', 'bp')
    >>> low, high = model.bbc_interval_
    >>> low < model.bbc_score_ < high
    True
    """

    _families = ("gaussian", "poisson", "negative_binomial", "gamma", "mixed", "binomial")

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        offset: Any = None,
        exposure: Any = None,
        trials: Any = None,
        cluster: Any = None,
    ) -> Self:
        """Tune, select and fit.

        Parameters
        ----------
        X : table of n_samples × n_features
        y : a number a row
        sample_weight : frequencies, optional
        groups : rows that stay in one fold together, optional
        offset, exposure, trials, cluster : as in `fbed.select`, optional

        Returns
        -------
        self
        """
        family = "gaussian" if self.family == "auto" else self.family
        self._check_family(family)
        about = {"sample_weight": sample_weight, "offset": offset, "exposure": exposure}
        about |= {"trials": trials, "cluster": cluster}
        y = column_as_vector(y)
        if y is None:
            raise InvalidInput("requires y to be passed, but the target y is None: give a number a row")
        self._fit(X, y, family, groups, about)
        return self

    def predict(self, X: Any, offset: Any = None, exposure: Any = None) -> Floats:
        """The expected outcome of every row."""
        return np.asarray(self._predicted(X, "response", offset, exposure), dtype=np.float64)

    def predict_interval(self, X: Any, level: float = 0.95, offset: Any = None, exposure: Any = None) -> Floats:
        """Prediction intervals of a linear model by maximum likelihood, a row (low, high) each."""
        about = {"offset": offset, "exposure": exposure, "unseen": self._about_unseen()}
        return self.model_.predict_interval(self._new_rows(X), level, **about)


class FBEDCox(_Tuned):
    """Survival predicted from few variables, by the conventions of scikit-survival.

    y is a structured array of an event (bool) and a time; `predict` gives a risk score, higher is worse;
    `predict_survival_function` step functions; `score` the concordance index.

    Parameters
    ----------
    family : {'auto', 'cox', 'weibull'}
        'auto' is 'cox'.
    cv, scoring, choose, final, alphas, gammas, ks, fbs, backward, include, exclude, max_features, n_bootstraps, \
random_state, time_limit, n_jobs, progress, resume
        As in `fbed.tune`.
    groups, categorical, missing, link, engine
        As in `fbed.select`: `groups` are of columns. Groups of rows go to `fit`.
    unseen : {'error', 'mean', 'missing'}, optional
        Predictions of rows with a level that the model has not seen, or a missing value: refused, by the mean of the
        training rows, or none (NaN). By default 'mean' with missing='indicator', 'error' otherwise.

    Attributes
    ----------
    unique_times_ : ndarray
        Times of events, at which survival functions have their steps.
    event_times_ : ndarray
        The same, under the name that scikit-survival had for it.
    selected_, support_, coef_, best_params_, best_index_, best_score_, cv_results_, bbc_score_, bbc_interval_, \
bbc_scores_, fold_selected_, selection_frequency_, model_, result_, performance_, path_, tuned_
        As in `fbed.FBEDClassifier`.
    """

    _families = ("cox", "weibull")

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, strata: Any = None, entry: Any = None
    ) -> Self:
        """Tune, select and fit.

        Parameters
        ----------
        X : table of n_samples × n_features
        y : structured array of an event (bool) and a time, or a pair (time, event)
        sample_weight : frequencies, optional
        groups : rows that stay in one fold together, optional
        strata, entry : as in `fbed.select`, optional

        Returns
        -------
        self
        """
        family = "cox" if self.family == "auto" else self.family
        self._check_family(family)
        self._fit(X, y, family, groups, {"sample_weight": sample_weight, "strata": strata, "entry": entry})
        outcome = self.path_.problem.outcome
        self.unique_times_ = np.unique(outcome.values[outcome.event])
        self.event_times_ = self.unique_times_
        return self

    def predict(self, X: Any) -> Floats:
        """Risk score of every row, higher for those expected to fare worse: the linear predictor of the hazard."""
        eta = np.asarray(self._predicted(X, "link", None, None), dtype=np.float64)
        return -eta if self.model_.family == "weibull" else eta

    def predict_survival_function(self, X: Any, return_array: bool = False, stratum: Any = None) -> Any:
        """The survival function of every row: a `StepFunction`, or a row of an array at `unique_times_`."""
        check_is_fitted(self)
        array = self._predicted(X, "survival", None, None, times=self.unique_times_.tolist(), stratum=stratum)
        return array if return_array else [StepFunction(self.unique_times_, row, 1.0) for row in array]

    def predict_cumulative_hazard_function(self, X: Any, return_array: bool = False, stratum: Any = None) -> Any:
        """The cumulative hazard of every row, as `predict_survival_function`."""
        with np.errstate(divide="ignore"):
            array = -np.log(self.predict_survival_function(X, return_array=True, stratum=stratum))
        return array if return_array else [StepFunction(self.unique_times_, row, 0.0) for row in array]

    def score(self, X: Any, y: Any) -> float:
        """Harrell's concordance index."""
        risk = self.predict(X)
        outcome = read_outcome(y, len(risk))
        time, event = outcome.survival("cox", zero_allowed=True)
        won, pairs = concordance_parts(time, event, risk, np.ones((1, len(risk))))
        if pairs[0] == 0:
            raise InvalidInput("no two rows can be compared: every time is censored before the first event")
        return float(won[0] / pairs[0])


class StepFunction:
    """A function that changes at times `x` only: `y[i]` from x[i] up to x[i + 1], and `start` before the first."""

    def __init__(self, x: Floats, y: Floats, start: float) -> None:
        self.x, self.y, self.start = x, y, start

    @property
    def domain(self) -> tuple[float, float]:
        """From 0 to the last time."""
        return 0.0, float(self.x[-1])

    def __call__(self, times: Any) -> Any:
        """Values at times."""
        wanted = np.asarray(times, dtype=np.float64)
        found = np.concatenate([[self.start], self.y])[np.searchsorted(self.x, wanted, side="right")]
        return float(found) if wanted.ndim == 0 else found


def _coefficients(tuned: Tuned) -> tuple[Floats, Any]:
    """Coefficients of all columns where every selected one is a number without indicator, else of the model's terms."""
    model = tuned.model
    where = model.layout
    beta = np.array(model.coefficients[: where.n_linear]).reshape(where.n_predictors, where.size)
    slopes = beta[:, int(where.intercept) :]
    intercept = beta[:, 0] if where.intercept else np.zeros(where.n_predictors)
    if all(column.parts == ("value",) for column in model.columns):
        wide = np.zeros((where.n_predictors, tuned.result.n_variables))
        wide[:, [column.index for column in model.columns]] = slopes
        slopes = wide
    if model.family in ("binomial", "multinomial"):
        return slopes, intercept
    return slopes[0], float(intercept[0])


def _named(array: Any, names: Sequence[str]) -> Any:
    """An array given to a model that was fitted on a table with names: its columns in their order."""
    dense = array.toarray() if hasattr(array, "toarray") else np.asarray(array)
    return {name: dense[:, j] for j, name in enumerate(names)}
