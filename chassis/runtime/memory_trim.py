"""Returns freed memory to the system now and then.

glibc keeps free memory between blocks that are in use. After a burst that was most of the process: 382 MiB resident,
159 after `malloc_trim`, which took a twelfth of a second, during which other threads may wait to allocate.
"""

import asyncio
import ctypes
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web

from chassis.runtime.periodic import PeriodicTask

TRIM_INTERVAL_S: Final = 60.0
MIN_GROWTH_BYTES: Final = 64 * 2**20  # growth since the last trim that starts the next

log = structlog.get_logger(__name__)

_STATM: Final = Path("/proc/self/statm")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


async def trim_task(_app: web.Application) -> AsyncIterator[None]:
    """A cleanup context: trims while the application runs. Does nothing without `malloc_trim` (musl, macOS)."""
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
    """Resident memory of this process, in bytes."""
    return int(_STATM.read_text().split()[1]) * _PAGE
