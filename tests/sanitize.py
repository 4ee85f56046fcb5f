"""The kernels under AddressSanitizer and UBSan: ``make sanitize``, or ``python -m tests.sanitize``.

They are built a second time into a folder of their own, and their tests are run in a process that has the sanitizers
loaded before everything else. Further arguments go to pytest; the process ends at the first finding.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build" / "sanitized"
TESTS = ("test_kernels.py", "test_certified.py", "test_storage.py", "test_damaged.py", "test_families_hostile.py")
_INSIDE = "FBED_SANITIZED"


def build() -> None:
    """Compile the package with the sanitizers, beside the usual one."""
    shutil.rmtree(SITE, ignore_errors=True)
    settings = (
        "cmake.define.FBED_SANITIZE=ON",
        "cmake.build-type=RelWithDebInfo",
        "install.strip=false",
        f"build-dir={SITE}-build",
    )
    define = [f"--config-settings={setting}" for setting in settings]
    where = ["--no-deps", "--quiet", "--target", str(SITE)]
    if importlib.util.find_spec("scikit_build_core"):
        where.append("--no-build-isolation")
    subprocess.run([sys.executable, "-m", "pip", "install", *where, *define, str(ROOT)], check=True)


def libraries() -> str:
    """What has to be loaded first: the sanitizer's own library, and the one whose exceptions it follows."""
    names = ("libasan.so", "libstdc++.so.6")
    compiler = os.environ.get("CXX", "g++")
    found = [subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip() for name in names]
    return " ".join(str(Path(path).resolve()) for path in found)


def environment() -> dict[str, str]:
    """Python itself keeps memory until it ends, which is no leak of the kernels."""
    return {
        **os.environ,
        _INSIDE: "1",
        "LD_PRELOAD": libraries(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def run_inside(arguments: list[str]) -> int:
    """Run the tests on the kernels that were built for this."""
    # an editable installation would bring its own kernels
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
    sys.path.insert(0, str(SITE))
    from fbed import _kernels

    if not Path(_kernels.__file__).is_relative_to(SITE) or not hasattr(ctypes.CDLL(None), "__asan_init"):
        raise SystemExit(f"the kernels of {_kernels.__file__} run without sanitizers")
    import pytest

    given = arguments or [str(ROOT / "tests" / name) for name in TESTS]
    # what the sanitizers say must reach the terminal: the process ends at once, and what pytest keeps is lost
    return int(pytest.main(["-q", "-x", "--capture=sys", "-p", "no:cacheprovider", *given]))


def main() -> int:
    if _INSIDE in os.environ:
        return run_inside(sys.argv[1:])
    build()
    status = subprocess.run([sys.executable, "-m", "tests.sanitize", *sys.argv[1:]], env=environment()).returncode
    print(f"the sanitizers {'found something' if status else 'found nothing'} (status {status})")
    return int(status != 0)


if __name__ == "__main__":
    raise SystemExit(main())
