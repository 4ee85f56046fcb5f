"""Packed genotypes in memory: ``python -m benchmarks.genotypes [--rows 50000 --columns 100000 --jobs 2]``.

Passes over the packed matrix next to the bandwidth of the memory, a whole search, and the dense answer on a part.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import fbed
from fbed.matrix.design import Design
from fbed.matrix.stored_blocks import PackedBlocks
from fbed.tables.mixed_storage import Packed
from fbed.tables.table import read_table


def main() -> None:
    """Measure and tell."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rows", type=int, default=50_000)
    asked.add_argument("--columns", type=int, default=100_000)
    asked.add_argument("--jobs", type=int, default=1)
    asked.add_argument("--part", type=int, default=500, help="columns on which the dense search is run as well")
    options = asked.parse_args()
    n, p = options.rows, options.columns
    cohort, y = made(n, p)
    size = cohort.packed.nbytes
    words = cohort.packed.bytes.reshape(-1)[: size // 8 * 8].view(np.uint64)
    seconds, _ = timed(lambda: words.max())
    print(f"{n:,} x {p:,}: {size / 1e9:.2f} GB; the memory alone is read at {size / seconds / 1e9:.1f} GB/s")
    seconds, busy = timed(lambda: Design(read_table(cohort), np.ones(n), options.jobs), 1)
    print(f"moments and extremes: {told(seconds, busy, size)}")
    blocks = PackedBlocks(Design(read_table(cohort), np.ones(n), options.jobs))
    everyone, V = np.arange(p), np.random.default_rng(1).normal(size=(n, 33))
    for width in (1, 2, 12):
        seconds, busy = timed(lambda w=width: blocks.quick(everyone, V[:, :w], own=w > 1), 1)
        print(f"in whole numbers with {width} vectors: {told(seconds, busy, size)}")
    for width in (2, 12):
        seconds, busy = timed(lambda w=width: blocks.products(everyone, lambda part: V[part, :w], w), 1)
        print(f"in float64 with {width} vectors: {told(seconds, busy, size)}")
    started = time.perf_counter()
    result = fbed.select(cohort, y, alpha=0.05 / p, n_jobs=options.jobs)
    print(f"FBED^1, logistic: {time.perf_counter() - started:.2f} s, {result.n_tests.total:,} tests, {result.selected}")
    print(*(note for note in result.notes if "whole numbers" in note))
    compared(cohort, y, options.part)


def timed(work: Callable[[], object], times: int = 3) -> tuple[float, float]:
    """The shortest of some times, on the clock and of the processors."""
    found = []
    for _ in range(times):
        started, busy = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - started, time.process_time() - busy))
    return min(found)


def told(seconds: float, busy: float, size: int) -> str:
    """A pass in words."""
    rate = size / seconds / 1e9
    return f"{seconds:.2f} s ({busy:.2f} s of processors), {1 / seconds:.2f} passes a second, {rate:.2f} GB/s packed"


def made(n: int, p: int) -> tuple[fbed.Genotypes, np.ndarray]:
    """Random genotypes, one in two hundred missing, and an outcome that five of them matter to."""
    rng = np.random.default_rng(0)
    stride = -(-n // 4)
    packed = rng.integers(0, 256, (p, stride), dtype=np.uint8)
    for first in range(0, p, 4096):  # a missing genotype becomes two copies, but for a few
        part = packed[first : first + 4096]
        gone = part & ~(part >> 1) & 0x55
        part[:] = np.where(rng.random(part.shape) < 0.02, part, part & ~gone)
    cohort = fbed.Genotypes(Packed(packed, n), tuple(f"rs{j}" for j in range(p)), tuple(map(str, range(n))))
    causal = [f"rs{j}" for j in (3, 50, 111, 222, 444)]
    signal = cohort.frame(causal).to_numpy() @ [0.1, -0.1, 0.08, 0.07, -0.09]
    return cohort, (signal - signal.mean() + rng.logistic(size=n) > 0).astype(int)


def compared(cohort: fbed.Genotypes, y: np.ndarray, part: int) -> None:
    """The first columns packed and as numbers: the same search."""
    n, names = len(cohort), cohort.variants[:part]
    few = fbed.Genotypes(Packed(cohort.packed.bytes[:part], n), names, cohort.samples)
    one, other = fbed.select(few, y, alpha=1e-4), fbed.select(cohort.frame(names), y, alpha=1e-4)
    gap = max(abs(a.statistic - b.statistic) for a, b in zip(one.trace, other.trace, strict=True) if a.statistic)
    equal = one.selected == other.selected and one.n_tests == other.n_tests
    print(f"on {part} columns as numbers: {'the same' if equal else 'ANOTHER'} answer, statistics within {gap:.1e}")


if __name__ == "__main__":
    main()
