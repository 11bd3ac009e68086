"""A system that refuses threads: an error is an error, and costs no later call anything."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from chassis.clickhouse import ClickHouse, StoreUnavailable
from tests.chassis.clickhouse.test_client import LIMITS, native

pytestmark = pytest.mark.both_stores

START = threading.Thread.start


@pytest.fixture
async def database(bare: ClickHouse) -> str:
    """One with a table `t`."""
    await bare.command("CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n")
    ((name,),) = await bare.query("SELECT currentDatabase()", {}, limits=LIMITS)
    return str(name)


def no_more_than(permitted: int) -> Callable[[threading.Thread], None]:
    """As `Thread.start`, of which so many succeed for ClickHouse."""
    left = iter(range(permitted))

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("clickhouse") and next(left, None) is None:
            raise RuntimeError("can't start new thread")
        START(thread)

    return start


@pytest.mark.parametrize("permitted", [0, 1, 2])
async def test_a_thread_that_is_refused_costs_no_handle_and_nobody_makes_the_call(
    clickhouse_url: str, database: str, monkeypatch: pytest.MonkeyPatch, permitted: int
) -> None:
    store = ClickHouse(clickhouse_url, handles=2, max_waiting=0, database=database)
    with monkeypatch.context() as limited:
        for number in range(5):
            limited.setattr("threading.Thread.start", no_more_than(permitted))
            with pytest.raises(StoreUnavailable, match="threads for ClickHouse cannot be started: can't start new"):
                await store.insert("t", ["n"], native(number), token=f"token {number}")
    await store.insert("t", ["n"], native(7), token="token 7")
    assert await store.query("SELECT n FROM t", {}, limits=LIMITS) == [(7,)]
    await store.close()


async def test_a_store_that_is_started_needs_no_more_threads(
    clickhouse_url: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ClickHouse(clickhouse_url, handles=2, database=database)
    await store.start()
    monkeypatch.setattr("threading.Thread.start", no_more_than(0))
    await asyncio.gather(*(store.insert("t", ["n"], native(number), token=f"{number}") for number in range(6)))
    assert await store.query("SELECT count() FROM t", {}, limits=LIMITS) == [(6,)]
    monkeypatch.undo()
    await store.close()
