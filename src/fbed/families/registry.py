"""What a row of the table of families says; errors are worded and the documentation is made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fbed.errors import InvalidInput
from fbed.matrix.design import Design
from fbed.models.base import Model
from fbed.tables.extras import Extras
from fbed.tables.outcomes import Outcome


@dataclass(frozen=True)
class Request:
    """An outcome with everything that belongs to its rows, and how it shall be tested."""

    design: Design
    outcome: Outcome
    extras: Extras
    test: str
    cov: str | None = None
    link: str | None = None
    certified: bool = True  # answer scans by bounds where the family has them, instead of fitting every model


@dataclass(frozen=True)
class Family:
    """A row of the table.

    `tests` starts with the default. `likelihood` says whether the statistic of test 'lr' is a difference of deviances,
    so that AIC, BIC and EBIC have a meaning. `extras` are the row-aligned arguments that the family understands.
    """

    name: str
    outcome: str
    build: Callable[[Request], Model]
    tests: tuple[str, ...]
    likelihood: bool = True
    weights: bool = True
    extras: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    covs: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    predictors: str = "numeric, categorical, sparse"
    note: str = ""

    def test_for(self, test: str | None, cov: str | None) -> str:
        """The test in force; an error when the family has no such test."""
        if cov is not None:
            if test not in (None, "wald"):
                raise InvalidInput(f"cov={cov!r} goes with test='wald', not with test={test!r}: leave test out")
            return "wald"
        if test is None:
            return self.tests[0]
        if test not in self.tests:
            raise InvalidInput(
                f"family {self.name!r} has no test {test!r}: it offers {_names(self.tests)}"
                + (f", and robust Wald tests with cov={_names(self.covs)}" if self.covs and test == "wald" else "")
            )
        return test

    def has_likelihood(self, test: str | None, cov: str | None) -> bool:
        """Whether information criteria have a meaning for the test in force."""
        return self.likelihood and self.test_for(test, cov) in ("lr", "g2")


def check_abilities(
    family: Family,
    *,
    test: str | None,
    cov: str | None,
    link: str | None,
    extras: Mapping[str, object],
    weighted: bool,
    needs_likelihood: bool,
    criterion: str,
) -> None:
    """An error that says so when a family does not support what was asked for."""
    _check_choice(family, "cov", cov, family.covs)
    _check_choice(family, "link", link, family.links)
    for name, value in extras.items():
        allowed = family.extras + (("cluster",) if cov == "cluster" else ())
        if value is not None and name not in allowed:
            able = _able(lambda other, wanted=name: wanted in other.extras)  # type: ignore[misc]
            raise InvalidInput(f"family {family.name!r} has no use for {name}=: leave it out, or choose one of {able}")
    for name in family.required + (("cluster",) if cov == "cluster" else ()):
        if extras.get(name) is None:
            raise InvalidInput(f"{_setting(family, cov)} needs {name}=: one value a row, or the name of a column")
    if weighted and not family.weights:
        raise InvalidInput(
            f"family {family.name!r} does not support sample_weight: repeat the rows instead, or choose one of "
            + _able(lambda other: other.weights)
        )
    if needs_likelihood and not family.has_likelihood(test, cov):
        raise InvalidInput(
            f"criterion {criterion} compares likelihoods, but {_setting(family, cov, test)} gives p-values only: use "
            "criterion='lr' with a level alpha, or one of the families "
            + _able(lambda other: other.likelihood)
            + " with test='lr'"
        )


_STORED = ("gaussian", "binomial", "poisson")


def check_stored(family: Family, test: str, cov: str | None) -> None:
    """An error for what cannot be computed from columns that are stored in their own way."""
    if family.name not in _STORED or test != "lr" or cov is not None:
        raise InvalidInput(
            f"{_setting(family, cov, test)} needs its columns in memory as numbers: for genotypes and arrays elsewhere "
            f"choose one of {_names(_STORED)} with likelihood-ratio tests, or pass some columns as a data frame "
            "(cohort.frame([...]))"
        )


def markdown(families: Mapping[str, Family]) -> str:
    """The table of the documentation."""
    head = "| family | outcome | tests | criteria | weights | row-aligned extras | options | predictors | notes |"
    lines = [head, "|---" * head.count(" |") + "|"]
    return "\n".join(lines + [_row(family) for family in families.values()]) + "\n"


def _row(family: Family) -> str:
    criteria = "level α, AIC, BIC, EBIC" if family.likelihood else "level α"
    extras = ", ".join(f"`{name}`" + (" (required)" if name in family.required else "") for name in family.extras)
    options = [f'`cov="{cov}"`' for cov in family.covs] + [f'`link="{link}"`' for link in family.links]
    cells = (
        f"`{family.name}`",
        family.outcome,
        ", ".join(f"`{test}`" for test in family.tests),
        criteria,
        "yes" if family.weights else "no",
        extras or "–",
        ", ".join(options) or "–",
        family.predictors,
        family.note,
    )
    return "| " + " | ".join(cells) + " |"


def _check_choice(family: Family, option: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is None or value in allowed:
        return
    if not allowed:
        raise InvalidInput(f"family {family.name!r} has no option {option}=: leave it out")
    raise InvalidInput(f"family {family.name!r} has no {option}={value!r}: it offers {_names(allowed)}")


def _setting(family: Family, cov: str | None, test: str | None = None) -> str:
    return f"family {family.name!r}" + (f" with cov={cov!r}" if cov else f" with test={test!r}" if test else "")


def _able(can: Callable[[Family], bool]) -> str:
    from fbed.families import FAMILIES

    return _names(tuple(name for name, family in FAMILIES.items() if can(family)))


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)
