"""How numbers are stored changes no answer, and no matrix is ever converted or densified as a whole."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import fbed
import fbed.matrix.design
from fbed._kernels import DenseColumns, SparseColumns


def data(seed, family, binary=False, n=220, p=300):
    """Small integers, which every type holds exactly."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 2, (n, p)) if binary else rng.integers(-4, 5, (n, p))
    X = np.where(rng.uniform(size=(n, p)) < np.where(np.arange(p) % 2, 0.1, 0.9), dense, 0)
    signal = X[:, :6] @ rng.normal(size=6) + rng.logistic(size=n)
    return X, signal if family == "gaussian" else (signal > np.median(signal)).astype(int)


STORED = {
    "float32": lambda X: X.astype(np.float32, order="F"),
    "float32, C": lambda X: X.astype(np.float32, order="C"),
    "float64, C": lambda X: np.ascontiguousarray(X, dtype=np.float64),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "int8": lambda X: X.astype(np.int8, order="F"),
    "int8, C": lambda X: X.astype(np.int8, order="C"),
    "int16": lambda X: X.astype(np.int16, order="F"),
    "int64, other byte order": lambda X: X.astype(">i8"),
    "between words": lambda X: np.ndarray(X.shape, np.float64, b"0" + X.astype(np.float64).tobytes(), offset=1),
    "every second of twice as many": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "CSC int8": lambda X: sparse.csc_array(X.astype(np.int8)),
    "CSC float64": lambda X: sparse.csc_matrix(X.astype(np.float64)),
    "CSR int16": lambda X: sparse.csr_array(X.astype(np.int16)),
    "COO float32": lambda X: sparse.coo_array(X.astype(np.float32)),
}


def assert_same(result, expected, rtol=1e-9):
    assert result.indices.tolist() == expected.indices.tolist()
    assert result.n_tests == expected.n_tests
    assert result.status == expected.status
    for row, wanted in zip(result.trace, expected.trace, strict=True):
        assert row.variable == wanted.variable
        assert row.dropped.tolist() == wanted.dropped.tolist()
        assert row.statistic == (wanted.statistic and pytest.approx(wanted.statistic, rel=rtol))


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
@pytest.mark.parametrize("stored", STORED)
def test_any_storage(stored, family):
    X, y = data(0, family)
    expected = fbed.select(np.asfortranarray(X, dtype=np.float64), y, family=family, criterion="aic", k=1)
    assert len(expected.indices) > 3
    assert_same(fbed.select(STORED[stored](X), y, family=family, criterion="aic", k=1), expected)


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
@pytest.mark.parametrize("convert", [lambda X: X, sparse.csc_array, sparse.csr_array], ids=["dense", "CSC", "CSR"])
def test_booleans(convert, family):
    X, y = data(1, family, binary=True)
    expected = fbed.select(X.astype(np.float64), y, family=family, alpha=0.1)
    assert_same(fbed.select(convert(X.astype(bool)), y, family=family, alpha=0.1), expected)


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
@pytest.mark.parametrize("convert", [np.asfortranarray, np.ascontiguousarray, sparse.csc_array], ids=["F", "C", "CSC"])
def test_threads_change_no_bit(convert, family):
    X, y = data(2, family, n=150, p=4000)
    X = convert(X.astype(np.float64))
    one, two, all_of_them = (fbed.select(X, y, family=family, alpha=0.1, n_jobs=n) for n in (1, 2, -1))
    for other in (two, all_of_them):
        assert other.indices.tolist() == one.indices.tolist()
        assert [row.statistic for row in other.trace] == [row.statistic for row in one.trace]
        assert (other.candidates.lower == one.candidates.lower).all()
        assert (other.candidates.upper == one.candidates.upper).all()
        assert other.model.coefficients == one.model.coefficients


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
@pytest.mark.parametrize("n", [300, 21_000])
@pytest.mark.parametrize("dtype", [np.float64, np.int8])
def test_rows_without_room_for_a_copy(monkeypatch, dtype, n, family):
    """A row-major matrix, part of a wider one, is read as it lies, by both engines."""
    X, y = data(5, family, n=n, p=60)
    expected = fbed.select(np.asfortranarray(X, dtype=dtype), y, family=family, alpha=0.01)
    monkeypatch.setattr(fbed.matrix.design, "_ALWAYS_COPIED", 0)
    monkeypatch.setattr(fbed.matrix.design, "available_memory", lambda: 0)
    part = np.column_stack([y, X]).astype(dtype)[:, 1:]
    assert fbed.matrix.design._kernel_columns(part, 1, True).is_across
    assert_same(fbed.select(part, y, family=family, alpha=0.01), expected)


def test_a_copy_is_made_by_threads(monkeypatch):
    monkeypatch.setattr(fbed.matrix.design, "_ROWS_AT_ONCE", 7)
    X = np.random.default_rng(6).normal(size=(100, 23))
    copy = fbed.matrix.design._along_columns(X, 2, True)
    assert copy.flags.f_contiguous
    assert (copy == X).all()
    assert fbed.matrix.design._along_columns(copy, 2, True) is copy


class Watched(DenseColumns):
    """Remembers the type it was given and the largest block it was asked for."""

    given: np.dtype
    largest = 0

    def __init__(self, matrix):
        super().__init__(matrix)
        Watched.given = matrix.dtype

    def gather(self, which, center, scale):
        block = super().gather(which, center, scale)
        Watched.largest = max(Watched.largest, block.nbytes)
        return block


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.int8, bool])
@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_small_types_are_converted_a_block_at_a_time(monkeypatch, dtype, family):
    X, y = data(3, family, binary=dtype is bool, n=400, p=20_000)
    X = X.astype(dtype, order="F")
    monkeypatch.setattr(fbed.matrix.design, "DenseColumns", Watched)
    Watched.largest = 0
    tracemalloc.start()
    fbed.select(X, y, family=family, criterion="ebic", k=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert Watched.given.itemsize == X.dtype.itemsize
    assert Watched.largest < X.size * 8 / 16  # bytes of the whole matrix as float64: 64 MB
    assert peak < X.size * 8 / 4


class Spied(SparseColumns):
    """Counts the columns that are written out."""

    written = 0

    def gather(self, which, center, scale):
        Spied.written += len(which)
        return super().gather(which, center, scale)


def test_sparse_columns_are_not_written_out(monkeypatch):
    rng = np.random.default_rng(4)
    X = sparse.random_array((300, 5000), density=0.02, rng=rng, format="csc")
    y = (X[:, [0]].toarray().ravel() * 8 + rng.logistic(size=300) > 0.5).astype(int)
    monkeypatch.setattr(fbed.matrix.design, "SparseColumns", Spied)
    for forbidden in ("toarray", "todense"):
        monkeypatch.setattr(sparse.csc_array, forbidden, _never, raising=True)
    Spied.written = 0
    result = fbed.select(X, y, k=1, criterion="bic")
    assert Spied.written <= 20 * (1 + len(result.trace))  # selected columns and candidates fitted one by one


def _never(*_args, **_options):
    raise AssertionError("the matrix was densified")


MILLION = """
import resource, numpy as np, fbed
from scipy import sparse
n, p, each = 200, 1_000_000, 3
rng = np.random.default_rng(0)
rows = (np.arange(each) * 61 + rng.integers(0, 61, (p - 1, each))).astype(np.int32).ravel()
start = np.arange(0, (p - 1) * each + 1, each, dtype=np.int32)
rare = sparse.csc_array((np.ones((p - 1) * each, np.int8), rows, start), shape=(n, p - 1))
real = (rng.uniform(size=(n, 1)) < 0.4).astype(np.int8)
X = sparse.hstack([rare[:, :500_000], sparse.csc_array(real), rare[:, 500_000:]], format="csc")
y = (3 * real.ravel() + rng.logistic(size=n) > 1).astype(int)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for family, outcome in (("binomial", y), ("gaussian", 3 * y + rng.normal(size=n))):
    result = fbed.select(X, outcome, family=family, criterion="ebic", k=0)
    assert result.indices.tolist()[:1] == [500_000], (family, result.indices)
    assert result.n_tests.forward >= 1_000_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the resident memory is measured by the resource module")
def test_a_million_sparse_columns():
    """As float64 they would take 1.6 GB."""
    done = subprocess.run([sys.executable, "-c", MILLION], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    added = int(done.stdout) * (1 if sys.platform == "darwin" else 1024)
    assert added < 3e8
