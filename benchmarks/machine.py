"""What the numbers were measured on: processor and versions, without names of hosts, users or folders."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import fbed
from benchmarks.race import program

PACKAGES = {
    "own": ("numpy", "scipy", "scikit-learn", "statsmodels"),
    "glmnet": ("python-glmnet", "numpy"),
    "peers": ("skglm", "abess", "adelie", "numpy"),
}
ASK = "import importlib.metadata as m, json, sys; print(json.dumps({name: m.version(name) for name in sys.argv[1:]}))"
ASK_R = 'cat(as.character(getRversion()), as.character(packageVersion("glmnet")))'


def description() -> dict[str, Any]:
    return {"machine": hardware(), "versions": versions()}


def hardware() -> dict[str, Any]:
    return {
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, dict[str, str]]:
    """Of what each environment has installed."""
    own = {name: importlib.metadata.version(name) for name in PACKAGES["own"]}
    found = {"own": {"fbed": fbed.__version__, **own}}
    for environment in ("glmnet", "peers"):
        if python := program(environment):
            answer = _output([python, "-c", ASK, *PACKAGES[environment]])
            found[environment] = json.loads(answer) if answer else {}
    if (rscript := program("R")) and (answer := _output([rscript, "-e", ASK_R])):
        language, package = answer.split()
        found["R"] = {"R": language, "glmnet": package}
    return found


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gb() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError, AttributeError):
        return None
