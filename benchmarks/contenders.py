"""What is raced. Run as a program, it is one contender in a process of its own: made ready, then called at request.

A contender is a function that gets a problem and a number of threads, prepares what may be prepared outside the clock,
and returns the task to be timed; the task's answer is plain data that `checks` can judge. Libraries are imported by
their own contender only, since no environment has them all.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.problems import Problem, read

ALPHA = 0.05
N_LAMBDAS = 100
MARK = "@@ "  # begins the lines that are meant for the race; libraries print what they like

Answer = dict[str, Any]
Task = Callable[[], Answer]

SEARCHES: dict[str, dict[str, Any]] = {
    "FBED^0": {"k": 0},
    "FBED^1": {"k": 1},
    "FBED^∞": {"k": math.inf},
    "FBS": {"early_dropping": False},
}
BY_EBIC: dict[str, dict[str, Any]] = {
    "FBED^0 by EBIC": {"k": 0, "criterion": "ebic"},
    "FBED^1 by EBIC": {"k": 1, "criterion": "ebic"},
}


def searching(search: str, engine: str = "certified", **more: Any) -> Callable[[Problem, int], Task]:
    """One of our searches, LR test at α = .05 unless it says otherwise."""
    asked = {"alpha": ALPHA, **SEARCHES[search]} if search in SEARCHES else BY_EBIC[search]

    def ready(problem: Problem, threads: int) -> Task:
        import fbed

        options = {"family": "binomial", "n_jobs": threads, "engine": engine, **asked, **more}

        def task() -> Answer:
            return selection(fbed.select(problem.X, problem.y, **options))

        return task

    return ready


def selection(result: Any) -> Answer:
    return {"selected": result.indices.tolist(), "tests": int(result.n_tests.total), "status": result.status}


def glmnet(problem: Problem, threads: int) -> Task:
    """The Fortran code of the paper's comparison, as python-glmnet wraps it; it knows no threads."""
    from glmnet import LogitNet

    ratio = smallest_lambda_ratio(problem)

    def task() -> Answer:
        model = LogitNet(n_lambda=N_LAMBDAS, n_splits=0, min_lambda_ratio=ratio).fit(problem.X, problem.y)
        nonzero = int((np.squeeze(model.coef_path_) != 0).sum(axis=0).max())
        return {"lambdas": model.lambda_path_.tolist(), "most_nonzero": nonzero}

    return task


def skglm(problem: Problem, threads: int) -> Task:
    """The same path by a working-set solver, on columns that were scaled beforehand; it knows no threads."""
    from skglm.datafits import Logistic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD
    from skglm.utils.jit_compilation import compiled_clone

    X, sign = scaled(problem.X), 2.0 * problem.y - 1.0
    largest = largest_lambda(X, problem.y)
    lambdas = largest * np.geomspace(1.0, smallest_lambda_ratio(problem), N_LAMBDAS)
    datafit, penalty = compiled_clone(Logistic()), compiled_clone(L1(1.0))

    def path(lambdas: np.ndarray) -> Answer:
        done, coefficients, _ = AndersonCD().path(X, sign, datafit, penalty, alphas=lambdas)
        return {"lambdas": done.tolist(), "most_nonzero": int((coefficients[:-1] != 0).sum(axis=0).max())}

    path(lambdas[:2])  # compiles
    return lambda: path(lambdas)


def adelie(problem: Problem, threads: int) -> Task:
    """The path by block coordinate descent in C++; it ends where glmnet would end it, not at its own nine tenths."""
    from adelie import grpnet
    from adelie.glm import binomial
    from adelie.matrix import dense, standardize
    from adelie.matrix import sparse as without_zeros

    ratio = smallest_lambda_ratio(problem)
    stop = {"adev_tol": 0.999, "ddev_tol": 1e-5}

    def task() -> Answer:
        columns = (
            without_zeros(problem.X, n_threads=threads) if problem.is_sparse else dense(problem.X, n_threads=threads)
        )
        path = grpnet(
            X=standardize(columns), glm=binomial(y=problem.y), min_ratio=ratio, lmda_path_size=N_LAMBDAS,
            n_threads=threads, progress_bar=False, **stop,
        )  # fmt: skip
        return {"lambdas": list(path.lmdas), "most_nonzero": int((path.betas != 0).sum(axis=1).max())}

    return task


def abess(problem: Problem, threads: int) -> Task:
    """Best-subset selection by splicing, with its own defaults."""
    from abess import LogisticRegression

    y = problem.y.astype(int)

    def task() -> Answer:
        model = LogisticRegression(thread=threads).fit(problem.X, y)
        return {"size": int(np.count_nonzero(model.coef_))}

    return task


def sequential(problem: Problem, threads: int) -> Task:
    """scikit-learn's forward selection of 10 variables by 5-fold cross-validation of unpenalised fits."""
    from sklearn.feature_selection import SequentialFeatureSelector
    from sklearn.linear_model import LogisticRegression

    X = scaled(problem.X)
    model = LogisticRegression(C=np.inf, max_iter=1000)
    selector = SequentialFeatureSelector(model, n_features_to_select=10, cv=5, n_jobs=threads)
    return lambda: {"size": int(selector.fit(X, problem.y).get_support().sum())}


def statsmodels_loop(problem: Problem, threads: int) -> Task:
    """FBED^1 with one library fit a test; it has to select what we select."""
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.generalized_linear_model import GLM

    from benchmarks.loop import fbed1

    X = np.column_stack([np.ones(len(problem.y)), scaled(problem.X)])

    def log_likelihood(S: list[int]) -> float:
        return GLM(problem.y, X[:, [0, *(s + 1 for s in S)]], family=Binomial()).fit(tol=1e-10).llf

    def task() -> Answer:
        selected, tests = fbed1(log_likelihood, problem.shape[1], df=1, alpha=ALPHA)
        return {"selected": selected, "tests": tests}

    return task


def scaled(X: Any) -> Any:
    """Columns of variance 1; dense ones also of mean 0."""
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = X.multiply(X).mean(axis=0) if sparse.issparse(X) else (X**2).mean(axis=0)
    deviation = np.sqrt(np.maximum(np.asarray(square).ravel() - mean**2, 0.0))
    factor = 1.0 / np.where(deviation > 0, deviation, 1.0)
    return (X @ sparse.diags(factor)).tocsc() if sparse.issparse(X) else np.asfortranarray((X - mean) * factor)


def largest_lambda(scaled_X: Any, y: np.ndarray) -> float:
    """Where the path begins: the smallest penalty that keeps every coefficient at 0."""
    return float(np.abs(scaled_X.T @ (y - y.mean())).max() / len(y))


def smallest_lambda_ratio(problem: Problem) -> float:
    """R's default."""
    n, p = problem.shape
    return 0.01 if n < p else 1e-4


@dataclass(frozen=True)
class Contender:
    """`environment` has the library; a `slow` one is raced on small sets only, and once if it takes long."""

    name: str
    environment: str
    ready: Callable[[Problem, int], Task] | None  # None: a program in another language
    kind: str  # what its answer is: a 'search', a LASSO 'path', or a 'subset' of another definition
    slow: bool = False
    threaded: bool = True


CONTENDERS = {
    contender.name: contender
    for contender in (
        *(Contender(f"fbed {search}", "own", searching(search), "search") for search in SEARCHES),
        *(Contender(f"fbed {search}", "own", searching(search), "search") for search in BY_EBIC),
        Contender("glmnet (PyPI)", "glmnet", glmnet, "path", threaded=False),
        Contender("glmnet (R)", "R", None, "path", threaded=False),
        Contender("adelie", "peers", adelie, "path"),
        Contender("skglm path", "peers", skglm, "path", threaded=False),
        Contender("abess", "peers", abess, "subset"),
        Contender("SequentialFeatureSelector", "own", sequential, "subset", slow=True),
        Contender("statsmodels loop FBED^1", "own", statsmodels_loop, "search", slow=True),
        *(Contender(f"twin {search}", "own", searching(search, "exhaustive"), "search") for search in SEARCHES),
    )
}


def serve(name: str, file: str, threads: int, limit: float) -> None:
    """Say that all is ready, then answer every line that comes in with one timed call.

    The system ends the process when a call has used `limit` processor seconds a thread.
    """
    warnings.simplefilter("ignore")
    ready = CONTENDERS[name].ready
    if ready is None:
        raise SystemExit(f"{name} is no Python program")
    task = ready(read(file), threads)
    say({"ready": True})
    for _ in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, limit * threads)
        wall, processor = time.perf_counter(), time.process_time()
        answer = task()
        say({"wall": time.perf_counter() - wall, "cpu": time.process_time() - processor, "answer": answer})


def say(message: dict[str, Any]) -> None:
    print(MARK + json.dumps(message), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
