"""A Bayesian network small enough to draw, and what the search finds in data from it.

The Markov blanket of a variable T is the smallest set that makes every other variable irrelevant for predicting T: its
parents, its children, and the other parents of its children (its spouses). A spouse need not be associated with T by
itself, only together with the child; this is what the second run of FBED^1 is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fbed.api.selection import select
from fbed.errors import InvalidInput
from fbed.result.result import Result
from fbed.rules.p_values import Floats

TARGET = "T"
N_NOISE = 20
ALPHA = 0.01

_DRAWING = """\
    grandparent
        |
     parent_1    parent_2
           \\      /
            v    v
              T       spouse
            /   \\      /
           v     v    v
      child_1    child_2
                    |
                grandchild        noise_1 … noise_{n_noise}: unrelated"""


@dataclass(frozen=True)
class Node:
    """value = Σ weight·parent + noise, noise standard normal."""

    parents: Mapping[str, float]


NETWORK: Mapping[str, Node] = {  # parents come before their children
    "grandparent": Node({}),
    "parent_1": Node({"grandparent": 1.0}),
    "parent_2": Node({}),
    "spouse": Node({}),
    TARGET: Node({"parent_1": 0.8, "parent_2": 0.8}),
    "child_1": Node({TARGET: 0.8}),
    "child_2": Node({TARGET: 0.8, "spouse": 1.0}),
    "grandchild": Node({"child_2": 0.8}),
    **{f"noise_{i}": Node({}) for i in range(1, N_NOISE + 1)},
}


def markov_blanket(network: Mapping[str, Node], target: str) -> set[str]:
    """Parents, children and the children's other parents."""
    children = [name for name, node in network.items() if target in node.parents]
    around = {*network[target].parents, *children}
    for child in children:
        around.update(network[child].parents)
    return around - {target}


def simulate(network: Mapping[str, Node], n_rows: int, seed: int) -> dict[str, Floats]:
    """A column of n_rows values a node."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Floats] = {}
    for name, node in network.items():
        columns[name] = rng.normal(size=n_rows) + sum(w * columns[parent] for parent, w in node.parents.items())
    return columns


def report(n_rows: int = 1000, seed: int = 1) -> str:
    """What FBED^0 and FBED^1 find, beside the truth."""
    if n_rows < 10:
        raise InvalidInput(f"--rows must be at least 10 for a demonstration, got {n_rows}")
    if seed < 0:
        raise InvalidInput(f"--seed must be 0 or more, got {seed}")
    data = simulate(NETWORK, n_rows, seed)
    truth = markov_blanket(NETWORK, TARGET)
    runs = [select(data, TARGET, alpha=ALPHA, k=k) for k in (0, 1)]
    return "\n".join(
        [
            f"{n_rows:,} rows of {len(NETWORK)} variables from this Bayesian network (linear, Gaussian noise):",
            "",
            _DRAWING.format(n_noise=N_NOISE),
            "",
            f"The Markov blanket of {TARGET}, all that helps to predict it once it is known, is",
            "its parents, its children and its spouse:",
            _names(truth),
            "",
            *(line for result in runs for line in _account(result, truth)),
            _lesson(runs[0], runs[1], truth, float(np.corrcoef(data["spouse"], data[TARGET])[0, 1])),
            "",
            "How FBED^1 got there:",
            "",
            runs[1].summary(),
        ]
    )


def _account(result: Result, truth: set[str]) -> list[str]:
    found = {str(name) for name in result.selected}
    lines = [f"{result.settings['algorithm']} selected, with {result.n_tests.total} tests:", _names(found)]
    for label, names in (("missed", truth - found), ("false", found - truth)):
        if names:
            lines.append(f"  {label}:" + _names(names)[1:])
    verdict = "exactly the Markov blanket" if found == truth else "not the Markov blanket"
    return [*lines, f"  → {verdict}", ""]


def _lesson(first: Result, second: Result, truth: set[str], correlation: float) -> str:
    if "spouse" in first.selected or {str(name) for name in second.selected} != truth:
        return (
            "These data do not show the textbook picture: at this size chance can hide a\n"
            "variable, or let a noise variable in. Try more rows, or another seed."
        )
    return (
        f"By itself the spouse says nothing about {TARGET} (correlation {correlation:.2f}): it is dropped.\n"
        "Given child_2 it matters, and the second run, which brings dropped variables\n"
        "back, found it."
    )


def _names(names: set[str]) -> str:
    return "  " + ", ".join(name for name in NETWORK if name in names)
