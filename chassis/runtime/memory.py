"""Tunes malloc's handling of freed memory, and the frequency of garbage collection.

By default glibc maps every block of 128 KiB or more separately and unmaps it when it is freed, and returns the end of
its heap as soon as that is free: the kernel then clears each page again, for every body, for the columns of a request,
for every block. Here freed memory is kept for reuse. Blocks of MMAP_THRESHOLD_BYTES or more are still mapped, and at
most TRIM_THRESHOLD_BYTES are kept at the end of a heap.

By default Python's garbage collector runs after every 700 new container objects, which is every few requests, and now
and then over all objects. Here the objects that exist when the process starts to listen are excluded, and the rest is
collected less often: each request creates a few hundred objects and leaves next to none behind.
"""

import ctypes
import gc
from typing import Final

MMAP_THRESHOLD_BYTES: Final = 32 * 2**20
TRIM_THRESHOLD_BYTES: Final = 128 * 2**20
GC_THRESHOLD: Final = 10_000  # new container objects since the last collection that start the next

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3


def tune_malloc() -> None:
    """Set the thresholds of this process's malloc; does nothing where the C library has no `mallopt`."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)


def freeze_gc() -> None:
    """Exclude all existing objects from garbage collection, and set GC_THRESHOLD for new ones."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
