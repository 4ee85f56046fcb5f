"""Arguments of every kind for `select`, `path` and `FBEDSelector`: they work, or InvalidInput says why not."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse

import fbed
from fbed.errors import InvalidInput
from fbed.families import FAMILIES

Call = tuple[str, Any, Any, dict[str, Any]]
"""The door, X, y, and the other arguments."""


def run(call: Call, folder: Any = None) -> None:
    """Raise when the call ends with anything but a result or InvalidInput."""
    door, X, y, options = call
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _DOORS[door](X, y, options)
        except InvalidInput:
            pass
        except TypeError as error:  # documented for a keyword that nobody knows
            if "unexpected keyword" not in str(error):
                raise


def _select(X: Any, y: Any, options: dict[str, Any]) -> None:
    result = fbed.select(X, y, **options)
    assert str(result)
    assert fbed.Result.from_json(result.to_json()).selected == result.selected
    result.transform(X)


def _path(X: Any, y: Any, options: dict[str, Any]) -> None:
    data = {k: v for k, v in options.items() if k not in ("criterion", "alpha", "gamma", "k", "early_dropping")}
    assert str(fbed.path(X, y, alphas=[0.1], gammas=[], ks=[0], fbs=False, **data))


def _selector(X: Any, y: Any, options: dict[str, Any]) -> None:
    by_row = {name: options[name] for name in _BY_ROW if name in options}
    selector = fbed.FBEDSelector(**{name: value for name, value in options.items() if name not in by_row})
    selector.fit(X, y, **by_row).transform(X)


_DOORS: dict[str, Callable[[Any, Any, dict[str, Any]], None]] = {
    "select": _select,
    "path": _path,
    "selector": _selector,
}
_BY_ROW = ("sample_weight", "offset", "exposure", "trials", "strata", "entry", "cluster")


# -- what comes in ---------------------------------------------------------------------------------------------------


def call(rng: random.Random) -> Call:
    """Mostly sound arguments, with some that are not: one that is wrong hides all that come after it."""
    npr = np.random.default_rng(rng.randrange(2**32))
    n, p = rng.choice((0, 1, 2, 3, 5, 24, 24, 24, 24, 24)), rng.choice((0, 1, 2, 3, 3, 3, 3, 5, 40))
    X = _table(rng, npr, n, p)
    y = _outcome(rng, npr, n)
    options: dict[str, Any] = {}
    for name in rng.sample(sorted(_OPTIONS), rng.choice((0, 0, 1, 1, 2, 3))):
        options[name] = _OPTIONS[name](rng, npr, n, p)
    options.setdefault("time_limit", 5.0)
    return rng.choice(("select", "select", "path", "selector")), X, y, options


def _numbers(rng: random.Random, npr: np.random.Generator, n: int, p: int) -> np.ndarray:
    X = npr.normal(size=(n, p))
    roll = rng.randrange(12)
    if roll == 0 and X.size:
        X[0, 0] = rng.choice((np.nan, np.inf, -np.inf, 1e308, 1e-320))
    elif roll == 1:
        X *= 10.0 ** npr.integers(-300, 300, size=p)
    elif roll == 2:
        X = np.round(X)
    elif roll == 3 and p:
        X[:] = X[:, :1]
    elif roll == 4:
        X[:] = rng.choice((0.0, 1.0, 1e200))
    elif roll == 5 and n > 2:
        X = (X > 1.5).astype(float)
    return X


def _table(rng: random.Random, npr: np.random.Generator, n: int, p: int) -> Any:
    X = _numbers(rng, npr, n, p)
    roll = rng.random()
    if roll < 0.3:
        return X
    if roll < 0.4:
        return X.astype(rng.choice(("f2", "f4", "i1", "u8", "i8", "?", "c16", ">f8", "g", "S3", "U3", "O", "m8[s]")))
    if roll < 0.55:
        matrix = sparse.coo_array(X).asformat(rng.choice(("csc", "csr", "coo", "bsr", "dia", "lil", "dok")))
        return _damaged(rng, matrix) if rng.random() < 0.4 else matrix
    if roll < 0.85:
        return _frame(rng, npr, X)
    return rng.choice(_TABLES)(X)


_TABLES: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda X: X.tolist(),
    lambda X: X[None],
    lambda X: X.ravel(),
    lambda X: X[:, ::-1],
    lambda X: np.asfortranarray(X)[::-1],
    lambda X: np.ma.masked_array(X, X > 1),
    lambda X: np.array(X.tolist(), dtype=object),
    lambda X: [*X.tolist(), [1.0]],
    lambda X: dict(enumerate(X.T)),
    lambda X: {"a": X, "b": 3},
    lambda X: {"a": [1, "x", None], "b": [1, 2, 3]},
    lambda X: iter(X),
    lambda X: None,
    lambda X: 3,
    lambda X: "y",
    lambda X: object(),
    lambda X: pd.Series(X.ravel()),
    lambda X: np.zeros(len(X), dtype=[("a", "f8"), ("b", "i4")]),
    lambda X: np.float64(3),
    lambda X: set(X.ravel().tolist()),
)


def _damaged(rng: random.Random, matrix: Any) -> Any:
    """A sparse matrix with one of its parts changed."""
    parts = [name for name in ("indices", "indptr", "data", "offsets", "row", "col") if hasattr(matrix, name)]
    part = getattr(matrix, rng.choice(parts or ["shape"]))
    if isinstance(part, np.ndarray) and part.size and part.dtype.kind in "iuf":
        part.ravel()[rng.randrange(part.size)] = rng.choice((-1, 0, 1, 7, 10**6))
    return matrix


def _column(rng: random.Random, npr: np.random.Generator, n: int) -> Any:
    """A column as people have them, and as they do not."""
    letters = np.array(list("uvwxyz"))[npr.integers(6, size=n)]
    return rng.choice(
        (
            lambda: npr.normal(size=n),
            lambda: npr.integers(3, size=n),
            lambda: letters,
            lambda: letters.astype(object),
            lambda: pd.Categorical(letters, ordered=rng.random() < 0.5),
            lambda: pd.Categorical([None] * n, categories=["a"]),
            lambda: pd.array([None if rng.random() < 0.2 else int(v) for v in npr.integers(3, size=n)], dtype="Int64"),
            lambda: pd.array([rng.choice((True, False, None)) for _ in range(n)], dtype="boolean"),
            lambda: pd.array(letters, dtype="string"),
            lambda: pd.date_range("2020-01-01", periods=n),
            lambda: pd.timedelta_range("1D", periods=n),
            lambda: pd.interval_range(0, n) if n else [],
            lambda: pd.arrays.SparseArray(np.where(npr.random(n) < 0.8, 0.0, 1.0)),
            lambda: [
                rng.choice((1, "1", None, 2.5, np.nan, b"x", [1], {"a": 1}, (1, 2), Decimal(1), 1j)) for _ in range(n)
            ],
            lambda: [date(2020, 1, 1)] * n,
            lambda: [Fraction(1, 3)] * n,
            lambda: [f"{i}" for i in range(n)],
            lambda: [f"id{i}" for i in range(n)],
            lambda: [None] * n,
            lambda: [np.nan] * n,
            lambda: [10**30] * n,
            lambda: npr.random(n) < 0.5,
            lambda: npr.random(n) + 1j,
        )
    )()


def _frame(rng: random.Random, npr: np.random.Generator, X: np.ndarray) -> Any:
    n, p = X.shape
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
    for i in range(rng.choice((0, 1, 1, 2))):
        column = _column(rng, npr, n)
        frame[f"c{i}"] = column if not isinstance(column, pd.IntervalIndex) else list(column)
    if rng.random() < 0.15 and len(frame.columns) > 1:
        names: Any = list(frame.columns)
        names[rng.randrange(len(names))] = rng.choice(
            (names[0], 0, None, ("a", "b"), "", 1.5, datetime(2020, 1, 1), "y")
        )
        frame.columns = names
    if rng.random() < 0.1:
        frame.index = pd.Index(npr.integers(3, size=n))
    roll = rng.random()
    if roll < 0.15:
        return _or_itself(pl.from_pandas, frame)
    return _or_itself(pa.Table.from_pandas, frame) if roll < 0.25 else frame


def _or_itself(convert: Callable[[Any], Any], frame: Any) -> Any:
    """Some frames have no counterpart elsewhere; that is not for us to judge."""
    try:
        return convert(frame)
    except Exception:
        return frame


def _outcome(rng: random.Random, npr: np.random.Generator, n: int) -> Any:
    roll = rng.random()
    if roll < 0.45:
        return rng.choice(
            (npr.normal(size=n), npr.integers(2, size=n), npr.integers(3, size=n), npr.poisson(2, size=n))
        )
    if roll < 0.55:
        return (npr.exponential(size=n), npr.random(n) < 0.6)
    if roll < 0.75:
        return _column(rng, npr, n)
    return rng.choice(
        (
            lambda: "x0",
            lambda: ("x0", "x1"),
            lambda: None,
            lambda: np.zeros(n),
            lambda: npr.normal(size=n + 1),
            lambda: npr.normal(size=(n, 2)),
            lambda: npr.normal(size=(n, 1)),
            lambda: np.full(n, np.nan),
            lambda: np.where(np.arange(n) < 1, np.inf, 1.0),
            lambda: npr.normal(size=n) * 1e300,
            lambda: npr.integers(2, size=n) * 1e-310,
            lambda: np.arange(n).astype(str),
            lambda: np.ma.masked_array(npr.normal(size=n), npr.random(n) < 0.2),
            lambda: sparse.csc_array(npr.normal(size=(n, 1))),
            lambda: pd.Series(npr.normal(size=n), index=npr.permutation(n)),
            lambda: (np.zeros(n), np.zeros(n)),
            lambda: (npr.normal(size=n), npr.integers(4, size=n)),
            lambda: 3,
            lambda: object(),
            lambda: [[1], [2, 3]],
            lambda: npr.integers(2, size=n).astype("m8[s]"),
        )
    )()


def _rows(rng: random.Random, npr: np.random.Generator, n: int, p: int) -> Any:
    """Something with a value a row, or nearly."""
    return rng.choice(
        (
            lambda: np.ones(n),
            lambda: npr.integers(1, 4, size=n),
            lambda: npr.random(n),
            lambda: npr.random(n) * 10.0 ** rng.choice((-300, -10, 10, 300)),
            lambda: npr.integers(max(n // 3, 1), size=n),
            lambda: -npr.random(n),
            lambda: np.zeros(n),
            lambda: np.full(n, np.nan),
            lambda: np.ones(n + 1),
            lambda: np.ones((n, 2)),
            lambda: ["a"] * n,
            lambda: "x0",
            lambda: "nobody",
            lambda: 2.0,
            lambda: None,
            lambda: object(),
            lambda: [None] * n,
        )
    )()


def _one_of(*values: Any) -> Callable[..., Any]:
    return lambda rng, npr, n, p: rng.choice(values)


_NAMES = _one_of(
    [], ["x0"], "x0", ["x0", "x0"], [0], 0, [-1], [99], ["nobody"], None, [None], [1.5], 3.5, [["x0"]], {"x0"}
)
_ODD = (None, -1, 0, 1, 2, 1.5, math.inf, math.nan, "x", "1", True, [1], 10**30, 1j, object())

_OPTIONS: dict[str, Callable[..., Any]] = {
    "family": _one_of(*(name for name in FAMILIES if name != "kernel"), "auto", "nothing", None, 3, str, object()),
    "test": _one_of("lr", "score", "wald", "x", 3),
    "cov": _one_of("HC3", "cluster", "x", 3),
    "link": _one_of("logit", "log", "identity", "probit", "x", 3),
    "criterion": _one_of("lr", "aic", "bic", "ebic", "x", None, 3, fbed.EBIC(0.5), fbed.AIC, object()),
    "alpha": _one_of(0.05, 0.9, *_ODD),
    "alpha_backward": _one_of(0.05, 0.9, *_ODD),
    "gamma": _one_of(0.5, *_ODD),
    "k": _one_of(*_ODD),
    "max_features": _one_of(*_ODD),
    "early_dropping": _one_of(True, False, None, "x"),
    "backward": _one_of(True, False),
    "include": _NAMES,
    "exclude": _NAMES,
    "categorical": _NAMES,
    "groups": _one_of(
        {}, {"g": ["x0", "x1"]}, {"g": [0, 1]}, {"g": []}, {"g": 3}, {3: [0]}, "g", [("g", [0])], {"x0": ["x1"]}
    ),
    "missing": _one_of("error", "drop", "indicator", "x", None, 3),
    "feature_names": _one_of(["a"], ["a", "b", "c"], ["a", "a", "b"], "abc", 3, [1, 2, 3], [None] * 3),
    "time_limit": _one_of(5.0, 0, "x", -1, math.nan, math.inf, None, True),
    "n_jobs": _one_of(1, 2, -1, None, "x", 1.5, True),
    "engine": _one_of("certified", "exhaustive", "x", None),
    "nonsense": _one_of(3),
    **dict.fromkeys(_BY_ROW, _rows),
}
