"""What one organization sends keeps no other one waiting."""

import asyncio
from itertools import count

import pytest

from chassis.errors import ServiceUnavailable
from control.inbound.webhooks.inbox import EventQueue


async def test_organizations_take_turns() -> None:
    queue = EventQueue[str](100, 100)
    for item in ("a1", "a2", "a3", "a4", "b1", "c1", "b2"):
        queue.put(item[0], item)
    assert await queue.take(4) == ["a1", "b1", "c1", "a2"]
    queue.put("c", "c2")
    assert await queue.take(3) == ["b2", "a3", "c2"]
    assert await queue.take(100) == ["a4"]
    assert queue.take_now(100) == []


async def test_what_is_put_back_leaves_others_their_turn() -> None:
    queue = EventQueue[str](100, 100)
    for item in ("a1", "a2", "a3", "a4"):
        queue.put("a", item)
    taken = await queue.take(3)
    queue.put("b", "b1")
    queue.put_back(("a", item) for item in taken[1:])
    assert await queue.take(9) == ["a2", "b1", "a3", "a4"]


async def test_a_queue_and_each_organization_in_it_have_a_limit() -> None:
    queue = EventQueue[int](3, 2)
    numbers = count()
    queue.put("a", next(numbers))
    queue.put("a", next(numbers))
    with pytest.raises(ServiceUnavailable):
        queue.put("a", next(numbers))
    queue.put("b", next(numbers))
    with pytest.raises(ServiceUnavailable):
        queue.put("c", next(numbers))
    assert await queue.take(1) == [0]
    queue.put("c", next(numbers))
    assert sorted(queue.take_now(9)) == [1, 3, 5]
    queue.put("a", 7)
    assert await queue.take(9) == [7]


async def test_taking_waits_for_an_item() -> None:
    queue = EventQueue[int](3, 2)
    taking = asyncio.create_task(queue.take(2))
    await asyncio.sleep(0)
    assert not taking.done()
    queue.put("a", 1)
    assert await taking == [1]
