"""Journals of processes that are gone: a worker that was killed, or one more than there are now."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import structlog

from chassis.health import Dependency
from chassis.rounds import Rounds
from gateway.conveyor.conveyor import Conveyor
from gateway.intake import Intake
from gateway.journal import Journal, JournalTaken, orphans

EVERY_S: Final = 10.0
LOOK_S: Final = 1.0
AT_ONCE: Final = 2  # that are stored; each has memory of its own for that


class Adoption:
    """Looks for such journals now and then, stores what they hold, and removes them when their hold period is over."""

    def __init__(
        self,
        directory: Path,
        journal_at: Callable[[Path], Journal],
        convey: Callable[[Journal], Conveyor],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._directory = directory
        self._journal_at = journal_at
        self._convey = convey
        self._log = log
        self._rounds = Rounds(self._look, EVERY_S, log, "journals of processes that are gone cannot be looked for")
        self._adopted: set[asyncio.Task[None]] = set()
        self._storing = asyncio.Semaphore(AT_ONCE)

    def start(self) -> None:
        """Begin to look."""
        self._rounds.start()

    async def close(self) -> None:
        """Give back what is adopted; whoever comes next goes on with it."""
        await self._rounds.close()
        for task in self._adopted:
            task.cancel()
        await asyncio.gather(*self._adopted, return_exceptions=True)

    async def _look(self) -> None:
        for directory in await asyncio.to_thread(orphans, self._directory):
            await self._storing.acquire()
            task = asyncio.get_running_loop().create_task(self._adopt(directory))
            self._adopted.add(task)
            task.add_done_callback(self._adopted.discard)

    async def _adopt(self, directory: Path) -> None:
        """Raises nothing: the others are not to suffer for it, and the next look finds this one again."""
        with ExitStack() as until_stored:
            until_stored.callback(self._storing.release)
            try:
                journal = self._journal_at(directory)
                await self._work_off(journal, until_stored)
                await asyncio.to_thread(journal.remove)
            except JournalTaken:
                pass  # another worker was quicker
            except Exception:  # noqa: BLE001 (said above, and logged)
                self._log.exception("a journal cannot be adopted", directory=str(directory))

    async def _work_off(self, journal: Journal, until_stored: ExitStack) -> None:
        conveyor = self._convey(journal)
        try:
            await conveyor.start()
            self._log.warning("journal of a process that is gone is adopted", directory=str(journal.directory))
            while not conveyor.idle:  # noqa: ASYNC110 (of many parts, each idle for reasons of its own)
                await asyncio.sleep(LOOK_S)
            until_stored.close()
            while not (journal.empty and conveyor.idle):  # noqa: ASYNC110 (empty when the hold period is over)
                await asyncio.sleep(LOOK_S)
        finally:
            await conveyor.close()


class Adopting:
    """An intake of whatever mode, and journals that a gateway in the mode `journal` left: what they hold is
    acknowledged, whatever the mode is now.
    """

    def __init__(self, intake: Intake, adoption: Adoption, needed: Sequence[Dependency] = ()) -> None:
        """`needed` is what `/readyz` is to ask besides."""
        self._intake = intake
        self._adoption = adoption
        self._needed = needed
        self.keeps_bodies = intake.keeps_bodies
        self.admit = intake.admit
        self.take = intake.take

    def dependencies(self) -> Sequence[Dependency]:
        """Those of the intake, and what else is needed."""
        return [*self._needed, *self._intake.dependencies()]

    async def start(self) -> None:
        """Both begin."""
        await self._intake.start()
        self._adoption.start()

    async def close(self) -> None:
        """Both end; what is adopted waits for the next process."""
        await self._adoption.close()
        await self._intake.close()
