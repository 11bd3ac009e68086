"""The turns of reads: how many run, whose is next, and that no place is lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import ServiceUnavailable
from query.turns import Turns
from tests.query.test_answers import settle


class Engine:
    """Reads over `Turns`, each a task that runs until it is told to end."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.running: list[str] = []  # names, in the order in which they began
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str) -> None:
        """Reads, named by their principal and a number: `a1`."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._read(name))
            await settle()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await settle()

    async def abandon(self, *names: str) -> None:
        for name in names:
            self.tasks[name].cancel()
        await settle()

    async def _read(self, name: str) -> None:
        async with self._turns.turn(name[0]):
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """Two places, without a limit of one principal's; six may wait."""
    engine = Engine(Turns(2, 0, 6))
    yield engine
    await engine.abandon(*engine.tasks)


async def test_principals_take_turns(engine: Engine) -> None:
    """Whoever has most waiting does not stand before the first of another, and those of one keep their order."""
    await engine.ask("a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1")
    assert engine.running == ["a1", "a2"]
    begun = []
    for name in ("a1", "a2", "b1", "c1", "a3", "b2"):
        await engine.end(name)
        begun.append(engine.running[-1])
    assert begun == ["b1", "c1", "a3", "b2", "a4", "a5"]


async def test_a_principal_has_no_more_than_its_own() -> None:
    engine = Engine(Turns(3, 2, 6))
    await engine.ask("a1", "a2", "a3")
    assert engine.running == ["a1", "a2"]
    await engine.ask("b1", "b2")
    assert engine.running == ["a1", "a2", "b1"]
    await engine.end("a1")
    assert engine.running == ["a2", "b1", "b2"]
    await engine.end("a2", "b1", "b2", "a3")
    assert all(task.done() for task in engine.tasks.values())


async def test_one_too_many_is_refused(engine: Engine) -> None:
    await engine.ask("a1", "a2", *(f"b{n}" for n in range(6)), "c1")
    assert isinstance(engine.tasks["c1"].exception(), ServiceUnavailable)
    await engine.abandon("b3")
    await engine.ask("c2")
    await engine.end("a1", "a2")
    assert engine.running == ["b0", "c2"]


async def test_a_read_that_is_cancelled_gives_its_turn_to_the_next(engine: Engine) -> None:
    await engine.ask("a1", "a2", "b1", "b2", "c1")
    await engine.abandon("b1")
    await engine.end("a1")
    assert engine.running == ["a2", "b2"]
    engine.tasks["c1"].cancel()  # in the moment in which its turn comes
    await engine.end("a2")
    await engine.abandon("b2")
    assert engine.running == []
    await engine.ask("d1", "d2", "d3")
    assert engine.running == ["d1", "d2"]


async def test_a_turn_that_comes_with_the_cancellation_is_given_on(engine: Engine) -> None:
    await engine.ask("a1", "a2", "b1", "c1")
    engine._ends["a1"].set()
    while engine.tasks["a1"] in asyncio.all_tasks() and "a1" in engine.running:
        await asyncio.sleep(0)
    engine.tasks["b1"].cancel()
    await settle()
    assert engine.running == ["a2", "c1"]
    assert engine.tasks["b1"].cancelled()


ACTIONS = st.lists(st.tuples(st.sampled_from(["ask", "end", "abandon"]), st.integers(0, 7)), max_size=30)


@given(actions=ACTIONS)
async def test_no_place_is_lost_and_none_is_idle_while_somebody_may_have_it(actions: list[tuple[str, int]]) -> None:
    engine, numbers = Engine(Turns(3, 2, 4)), iter(range(1000))
    for action, number in actions:
        alive = [name for name, task in engine.tasks.items() if not task.done()]
        if action == "ask":
            await engine.ask(f"{'abc'[number % 3]}{next(numbers)}")
        elif alive:
            await (engine.end if action == "end" else engine.abandon)(alive[number % len(alive)])
        held = Counter(name[0] for name in engine.running)
        waiting = {name for name, task in engine.tasks.items() if not task.done()} - set(engine.running)
        assert len(engine.running) <= 3
        assert all(count <= 2 for count in held.values())
        assert len(engine.running) == 3 or all(held[name[0]] == 2 for name in waiting)
    await engine.abandon(*engine.tasks)
    await engine.ask("x1", "x2", "y1")
    assert engine.running == ["x1", "x2", "y1"]
    await engine.abandon("x1", "x2", "y1")
