"""Real sets of every kind of outcome, for contenders that tune themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fbed.tuning.concordance import area_parts, concordance_parts

CERTAIN = 1e-5  # probabilities and rates are held this far from 0 and 1


@dataclass(frozen=True)
class Source:
    """Where a set lies, what its outcome is, and what is no predictor."""

    file: str
    family: str
    target: str | tuple[str, str] = "y"
    exclude: tuple[str, ...] = ()


SETS = {
    "colon": Source("extra/colon.npz", "binomial"),
    "GLIOMA": Source("extra/GLIOMA.npz", "multinomial"),
    "wine_red": Source("extra/wine_red.parquet", "ordinal", "target"),
    "metabric": Source("extra/metabric.npz", "cox", ("time", "event")),
    "credit_g": Source("extra/credit_g.parquet", "binomial", "class"),
    "bikeshare": Source("extra/bikeshare.parquet", "poisson", "bikers", ("casual", "registered")),
    "riboflavin": Source("extra/riboflavin.npz", "gaussian"),
    "nki70": Source("extra/nki70.parquet", "cox", ("time", "event")),
    "madelon": Source("paper/madelon.npz", "binomial"),
    "ames": Source("extra/ames.parquet", "gaussian", "Sale_Price"),
    "arcene": Source("paper/arcene.npz", "binomial"),
}
SCORES = {
    "gaussian": "R²",
    "binomial": "AUC",
    "multinomial": "accuracy",
    "ordinal": "concordance",
    "poisson": "deviance explained",
    "cox": "concordance",
}


@dataclass(frozen=True)
class TunedSet:
    """Predictors as a user has them, and as numbers for those who need them; `y` is codes, numbers or two columns."""

    name: str
    family: str
    frame: pd.DataFrame
    y: np.ndarray

    def wide(self) -> tuple[np.ndarray, list[str]]:
        """Numbers and indicators of all levels but the first, and which variable each column is of."""
        parts, owners = [], []
        for name in self.frame.columns:
            column = self.frame[name]
            numbers = pd.api.types.is_numeric_dtype(column)
            made = column.to_frame() if numbers else pd.get_dummies(column.astype(str), drop_first=True)
            parts.append(made.to_numpy(dtype=np.float64))
            owners += [name] * parts[-1].shape[1]
        return np.hstack(parts), owners


def load(name: str, folder: Path) -> TunedSet:
    """A set of the folder of data."""
    source = SETS[name]
    file = folder / source.file
    names = (source.target,) if isinstance(source.target, str) else source.target
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as kept:
            X = kept["X"]
            frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
            outcome = [kept[name] for name in names]
    else:
        frame = pd.read_parquet(file).drop(columns=list(source.exclude))
        outcome = [frame.pop(name).to_numpy() for name in names]
    if source.family in ("binomial", "multinomial", "ordinal"):
        y = np.unique(outcome[0], return_inverse=True)[1]
    else:
        y = np.column_stack(outcome).astype(np.float64) if len(outcome) == 2 else outcome[0].astype(np.float64)
    return TunedSet(name, source.family, frame, y)


def toy() -> TunedSet:
    """A set that takes a moment, and no other library."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc")).assign(kind=rng.choice(list("xy"), size=60))
    return TunedSet("toy", "ordinal", frame, np.digitize(frame["a"] + rng.normal(size=60), [-0.5, 0.5]))


def score(family: str, y: np.ndarray, said: Any) -> float:
    """Of predictions: means, probabilities of the second or of all classes, expected codes, or risks."""
    once = np.ones((1, len(y)))
    if family == "gaussian":
        return float(1 - np.sum((y - said) ** 2) / np.sum((y - y.mean()) ** 2))
    if family == "binomial":
        return _ratio(area_parts(y == 1, said, once))
    if family == "multinomial":
        return float(np.mean(said.argmax(axis=1) == y))
    if family == "poisson":
        mean = np.maximum(said, CERTAIN)
        return float(1 - _poisson(y, mean) / _poisson(y, np.full(len(y), y.mean())))
    if family == "ordinal":
        return _ratio(concordance_parts(-y.astype(float), np.ones(len(y), dtype=bool), said, once))
    return _ratio(concordance_parts(y[:, 0], y[:, 1] > 0, said, once))


def _ratio(parts: tuple[np.ndarray, np.ndarray]) -> float:
    return float(parts[0][0] / parts[1][0])


def _poisson(y: np.ndarray, mean: np.ndarray) -> float:
    return float(np.sum(mean - y + np.where(y > 0, y * np.log(np.maximum(y, 1) / mean), 0.0)))
