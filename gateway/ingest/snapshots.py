"""Snapshots of the requests that a gateway has acknowledged, for backups.

    IngestSnapshots.take   inserts stop for a moment; the journal continues to accept requests
      link journals        all requests acknowledged until now, journals of earlier processes first (`Journal.snapshot`)
      while_held           the caller freezes the tables, while no insert is in progress
      link quarantine      afterwards, because neither its files nor the id of the journals change

The stored blocks of a batch are in the frozen tables, and the batch is in the ledger, finished or not. Together they
are the same state as after a crash at this moment, so the next start completes unfinished batches as after a crash.

Without a journal, unfinished batches could not be completed. So in the modes `store` and `memory` new batches wait
until the running batches are stored with their derived rows. In the mode `store` a snapshot then has all acknowledged
requests. In the mode `memory` it lacks the requests that are not stored yet, as after a crash.
"""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from chassis.errors import ServiceUnavailable
from gateway.inserts.blocks import Gate, GateBusy
from gateway.journal import Journal, JournalLocked
from gateway.journal.storage import directories
from gateway.journal.storage.files import Files

HOLD_TIMEOUT_S: Final = 10.0  # for inserts in progress, and for batches without a journal
LINK_TIMEOUT_S: Final = 30.0  # for the work while inserts wait: if the disk hangs, they must not wait for ever
DERIVED_TIMEOUT_S: Final = 5.0  # for derived rows that wait in memory
LOCK_TRIES: Final = 50
LOCK_RETRY_S: Final = 0.1
INSERTS_UNDER_WAY: Final = (
    f"Inserts in progress did not end within {HOLD_TIMEOUT_S:g} s, so no backup was taken; try again later."
)
LINKING: Final = (
    f"Inserts had to wait while journals and tables were linked, which took longer than {LINK_TIMEOUT_S:g} s, so no "
    f"backup was taken; try again when the disk is less busy."
)
JOURNAL_BUSY: Final = "The journal {} is being opened or closed, so no backup was taken; try again later."


class SnapshotFailed(Exception):
    """No snapshot was taken, and nothing has changed; the message is one sentence for an operator."""


class IngestSnapshot(NamedTuple):
    """Links of the journals' files as they were at one moment. `lengths`: how many bytes of a file belong to the
    snapshot, by its path in `directory`; other files belong to it completely. `held_s`: seconds that inserts waited.
    """

    moment_ns: int
    directory: Path
    lengths: dict[str, int]
    held_s: float


class IngestSnapshots:
    """Takes snapshots of one process's ingest. `journals` are the journals that this process has created, open or not.
    `own` is the journal that accepts requests, if there is one. `root` contains all journals.
    """

    def __init__(
        self,
        root: Path,
        own: Journal | None,
        journals: Iterable[Journal],
        batch_gate: Gate,
        insert_gate: Gate,
        flush_derived: Callable[[], Awaitable[None]],
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._files = Files()
        self._root = root.absolute()
        self._directory = self._root / directories.SNAPSHOT_DIRECTORY
        self._own = own
        self._journals = journals
        self._batch_gate = batch_gate
        self._insert_gate = insert_gate
        self._flush_derived = flush_derived
        self._clock = clock
        self._log = log

    async def take(self, while_held: Callable[[], Awaitable[None]]) -> IngestSnapshot:
        """Link the files of all requests acknowledged at this moment, and run `while_held` before inserts continue. The
        caller removes the links (`release`). Raises SnapshotFailed, OSError, and the errors of `while_held`.
        """
        await self.release()  # links of a process that was killed
        lock = await self._lock_quarantine()
        try:
            await asyncio.to_thread(self._files.make_directory, self._directory)
            async with self._batches_held():
                started = time.monotonic()
                async with self._insert_gate.closed(HOLD_TIMEOUT_S), _within_link_timeout():
                    moment_ns, lengths = await self._link_journals()
                    shared = await asyncio.to_thread(directories.list_shared, self._files, self._root)
                    await while_held()
                held_s = time.monotonic() - started
            await asyncio.to_thread(directories.link_shared, self._files, shared, self._directory)
            await asyncio.to_thread(directories.link_id, self._files, self._root, self._directory)
        except GateBusy as error:
            raise SnapshotFailed(INSERTS_UNDER_WAY) from error
        finally:
            self._files.close(lock)
        return IngestSnapshot(moment_ns, self._directory, lengths, held_s)

    @property
    def is_disk_low(self) -> bool:
        """Whether requests are refused because disk space is low. A snapshot may be the cause."""
        return self._own is not None and self._own.is_open and self._own.is_disk_low

    async def release(self) -> None:
        """Remove the links of the last snapshot, or of an earlier process. Raises OSError."""
        await asyncio.to_thread(_remove_tree, self._directory)

    @asynccontextmanager
    async def _batches_held(self) -> AsyncIterator[None]:
        """Without a journal: store the running batches and derived rows, and let no batch begin inside the block."""
        if self._own is not None:
            await self._store_derived()
            yield
            return
        async with self._batch_gate.closed(HOLD_TIMEOUT_S):
            await self._store_derived()
            yield

    async def _store_derived(self) -> None:
        try:
            async with asyncio.timeout(DERIVED_TIMEOUT_S):
                await self._flush_derived()
        except TimeoutError:
            self._log.warning(
                "a backup lacks derived rows that were not stored in time; after a restore, run `sluice repair`"
            )

    async def _lock_quarantine(self) -> int:
        for attempt in count(1):
            try:
                return await asyncio.to_thread(directories.lock_quarantine, self._files, self._root)
            except JournalLocked as error:
                if attempt == LOCK_TRIES:
                    raise SnapshotFailed(str(error)) from error
                await asyncio.sleep(LOCK_RETRY_S)
        raise AssertionError  # count() is infinite

    async def _link_journals(self) -> tuple[int, dict[str, int]]:
        """Link all journals. The journal that accepts requests is linked last; the time at which it is linked is the
        snapshot's."""
        lengths: dict[str, int] = {}
        own = None if self._own is None else self._own.directory
        for directory in await asyncio.to_thread(directories.list_journals, self._files, self._root):
            if directory != own:
                linked = await self._link_journal(directory)
                lengths |= {f"{directory.name}/{name}": length for name, length in linked.items()}
        if self._own is None or own is None:
            return self._clock(), lengths
        taken = await self._own.snapshot(self._directory / own.name)
        return taken.moment_ns, lengths | {f"{own.name}/{name}": length for name, length in taken.lengths.items()}

    async def _link_journal(self, directory: Path) -> dict[str, int]:
        """Link a journal that accepts no requests: this process has taken it over, or no process has it open."""
        target = self._directory / directory.name
        for _ in range(LOCK_TRIES):
            try:
                for journal in list(self._journals):
                    if journal.is_open and journal.directory == directory:
                        return (await journal.snapshot(target)).lengths
                return await asyncio.to_thread(directories.link_closed_journal, self._files, directory, target)
            except FileNotFoundError:
                if not await asyncio.to_thread(directory.exists):  # all of it is stored, and it was removed
                    return {}
                raise
            except (JournalLocked, ServiceUnavailable):  # it is being opened, or closed
                await asyncio.sleep(LOCK_RETRY_S)
        raise SnapshotFailed(JOURNAL_BUSY.format(directory))


@asynccontextmanager
async def _within_link_timeout() -> AsyncIterator[None]:
    """Raises SnapshotFailed after LINK_TIMEOUT_S. Threads finish the work that they have begun; the links are removed
    as usual."""
    timeout = asyncio.timeout(LINK_TIMEOUT_S)
    try:
        async with timeout:
            yield
    except TimeoutError as error:
        if not timeout.expired():
            raise
        raise SnapshotFailed(LINKING) from error


def _remove_tree(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
