"""Recovers orphaned journals: of a worker that was killed, or of more workers than there are now."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import structlog

from chassis.runtime.health import Dependency
from chassis.runtime.periodic import PeriodicTask
from gateway.ingest.interface import Ingest
from gateway.ingest.journaled import JournaledIngest
from gateway.journal import Journal, JournalLocked, find_orphans

SCAN_INTERVAL_S: Final = 10.0
POLL_INTERVAL_S: Final = 1.0
MAX_CONCURRENT: Final = 2  # journals being stored at once; each has memory of its own for that


class OrphanRecovery:
    """Scans for orphaned journals, stores what they hold, and removes them when their hold period is over."""

    def __init__(
        self,
        directory: Path,
        journal_at: Callable[[Path], Journal],
        make_journaled: Callable[[Journal], JournaledIngest],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._directory = directory
        self._journal_at = journal_at
        self._make_journaled = make_journaled
        self._log = log
        self._periodic_task = PeriodicTask(self._scan, SCAN_INTERVAL_S, log, "scanning for orphaned journals failed")
        self._recovering: set[asyncio.Task[None]] = set()
        self._storing = asyncio.Semaphore(MAX_CONCURRENT)

    def start(self) -> None:
        """Start scanning, every SCAN_INTERVAL_S."""
        self._periodic_task.start()

    async def close(self) -> None:
        """Release the journals that are taken over; the next process continues with them."""
        await self._periodic_task.close()
        for task in self._recovering:
            task.cancel()
        await asyncio.gather(*self._recovering, return_exceptions=True)

    async def _scan(self) -> None:
        for directory in await asyncio.to_thread(find_orphans, self._directory):
            await self._storing.acquire()
            task = asyncio.get_running_loop().create_task(self._recover(directory))
            self._recovering.add(task)
            task.add_done_callback(self._recovering.discard)

    async def _recover(self, directory: Path) -> None:
        """Store and remove one journal. Raises nothing: other journals continue, and the next scan retries this one."""
        with ExitStack() as until_stored:
            until_stored.callback(self._storing.release)
            try:
                journal = self._journal_at(directory)
                await self._drain(journal, until_stored)
                await asyncio.to_thread(journal.remove)
            except JournalLocked:
                pass  # another worker has it
            except Exception:  # noqa: BLE001 (see the docstring; it is logged)
                self._log.exception("an orphaned journal cannot be recovered", directory=str(directory))

    async def _drain(self, journal: Journal, until_stored: ExitStack) -> None:
        ingest = self._make_journaled(journal)
        try:
            await ingest.start()
            self._log.warning("recovering an orphaned journal", directory=str(journal.directory))
            while not ingest.is_idle:  # noqa: ASYNC110 (of many parts, each idle for reasons of its own)
                await asyncio.sleep(POLL_INTERVAL_S)
            until_stored.close()
            while not (journal.is_empty and ingest.is_idle):  # noqa: ASYNC110 (empty when the hold period is over)
                await asyncio.sleep(POLL_INTERVAL_S)
        finally:
            await ingest.close()


class WithOrphanRecovery:
    """An ingest of any mode, plus the recovery of journals that a gateway in the mode `journal` left: what they hold is
    acknowledged, whatever the mode is now.
    """

    def __init__(
        self, ingest: Ingest, orphan_recovery: OrphanRecovery, extra_dependencies: Sequence[Dependency] = ()
    ) -> None:
        """`extra_dependencies` are further ones that `/readyz` probes."""
        self._ingest = ingest
        self._orphan_recovery = orphan_recovery
        self._extra_dependencies = extra_dependencies
        self.needs_raw_body = ingest.needs_raw_body
        self.admit = ingest.admit
        self.submit = ingest.submit

    def dependencies(self) -> Sequence[Dependency]:
        """The extra dependencies, and those of the ingest."""
        return [*self._extra_dependencies, *self._ingest.dependencies()]

    async def start(self) -> None:
        """Start the ingest, then the recovery. Raises StartupError."""
        await self._ingest.start()
        self._orphan_recovery.start()

    async def close(self) -> None:
        """Close both; journals that are taken over wait for the next process."""
        await self._orphan_recovery.close()
        await self._ingest.close()
