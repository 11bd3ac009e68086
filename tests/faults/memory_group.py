"""A control group that bounds the memory of a process: as a container's, of either version. Needs root."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.product import Service, Sluice, started

LIMIT: Final = 2 * 2**30
_MOUNT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A group of `limit` bytes that processes are put into."""

    def __init__(self, directory: Path, limit: int) -> None:
        self._directory = directory
        old = (directory / "memory.limit_in_bytes").exists()
        (directory / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(limit))
        self._peak = directory / ("memory.max_usage_in_bytes" if old else "memory.peak")
        self._events = directory / ("memory.oom_control" if old else "memory.events")

    def put(self, pid: int) -> None:
        """What the process asks for from here on counts."""
        (self._directory / "cgroup.procs").write_text(str(pid))

    @property
    def peak(self) -> int:
        """The most bytes that it had at once, those of files that are cached included; 0 where nothing says so."""
        return int(self._peak.read_text()) if self._peak.exists() else 0

    @property
    def killed(self) -> int:
        """How many of its processes the kernel has killed for want of memory."""
        lines = dict(line.split() for line in self._events.read_text().splitlines())
        return int(lines.get("oom_kill", 0))


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """One that is there inside, and has no process left at its end. Skips the test where none can be made."""
    root = _MOUNT / "memory" if (_MOUNT / "memory/cgroup.procs").exists() else _MOUNT
    directory = root / f"sluice-test-{os.getpid()}"
    try:
        directory.mkdir()
        group = MemoryGroup(directory, limit)
    except OSError as error:
        if directory.exists():
            directory.rmdir()
        pytest.skip(f"needs root, and control groups that it may make: {error}")
    try:
        yield group
    finally:
        directory.rmdir()


def running(directory: Path, group: MemoryGroup, settings: Mapping[str, str]) -> Sluice:
    """`sluice up` in the group, from before it looks how much memory there is."""
    data = directory / "data"
    return started(Service("up", data, directory / "log", settings, begun=group.put), data)
