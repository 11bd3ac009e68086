"""The gate that a backup closes."""

import asyncio

import pytest

from gateway.inserts.gate import Gate, GateBusy


async def test_who_comes_while_it_is_closed_waits_until_it_opens() -> None:
    gate, passed = Gate(), asyncio.Event()

    async def pass_through() -> None:
        async with gate:
            passed.set()

    async with gate.closed(1.0):
        task = asyncio.create_task(pass_through())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not passed.is_set()
    await task
    assert passed.is_set()


async def test_it_is_closed_once_everybody_inside_has_left() -> None:
    gate, leave, closed = Gate(), asyncio.Event(), asyncio.Event()

    async def stay() -> None:
        async with gate:
            await leave.wait()

    async def close() -> None:
        async with gate.closed(60.0):
            closed.set()

    inside = [asyncio.create_task(stay()) for _ in range(3)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(close())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not closed.is_set()
    leave.set()
    await asyncio.gather(*inside, closing)
    assert closed.is_set()


async def test_if_somebody_stays_too_long_it_is_open_again() -> None:
    gate = Gate()
    async with gate:
        with pytest.raises(GateBusy):
            async with gate.closed(0.01):
                pytest.fail("somebody is inside")
        async with gate:
            pass


async def test_an_error_in_the_block_opens_it() -> None:
    gate = Gate()
    with pytest.raises(KeyError):
        async with gate.closed(1.0):
            raise KeyError
    async with gate:
        pass
