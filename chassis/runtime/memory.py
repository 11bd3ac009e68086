"""What the C library does with memory that is given back to it, and how often cycles of objects are looked for.

glibc maps every block of 128 KiB or more afresh and returns it at once, and returns the end of its heap as soon as that
is free: the kernel then clears each page again, for every body, for the columns of a request, for every block. Here it
is kept for the next one. Blocks of MAPPED_BYTES or more are mapped as before, and of what is free at the end of a heap
no more than KEPT_BYTES stay.

The interpreter looks for cycles after every 700 new objects that could be in one, which is every few requests, and now
and then among all objects there are. Here what a process has once it listens is left out, and the rest is looked at
less often: each request makes a few hundred objects and leaves next to none behind.
"""

import ctypes
import gc
from typing import Final

MMAP_THRESHOLD_BYTES: Final = 32 * 2**20
TRIM_THRESHOLD_BYTES: Final = 128 * 2**20
GC_THRESHOLD: Final = 10_000  # more of them than there were at the last look: time for the next

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3


def tune_malloc() -> None:
    """Set this process's C library so, if it is one that can be."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)


def freeze_gc() -> None:
    """What is there now stays until the end: it is not looked through for cycles any more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
