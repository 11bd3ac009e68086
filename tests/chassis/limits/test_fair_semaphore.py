"""The turns of organizations and users: how many run, whose is next, and that no place is lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.limits.fairness import FairSemaphore, QueueFull, Requester, ShareLimits


class Crowd:
    """Requests over `Turns`, each a task that has its amount until it is told to end; named by organization, user and a
    number: `Aa1`.
    """

    def __init__(self, turns: FairSemaphore) -> None:
        self.turns = turns
        self.running: list[str] = []  # names, in the order in which they began
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.amounts: dict[str, int] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def ask(self, *names: str, amount: int = 1) -> None:
        for name in names:
            self._ends[name], self.amounts[name] = asyncio.Event(), amount
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
        return [name for name, task in ended if isinstance(task.exception(), QueueFull)]

    def waiting(self) -> list[str]:
        return [name for name, task in self.tasks.items() if not task.done() and name not in self.running]

    async def _request(self, name: str) -> None:
        asker = Requester(name[0], name[1])
        taken = await self.turns.acquire(asker, self.amounts[name])
        self.running.append(name)
        try:
            await self._ends[name].wait()
        finally:
            self.running.remove(name)
            self.turns.release(asker, taken)


async def settle() -> None:
    """Let every task go as far as it can; none waits for anything but another task."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def crowd() -> AsyncIterator[Crowd]:
    """Four places, two for a user, three for an organization; eight may wait, four of one, six of the other."""
    crowd = Crowd(FairSemaphore(4, ShareLimits.of(4), 8))
    yield crowd
    await crowd.abandon(*crowd.tasks)


async def test_a_user_and_an_organization_have_their_shares_and_the_rest_is_for_others(crowd: Crowd) -> None:
    await crowd.ask("Aa1", "Aa2", "Aa3", "Ab1", "Ab2", "Ba1")
    assert crowd.running == ["Aa1", "Aa2", "Ab1", "Ba1"]
    await crowd.end("Aa1")
    assert crowd.running == ["Aa2", "Ab1", "Ba1", "Ab2"], "users of one organization take turns"


async def test_organizations_take_turns_whatever_their_users_have_waiting() -> None:
    crowd = Crowd(FairSemaphore(1, ShareLimits(1, 1), 20))
    await crowd.ask("Aa1", "Aa2", "Aa3", "Ab1", "Ac1", "Ba1", "Ba2")
    begun = []
    for name in ("Aa1", "Ba1", "Ab1", "Ba2", "Ac1", "Aa2"):
        await crowd.end(name)
        begun += crowd.running
    assert begun == ["Ba1", "Ab1", "Ba2", "Ac1", "Aa2", "Aa3"]
    await crowd.end("Aa3")
    assert crowd.turns.in_use == 0


async def test_one_place_is_left_for_whoever_comes() -> None:
    crowd = Crowd(FairSemaphore(3, ShareLimits.all_but_one(3), 20))
    await crowd.ask("Aa1", "Aa2", "Aa3", "Ab1")
    assert crowd.running == ["Aa1", "Aa2"]
    await crowd.ask("Ba1")
    assert crowd.running == ["Aa1", "Aa2", "Ba1"]
    await crowd.end("Aa1")
    assert crowd.running == ["Aa2", "Ba1", "Ab1"], "within an organization the users take turns"
    await crowd.abandon(*crowd.tasks)


async def test_a_user_has_half_of_the_queue_and_an_organization_three_quarters(crowd: Crowd) -> None:
    await crowd.ask(*(f"Aa{n}" for n in range(8)))
    assert crowd.refused() == ["Aa6", "Aa7"]
    await crowd.ask("Ab1", "Ab2", "Ab3", "Ab4")
    assert crowd.refused()[2:] == ["Ab4"], "one runs, two wait"
    await crowd.ask("Ba1", "Ba2", "Ba3", "Ba4")
    assert crowd.refused()[3:] == ["Ba4"], "one runs, eight wait in all"
    await crowd.abandon("Aa2")
    await crowd.ask("Ba5")
    assert len(crowd.refused()) == 4


async def test_what_is_larger_than_a_share_comes_when_its_user_has_nothing_and_is_waited_for() -> None:
    """Of ten; two wait for what nobody passes them in."""
    crowd = Crowd(FairSemaphore(10, ShareLimits.of(10), 9))
    await crowd.ask("Aa1", amount=4)
    await crowd.ask("Aa2", amount=2)
    await crowd.ask("Ba1", amount=40)
    await crowd.ask("Ca1", amount=1)
    assert crowd.running == ["Aa1"]
    await crowd.end("Aa1")
    assert crowd.running == ["Ba1"], "as much as there is"
    await crowd.end("Ba1")
    assert crowd.running == ["Ca1", "Aa2"]
    await crowd.end("Ca1", "Aa2")
    assert crowd.turns.in_use == 0


async def test_who_gives_up_waiting_for_much_lets_the_others_go_on() -> None:
    crowd = Crowd(FairSemaphore(4, ShareLimits(4, 4), 9))
    await crowd.ask("Aa1", amount=2)
    await crowd.ask("Ba1", amount=3)
    await crowd.ask("Ca1", amount=2)
    assert crowd.running == ["Aa1"]
    await crowd.abandon("Ba1")
    assert crowd.running == ["Aa1", "Ca1"]
    await crowd.end("Aa1", "Ca1")


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_place_that_falls_to_somebody_who_is_just_leaving_is_not_lost(moment: str) -> None:
    """The one who waits longest is cancelled just before, or just after, the place is handed on."""
    crowd = Crowd(FairSemaphore(1, ShareLimits(1, 1), 9))
    await crowd.ask("Aa1", "Ba1", "Ca1")
    if moment == "before":
        crowd.tasks["Ba1"].cancel()
        crowd._ends["Aa1"].set()
    else:
        crowd._ends["Aa1"].set()
        while crowd.turns.waiting == 2:
            await asyncio.sleep(0)
        crowd.tasks["Ba1"].cancel()
    await settle()
    assert crowd.running == ["Ca1"]
    assert crowd.tasks["Ba1"].cancelled()
    await crowd.end("Ca1")
    assert (crowd.turns.in_use, crowd.turns.waiting) == (0, 0)


async def test_who_has_what_others_wait_for_is_in_their_way() -> None:
    """Shares: a user five, an organization seven, of ten."""
    crowd = Crowd(FairSemaphore(10, ShareLimits.of(10), 9))
    await crowd.ask("Aa1", "Ab1", amount=3)
    assert not crowd.turns.blocks_others(Requester("A", "a"))
    await crowd.ask("Ac1", amount=2)
    assert [crowd.turns.blocks_others(Requester(*name)) for name in ("Aa", "Ab", "Ba")] == [True, True, False]
    await crowd.abandon("Ac1")
    await crowd.ask("Aa2", amount=3)
    assert [crowd.turns.blocks_others(Requester(*name)) for name in ("Aa", "Ba")] == [True, False]
    await crowd.abandon("Aa2")
    await crowd.ask("Ba1", amount=5)
    assert [crowd.turns.blocks_others(Requester(*name)) for name in ("Aa", "Ab")] == [True, True]
    await crowd.abandon(*crowd.tasks)


ACTS = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "end", "abandon"]), st.integers(0, 40), st.integers(1, 4)), max_size=60
)


@given(acts=ACTS, total=st.integers(1, 6), max_waiting=st.integers(0, 8), all_but_one=st.booleans())
async def test_whatever_happens_bounds_hold_and_nothing_is_lost(
    acts: list[tuple[str, int, int]], total: int, max_waiting: int, all_but_one: bool
) -> None:
    shares = ShareLimits.all_but_one(total) if all_but_one else ShareLimits.of(total)
    crowd = Crowd(FairSemaphore(total, shares, max_waiting))
    for step, (act, number, amount) in enumerate(acts):
        living = [name for name, task in crowd.tasks.items() if not task.done()]
        if act == "ask":
            await crowd.ask(f"{'AB'[number % 2]}{'abc'[number % 3]}{step}", amount=amount)
        elif living:
            await (crowd.end if act == "end" else crowd.abandon)(living[number % len(living)])
        _check(crowd, total, shares, max_waiting)
    await crowd.abandon(*crowd.tasks)
    assert (crowd.turns.in_use, crowd.turns.waiting) == (0, 0)
    await crowd.ask("Xx", amount=total)
    assert crowd.running == ["Xx"]
    await crowd.end("Xx")


def _check(crowd: Crowd, total: int, shares: ShareLimits, max_waiting: int) -> None:
    by_user, by_org = Counter[str](), Counter[str]()
    taken = {name: min(crowd.amounts[name], total) for name in crowd.tasks}
    for name in crowd.running:
        by_user[name[:2]] += taken[name]
        by_org[name[0]] += taken[name]
    waiting = crowd.waiting()
    assert crowd.turns.in_use == by_org.total() <= total
    assert crowd.turns.waiting == len(waiting) <= max_waiting
    single = Counter(name[:2] for name in crowd.running)
    assert all(size <= shares.user or single[user] == 1 for user, size in by_user.items())

    def may_have(name: str) -> bool:
        user, org = by_user[name[:2]], by_org[name[0]]
        return (not user or user + taken[name] <= shares.user) and (not org or org + taken[name] <= shares.org)

    first = {name[:2]: name for name in reversed(waiting)}.values()  # of each user
    if any(may_have(name) for name in first):
        free = total - crowd.turns.in_use
        assert any(taken[name] > free for name in first if may_have(name)), "somebody waits who could start"
