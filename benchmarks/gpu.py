"""Searches on a GPU, on data that are made there: ``python -m benchmarks.gpu`` (``--small --device cpu`` to try it).

Two problems: 50,000 × 200,000 numbers in float32 (40 GB), and 500,000 × 592,555 packed genotypes (74 GB) with 84 causal
ones, the size of the largest problem that was published for this family of algorithms (15 hours on 64 cores).
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from typing import Any

import numpy as np

import fbed
from fbed.tables.on_device import OnDevice

SIZES = {"dense": (50_000, 200_000), "genotypes": (500_000, 592_555)}
SMALL = {"dense": (5_000, 2_000), "genotypes": (6_016, 1_000)}
CAUSAL = 84


def main() -> None:
    """Make the data, search, tell."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--device", default="cuda")
    asked.add_argument("--small", action="store_true")
    asked.add_argument("--repeat", type=int, default=3)
    asked.add_argument("--profile", action="store_true")
    asked.add_argument("--set", nargs="*", default=[], metavar="MODULE.NAME=VALUE", help="constants to try")
    asked.add_argument("problems", nargs="*", default=["dense", "genotypes"])
    options = asked.parse_args()
    for setting in options.set:
        name, value = setting.split("=")
        setattr(importlib.import_module("fbed." + name.rpartition(".")[0]), name.rpartition(".")[2], int(value))
    for name in options.problems:
        n, p = (SMALL if options.small else SIZES)[name]
        X, y, causal = (dense if name == "dense" else genotypes)(n, p, options.device)
        for _ in range(options.repeat):
            print(json.dumps(searched(name, X, y, causal, p, options.device)), flush=True)
        if options.profile:
            profiled(X, y, p, options.device)
        del X


def searched(name: str, X: Any, y: Any, causal: set[int], p: int, device: str) -> dict[str, Any]:
    """FBED^1 with both phases at Bonferroni's level, and what it took."""
    _wait(device)
    started = time.perf_counter()
    result = fbed.select(X, y, family="binomial", alpha=0.05 / p, **_where(X, device))
    _wait(device)
    seconds = time.perf_counter() - started
    found = set(result.indices.tolist())
    return {
        "problem": name,
        "seconds": round(seconds, 4),
        "search": round(sum(row.seconds for row in result.trace), 4),
        "selected": len(found),
        "causal found": len(found & causal),
        "of": len(causal),
        "tests": result.n_tests.total,
        "scans": [[row.tested, round(row.seconds, 4)] for row in result.trace][:6],
        "notes": [note for note in result.notes if "computed on" in note],
    }


def _where(X: Any, device: str) -> dict[str, Any]:
    return {} if isinstance(X, fbed.Genotypes) or device != "cpu" else {"device": device}


def profiled(X: Any, y: Any, p: int, device: str) -> None:
    """Where the time goes."""
    import cProfile
    import pstats

    profile = cProfile.Profile()
    profile.enable()
    fbed.select(X, y, family="binomial", alpha=0.05 / p, **_where(X, device))
    _wait(device)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(28)


def _wait(device: str) -> None:
    import torch

    if device != "cpu":
        torch.cuda.synchronize()


def dense(n: int, p: int, device: str) -> tuple[Any, Any, set[int]]:
    """Normal numbers, a column after the other, ten of which matter."""
    import torch

    torch.manual_seed(1)
    X = torch.empty((p, n), device=device, dtype=torch.float32).normal_().T
    causal = set(np.random.default_rng(1).choice(p, 10, replace=False).tolist())
    signal = X[:, sorted(causal)].double() @ torch.linspace(0.1, 0.3, 10, device=device, dtype=torch.float64)
    return X, _classes(signal), causal


def _classes(signal: Any) -> Any:
    import torch

    chance = torch.sigmoid(signal - signal.mean())
    return (torch.rand(len(signal), device=signal.device) < chance).cpu().numpy().astype(int)


def genotypes(n: int, p: int, device: str) -> tuple[fbed.Genotypes, Any, set[int]]:
    """Independent variants in equilibrium, of frequencies from .05 to .5, packed where they are made."""
    import torch

    torch.manual_seed(2)
    stride = -(-n // 16) * 4
    packed = torch.empty((p, stride), device=device, dtype=torch.uint8)
    frequency = torch.rand(p, device=device) * 0.45 + 0.05
    step = max(1, 2**31 // (4 * stride)) if device != "cpu" else 100
    for first in range(0, p, step):
        packed[first : first + step] = _variants(frequency[first : first + step], stride, n)
    rng = np.random.default_rng(2)
    causal = sorted(rng.choice(p, min(CAUSAL, p // 20), replace=False).tolist())
    effects = rng.choice([-1.0, 1.0], len(causal)) * rng.uniform(0.06, 0.15, len(causal)) * (1 if n > 100_000 else 5)
    signal = torch.zeros(n, device=device, dtype=torch.float64)
    for j, effect in zip(causal, effects.tolist(), strict=True):
        signal += effect * _copies(packed[j : j + 1])[0, :n].double()
    stored = OnDevice(packed, device, n, packed=True)
    cohort = fbed.Genotypes(stored, tuple(f"rs{j}" for j in range(p)), tuple(map(str, range(n))))  # type: ignore[arg-type]
    return cohort, _classes(signal), set(causal)


def _variants(frequency: Any, stride: int, n: int) -> Any:
    import torch

    shape = (len(frequency), 4 * stride)
    threshold = (frequency * 256).to(torch.uint8)[:, None]
    copies = torch.zeros(shape, device=frequency.device, dtype=torch.uint8)
    for _ in range(2):
        copies += torch.randint(0, 256, shape, device=frequency.device, dtype=torch.uint8) < threshold
    codes = 3 - copies - (copies == 2).to(torch.uint8)
    codes[:, n:] = 0
    four = codes.view(len(frequency), stride, 4)
    return four[:, :, 0] | four[:, :, 1] << 2 | four[:, :, 2] << 4 | four[:, :, 3] << 6


def _copies(packed: Any) -> Any:
    import torch

    shifts = torch.tensor([0, 2, 4, 6], device=packed.device, dtype=torch.uint8)
    codes = ((packed[:, :, None] >> shifts) & 3).reshape(len(packed), -1)
    return (1 - (codes & 1)) * (2 - (codes >> 1))


if __name__ == "__main__":
    main()
