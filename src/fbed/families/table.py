"""The table of families: what each can do, and who builds its model."""

from __future__ import annotations

from dataclasses import replace

from fbed.families import builders
from fbed.families.registry import Family
from fbed.models.likelihoods.glm import GAMMA, POISSON
from fbed.models.other_statistics.gee import LINKS as GEE_LINKS
from fbed.models.other_statistics.residual_scores import Huber, Quantile

_LIKELIHOOD_TESTS = ("lr", "score", "wald")

_TABLE = (
    Family(
        "gaussian",
        "numbers",
        builders.gaussian,
        ("lr",),
        extras=("offset",),
        covs=("HC3", "cluster"),
        note="p-values of `lr` from the exact F distribution",
    ),
    Family(
        "binomial",
        "two classes, or successes with `trials`",
        builders.binomial,
        _LIKELIHOOD_TESTS,
        extras=("trials", "offset"),
        covs=("cluster",),
        note="n of the criteria is the number of trials",
    ),
    Family("multinomial", "unordered classes", builders.multinomial, _LIKELIHOOD_TESTS),
    Family(
        "ordinal",
        "ordered classes",
        builders.ordinal,
        _LIKELIHOOD_TESTS,
        links=("logit", "probit"),
        note="cumulative model; proportional odds with the logit link",
    ),
    Family(
        "poisson",
        "counts",
        lambda request: builders.glm(request, POISSON),
        _LIKELIHOOD_TESTS,
        extras=("offset", "exposure"),
        covs=("cluster",),
        note="log link",
    ),
    Family(
        "negative_binomial",
        "overdispersed counts",
        builders.negative_binomial,
        _LIKELIHOOD_TESTS,
        extras=("offset", "exposure"),
        covs=("cluster",),
        note="log link; the dispersion is estimated in every model",
    ),
    Family(
        "gamma",
        "positive numbers",
        lambda request: builders.glm(request, GAMMA),
        _LIKELIHOOD_TESTS,
        extras=("offset", "exposure"),
        covs=("cluster",),
        note="log link; the shape is estimated in every model",
    ),
    Family(
        "cox",
        "survival times: y=(time, event)",
        builders.cox,
        _LIKELIHOOD_TESTS,
        extras=("strata", "entry"),
        note="partial likelihood, Efron's ties; n of the criteria is the number of events",
    ),
    Family(
        "weibull",
        "survival times above 0: y=(time, event)",
        builders.weibull,
        _LIKELIHOOD_TESTS,
        note="accelerated failure time; n of the criteria counts all rows",
    ),
    Family(
        "quantile",
        "numbers",
        lambda request: builders.scored(request, Quantile()),
        ("rank score",),
        likelihood=False,
        note="median regression; the rank-score test needs no density of the errors",
    ),
    Family(
        "robust",
        "numbers with outliers",
        lambda request: builders.scored(request, Huber()),
        ("score",),
        likelihood=False,
        note="Huber's M-estimate, score (aligned M) test",
    ),
    Family(
        "mixed",
        "numbers in clusters",
        builders.mixed,
        ("lr",),
        extras=("cluster",),
        required=("cluster",),
        note="random intercept of every cluster, maximum likelihood",
    ),
    Family(
        "gee",
        "numbers, two classes or counts in clusters",
        builders.gee,
        ("wald",),
        likelihood=False,
        extras=("cluster",),
        required=("cluster",),
        links=GEE_LINKS,
        note="estimating equations, exchangeable working correlation, robust variance that holds with few clusters",
    ),
    Family(
        "kernel",
        "numbers or classes",
        builders.kernel,
        ("kci", "rcit"),
        likelihood=False,
        weights=False,
        note="any dependence; needs causal-learn (`pip install '.[kernel]'`)",
    ),
    Family(
        "spearman",
        "numbers or ordered classes",
        builders.spearman,
        ("rank correlation",),
        likelihood=False,
        note="partial rank correlation, p-values from t",
    ),
    Family(
        "gsquare",
        "classes",
        builders.gsquare,
        ("g2",),
        predictors="categorical, or numbers as codes",
        note="df = Σ over strata of (levels of x − 1)(levels of y − 1), levels that occur there",
    ),
)

FAMILIES: dict[str, Family] = {family.name: family for family in _TABLE}
"""Every family by name."""


def quantile(level: float = 0.5) -> Family:
    """Quantile regression at a level other than the median, e.g. ``family=fbed.families.quantile(0.9)``."""
    return replace(FAMILIES["quantile"], build=lambda request: builders.scored(request, Quantile(level)))
