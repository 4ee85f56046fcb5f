"""How much memory there is: what the machine says, and what a container allows."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from fbed import memory

pytestmark = pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="this system does not tell in /proc")


@pytest.fixture
def groups(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    return tmp_path


def test_without_limits_it_is_what_the_machine_has_left(groups):
    assert list(memory._left_to_groups()) == []
    assert memory.available_memory() > 2**20


@pytest.mark.parametrize(
    ("folder", "limit", "usage"),
    [("", "memory.max", "memory.current"), ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes")],
)
def test_a_container_has_less(groups, folder, limit, usage):
    (groups / folder).mkdir(exist_ok=True)
    (groups / folder / limit).write_text("5000\n")
    (groups / folder / usage).write_text("3000\n")
    assert memory.available_memory() == 2000
    (groups / folder / usage).write_text("6000\n")
    assert memory.available_memory() == 0


def test_a_group_may_have_no_limit(groups):
    (groups / "memory.max").write_text("max\n")
    (groups / "memory.current").write_text("3000\n")
    assert list(memory._left_to_groups()) == []


def test_memory_in_use_grows_with_what_is_held():
    """Pages that nobody had before: an allocator might hand out what the process holds already."""
    before = memory.used_memory()
    with mmap.mmap(-1, 2**26, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        held.write(b"x" * 2**26)
        assert memory.used_memory() - before > 2**25
