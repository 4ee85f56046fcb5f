"""Arrays elsewhere: the verbs in an array library against the search in memory, and bounds on what rounding does.

NumPy is the library where PyTorch is not installed; a GPU is tried where there is one.
"""

from __future__ import annotations

import math
import os
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from engine_cases import KINDS, of_another_family, trail_of
from fbed._kernels import DenseColumns
from fbed.cli.command import main
from fbed.errors import InvalidInput
from fbed.matrix.array_library import place_of
from fbed.matrix.device_columns import ROUGH, FloatColumns
from fbed.matrix.device_packed import PackedOnDevice
from fbed.models.engines.tall import array_sums
from plink_files import imputed, packed, random_codes
from problem_cases import read_problem
from test_certified import assert_same, combination
from test_genotypes import cohort, same

try:
    import torch
except ImportError:
    torch = None
DEVICES = ["numpy", *(["cpu"] if torch else []), *(["cuda"] if torch and torch.cuda.is_available() else [])]
SEEDS = int(os.environ.get("FBED_DEVICE_SEEDS", "1"))


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def however_few(monkeypatch):
    """A quick look at however few candidates."""
    monkeypatch.setattr(array_sums, "_MANY", 1)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_equals_exhaustive(device, however_few, kind, family, seed):
    number = KINDS.index(kind)
    rng = np.random.default_rng([23, number, seed, len(family)])
    case = kind(rng, family if family == "gaussian" else "binomial")
    if family == "poisson":
        case = of_another_family(kind(rng, "gaussian"), rng, family)
    if sparse.issparse(case.X):
        pytest.skip("a sparse matrix stays in memory")
    criterion, algorithm = combination(7 * number + seed)
    options = {**algorithm, "max_features": 4}
    slow = trail_of(case, family, criterion, "exhaustive", **options)
    assert_same(slow, trail_of(case, family, criterion, "certified", device=device, **options))


def mixed_table(rng, n=500):
    """Numbers of several types, categories, counts and copies; some of them missing."""
    table = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    table["few"] = rng.choice(list("xyz"), n)
    table["count"] = rng.poisson(0.5, n).astype(np.int8)
    table["flag"] = rng.random(n) < 0.3
    table["a again"] = 3.0 * table["a"] + 1.0
    table["single"] = rng.normal(size=n).astype(np.float32)
    table["gappy"] = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    signal = table["a"] + table["count"] + (table["few"] == "x") + 0.5 * table["gappy"].fillna(0.0)
    return table, signal.to_numpy()


@pytest.mark.parametrize("options", [{}, {"early_dropping": False}, {"criterion": "bic", "k": math.inf}], ids=str)
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_tables_with_everything(device, however_few, family, options):
    rng = np.random.default_rng(len(family))
    table, signal = mixed_table(rng)
    outcomes = {
        "gaussian": signal + rng.normal(size=len(signal)),
        "binomial": (signal + rng.logistic(size=len(signal)) > 1).astype(int),
        "poisson": rng.poisson(np.exp(0.3 * signal)),
    }
    common = {
        "family": family,
        "groups": {"pair": ["c", "d"]},
        "include": ["few"],
        "missing": "indicator",
        "sample_weight": rng.integers(0, 4, len(signal)),
        **({"offset": 0.1 * table["b"]} if family != "gaussian" else {}),
        **options,
    }
    found = fbed.select(table, outcomes[family], device=device, **common)
    same(found, fbed.select(table, outcomes[family], **common))


def test_genotypes(device, however_few, tmp_path):
    rng = np.random.default_rng(5)
    _, stem, table, _ = cohort(tmp_path, rng, 1003, 60)
    found = fbed.genotypes(stem, table)
    for family, target in (("gaussian", "linear"), ("binomial", "case"), ("poisson", "events")):
        for options in ({}, {"alpha": 1e-3, "sample_weight": "copies"}):
            common = {"family": family, "include": ["age", "sex"], **options}
            same(fbed.select(found, target, device=device, **common), fbed.select(found, target, **common))


def hostile_columns(rng, n):
    """Far from zero, of other sizes, heavy-tailed, rare, with a few equal values, constant."""
    X = rng.normal(size=(n, 12))
    X[:, 1] += 1e3
    X[:, 2] *= 1e-25
    X[:, 3] *= 1e18
    X[:, 4] = rng.standard_t(1, n)
    X[:, 5] = rng.random(n) < 0.01
    X[:, 6] = 7.0
    X[:, 7] = np.round(X[:, 7])
    X[:, 8] = X[:, 0] * 5 - 3
    X[:, 9] = 1e6 + X[:, 9] * 1e-3
    return X


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("n", [5, 1000, 3100])
def test_moments_and_bounds_of_numbers(device, n, kind, weighted):
    rng = np.random.default_rng(n)
    X = hostile_columns(rng, n).astype(kind)
    weights = rng.integers(1, 5, n).astype(float) if weighted else np.ones(n)
    place = place_of(device)
    kernel = FloatColumns(place, place.put(X))
    stats = kernel.stats(weights, weights.sum(), 0, 12)
    expected = DenseColumns(X).stats(weights, weights.sum(), 0, 12)
    np.testing.assert_allclose(stats[:, 0], expected[:, 0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(stats[:, 1], expected[:, 1], rtol=1e-10)
    np.testing.assert_array_equal(stats[:, 2:4], expected[:, 2:4])
    kernel.roughly = True
    rough = kernel.stats(weights, weights.sum(), 0, 12)
    assert (np.abs(rough[:, 0] - expected[:, 0]) <= ROUGH * expected[:, 1] + 1e-300).all()
    np.testing.assert_allclose(rough[:, 1], expected[:, 1], rtol=ROUGH / 4)
    which = np.flatnonzero(expected[:, 1] > 0)
    center, scale = np.ascontiguousarray(expected[:, 0]), np.ascontiguousarray(expected[:, 1])
    V = rng.normal(size=(n, 4)) * [1.0, 1e-3, 1e4, 1.0]
    V[:, 1] = np.abs(V[:, 1])
    norm = np.sqrt((X.astype(float) ** 2).sum(axis=0))
    standard = (X.astype(np.longdouble) - center) / np.where(scale > 0, scale, 1.0)
    check_quick(place, kernel, which, center, scale, norm, V, standard)


def check_quick(place, kernel, which, center, scale, norm, V, standard):
    """What is found quickly is no further from the truth than it says, and what is found exactly is exact."""
    along, own = standard[:, which].T @ V, (standard[:, which] ** 2).T @ V[:, 1]
    length = np.sqrt((V**2).sum(axis=0))
    exact = kernel.exact(which, center, scale, place.put(V), True)
    size = np.sqrt(len(V)) * (1 + np.abs(center[which]) / scale[which])
    assert (np.abs(place.host(exact[0]) - along) <= 1e-12 * size[:, None] * length).all()
    quick = kernel.quick(which, center, scale, norm[which], place.put(V), True)
    with np.errstate(invalid="ignore"):
        wrong = np.abs(place.host(quick.along) - along)
        by_own = np.abs(place.host(quick.own) - own)
    bound = quick.by_column[:, None] * quick.by_vector
    assert ((wrong <= bound) | np.isinf(bound)).all()
    assert ((by_own <= quick.by_own) | np.isinf(quick.by_own)).all()
    assert np.isfinite(bound).any()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [5, 1000, 3103])
def test_moments_and_bounds_of_genotypes(device, n, weighted):
    rng = np.random.default_rng(n)
    codes = random_codes(rng, n, 40, missing=0.03)
    weights = rng.integers(1, 5, n).astype(float) if weighted else np.ones(n)
    dense, place = imputed(codes, weights), place_of(device)
    bytes_ = packed(codes)
    bytes_ = np.pad(bytes_, ((0, 0), (0, -bytes_.shape[1] % 4)))
    kernel = PackedOnDevice(place, place.put(bytes_), n)
    stats = kernel.stats(weights, weights.sum(), 0, 40)
    center = np.average(dense, axis=0, weights=weights)
    scale = np.sqrt(np.average((dense - center) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(stats[:, 0], center, atol=1e-12)
    np.testing.assert_allclose(stats[:, 1], scale, atol=1e-12)
    which = np.flatnonzero(stats[:, 1] > 0)
    center, scale = np.ascontiguousarray(stats[:, 0]), np.ascontiguousarray(stats[:, 1])
    V = rng.normal(size=(n, 5)) * [1.0, 0.2, 1e-6, 30.0, 0.0]
    V[:, 1] = np.abs(V[:, 1])
    standard = (dense.astype(np.longdouble) - center) / np.where(scale > 0, scale, 1.0)
    norm = np.sqrt((standard.astype(float) ** 2).sum(axis=0)) * (1 + 1e-9)
    check_quick(place, kernel, which, center, scale, norm, V, standard)
    assert (kernel.quick(which, center, scale, norm[which], place.put(V), True).by_vector[:4] < 1e-5 * 40 * n).all()


def test_quick_looks_decide_nearly_everything(device):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 1500)).astype(np.float32)
    y = (X[:, :3].sum(axis=1) + 2 * rng.logistic(size=4000) > 0).astype(int)
    problem = read_problem(X, y, [fbed.BIC()], device=device)
    fit = problem.model.fit([0])
    bounds = fit.gain_bounds(np.arange(1, 1500), lambda df: np.full(len(df), 25.0))
    assert problem.model.sums.n_looked == 1499
    assert problem.model.sums.n_closer < 250  # the first look only bounds what candidates have of their own
    assert np.median((bounds.upper - bounds.lower) / bounds.upper) < 0.5


def test_the_same_bits_again(device):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 600)).astype(np.float32)
    y = (X[:, 0] + rng.logistic(size=3000) > 0).astype(int)
    one, other = (fbed.select(X, y, device=device) for _ in range(2))
    assert one.candidates.lower.tolist() == other.candidates.lower.tolist()
    assert [row.statistic for row in one.trace] == [row.statistic for row in other.trace]
    assert any("computed on" in note for note in one.notes)


@pytest.mark.parametrize("kind", [np.float16, np.int8, np.int64, np.bool_, np.uint16])
def test_small_types(device, kind):
    rng = np.random.default_rng(6)
    X = rng.integers(0, 2 if kind is np.bool_ else 9, (400, 6)).astype(kind)
    y = X[:, 1].astype(float) - X[:, 2] + rng.normal(size=400)
    same(fbed.select(X, y, device=device), fbed.select(X, y))


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
def test_tensors():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 6))
    y = X[:, 1] + rng.normal(size=300)
    expected = fbed.select(X, y)
    same(fbed.select(torch.as_tensor(X), y), expected)
    same(fbed.select(torch.as_tensor(X), y, device="cpu"), expected)
    if torch.cuda.is_available():
        on_gpu = torch.as_tensor(X, device="cuda")
        same(fbed.select(on_gpu, torch.as_tensor(y, device="cuda").cpu().numpy()), expected)
        weights = np.r_[np.zeros(10), np.ones(290)]
        same(fbed.select(on_gpu, y, sample_weight=weights), fbed.select(X, y, sample_weight=weights))
        with pytest.raises(InvalidInput, match="infinite"):
            fbed.select(torch.where(on_gpu > 2, torch.inf, on_gpu), y)


@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8])
def test_arrays_of_cupy(kind, order):
    cupy = pytest.importorskip("cupy")
    rng = np.random.default_rng(8)
    X = np.asarray(rng.integers(-9, 9, (500, 40)), dtype=kind, order=order)
    y = (X[:, 1] - X[:, 2] + 5 * rng.logistic(size=500) > 0).astype(int)
    same(fbed.select(cupy.asarray(X), y), fbed.select(X, y))


@pytest.mark.parametrize("command", ["select", "path"])
def test_on_the_command_line(device, command, tmp_path, capsys):
    rng = np.random.default_rng(10)
    X = rng.normal(size=(200, 5))
    table = np.column_stack([X, X[:, 1] + rng.normal(size=200)])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,c,d,e,y", comments="")
    found = []
    for words in ([], ["--device", device]):
        assert main([command, str(tmp_path / "t.csv"), "--target", "y", *words]) == 0
        found.append(re.sub(r"[0-9.]+ (ms|s)\b", "", capsys.readouterr().out))
    assert found[0] == found[1]
    assert main([command, str(tmp_path / "t.csv"), "--target", "y", "--device", "abacus"]) == 2
    assert "abacus" in capsys.readouterr().err


def test_what_cannot_be(device):
    X, y = np.eye(20)[:, :4], np.arange(20.0)
    with pytest.raises(InvalidInput, match="sparse"):
        fbed.select(sparse.csc_array(X), y, device=device)
    with pytest.raises(InvalidInput, match="in memory as numbers"):
        fbed.select(X, y, family="spearman", device=device)
    with pytest.raises(InvalidInput, match="NaN or missing"):
        fbed.select(np.where(X > 0.5, np.nan, X), y, device=device)
    with pytest.raises(InvalidInput, match="infinite"):
        fbed.select(np.where(X > 0.5, np.inf, X), y, device=device)
    if torch and not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match="0 GPUs"):
            fbed.select(X, y, device="cuda")
    if torch:
        with pytest.raises(InvalidInput, match="unknown to PyTorch"):
            fbed.select(X, y, device="abacus")
