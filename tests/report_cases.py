"""Results of every kind that a report, a plot or an explanation may meet."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
from scipy import sparse

import fbed
from fbed.graphs import DAG

HOSTILE = (
    "<script>document.title = 'hacked'</script>",
    '"><img src=x onerror="document.title = \'hacked\'">',
    'it\'s "quoted" & <b>bold</b>',
    "]]></svg><!-- {{7*7}} ${7*7}",
    "emoji 🧬 \u202eright to left\u202c",
    "tab\tand\nnewline and \x00 nul",
    r"$\frac{$ ^_ $",
    "a" * 300,
    "name",
    "name ",
    "Name",
    "",
)


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 8)), columns=list("abcdefgh"))
    X["twin"] = X["a"] + 0.05 * rng.normal(size=n)
    X["level"] = rng.choice(["low", "mid", "top"], n)
    X["rare"] = np.where(np.arange(n) < 4, "odd", "usual")
    signal = X["a"] - X["b"] + 0.5 * X["c"] + 2.0 * (X["level"] == "mid") + 3.0 * (X["rare"] == "odd")
    return X, (signal + rng.normal(size=n)).to_numpy()


def holes():
    X, y = table()
    X.loc[X.index % 9 == 0, "a"] = np.nan
    X.loc[X.index % 11 == 0, "level"] = None
    return X, y


def coded():
    X, _ = table()
    return X.assign(grade=X["level"].map({"low": 1, "mid": 2, "top": 3})).drop(columns="level")


def hostile_table(n=150):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, len(HOSTILE)))
    return pd.DataFrame(X, columns=list(HOSTILE)), X @ np.linspace(1, 2, len(HOSTILE)) + rng.normal(size=n)


def interrupted():
    X, y = table()

    def stop(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    return fbed.select(X, y, progress=stop)


def _survival(y):
    return np.exp(-y / y.std()), np.arange(len(y)) % 3 > 0


def _numbers():
    X, y = table()
    return X.drop(columns=["level", "rare"]).to_numpy(), y


CASES = {
    "linear": lambda: fbed.select(*table()),
    "ebic": lambda: fbed.select(*table(), criterion="ebic"),
    "removals": lambda: fbed.select(*table(), alpha=0.7, alpha_backward=0.001, k=math.inf),
    "fbs": lambda: fbed.select(*table(), early_dropping=False),
    "nothing": lambda: fbed.select(*table(), alpha=1e-300),
    "forced": lambda: fbed.select(*table(), include=["h", "level"], exclude=["twin"]),
    "logistic": lambda: fbed.select(table()[0], np.where(table()[1] > 0, "ill", "well")),
    "separated": lambda: fbed.select(table()[0].assign(y=table()[1]), table()[1] > 0),
    "cox": lambda: fbed.select(table()[0], _survival(table()[1])),
    "multinomial": lambda: fbed.select(table()[0], pd.cut(table()[1], 3, labels=["x", "y → z", "z"]).astype(str)),
    "ordinal": lambda: fbed.select(table()[0], pd.cut(table()[1], 4)),
    "poisson": lambda: fbed.select(_numbers()[0], np.round(np.exp(table()[1] / 3)), family="poisson"),
    "gsquare": lambda: fbed.select(table()[0][["level", "rare"]], table()[1] > 0, family="gsquare"),
    "robust": lambda: fbed.select(*_numbers(), cov="HC3"),
    "weighted": lambda: fbed.select(*table(), sample_weight=np.arange(200) % 3),
    "sparse": lambda: fbed.select(sparse.csc_array(_numbers()[0] * (_numbers()[0] > 0)), _numbers()[1]),
    "limited": lambda: fbed.select(*table(), max_features=2),
    "out of time": lambda: fbed.select(*table(), time_limit=0),
    "interrupted": interrupted,
    "groups": lambda: fbed.select(*table(), groups={"pair": ["a", "level"], "noise": ["g", "h"]}, alpha=0.1),
    "forced group": lambda: fbed.select(*table(), groups={"noise": ["h", "g"]}, include=["noise", "level"]),
    "complete rows": lambda: fbed.select(*holes(), missing="drop"),
    "indicators": lambda: fbed.select(*holes(), missing="indicator", include=["a"]),
    "declared": lambda: fbed.select(coded(), table()[1], categorical=["grade"]),
    "oracle": lambda: fbed.select(DAG([("cause", "y"), ("y", "effect"), ("spouse", "effect")]), "y"),
    "hostile": lambda: fbed.select(*hostile_table(), criterion="bic"),
}


@cache
def case(name: str) -> fbed.Result:
    return CASES[name]()
