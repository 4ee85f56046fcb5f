"""How well time limits and Ctrl-C hold, family by family: ``python -m tests.limits``.

Every search here takes a minute or more when nothing ends it. It is run with a time limit, and again with an interrupt,
each in a process of its own, and what is told is by how much it went on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import fbed

Case = Callable[[np.random.Generator, float], dict[str, Any]]


def numbers(rng: np.random.Generator, n: float, p: float, **rest: Any) -> dict[str, Any]:
    """Columns of which every fifth matters a little, so that there are many steps."""
    X = rng.normal(size=(int(n), int(p)))
    signal_ = X[:, ::5].sum(axis=1) * 0.3
    return {"X": X, "signal": signal_, "early_dropping": False, "n_jobs": 1, **rest}


def _with_outcome(make: Callable[[np.random.Generator, Any], Any], n: float, p: float, **rest: Any) -> Case:
    def case(rng: np.random.Generator, size: float) -> dict[str, Any]:
        asked = numbers(rng, n * size, p, **rest)
        asked["y"] = make(rng, asked.pop("signal"))
        for name in ("cluster", "strata"):
            if name in asked:
                asked[name] = np.arange(len(asked["X"])) // asked[name]
        return asked

    return case


def _normal(rng: np.random.Generator, eta: Any) -> Any:
    return eta + rng.normal(size=len(eta))


def _two(rng: np.random.Generator, eta: Any) -> Any:
    return (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int)


def _several(k: int) -> Callable[[np.random.Generator, Any], Any]:
    return lambda rng, eta: np.array([f"c{i:03}" for i in rng.permutation(len(eta)) % k])


def _ordered(k: int) -> Callable[[np.random.Generator, Any], Any]:
    return lambda rng, eta: np.digitize(_normal(rng, eta), np.linspace(-2, 2, k - 1))


def _counts(rng: np.random.Generator, eta: Any) -> Any:
    return rng.poisson(np.exp(np.clip(eta / 3, -3, 3)) * rng.gamma(2, 0.5, size=len(eta)))


def _positive(rng: np.random.Generator, eta: Any) -> Any:
    return np.exp(np.clip(eta / 3, -5, 5)) * rng.exponential(size=len(eta)) + 1e-9


def _survival(rng: np.random.Generator, eta: Any) -> Any:
    return np.round(_positive(rng, eta), 2) + 0.01, rng.random(len(eta)) < 0.7


def slow_test(candidate: Any, y: Any, conditioning: Any) -> tuple[float, float, float]:
    """A test of one's own that takes its time."""
    time.sleep(0.05)
    return 1.0, 1.0, -0.1


def _coded(rng: np.random.Generator, size: float) -> dict[str, Any]:
    n = int(200_000 * size)
    return {
        "X": rng.integers(4, size=(n, 200)).astype(np.int8),
        "y": rng.integers(3, size=n).astype(str),
        "family": "gsquare",
        "early_dropping": False,
    }


def _levels(rng: np.random.Generator, size: float) -> dict[str, Any]:
    """Text columns of many levels."""
    n = int(20_000 * size)
    X = pd.DataFrame({f"x{j}": pd.Categorical(rng.integers(80, size=n).astype(str)) for j in range(60)})
    return {"X": X, "y": rng.integers(2, size=n), "early_dropping": False, "alpha": 0.5}


def _large_levels(family: str, make: Callable[[np.random.Generator, Any], Any], **rest: Any) -> Case:
    """Categories so large that one product of their columns takes seconds."""

    def case(rng: np.random.Generator, size: float) -> dict[str, Any]:
        n = int(100_000 * size)
        X = pd.DataFrame({f"x{j}": pd.Categorical(rng.integers(300, size=n).astype(str)) for j in range(40)})
        y = make(rng, rng.normal(size=n))
        return {"X": X, "y": y, "family": family, "early_dropping": False, "alpha": 0.9, **rest}

    return case


LARGE_LEVELS: dict[str, Case] = {
    "HC3, large categories": _large_levels("gaussian", _normal, cov="HC3"),
    "negative_binomial, large categories": _large_levels("negative_binomial", _counts),
    "gamma, large categories": _large_levels("gamma", _positive),
    "ordinal, large categories": _large_levels("ordinal", _ordered(4)),
}

CASES: dict[str, Case] = {
    "gaussian": _with_outcome(_normal, 100_000, 600, criterion="aic"),
    "gaussian, exhaustive": _with_outcome(_normal, 50_000, 600, criterion="aic", engine="exhaustive"),
    "gaussian, HC3": _with_outcome(_normal, 30_000, 600, cov="HC3"),
    "gaussian, cluster": _with_outcome(_normal, 30_000, 600, cov="cluster", cluster=100),
    "binomial": _with_outcome(_two, 100_000, 400, criterion="aic"),
    "binomial, exhaustive": _with_outcome(_two, 20_000, 400, engine="exhaustive"),
    "binomial, few columns": _with_outcome(_two, 500_000, 100, criterion="aic"),
    "binomial, many levels": _levels,
    "binomial, score": _with_outcome(_two, 50_000, 400, test="score"),
    "binomial, wald": _with_outcome(_two, 50_000, 400, test="wald"),
    "multinomial, 5 classes": _with_outcome(_several(5), 20_000, 300, alpha=0.9),
    "multinomial, 26 classes": _with_outcome(_several(26), 20_000, 20, alpha=0.9),
    "multinomial, 150 classes": _with_outcome(_several(150), 10_000, 20, alpha=0.9),
    "multinomial, 500 classes": _with_outcome(_several(500), 10_000, 20, alpha=0.9),
    "ordinal": _with_outcome(_ordered(5), 20_000, 300, family="ordinal"),
    "ordinal, 60 classes": _with_outcome(_ordered(60), 20_000, 300, family="ordinal"),
    "poisson": _with_outcome(_counts, 30_000, 400, family="poisson"),
    "negative_binomial": _with_outcome(_counts, 30_000, 400, family="negative_binomial"),
    "gamma": _with_outcome(_positive, 30_000, 400, family="gamma"),
    "weibull": _with_outcome(_survival, 30_000, 400, family="weibull"),
    "cox": _with_outcome(_survival, 30_000, 300),
    "gee": _with_outcome(_normal, 30_000, 300, family="gee", cluster=10),
    "mixed": _with_outcome(_normal, 30_000, 300, family="mixed", cluster=10),
    "quantile": _with_outcome(_normal, 100_000, 100, family="quantile"),
    "robust": _with_outcome(_normal, 200_000, 300, family="robust"),
    "spearman": _with_outcome(_normal, 100_000, 600, family="spearman"),
    "gsquare": _coded,
    **LARGE_LEVELS,
    "one's own": _with_outcome(_normal, 500, 2000, family=slow_test),
}


def search(name: str, size: float, seconds: float, interrupted: bool, n_jobs: int = 1) -> tuple[float, str, int]:
    """By how many seconds a search went beyond its limit (or an interrupt), its status and how many it selected."""
    asked = {**CASES[name](np.random.default_rng(0), size), "n_jobs": n_jobs}
    alarm = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    started = time.perf_counter()
    try:
        if interrupted:
            alarm.start()
        result = fbed.select(asked.pop("X"), asked.pop("y"), time_limit=None if interrupted else seconds, **asked)
        found = result.status, len(result.selected)
        alarm.cancel()
    except KeyboardInterrupt:  # while the table was being read, when there was nothing to return yet
        found = "KeyboardInterrupt", 0
    return time.perf_counter() - started - seconds, *found


def _reported(pipe: Any, *asked: Any) -> None:
    pipe.send(search(*asked))


def apart(*asked: Any, patience: float = 120.0) -> tuple[float, str, int]:
    """The same in a process of its own, which is ended when it goes on for too long."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_reported, args=(send, *asked))
    process.start()
    answered = receive.poll(patience)
    found = receive.recv() if answered else (np.inf, "no end", 0)
    process.kill()
    process.join()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.limits", description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--seconds", type=float, default=2.0, help="time limit, and when to interrupt")
    parser.add_argument("--size", type=float, default=1.0, help="factor on the number of rows")
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    parser.add_argument("--most", type=float, default=1.0, help="seconds that a search may go on")
    arguments = parser.parse_args()
    late = 0
    print(f"{'':<28}{'limit':>8}{'Ctrl-C':>8}   status, variables")
    for name in arguments.cases or CASES:
        found = [apart(name, arguments.size, arguments.seconds, how, arguments.jobs) for how in (False, True)]
        late += sum(over > arguments.most for over, _, _ in found)
        told = "; ".join(f"{status}, {count}" for _, status, count in found)
        print(f"{name:<28}{found[0][0]:>+8.2f}{found[1][0]:>+8.2f}   {told}", flush=True)
    print(f"{late} of {2 * len(arguments.cases or CASES)} went on for more than {arguments.most:g} s")
    return int(late > 0)


if __name__ == "__main__":
    raise SystemExit(main())
