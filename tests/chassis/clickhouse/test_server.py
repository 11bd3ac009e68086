"""ClickHouse as a server: what only a process of its own can do, its users, and its ends in the midst of a call."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from chassis.clickhouse import (
    ClickHouse,
    QueryLimits,
    StoreMisconfigured,
    StoreRejected,
    StoreUnavailable,
)
from chassis.clickhouse.errors import TOO_MANY_PARTS
from tests.chassis.clickhouse.test_client import ENDLESS, LIMITS, native
from tests.engine.process import Engine

Open = Callable[..., ClickHouse]
KEEP_ALIVE_S = 0.2  # a server closes what is idle for longer


@pytest.fixture(scope="module")
def own_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One that a test may kill, and that closes idle connections early."""
    engine = Engine(tmp_path_factory.mktemp("engine"), keep_alive_s=KEEP_ALIVE_S)
    engine.start()
    yield engine
    engine.kill()


@pytest.fixture
async def store(own_engine: Engine, new_database: Callable[[], str]) -> AsyncIterator[ClickHouse]:
    """A table `t` with a deduplication window, in a database of its own."""
    store = ClickHouse(own_engine.url, database=new_database(), timeout_s=20)
    await store.create_database()
    await store.command(
        "CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100"
    )
    yield store
    await store.close()


@pytest.fixture
async def as_user(store: ClickHouse) -> AsyncIterator[Open]:
    """The same database by another URL of the engine."""
    ((database,),) = await store.query("SELECT currentDatabase()", {}, limits=LIMITS)
    opened: list[ClickHouse] = []

    def open_(url: str, timeout_s: float = 20.0) -> ClickHouse:
        opened.append(ClickHouse(url, database=str(database), timeout_s=timeout_s))
        return opened[-1]

    yield open_
    for one in opened:
        await one.close()


async def count(store: ClickHouse) -> object:
    ((rows,),) = await store.query("SELECT count() FROM t", {}, limits=LIMITS)
    return rows


async def test_a_user_who_only_reads_is_enough_for_reading(
    store: ClickHouse, as_user: Open, own_engine: Engine
) -> None:
    await store.insert("t", ["n"], native(1), token="a")
    reader = as_user(own_engine.reader_url)
    await reader.probe()
    assert await count(reader) == 1
    for write in (reader.insert("t", ["n"], native(2), token="b"), reader.command("DROP TABLE t")):
        with pytest.raises(StoreUnavailable) as caught:
            await write
        assert caught.value.code == 164
    assert await count(store) == 1


async def test_who_only_reads_may_end_his_own_reads(store: ClickHouse, as_user: Open, own_engine: Engine) -> None:
    query = asyncio.ensure_future(as_user(own_engine.reader_url).query(ENDLESS, {}, limits=LIMITS))
    await until(lambda: running(store, 1))
    query.cancel()
    await until(lambda: running(store, 0))


async def test_a_user_who_may_set_nothing_is_told_so(as_user: Open, own_engine: Engine) -> None:
    frozen = as_user(own_engine.frozen_url)
    for call in (frozen.probe(), frozen.insert("t", ["n"], native(2), token="b")):
        with pytest.raises(StoreMisconfigured, match="may not change the setting"):
            await call


async def test_a_setting_that_a_server_does_not_know_is_named(
    store: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chassis.clickhouse.client._QUERY_SETTINGS", {"of_a_later_release": 1})
    with pytest.raises(StoreMisconfigured, match="too old: it does not support the setting of_a_later_release"):
        await store.probe()


@pytest.mark.parametrize(
    ("password", "database", "sentence", "code"),
    [
        ("not-this-one", "default", "rejected the user or password", 516),
        ("hunter2%20%26%20more", "nowhere", "Run `sluice migrate` to create it", 81),
    ],
)
async def test_a_wrong_password_and_a_missing_database_are_named_without_the_password(
    own_engine: Engine, password: str, database: str, sentence: str, code: int
) -> None:
    store = ClickHouse(f"http://sluice:{password}@127.0.0.1:{own_engine.port}", database=database)
    with pytest.raises(StoreMisconfigured, match=sentence) as caught:
        await store.probe()
    assert caught.value.code == code
    assert password not in str(caught.value)
    await store.close()


async def test_a_connection_that_the_server_closed_costs_no_call(store: ClickHouse) -> None:
    for number in range(5):
        await asyncio.sleep(2 * KEEP_ALIVE_S)
        await store.insert("t", ["n"], native(number), token=f"token {number}")
        assert await count(store) == number + 1


async def test_a_restart_of_the_server_costs_no_call(store: ClickHouse, own_engine: Engine) -> None:
    for number in range(2):
        await store.insert("t", ["n"], native(number), token=f"token {number}")
        own_engine.kill()
        own_engine.start()
        assert await count(store) == number + 1


async def test_values_too_long_for_a_url_arrive(store: ClickHouse) -> None:
    text = "x'\\\n\t%ü" * 10_000
    assert await store.query("SELECT {a:String}", {"a": text}, limits=LIMITS) == [(text,)]


async def test_a_block_of_too_many_partitions_is_refused_for_good(store: ClickHouse) -> None:
    await store.command("CREATE TABLE days (d Date) ENGINE = MergeTree PARTITION BY d ORDER BY d")
    block = [bytes((1, 101)) + b"\x01d\x04Date", struct.pack("<101H", *range(101))]
    with pytest.raises(StoreRejected) as caught:
        await store.insert("days", ["d"], block, token="a")
    assert caught.value.code == TOO_MANY_PARTS


async def test_a_server_that_ends_in_a_query_is_away(store: ClickHouse, own_engine: Engine) -> None:
    query = asyncio.ensure_future(store.query(ENDLESS, {}, limits=LIMITS._replace(max_seconds=600)))
    await until(lambda: running(store, 1))
    own_engine.kill()
    try:
        with pytest.raises(StoreUnavailable) as caught:
            await query
        assert not isinstance(caught.value, StoreMisconfigured)
    finally:
        own_engine.start()
    await store.probe()


async def test_a_server_that_hangs_in_an_insert_takes_the_block_once(
    store: ClickHouse, as_user: Open, own_engine: Engine
) -> None:
    impatient = as_user(own_engine.url, timeout_s=1.0)
    await impatient.probe()
    own_engine.pause()
    try:
        with pytest.raises(StoreUnavailable):
            await impatient.insert("t", ["n"], native(1, 2), token="a")
    finally:
        own_engine.resume()
    # What a sender does who does not know; the server may be closing connections that were idle while it hung.
    async with asyncio.timeout(30):
        while True:
            try:
                await store.insert("t", ["n"], native(1, 2), token="a")
                break
            except StoreUnavailable:
                continue
    assert await count(store) == 2


async def test_closing_does_not_wait_for_a_server_that_hangs(
    own_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls that hang are cut: they would wait for an hour."""
    monkeypatch.setattr("chassis.clickhouse.client.CLOSE_S", 0.1)
    store = ClickHouse(own_engine.url, handles=2, timeout_s=3_600)
    await asyncio.gather(store.probe(), store.probe())
    own_engine.pause()
    try:
        calls = [store.insert("t", ["n"], native(1), token="a"), store.probe()]
        hanging = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await store.close()
            for end in await asyncio.gather(*hanging, return_exceptions=True):
                assert isinstance(end, StoreUnavailable)
    finally:
        own_engine.resume()


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
async def test_a_body_that_breaks_off_stores_nothing(store: ClickHouse, own_engine: Engine, *, chunked: bool) -> None:
    ((database,),) = await store.query("SELECT currentDatabase()", {}, limits=LIMITS)
    reader, writer = await asyncio.open_connection("127.0.0.1", own_engine.port)
    head, values = native(1, 2)
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(head) + len(values)}"
    writer.write(
        f"POST /?database={database}&query=INSERT+INTO+t+(n)+FORMAT+Native HTTP/1.1\r\nHost: x\r\n"
        f"X-ClickHouse-User: sluice\r\nX-ClickHouse-Key: hunter2 & more\r\n{framing}\r\n\r\n".encode()
    )
    if chunked:
        writer.write(b"%x\r\n%b\r\n" % (len(head), head) + b"%x\r\n%b" % (len(values), values[:8]))
    else:
        writer.write(head + values[:8])
    await writer.drain()
    writer.close()
    assert await reader.read() == b""
    await store.probe()
    assert await count(store) == 0


async def running(store: ClickHouse, expected: int) -> bool:
    sql = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT count() FROM numbers(1000000000000)%'"
    return await store.query(sql, {}, limits=QueryLimits()) == [(expected,)]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.02)
