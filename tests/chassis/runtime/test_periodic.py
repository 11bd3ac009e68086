"""Rounds go on whatever goes wrong; what goes wrong is told once; they end between two rounds."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import structlog
from structlog.testing import capture_logs

from chassis.clickhouse import StoreRejected, StoreUnavailable
from chassis.runtime.periodic import PeriodicTask

FAILING = "the work is not done"
EVERY_S = 7.0


@dataclass
class Worked:
    """Work that raises what it is given, and its pauses."""

    faults: list[Exception | None] = field(default_factory=list)
    rounds: int = 0
    pauses: list[float] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self) -> None:
        self.rounds += 1
        fault = self.faults.pop(0)
        if fault is not None:
            raise fault

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self.faults:
            self.over.set()
            await asyncio.sleep(3_600)
        await asyncio.sleep(0)


def rounds_of(
    work: Callable[[], Awaitable[None]],
    *,
    at_once: bool = False,
    close_s: float = 0.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    every_s: float = EVERY_S,
) -> PeriodicTask:
    return PeriodicTask(
        work,
        every_s,
        structlog.get_logger("test"),
        FAILING,
        run_immediately=at_once,
        close_timeout_s=close_s,
        sleep=sleep,
    )


@asynccontextmanager
async def worked(faults: list[Exception | None], *, at_once: bool = False) -> AsyncIterator[Worked]:
    """As many rounds as there are faults."""
    worked = Worked(faults)
    rounds = rounds_of(worked.work, at_once=at_once, sleep=worked.sleep)
    rounds.start()
    await asyncio.wait_for(worked.over.wait(), 5)
    yield worked
    await rounds.close()


@pytest.mark.parametrize(("at_once", "pauses"), [(False, 4), (True, 3)])
async def test_a_pause_comes_before_each_round_but_the_first_one_at_once(at_once: bool, pauses: int) -> None:
    async with worked([None, None, None], at_once=at_once) as seen:
        assert (seen.rounds, seen.pauses) == (3, [EVERY_S] * pauses)


async def test_each_kind_of_failure_is_told_once_until_a_round_succeeds() -> None:
    descriptors, space = OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENOSPC, "No space left")
    with capture_logs() as lines:
        async with worked([descriptors, space, MemoryError(), descriptors, None, descriptors]) as seen:
            assert seen.rounds == 6
    assert [(line["event"], type(line["exc_info"]), getattr(line["exc_info"], "errno", None)) for line in lines] == [
        (FAILING, OSError, errno.EMFILE),
        (FAILING, OSError, errno.ENOSPC),
        (FAILING, MemoryError, None),
        (FAILING, OSError, errno.EMFILE),
    ]


async def test_what_clickhouse_says_is_told_in_a_line_without_where_it_was_raised() -> None:
    refused = StoreRejected("Not enough privileges.", 497)
    with capture_logs() as lines:
        async with worked([refused, StoreUnavailable("away"), refused, StoreRejected("No such table.", 60)]):
            pass
    assert [{key: line[key] for key in line if key not in {"event", "log_level"}} for line in lines] == [
        {"error": "Not enough privileges.", "code": 497},
        {"error": "away", "code": None},
        {"error": "No such table.", "code": 60},
    ]


async def test_a_round_under_way_has_its_time_at_the_end() -> None:
    begun, ended = asyncio.Event(), 0

    async def work() -> None:
        nonlocal ended
        begun.set()
        await asyncio.sleep(0.05)
        ended += 1

    rounds = rounds_of(work, at_once=True, close_s=60, every_s=0)
    rounds.start()
    await begun.wait()
    await rounds.close()
    assert ended == 1, "and no other is begun"


@pytest.mark.parametrize("close_s", [0.0, 0.05])
async def test_one_that_takes_longer_is_cancelled(close_s: float) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    rounds = rounds_of(work, at_once=True, close_s=close_s)
    rounds.start()
    await begun.wait()
    await asyncio.wait_for(rounds.close(), 5)
    assert cancelled.is_set()


async def test_what_was_never_started_can_be_closed() -> None:
    await rounds_of(Worked().work).close()
