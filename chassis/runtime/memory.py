"""The memory of a process: how much memory the process may use, keeps for reuse, and returns to the system.

`tune_malloc`: by default glibc maps every block of 128 KiB or more separately and unmaps the block when it is freed,
and returns the end of its heap as soon as that is free. The kernel then clears each page again, for every body, for the
columns of a request, for every block. Here freed memory is kept for reuse. Blocks of MMAP_THRESHOLD_BYTES or more are
still mapped, and at most TRIM_THRESHOLD_BYTES are kept at the end of a heap.

`freeze_gc`: by default Python's garbage collector runs after every 700 new container objects, which is every few
requests, and sometimes over all objects. Here the objects that exist when the process starts to listen are excluded,
and other objects are collected less often, because each request creates a few hundred objects and leaves almost none.

`available_bytes`: the machine's memory, or less if a control group limits it. A container's limit and systemd's
`MemoryMax` are limits of a control group, which the machine's memory as reported by the kernel does not include. Both
versions of control groups are read (https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1/memory.html), and
the limits of all parent groups count too.

`trim_task` regularly returns freed memory to the system, because glibc keeps free memory between blocks that are in
use. After a burst, free memory was most of a process: 382 MiB were resident before `malloc_trim` and 159 MiB after it.
`malloc_trim` took a twelfth of a second, during which other threads may wait to allocate.
"""

import asyncio
import ctypes
import gc
import os
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web

from chassis.runtime.periodic import PeriodicTask

MMAP_THRESHOLD_BYTES: Final = 32 * 2**20
TRIM_THRESHOLD_BYTES: Final = 128 * 2**20
GC_THRESHOLD: Final = 10_000  # new container objects since the last collection before the next one starts

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3


def tune_malloc() -> None:
    """Set the thresholds of this process's malloc. Does nothing if the C library has no `mallopt`."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)


def freeze_gc() -> None:
    """Exclude all existing objects from garbage collection, and set GC_THRESHOLD for new ones."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])


_MOUNT: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")


@cache
def available_bytes(membership: Path = _MEMBERSHIP, mount: Path = _MOUNT) -> int:
    """The minimum of the machine's memory and the limits of this process's control groups, in bytes, as of the first
    call.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min((machine, *_limits(membership, mount)))


def _limits(membership: Path, mount: Path) -> Iterator[int]:
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # no control groups here
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_up_to_root(mount, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits_up_to_root(mount / "memory", path, "memory.limit_in_bytes")


def _limits_up_to_root(root: Path, path: str, name: str) -> Iterator[int]:
    """The limits of a group and its parents. The root is read too, because a container may see its own group there,
    regardless of the path that it is given.
    """
    group = root / path.lstrip("/")
    for directory in (group, *group.parents):
        if not directory.is_relative_to(root):
            return
        try:
            limit = (directory / name).read_text().strip()
        except OSError:
            continue
        if limit.isdecimal():  # "max": no limit
            yield int(limit)


TRIM_INTERVAL_S: Final = 60.0
MIN_GROWTH_BYTES: Final = 64 * 2**20  # growth since the last trim before the next one starts

log = structlog.get_logger(__name__)

_STATM: Final = Path("/proc/self/statm")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


async def trim_task(_app: web.Application) -> AsyncIterator[None]:
    """A cleanup context that trims memory while the application runs. Does nothing without `malloc_trim` (musl,
    macOS).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None or not _STATM.exists():
        yield
        return

    least = resident_bytes()

    async def trim_after_growth() -> None:
        nonlocal least
        least = min(least, resident_bytes())
        if resident_bytes() > least + MIN_GROWTH_BYTES:
            await asyncio.to_thread(trim, 0)  # releases the GIL
            least = resident_bytes()

    task = PeriodicTask(trim_after_growth, TRIM_INTERVAL_S, log, "memory trim failed")
    task.start()
    yield
    await task.close()


def resident_bytes() -> int:
    """The resident memory of this process, in bytes."""
    return int(_STATM.read_text().split()[1]) * _PAGE
