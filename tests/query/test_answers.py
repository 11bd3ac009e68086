"""The places of answers: how many, whose, in which order, and that none is lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import ServiceUnavailable
from query.answers import Answers

LONG_S = 60.0


class Room:
    """Requests over `Answers`, each a task that holds its place until it is told to end."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.inside: list[str] = []  # names, in the order in which they got their place
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str) -> None:
        """Requests, named by their principal and a number: `a1`."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._request(name))
            await settle()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await settle()

    async def abandon(self, *names: str) -> None:
        for name in names:
            self.tasks[name].cancel()
        await settle()

    def refused(self) -> list[str]:
        ended = [(name, task) for name, task in self.tasks.items() if task.done() and not task.cancelled()]
        return [name for name, task in ended if isinstance(task.exception(), ServiceUnavailable)]

    async def _request(self, name: str) -> None:
        await self._answers.take_place(name[0])
        self.inside.append(name)
        try:
            await self._ends[name].wait()
        finally:
            self.inside.remove(name)


async def settle() -> None:
    """Let every task go as far as it can; none waits for anything but another task."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    """Four places, two for a principal; six may wait, three of a principal."""
    room = Room(Answers(4, 2, 6, LONG_S))
    yield room
    await room.abandon(*room.tasks)


async def test_one_principal_has_its_share_and_the_rest_is_for_others(room: Room) -> None:
    await room.ask("a1", "a2", "a3", "b1", "b2", "c1")
    assert room.inside == ["a1", "a2", "b1", "b2"]
    await room.end("b1")
    assert room.inside == ["a1", "a2", "b2", "c1"], "it passes a3, whose principal is at its limit"
    await room.end("a2")
    assert room.inside == ["a1", "b2", "c1", "a3"]


async def test_a_place_that_only_its_holders_principal_waits_for_is_given_to_it(room: Room) -> None:
    await room.ask("a1", "a2", "a3", "a4")
    assert room.inside == ["a1", "a2"]
    await room.end("a1", "a2")
    assert room.inside == ["a3", "a4"]


async def test_principals_that_wait_take_turns(room: Room) -> None:
    await room.ask("a1", "a2", "b1", "b2", "d1", "d2", "c1", "a3")
    for ending, entering in (("a1", "d1"), ("a2", "c1"), ("b1", "d2"), ("b2", "a3")):
        await room.end(ending)
        assert room.inside[-1] == entering


async def test_one_principal_has_half_of_the_waiting(room: Room) -> None:
    await room.ask("a1", "a2", "a3", "a4", "a5", "a6")
    assert room.refused() == ["a6"]
    await room.ask("b1", "b2", "b3", "b4", "b5", "b6")
    assert room.refused() == ["a6", "b6"]
    await room.ask("c1")
    assert room.refused() == ["a6", "b6", "c1"], "six wait"
    await room.end("a1")
    await room.ask("c2")
    assert room.refused() == ["a6", "b6", "c1"]


async def test_who_goes_away_leaves_the_queue(room: Room) -> None:
    await room.ask("a1", "a2", "a3", "a4", "a5")
    await room.abandon("a3", "a4")
    await room.ask("a6", "a7", "a8")
    assert room.refused() == ["a8"]
    await room.end("a1", "a2")
    assert room.inside == ["a5", "a6"]


async def test_who_goes_away_leaves_his_place(room: Room) -> None:
    await room.ask("a1", "a2", "a3", "b1", "b2", "c1")
    await room.abandon("a1", "b1")
    assert room.inside == ["a2", "b2", "c1", "a3"]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_place_that_falls_to_somebody_who_is_just_leaving_is_not_lost(room: Room, moment: str) -> None:
    """The one who waits longest is cancelled just before, or just after, the place is handed on."""

    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))

    def leave(_task: object) -> None:
        room.tasks["c1"].cancel()

    asking = asyncio.create_task(room.ask("a1"))
    while "a1" not in room.tasks:
        await asyncio.sleep(0)
    if moment == "before":
        room.tasks["a1"].add_done_callback(leave)  # callbacks run in the order in which they were added
    await asking
    if moment == "after":
        room.tasks["a1"].add_done_callback(leave)
    await room.ask("a2", "b1", "b2", "c1", "d1")
    await room.end("a1")
    assert room.tasks["c1"].cancelled()
    assert room.inside == ["a2", "b1", "b2", "d1"]
    await room.end("a2", "b1", "b2", "d1")
    await room.ask("e1", "e2", "f1", "f2")
    assert room.inside == ["e1", "e2", "f1", "f2"]
    assert not faults


async def test_who_waits_too_long_is_refused_and_leaves() -> None:
    room = Room(Answers(1, 0, 1, 0.01))
    await room.ask("a1", "b1")
    await asyncio.wait([room.tasks["b1"]])
    assert room.refused() == ["b1"]
    await room.ask("b2")
    await room.end("a1")
    assert room.inside == ["b2"] or room.refused() == ["b1", "b2"]
    await room.abandon(*room.tasks)


async def test_without_a_limit_of_its_own_a_principal_may_have_everything() -> None:
    room = Room(Answers(3, 0, 3, LONG_S))
    await room.ask(*(f"a{n}" for n in range(1, 8)))
    assert room.inside == ["a1", "a2", "a3"]
    assert room.refused() == ["a7"]
    await room.abandon(*room.tasks)


async def test_where_none_may_wait_each_is_answered_at_once() -> None:
    room = Room(Answers(2, 1, 0, LONG_S))
    await room.ask("a1", "a2", "b1", "c1")
    assert (room.inside, room.refused()) == (["a1", "b1"], ["a2", "c1"])
    await room.abandon(*room.tasks)


ACTS = st.lists(st.tuples(st.sampled_from(["ask", "end", "abandon"]), st.integers(0, 20)), max_size=60)


@given(ACTS, st.integers(1, 4), st.integers(0, 3), st.integers(0, 4))
async def test_whatever_happens_bounds_hold_and_no_place_is_lost(
    acts: list[tuple[str, int]], places: int, per_principal: int, max_waiting: int
) -> None:
    room = Room(Answers(places, per_principal, max_waiting, LONG_S))
    for step, (act, number) in enumerate(acts):
        living = [name for name, task in room.tasks.items() if not task.done()]
        if act == "ask":
            await room.ask(f"{'abc'[number % 3]}{step}")
        elif act == "end" and room.inside:
            await room.end(room.inside[number % len(room.inside)])
        elif living:
            await room.abandon(living[number % len(living)])
        waiting = [name for name, task in room.tasks.items() if not task.done() and name not in room.inside]
        held = Counter(name[0] for name in room.inside)
        own = per_principal or places
        assert len(room.inside) <= places
        assert len(waiting) <= max_waiting
        assert all(count <= own for count in held.values())
        if len(room.inside) < places:
            assert all(held[name[0]] == own for name in waiting), "somebody waits who could start"
    await room.abandon(*room.tasks)
    await room.ask(*(f"{chr(ord('d') + n)}1" for n in range(places)))
    assert len(room.inside) == places
    await room.abandon(*room.tasks)
