"""`FBEDSelector`: the selection as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_array
from sklearn.utils._set_output import _get_output_config  # no public way to learn what set_output was given
from sklearn.utils.validation import check_is_fitted, validate_data

from fbed.api.progress import Progress
from fbed.api.selection import select
from fbed.errors import InvalidInput, InvalidType
from fbed.models.other_statistics.users_test import ConditionalTest, TestFunction
from fbed.result.result import Result
from fbed.rules.criteria import Criterion, belonging
from fbed.tables.labels import by_position
from fbed.tables.named import as_frame
from fbed.tables.sparsity import check_structure
from fbed.tables.table import Groups, Name


class FBEDSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no type hints
    """Feature selection by forward-backward selection with early dropping (FBED^K), for scikit-learn.

    The parameters mean what they mean in `fbed.select`. Data frames may hold text and category columns: such a column
    is kept or left out as a whole, and comes out as it went in.

    Parameters
    ----------
    family : str or a test of your own
        Kind of outcome, a name of the table that ``python -m fbed.families`` prints; 'auto' chooses by the outcome.
    test : {'lr', 'score', 'wald'}, optional
        Test of nested models, where the family has a choice.
    cov : {'HC3', 'cluster'}, optional
        Robust covariance for Wald tests.
    link : str, optional
        Link function, where the family has a choice.
    criterion : {'lr', 'aic', 'bic', 'ebic'} or a criterion object
        What a variable must achieve to be selected.
    alpha : float, optional
        Significance level of criterion 'lr'; 0.05 by default. Other criteria ignore it, so that a grid over
        criteria and levels works.
    gamma : float in [0, 1], optional
        Parameter of criterion 'ebic'; others ignore it.
    k : int or math.inf
        Number of extra runs that bring dropped variables back.
    early_dropping : bool
        False gives forward-backward selection (FBS).
    backward : bool
        Whether the backward phase is run.
    alpha_backward : float, optional
        Level for staying in the backward phase; alpha by default.
    familywise : float, optional
        Probability that anything is selected when nothing matters; sets alpha.
    include, exclude : names or indices
        Variables that are always kept, and variables that are never considered.
    groups : mapping of names to lists of columns, optional
        Columns that enter and leave together; a group is kept or left out as a whole.
    categorical : names or indices
        Columns of numbers that are codes of categories.
    missing : {'error', 'drop', 'indicator'}
        What becomes of missing values in `fit`. `transform` changes no value and drops no row: unless this is 'error',
        it lets missing values pass.
    rare_levels : int or float, optional
        Rows (or part of them) below which levels of a category become one in `fit`. `transform` changes no value.
    max_features : int, optional
        Most variables to select, forced ones not counted.
    time_limit : float, optional
        Seconds after which the search stops with what it has found.
    n_jobs : int, optional
        Threads; −1 for all processors. The answer does not depend on it.
    progress : bool or callable, optional
        True shows progress on the terminal or in the notebook; a callable gets a `fbed.Progress` after every scan.
    engine : {'certified', 'exhaustive'}
        How the answer is found; both select the same.

    Attributes
    ----------
    result_ : Result
        The whole result: order of selection, trace, final model, `summary()`.
    support_ : ndarray of bool
        Mask of the selected features; of a selected group, all its columns.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of str
        Their names, when X has names that are strings.

    Notes
    -----
    `transform` keeps the columns in the order of X; `result_.selected` has them in the order of selection. When nothing
    is selected, `transform` warns and returns a table without columns, as scikit-learn's own selectors do. An interrupt
    (Ctrl-C) during `fit` leaves what had been found in `result_` and is raised again.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import fbed
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> pipeline = make_pipeline(fbed.FBEDSelector(criterion="ebic"), StandardScaler(), LogisticRegression())
    >>> pipeline.fit(X, y)[0].result_.selected[:2]
    ('worst perimeter', 'worst smoothness')
    """

    def __init__(
        self,
        *,
        family: str | TestFunction | ConditionalTest = "auto",
        test: str | None = None,
        cov: str | None = None,
        link: str | None = None,
        criterion: str | Criterion = "lr",
        alpha: float | None = None,
        gamma: float | None = None,
        k: float = 1,
        early_dropping: bool = True,
        backward: bool = True,
        alpha_backward: float | None = None,
        familywise: float | None = None,
        include: Iterable[Name] = (),
        exclude: Iterable[Name] = (),
        groups: Groups | None = None,
        categorical: Iterable[Name] = (),
        missing: str = "error",
        rare_levels: float | None = None,
        max_features: int | None = None,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        progress: bool | Callable[[Progress], None] | None = None,
        engine: str = "certified",
    ) -> None:
        self.family = family
        self.test = test
        self.cov = cov
        self.link = link
        self.criterion = criterion
        self.alpha = alpha
        self.gamma = gamma
        self.k = k
        self.early_dropping = early_dropping
        self.backward = backward
        self.alpha_backward = alpha_backward
        self.familywise = familywise
        self.include = include
        self.exclude = exclude
        self.groups = groups
        self.categorical = categorical
        self.missing = missing
        self.rare_levels = rare_levels
        self.max_features = max_features
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.progress = progress
        self.engine = engine

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        trials: Any = None,
        strata: Any = None,
        entry: Any = None,
        cluster: Any = None,
    ) -> Self:
        """Select features.

        Parameters
        ----------
        X : array, SciPy sparse matrix, or pandas / polars / Arrow table, n_samples × n_features
            Predictors.
        y : array or series of n_samples values
            Outcome; its values, not the name of a column. Survival times are a structured array with the fields 'event'
            and 'time', as in scikit-survival.
        sample_weight : array of n_samples values, optional
            Frequencies: weight 2 is the row twice, weight 0 no row.
        offset, exposure : array of n_samples values, optional
            Known part of the linear predictor; an exposure is the offset log(exposure).
        trials : array of n_samples values, optional
            Number of trials of every row; y is then the number of successes.
        strata, entry : array of n_samples values, optional
            Of survival times: rows of different strata are not compared; rows are at risk after their entry time only.
        cluster : array of n_samples values, optional
            Subject or other unit that rows belong to.

        Returns
        -------
        self
        """
        about_rows = {
            "sample_weight": sample_weight,
            "offset": offset,
            "exposure": exposure,
            "trials": trials,
            "strata": strata,
            "entry": entry,
            "cluster": cluster,
        }
        for role, values in {"y": y, **about_rows}.items():
            refuse_names(values, role)
        if as_frame(X) is not None:
            self._check_names(X)
        about_rows = {role: by_position(X, values) for role, values in about_rows.items()}
        options = belonging(self.criterion, self.get_params(deep=False))
        result = select(X, by_position(X, column_as_vector(y)), **about_rows, **options)
        self._keep(result)
        if result.status == "interrupted":
            raise KeyboardInterrupt  # else a grid search would run on as if nothing had happened
        return self

    def _check_names(self, X: Any) -> None:
        """scikit-learn's own checks of the names of a frame; the values are select's business."""
        with _as_invalid_input():
            validate_data(self, X, skip_check_array=True)

    def transform(self, X: Any) -> Any:
        """Reduce X to the selected features, in the order of X.

        Parameters
        ----------
        X : table with the columns that `fit` saw

        Returns
        -------
        An array (a sparse matrix for a sparse matrix), or what `set_output` asks for.
        """
        check_is_fitted(self)
        frame = as_frame(X)
        if frame is not None:
            validate_data(self, X, skip_check_array=True, reset=False)
            return self._from_frame(frame)
        if sparse.issparse(X):
            check_structure(X)
        # Excluded columns may hold anything, here as in fit; without any, scikit-learn's own check is the strictest.
        finite = self._finite if self.result_.settings["n_excluded"] == 0 else False
        with _as_invalid_input():
            checked = validate_data(self, X, dtype=None, accept_sparse="csr", ensure_all_finite=finite, reset=False)
        return self._checked(self._transform(checked))

    def _from_frame(self, frame: nw.DataFrame[Any]) -> Any:
        """Columns taken from the frame before it becomes an array: those left out decide no dtype, nor need be read."""
        if not self.support_.any():
            return self._transform(np.empty((len(frame), 0)))  # scikit-learn's warning, and no columns
        kept = frame.select(nw.nth(*self.get_support(indices=True).tolist()))
        output = _get_output_config("transform", estimator=self)["dense"]
        if output == "default":
            return self._checked(kept.to_native())
        return kept.to_pandas() if output == "pandas" else kept.to_polars()

    def _checked(self, kept: Any) -> Any:
        """The kept columns as an array without missing values (unless they are allowed), or an error."""
        return check_array(
            kept,
            dtype=None,
            accept_sparse=True,
            ensure_all_finite=self._finite,
            ensure_min_features=0,
            input_name="X",
            estimator=self,
        )

    @property
    def _finite(self) -> bool | str:
        """What scikit-learn's checks shall say about missing values."""
        return True if self.missing == "error" else "allow-nan"

    def _keep(self, result: Result) -> None:
        self.result_ = result
        self.support_ = result.support
        self.n_features_in_ = result.n_variables

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


def refuse_names(values: Any, role: str) -> None:
    """A column of X cannot be the outcome here: a pipeline may have renamed or removed it before."""
    if isinstance(values, str):
        raise InvalidInput(
            f"{role}={values!r} is text; a scikit-learn selector expects the values: pass X.drop(columns={values!r}) "
            f"as X and X[{values!r}] as {role}, or use fbed.select, which accepts the name of a column"
        )


def column_as_vector(y: Any) -> Any:
    """An n × 1 array as a vector, with scikit-learn's warning."""
    if not isinstance(y, np.ndarray) or y.ndim != 2 or y.shape[1] != 1:
        return y
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,), for "
        "example using ravel().",
        DataConversionWarning,
        stacklevel=3,
    )
    return y[:, 0]


@contextmanager
def _as_invalid_input() -> Iterator[None]:
    """What scikit-learn refuses is refused like everything else, in its words."""
    try:
        yield
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        raise (InvalidType if isinstance(error, TypeError) else InvalidInput)(str(error)) from error
