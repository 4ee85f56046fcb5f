"""Robust Wald tests with few clusters: numbers of R's clubSandwich, a dense twin, degenerate predictors, the level."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments import cluster_levels
from scipy import stats

from fbed import families
from fbed.design import Design
from fbed.extras import read_extras
from fbed.families.gee import Gee
from fbed.outcomes import read_outcome
from fbed.tables import read_table


def r_data() -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Sixty rows in twelve clusters, written so that R has the same numbers."""
    i = np.arange(60)
    cluster = np.concatenate([np.repeat(np.arange(1, 5), 2), np.repeat(np.arange(5, 11), 5), np.repeat([11, 12], 11)])
    frame = pd.DataFrame({"z": np.sin(1 + i * i), "x": np.cos(3 * i * i + 1), "between": np.sin(7 * cluster**2)})
    frame["rare"] = np.isin(cluster, [3, 11]).astype(float)
    level, kind = np.array(list("abc"))[i**3 % 3], np.array(list("abc"))[(cluster**2 + cluster // 2) % 3]
    frame["level"], frame["kind"] = pd.Categorical(level), pd.Categorical(kind)
    effects = 0.5 * frame["z"] + 0.6 * frame["x"] + 0.9 * frame["between"] + 1.5 * frame["rare"]
    y = effects + 0.7 * (level == "b") + 0.8 * (kind == "a") + 0.5 * np.sin(5 * cluster) + np.cos(11 * i * i)
    y = y.to_numpy()
    return frame, {"y": y, "count": np.floor(2 * np.exp(0.5 * y)), "event": (y > 0.9).astype(float), "cluster": cluster}


# F, degrees of freedom of its denominator and p-value of each predictor beside z, by clubSandwich 0.5.8 on `r_data`:
#   m <- lm(y ~ z + x), glm(count ~ z + x, poisson), glm(event ~ z + x, binomial) with epsilon = 1e-14,
#        gls(y ~ z + x, correlation = corCompSymm(0.3, form = ~ 1 | cluster, fixed = TRUE))
#   V <- vcovCR(m, cluster, type = "CR3"), for HC3 with every row a cluster
#   coef_test(m, V, test = "Satterthwaite"), or Wald_test(m, constrain_zero(3:4), V, test = "HTZ") for categories
R_NUMBERS = {
    ("lm", "x"): (5.776041166, 5.622941663, 0.05582127208),
    ("lm", "between"): (0.6619052429, 3.340154765, 0.4698710137),
    ("lm", "rare"): (0.08633585423, 1.144358087, 0.8131704408),
    ("lm", "level"): (3.524521973, 6.435297459, 0.09253256179),
    ("lm", "kind"): (0.1832838808, 1.659161098, 0.8473861734),
    ("poisson", "x"): (8.844870385, 4.994637421, 0.03105366602),
    ("poisson", "between"): (0.5493348895, 3.262550413, 0.508343933),
    ("poisson", "rare"): (0.1143545116, 1.175344866, 0.7856409875),
    ("poisson", "level"): (3.954209785, 6.361103861, 0.07656275217),
    ("poisson", "kind"): (0.09040730361, 1.557837749, 0.9180216976),
    ("binomial", "x"): (3.985054337, 6.402479678, 0.08990868083),
    ("binomial", "between"): (0.9556388638, 3.490645178, 0.3910737543),
    ("binomial", "rare"): (0.04153797903, 1.148959359, 0.8685744498),
    ("binomial", "level"): (1.566125464, 6.281199812, 0.2806577134),
    ("binomial", "kind"): (0.4825042672, 1.905587578, 0.6767945363),
    ("gls", "x"): (5.177977626, 5.280772364, 0.06913712839),
    ("gls", "between"): (1.157295465, 5.000945184, 0.3311652707),
    ("gls", "rare"): (0.3773301329, 1.216571494, 0.633838067),
    ("gls", "level"): (3.562811856, 6.200955101, 0.0932899939),
    ("gls", "kind"): (0.2054298636, 2.00729734, 0.829530053),
    ("HC3", "x"): (12.29235376, 39.390794, 0.001151451154),
    ("HC3", "between"): (1.367909138, 34.36324048, 0.2502201497),
    ("HC3", "rare"): (1.434490979, 18.04508679, 0.2465290402),
    ("HC3", "level"): (1.957180283, 40.01670989, 0.1545443853),
    ("HC3", "kind"): (0.8485980506, 15.6405221, 0.4468030164),
}

SETTINGS = {
    "lm": ("gaussian", "y", "cluster"),
    "poisson": ("poisson", "count", "cluster"),
    "binomial": ("binomial", "event", "cluster"),
    "HC3": ("gaussian", "y", "HC3"),
    "gls": ("gee", "y", None),
}


def bound(frame, y, family, cov, cluster=None, link=None, weights=None):
    n = len(frame)
    design = Design(read_table(frame), np.ones(n) if weights is None else weights)
    extras = read_extras(frame, n, {} if cluster is None else {"cluster": cluster})
    return families.find(family).build(families.Request(design, read_outcome(y, n), extras, "wald", cov, link))


@pytest.mark.parametrize(("setting", "predictor"), R_NUMBERS)
def test_numbers_are_those_of_clubsandwich(setting, predictor, monkeypatch):
    frame, rest = r_data()
    family, outcome, cov = SETTINGS[setting]
    if setting == "gls":  # R's correlation is not estimated
        monkeypatch.setattr(Gee, "_correlation", lambda self, residual, k: (0.3, 1.0))
    model = bound(frame, rest[outcome], family, cov, None if cov == "HC3" else rest["cluster"])
    j = list(frame.columns).index(predictor)
    found = model.fit([0]).gains(np.array([j]))
    f, denominator, p = R_NUMBERS[setting, predictor]
    df = 2 if predictor in ("level", "kind") else 1
    assert stats.f.sf(f, df, denominator) == pytest.approx(p, rel=1e-6)
    assert found.df[0] == df
    assert np.exp(found.log_p[0]) == pytest.approx(p, rel=1e-6)
    assert found.statistic[0] == pytest.approx(stats.chi2.isf(p, df), rel=1e-6)
