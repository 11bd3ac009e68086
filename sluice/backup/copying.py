"""Copies files with their SHA-256, on several threads.

Progress of a copy, on a terminal only: a line that is written over.
"""

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

INTERVAL_S: Final = 0.5


class Progress:
    """Called with the number of files that are done, and of all."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._is_shown = sys.stderr.isatty()
        self._shown_at = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._is_shown and (done == total or now - self._shown_at >= INTERVAL_S):
            self._shown_at = now
            end = "\n" if done == total else ""
            print(f"\r{self._verb} {done:,} of {total:,} files", end=end, file=sys.stderr, flush=True)


THREADS: Final = 4  # a copy waits for syncs most of the time
CHUNK_BYTES: Final = 2**20
_QUEUED: Final = 64  # files that wait for a thread

T = TypeVar("T")
R = TypeVar("R")


def copy_file(source: Path, target: Path, length: int | None = None) -> tuple[int, str]:
    """Copy the first `length` bytes of a file (None: all of it) to a new file with mode 0600; returns size and SHA-256.
    The content is on disk when this returns. Raises OSError.
    """
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size, digest = _copy(reading, writing, length)
            os.fsync(writing)
            os.posix_fadvise(writing, 0, 0, os.POSIX_FADV_DONTNEED)  # leaves the page cache to the service
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    return size, digest


def hash_file(source: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file. Raises OSError."""
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return _copy(reading, None, None)
    finally:
        os.close(reading)


def _copy(reading: int, writing: int | None, length: int | None) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while chunk := os.read(reading, CHUNK_BYTES if length is None else min(CHUNK_BYTES, length - size)):
        digest.update(chunk)
        size += len(chunk)
        rest = memoryview(chunk)
        while writing is not None and rest:
            rest = rest[os.write(writing, rest) :]
    return size, digest.hexdigest()


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results of `work`, in order, with few items under way. The first exception ends it."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="copy") as pool:
        waiting = []
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= _QUEUED:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()


def sync_tree(directory: Path) -> None:
    """Sync the entries of a directory and of all directories below it. Raises OSError."""
    for root, _, _ in os.walk(directory, topdown=False):
        sync_directory(Path(root))


def sync_directory(directory: Path) -> None:
    """Sync what was created, renamed and removed in a directory. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(directory: Path) -> None:
    """Remove a directory, if it exists. Raises OSError."""
    if directory.exists():
        shutil.rmtree(directory)
