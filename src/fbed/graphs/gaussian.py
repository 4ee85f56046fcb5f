"""Bayesian networks of continuous variables: linear equations with Gaussian noise."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fbed.graphs.dag import DAG
from fbed.graphs.errors import GraphError, about, listing
from fbed.graphs.mixed import Node
from fbed.graphs.sample import Sample, Seed, as_sample_size

_FIELDS = ("parents", "coef", "intercept", "sd")


@dataclass(frozen=True)
class LinearEquation:
    """node = intercept + Σ coef · parent + sd · noise, with standard normal noise.

    Attributes
    ----------
    parents : tuple of nodes
        The parents.
    coef : tuple of float
        A coefficient for each.
    intercept, sd : float
        The constant and the standard deviation of the noise.
    """

    parents: tuple[Node, ...] = ()
    coef: tuple[float, ...] = ()
    intercept: float = 0.0
    sd: float = 1.0


class GaussianNetwork:
    """A DAG with a linear equation for every node.

    Parameters
    ----------
    equations : mapping of node to LinearEquation
        In the order wanted for the nodes.

    Attributes
    ----------
    dag : DAG
        The structure.
    equations : dict
        The equations.
    """

    def __init__(self, equations: Mapping[Node, LinearEquation]) -> None:
        self.equations = {node: _checked(node, equation) for node, equation in equations.items()}
        edges = ((parent, node) for node, equation in self.equations.items() for parent in equation.parents)
        self.dag = DAG(edges, self.equations)

    @classmethod
    def from_json(cls, path: str | PathLike[str]) -> Self:
        """The network in a JSON file of the form ``{node: {parents, coef, intercept, sd}}``."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as problem:
            raise GraphError(f"{path}: expected a JSON file, but it cannot be read: {problem}.") from problem
        with about(path):
            if not isinstance(content, dict):
                raise GraphError("expected an object {node: {parents, coef, intercept, sd}} at the top.")
            return cls({node: _parsed(node, fields) for node, fields in content.items()})

    @classmethod
    def random(cls, dag: DAG, seed: Seed = None, *, strength: tuple[float, float] = (0.5, 1.0)) -> Self:
        """A network on a DAG with noise of standard deviation 1, intercepts 0 and random coefficients.

        Parameters
        ----------
        dag : DAG
            The structure.
        seed : int or numpy Generator, optional
            The source of randomness.
        strength : pair of floats
            Sizes of the coefficients are uniform between these; signs are random. Away from 0 by default,
            because an edge without a visible effect makes no test.
        """
        low, high = strength
        if not 0 <= low <= high < np.inf:
            raise GraphError(f"Expected strength = (low, high) with 0 ≤ low ≤ high, got {strength!r}.")
        rng, equations = np.random.default_rng(seed), {}
        for node in dag.nodes:
            parents = tuple(dag.in_order(dag.parents(node)))
            coef = rng.uniform(low, high, size=len(parents)) * rng.choice([-1.0, 1.0], size=len(parents))
            equations[node] = LinearEquation(parents, tuple(coef.tolist()))
        return cls(equations)

    def sample(self, n: int, seed: Seed = None) -> Sample:
        """`n` independent rows.

        Parameters
        ----------
        n : int
            The number of rows.
        seed : int or numpy Generator, optional
            The source of randomness.

        Returns
        -------
        Sample
            A dict from node to an array of `n` numbers, with `to_frame`.
        """
        size, rng = as_sample_size(n), np.random.default_rng(seed)
        columns: dict[Node, NDArray[np.float64]] = {}
        for node in self.dag.topological_order():
            equation = self.equations[node]
            columns[node] = equation.intercept + equation.sd * rng.standard_normal(size)
            for parent, coef in zip(equation.parents, equation.coef, strict=True):
                columns[node] += coef * columns[parent]
        return Sample({node: columns[node] for node in self.dag.nodes})

    def __repr__(self) -> str:
        return f"GaussianNetwork({len(self.dag)} nodes, {self.dag.n_edges} →)"


def _checked(node: Node, equation: LinearEquation) -> LinearEquation:
    if len(equation.parents) != len(equation.coef):
        raise GraphError(
            f"Expected a coefficient for each of the {len(equation.parents)} parents of node {node!r} "
            f"({listing(equation.parents)}), got {len(equation.coef)}."
        )
    if not np.isfinite([*equation.coef, equation.intercept, equation.sd]).all() or equation.sd < 0:
        raise GraphError(f"Expected finite coefficients and sd ≥ 0 for node {node!r}, got {equation}.")
    return equation


def _parsed(node: str, fields: Any) -> LinearEquation:
    where = f"node {node!r}"
    if not isinstance(fields, dict) or sorted(fields) != sorted(_FIELDS):
        got = listing(fields) if isinstance(fields, dict) else repr(fields)
        raise GraphError(f"{where}: expected an object with {listing(_FIELDS)}, got {got}.")
    parents, coef, intercept, sd = (fields[name] for name in _FIELDS)
    if not isinstance(parents, list) or not isinstance(coef, list) or not all(isinstance(p, str) for p in parents):
        raise GraphError(f"{where}: expected lists for parents and coef, got {parents!r} and {coef!r}.")
    numbers = [*coef, intercept, sd]
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise GraphError(f"{where}: expected numbers for coef, intercept and sd, got {numbers!r}.")
    try:
        return LinearEquation(tuple(parents), tuple(map(float, coef)), float(intercept), float(sd))
    except OverflowError as problem:
        raise GraphError(f"{where}: expected numbers that fit into float64: {problem}.") from problem
