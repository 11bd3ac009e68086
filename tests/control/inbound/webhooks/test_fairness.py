"""What one organization sends keeps no other one waiting, and does not fill the disk."""

import asyncio
from itertools import count

import pytest

from control.inbound.webhooks import body_allowance
from control.inbound.webhooks.body_allowance import BURST_BYTES, BYTES_PER_S, BodyAllowance
from control.inbound.webhooks.inbox import FairQueue


async def test_holders_take_turns() -> None:
    queue: FairQueue[str] = FairQueue(100, 100)
    for item in ("a1", "a2", "a3", "a4", "b1", "c1", "b2"):
        queue.put(item[0], item)
    assert await queue.take(4) == ["a1", "b1", "c1", "a2"]
    queue.put("c", "c2")
    queue.put_back([("a", "a2"), ("c", "c1")])
    assert await queue.take(3) == ["a2", "c1", "b2"], "what is put back comes first"
    assert await queue.take(100) == ["a3", "c2", "a4"]
    assert queue.take_all() == []


async def test_a_queue_and_each_holder_in_it_have_a_limit() -> None:
    queue: FairQueue[int] = FairQueue(3, 2)
    numbers = count()
    queue.put("a", next(numbers))
    queue.put("a", next(numbers))
    with pytest.raises(asyncio.QueueFull):
        queue.put("a", next(numbers))
    queue.put("b", next(numbers))
    with pytest.raises(asyncio.QueueFull):
        queue.put("c", next(numbers))
    assert await queue.take(1) == [0]
    queue.put("c", next(numbers))
    assert sorted(queue.take_all()) == [1, 3, 5]
    queue.put("a", 7)
    assert await queue.take(9) == [7]


async def test_taking_waits_for_an_item() -> None:
    queue: FairQueue[int] = FairQueue(3, 2)
    taking = asyncio.create_task(queue.take(2))
    await asyncio.sleep(0)
    assert not taking.done()
    queue.put("a", 1)
    assert await taking == [1]


def test_an_organization_stores_bodies_at_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_allowance, "MAX_ORGANIZATIONS", 2)
    now = 0.0
    allowance = BodyAllowance(lambda: now)
    assert allowance.take("a", BURST_BYTES)
    assert not allowance.take("a", 1)
    assert allowance.take("b", 1)
    now = 2.0
    assert not allowance.take("a", 2 * BYTES_PER_S + 1)
    assert allowance.take("a", 2 * BYTES_PER_S)
    assert not allowance.take("a", 1)
    now = 1e9
    assert not allowance.take("a", BURST_BYTES + 1)
    for name in ("c", "d"):
        assert allowance.take(name, 1)
    assert len(allowance._buckets) == 2
