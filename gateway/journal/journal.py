"""The journal on the event loop. All file I/O runs on a thread of its own (`IoThread`)."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import structlog

from chassis.errors import PayloadTooLarge, ServiceUnavailable
from gateway.journal import format as fmt
from gateway.journal.core import DiskFull, JournalCore
from gateway.journal.interface import (
    Batch,
    DamagedRequests,
    Entry,
    JournaledRequest,
    JournalLimits,
    OnPersisted,
    RecoveredState,
    TableDay,
)
from gateway.journal.io_thread import CommitResult, CooperativeTask, IoThread, PendingAppend
from gateway.journal.startup import open_journal
from gateway.journal.storage import directories
from gateway.journal.storage.files import Files, JournalContext, JournalMetrics
from gateway.journal.storage.ledger import LEDGER_PREFIX
from gateway.journal.storage.retention import DISK_NEARLY_FULL, SpaceQuota
from gateway.journal.storage.scanning import CooperativeSteps
from gateway.journal.storage.segment_set import ANY_LANE
from gateway.journal.storage.segments import FRESH, SLOW, parse_segment_name

T = TypeVar("T")

NOT_WRITTEN: Final = "The request could not be written to disk; retry later."
STOPPING: Final = "The gateway is shutting down; retry the request."
NOT_RECORDED: Final = "The journal cannot be written to disk at the moment."


class Journal:
    """Implements `JournalLike`. `directory` is the directory of all journals, where it takes the lowest number that no
    process has locked; or, with `is_orphan`, one that `find_orphans` returns. A process that forks must do so before it
    opens a journal.
    """

    durable = True

    def __init__(
        self,
        directory: Path,
        limits: JournalLimits,
        metrics: JournalMetrics,
        log: structlog.stdlib.BoundLogger,
        *,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
        files: Files | None = None,
        is_orphan: bool = False,
    ) -> None:
        self._directory = directory.absolute()
        self._is_orphan = is_orphan
        self._context = JournalContext(files or Files(), limits, metrics, log, clock, monotonic)
        self._space_quota = SpaceQuota(limits.max_bytes)
        self._core_if_open: JournalCore | None = None
        self._io_thread: IoThread | None = None  # None: not open yet, or closed
        self._last_sequence = 0

    def open(self) -> RecoveredState:
        """Open the journal; returns what an earlier process left. Blocks. Raises StartupError, JournalLocked."""
        lock = directories.lock_journal(self._context.files, self._directory, is_orphan=self._is_orphan)
        try:
            self._core_if_open, recovered = open_journal(lock, self._context)
        except BaseException:
            self._context.files.close(lock.fd)
            raise
        self._space_quota.restore(self._core_if_open.retention.charged_by_project())
        self._last_sequence = self._core_if_open.last_sequence
        self._io_thread = IoThread(self._core_if_open, self._context.log, self._on_commit, self._space_quota.release)
        self._io_thread.start()
        self._context.metrics.register(self)
        return recovered

    @property
    def is_open(self) -> bool:
        """Whether the journal is open, and not closing."""
        return self._io_thread is not None

    @property
    def directory(self) -> Path:
        """The directory of this journal, once it is open."""
        return self._core.directory_lock.directory

    @property
    def last_sequence(self) -> int:
        """The last sequence that is on disk; 0 if there is none."""
        return self._last_sequence

    @property
    def is_empty(self) -> bool:
        """Whether the journal has no segments, not even finished ones, and no unwritten records."""
        return not self._core.segment_set.segments and self._core.ledger.is_flushed

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return self._core.retention.nbytes

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of segments that are not stored yet, approximately."""
        return self._core.retention.unfinished_bytes

    @property
    def room_bytes(self) -> float:
        """Bytes that every project may still send, limited by its share, the quota and the disk."""
        return self._available_bytes[0]

    @property
    def max_project_room_bytes(self) -> float:
        """Bytes that the project with the least data may still send, even if other projects are refused."""
        return self._available_bytes[1]

    @property
    def oldest_seconds(self) -> float:
        """Age in seconds of the oldest request that is not stored yet; 0 if there is none."""
        oldest_ns = self._core.retention.oldest_ns
        return 0.0 if oldest_ns is None else max((self._context.clock() - oldest_ns) / 10**9, 0.0)

    @property
    def is_disk_low(self) -> bool:
        """Whether the disk is nearly full, so that all requests are refused."""
        return self._core.retention.is_disk_low

    async def append(self, request: JournaledRequest, on_persisted: OnPersisted | None = None) -> int:
        """Write a request; returns its sequence when it is on disk. Raises ServiceUnavailable, PayloadTooLarge."""
        io_thread, retention = self._running_io_thread, self._core.retention
        if len(request.body) > fmt.MAX_PAYLOAD:
            raise PayloadTooLarge(f"The body is larger than {fmt.MAX_PAYLOAD} bytes.")
        size = fmt.frame_size(len(request.body))
        self._space_quota.reserve(request.project_id, size, retention.charged_bytes, is_disk_low=retention.is_disk_low)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        io_thread.append(PendingAppend(request, size, future, on_persisted))
        return await future

    async def begin(self, batch: Batch) -> None:
        """Record the ranges of a batch. Raises ServiceUnavailable."""
        with _io_errors_as_unavailable():
            await self._submit(_single_step(lambda: self._core.begin(batch)))

    def finish(self, batch_id: int, rows: Mapping[TableDay, int]) -> None:
        """Record that a batch is stored; on disk with the next sync."""
        if self._io_thread is not None:  # otherwise the next start rebuilds the batch and finds it stored
            self._io_thread.submit(CooperativeTask(_single_step(lambda: self._core.finish(batch_id, rows))))

    async def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Replace a batch by begun parts. Raises ServiceUnavailable."""
        with _io_errors_as_unavailable():
            await self._submit(_single_step(lambda: self._core.split(batch_id, parts)))

    async def quarantine(self, batch: Batch, reason: str) -> int:
        """Write the requests of a batch to quarantine; returns their number. Raises ServiceUnavailable."""
        with _io_errors_as_unavailable():
            return await self._submit(self._core.quarantine(batch, reason))

    async def read(self, after: int, max_bytes: int, *, slow: bool | None = None) -> list[Entry]:
        """Requests with sequences above `after` that are in no batch. Raises OSError."""
        lanes = ANY_LANE if slow is None else SLOW if slow else FRESH
        return await self._submit(self._core.segment_set.read(after, max_bytes, lanes))

    async def read_batch(self, batch: Batch) -> list[Entry]:
        """The readable requests of a batch. Raises OSError."""
        return await self._submit(self._core.segment_set.read_batch(batch))

    async def snapshot(self, target: Path) -> directories.JournalSnapshot:
        """Link the files of the journal into the new directory `target`, between two groups of requests: they have all
        requests that were acknowledged before. Raises OSError, ServiceUnavailable.
        """
        return await self._submit(_single_step(lambda: self._core.snapshot(target)))

    def retained_batches(self) -> Sequence[Batch]:
        """Finished batches whose requests are still on disk."""
        return [retained.batch for retained in list(self._core.ledger.state.retained.values())]

    def take_damaged(self) -> Sequence[DamagedRequests]:
        """Requests that were found damaged since the last call."""
        return self._core.segment_set.take_damaged()

    def pause_retention(self, *, on: bool) -> None:
        """Stop or resume the removal of finished requests by age."""
        self._core.retention.is_paused = on

    async def close(self) -> None:
        """Finish the queued work and shut down cleanly; then release the lock."""
        io_thread, self._io_thread = self._io_thread, None
        if io_thread is not None:
            await io_thread.close()
            self._context.files.close(self._core.directory_lock.fd)
            self._context.metrics.unregister(self)

    def remove(self) -> None:
        """After `close`: remove the directory if it has no segments and no other process has locked it. Blocks."""
        files, directory = self._context.files, self.directory
        with contextlib.suppress(OSError):
            fd = files.lock(directory / directories.LOCK_FILE)
            if fd is None:
                return
            try:
                _remove_directory(files, directory)
            finally:
                files.close(fd)

    @property
    def _core(self) -> JournalCore:
        if self._core_if_open is None:
            raise RuntimeError("The journal is not open.")
        return self._core_if_open

    @property
    def _available_bytes(self) -> tuple[float, float]:
        free = max(self._core.retention.free_bytes, 0.0)
        of_largest, of_smallest = self._space_quota.available_bytes(self._core.retention.charged_bytes)
        return min(of_largest, free), min(of_smallest, free)

    @property
    def _running_io_thread(self) -> IoThread:
        if self._io_thread is None:
            raise ServiceUnavailable(STOPPING)
        return self._io_thread

    async def _submit(self, steps: CooperativeSteps[T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._running_io_thread.submit(CooperativeTask(steps, future))
        return await future

    def _on_commit(self, result: CommitResult) -> None:
        """Runs on the event loop after a commit: the group is on disk, or refused."""
        if result.error is not None:
            self._reject(result.group, DISK_NEARLY_FULL if isinstance(result.error, DiskFull) else NOT_WRITTEN)
            return
        self._space_quota.dequeue(sum(pending.size for pending in result.group))
        self._last_sequence = result.first + len(result.group) - 1
        for sequence, pending in enumerate(result.group, result.first):
            if pending.on_persisted is not None:
                self._notify_persisted(pending.on_persisted, sequence)
            if not pending.future.done():
                pending.future.set_result(sequence)

    def _reject(self, group: Sequence[PendingAppend], message: str) -> None:
        for pending in group:
            self._space_quota.dequeue(pending.size)
            self._space_quota.release({pending.request.project_id: pending.size})
            if not pending.future.done():
                pending.future.set_exception(ServiceUnavailable(message))

    def _notify_persisted(self, on_persisted: OnPersisted, sequence: int) -> None:
        try:
            on_persisted(sequence)
        except Exception:
            self._context.log.exception(
                "a request is persisted but not queued; the next start recovers it", sequence=sequence
            )


def find_orphans(directory: Path) -> list[Path]:
    """Journals in a directory that no process has locked. Each may be opened as `Journal(path, ...)`. Blocks."""
    return directories.find_orphans(Files(), directory.absolute())


def _remove_directory(files: Files, directory: Path) -> None:
    names = files.list_directory(directory)
    if any(parse_segment_name(name) is not None for name in names):
        return
    for name in names:
        if name.startswith(LEDGER_PREFIX):
            files.unlink(directory / name)
    files.unlink(directory / directories.LOCK_FILE)
    files.remove_directory(directory)
    files.sync_directory(directory.parent)


def _single_step(work: Callable[[], T]) -> CooperativeSteps[T]:
    """Run `work` as a single step."""
    yield from ()
    return work()


@contextlib.contextmanager
def _io_errors_as_unavailable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServiceUnavailable(NOT_RECORDED) from error
