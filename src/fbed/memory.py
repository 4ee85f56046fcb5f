"""How much memory there is, and how much this process has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_LIBRARIES = 2**26  # bytes of programs in use, pages of files that stay
_GROUPS = Path("/sys/fs/cgroup")
_OF_GROUPS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))  # version 2, and 1


def available_memory() -> int:
    """Bytes that this process could take now: what the machine has left, or less where a container has a limit."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 2**32
    return min([free, *_left_to_groups()])


def used_memory() -> int:
    """Bytes of memory that this process has now, without pages of files, which the system takes back when it must."""
    try:
        resident, shared = (int(pages) for pages in Path("/proc/self/statm").read_text().split()[1:3])
        return (resident - shared) * os.sysconf("SC_PAGESIZE") + _LIBRARIES
    except (OSError, ValueError):
        return 2**28


def _left_to_groups() -> Iterator[int]:
    """What is left of the limits of the control groups that this process is in; those without a limit say nothing."""
    for folder in _groups():
        for limit, usage in _OF_GROUPS:
            try:
                most, used = (int(Path(folder, name).read_text()) for name in (limit, usage))
            except (OSError, ValueError):  # not there, or 'max'
                continue
            yield max(0, most - used)


def _groups() -> Iterator[Path]:
    """Where the control groups of this process may be; inside a container its own is at the top."""
    yield from (_GROUPS, _GROUPS / "memory")
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds in ("", "memory"):
            yield _GROUPS / kinds / path.lstrip("/")
