"""Memory that was freed goes back to the system now and then.

glibc keeps what lies between blocks that are in use. After a burst that was most of the process: 382 MiB resident, 159
once it was asked to give back what is free, in a twelfth of a second, during which other threads may wait to allocate.
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
MIN_GROWTH_BYTES: Final = 64 * 2**20  # bytes more than after the last time

log = structlog.get_logger(__name__)

_STATM: Final = Path("/proc/self/statm")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


async def trim_task(_app: web.Application) -> AsyncIterator[None]:
    """For as long as the application runs. Does nothing where the C library has no way to it (musl, macOS)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None or not _STATM.exists():
        yield
        return

    least = resident_bytes()

    async def trim_when_worth_it() -> None:
        nonlocal least
        least = min(least, resident_bytes())
        if resident_bytes() > least + MIN_GROWTH_BYTES:
            await asyncio.to_thread(trim, 0)  # the interpreter's lock is free meanwhile
            least = resident_bytes()

    rounds = PeriodicTask(trim_when_worth_it, TRIM_INTERVAL_S, log, "memory cannot be given back")
    rounds.start()
    yield
    await rounds.close()


def resident_bytes() -> int:
    """Bytes of this process in memory."""
    return int(_STATM.read_text().split()[1]) * _PAGE
