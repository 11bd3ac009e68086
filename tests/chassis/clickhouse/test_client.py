"""ClickHouse access: the embedded engine for real, the server protocol against a small endpoint that records."""

import asyncio
import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from chassis.clickhouse import (
    ClickHouse,
    QueryLimits,
    QueryTimeout,
    QueryTooLarge,
    StoreBusy,
    StoreMisconfigured,
    StoreRejected,
    StoreUnavailable,
    client,
)
from chassis.clickhouse.errors import from_insert, from_query

pytestmark = pytest.mark.both_stores

LIMITS = QueryLimits()
ENDLESS = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 7"


def native(*values: int) -> list[bytes]:
    """A block of one UInt64 column `n`, in two pieces."""
    return [bytes((1, len(values))) + b"\x01n\x06UInt64", struct.pack(f"<{len(values)}Q", *values)]


@pytest.fixture
async def table(bare: ClickHouse) -> ClickHouse:
    """A table `t` with a deduplication window."""
    await bare.command(
        "CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100"
    )
    return bare


async def test_a_repeated_insert_with_the_same_token_is_stored_once(table: ClickHouse) -> None:
    await table.insert("t", ["n"], native(1, 2), token="a")
    await table.insert("t", ["n"], native(1, 2), token="a")
    await table.insert("t", ["n"], native(1, 2), token="b")
    assert await table.query("SELECT n, count() FROM t GROUP BY n ORDER BY n", {}, limits=LIMITS) == [(1, 2), (2, 2)]


async def test_a_block_that_is_none_is_rejected_for_good(table: ClickHouse) -> None:
    with pytest.raises(StoreRejected) as caught:
        await table.insert("t", ["n"], [b"\x01\x01\x01n\x06String\x03abc"], token="a")
    assert caught.value.code == 6


async def test_a_block_that_was_cut_off_may_arrive_whole_the_next_time(table: ClickHouse) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await table.insert("t", ["n"], [b"".join(native(1, 2))[:-1]], token="a")
    assert caught.value.code == 33
    await table.insert("t", ["n"], native(1, 2), token="a")


async def test_a_missing_table_is_the_stores_fault(bare: ClickHouse) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await bare.insert("nowhere", ["n"], native(1), token="a")
    assert caught.value.code == 60


async def test_parameters_arrive_exactly(bare: ClickHouse) -> None:
    hostile = "x'\\\n\t{y:String}; DROP TABLE spans"
    row = await bare.query(
        "SELECT {a:String}, {b:UInt64}, {c:Array(String)}, toFixedString({d:String}, 2), {e:Nullable(String)}",
        {"a": hostile, "b": 2**64 - 1, "c": ["a'", "b"], "d": "ab", "e": None},
        limits=LIMITS,
    )
    assert row == [(hostile, 2**64 - 1, ["a'", "b"], b"ab", None)]


async def test_a_parameter_without_a_place_is_a_mistake(bare: ClickHouse) -> None:
    with pytest.raises(ValueError, match="nobody"):
        await bare.query("SELECT 1", {"nobody": 1}, limits=LIMITS)


BEYOND_LIMITS = [
    ("SELECT sleepEachRow(1) FROM numbers(3)", LIMITS._replace(max_seconds=0.1), QueryTimeout),
    ("SELECT number FROM numbers(11)", LIMITS._replace(max_result_rows=10), QueryTooLarge),
    ("SELECT count() FROM numbers(10000) WHERE number % 7 = 0", LIMITS._replace(max_rows_to_read=10), QueryTooLarge),
    ("SELECT number k FROM numbers(10000) GROUP BY k", LIMITS._replace(max_rows_to_group_by=10), QueryTooLarge),
    ("SELECT groupArray(number) FROM numbers(10000000)", LIMITS._replace(max_memory_bytes=10**7), QueryTooLarge),
    ("SELECT * FROM url('http://127.0.0.1:1/', CSV, 'a String')", LIMITS, StoreUnavailable),
    ("SELECT nonsense(1)", LIMITS, StoreRejected),
]


async def test_a_query_meets_its_limits(bare: ClickHouse) -> None:
    for sql, limits, error in BEYOND_LIMITS:
        with pytest.raises(error):
            raise AssertionError(f"{sql} gave {await bare.query(sql, {}, limits=limits)}")


async def test_a_query_gives_way_to_inserts_and_says_so(bare: ClickHouse) -> None:
    """A query without a priority takes no part in them, and would not pause."""
    asked = "SELECT getSetting('priority')"
    assert await bare.query(asked, {}, limits=LIMITS) == [(2,)]
    assert await bare.query(asked, {}, limits=LIMITS._replace(priority=3)) == [(3,)]
    assert int(client.INSERT_SETTINGS["priority"]) < 2


async def test_a_query_over_many_blocks_ends_although_an_insert_still_runs(bare: ClickHouse) -> None:
    """It pauses before each of 60 blocks; with the engine's own second the insert would be through first."""
    await bare.command("CREATE TABLE slow (n UInt64) ENGINE = MergeTree ORDER BY n")
    slow = "INSERT INTO slow SELECT sleepEachRow(1) FROM numbers(30) SETTINGS max_block_size = 1"
    insert = asyncio.create_task(bare.command(slow, settings={"priority": client.INSERT_SETTINGS["priority"]}))
    running = "FROM system.processes WHERE current_database = currentDatabase() AND query LIKE 'INSERT INTO slow%'"
    async with asyncio.timeout(30):
        while await bare.query(f"SELECT count() {running}", {}, limits=LIMITS) != [(1,)]:
            await asyncio.sleep(0.02)
    blocks = "SELECT sum(number) FROM numbers(4000000)"
    assert await bare.query(blocks, {}, limits=LIMITS._replace(max_seconds=90)) == [(7_999_998_000_000,)]
    assert not insert.done()
    await bare.command("KILL QUERY WHERE current_database = currentDatabase() AND query LIKE 'INSERT INTO slow%'")
    with pytest.raises(StoreUnavailable):
        await insert


async def test_a_setting_that_the_server_does_not_know_is_not_sent(bare: ClickHouse) -> None:
    handle, known = bare._handles[0].client(), client.QUERY_SETTINGS_IF_KNOWN
    assert client._supported_settings(handle, {"nobody_knows": 1, **known}) == known


async def test_a_query_only_reads(bare: ClickHouse) -> None:
    with pytest.raises(ValueError, match="SELECT"):
        await bare.query("CREATE TABLE x (a UInt8) ENGINE = Memory", {}, limits=LIMITS)
    await bare.command("CREATE TABLE x (a UInt8) ENGINE = Memory")  # the handle is none the worse for it


async def test_an_abandoned_query_is_cancelled_in_the_engine(bare: ClickHouse) -> None:
    query = asyncio.ensure_future(bare.query(ENDLESS, {}, limits=LIMITS._replace(max_seconds=600)))
    await until_running(bare, 1)
    query.cancel()
    with pytest.raises(asyncio.CancelledError):
        await query
    await until_running(bare, 0)


async def until_running(store: ClickHouse, expected: int) -> None:
    """Wait until so many endless queries run in the engine."""
    running = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT count() FROM numbers(1000000000000)%'"
    async with asyncio.timeout(30):
        while await store.query(running, {}, limits=LIMITS) != [(expected,)]:
            await asyncio.sleep(0.02)


@pytest.fixture
async def single(clickhouse_url: str, new_database: Callable[[], str]) -> AsyncIterator[ClickHouse]:
    """A store that makes one call at a time, for which one other may wait."""
    store = ClickHouse(clickhouse_url, handles=1, max_waiting=1, database=new_database())
    await store.create_database()
    yield store
    await store.close()


async def test_what_a_failed_call_has_written_is_in_no_other_answer(single: ClickHouse) -> None:
    async def still_right() -> bool:
        return await single.query("SELECT 41 + 1", {}, limits=LIMITS) == [(42,)]

    for sql in (
        "SELECT number, toString(number) FROM numbers(300000)",  # more rows than the limit
        "SELECT number FROM (SELECT number FROM numbers(100000) UNION ALL SELECT throwIf(sleepEachRow(0.2) = 0))",
    ):
        with pytest.raises((QueryTooLarge, StoreRejected)):
            await single.query(sql, {}, limits=QueryLimits(max_result_rows=150_000))
        assert await still_right()
        cancelled = asyncio.create_task(single.query(ENDLESS, {}, limits=LIMITS))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        assert await still_right()
    rows = "SELECT throwIf(number = 70000), number FROM numbers(100000)"
    with pytest.raises(StoreRejected):
        await single.command(f"{rows} SETTINGS max_block_size = 1000 FORMAT Vertical")
    assert await still_right()


async def test_a_full_queue_is_refused_and_empties_again(single: ClickHouse) -> None:
    slow = asyncio.ensure_future(single.query(ENDLESS, {}, limits=LIMITS._replace(max_seconds=600)))
    waiting = asyncio.ensure_future(single.probe())
    await asyncio.sleep(0)
    with pytest.raises(StoreBusy):
        await single.probe()
    slow.cancel()
    await waiting
    await single.probe()


async def test_a_waiting_call_may_be_cancelled_also_in_the_moment_that_its_turn_comes(single: ClickHouse) -> None:
    first, second = asyncio.ensure_future(single.probe()), asyncio.ensure_future(single.probe())
    await asyncio.sleep(0)
    second.cancel()
    await first
    handle = await single._acquire()
    waiting = asyncio.ensure_future(single.probe())
    await asyncio.sleep(0)
    waiting.cancel()
    single._release(handle)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await single.probe()


async def test_closing_ends_a_query_whose_caller_is_gone(single: ClickHouse, bare: ClickHouse) -> None:
    slow = asyncio.ensure_future(single.query(ENDLESS, {}, limits=LIMITS._replace(max_seconds=600)))
    await until_running(bare, 1)
    slow.cancel()
    async with asyncio.timeout(60):
        await single.close()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://host/db", "has the unknown scheme 'mysql'"),
        ("http:///db", "has no host"),
        ("http://host:port/db", "is not valid"),
        ("http://host/a-b", "not a ClickHouse database name"),
        ("http://host/db?color=red", "unknown option 'color'"),
        ("chdb://relative/dir", "absolute path"),
        ("chdb:///dir?x=1", "absolute path"),
    ],
)
def test_a_wrong_url_is_one_sentence(url: str, sentence: str) -> None:
    with pytest.raises(StoreMisconfigured, match=sentence):
        ClickHouse(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2/x@host:8123/db",
        "http://user:12/hunter2@host:8123/db",
        "http://user:12?hunter2=x@host:8123/db",
        "http://user:12#hunter2@host:8123/db",
    ],
)
def test_a_password_that_is_not_encoded_is_not_shown(url: str) -> None:
    with pytest.raises(StoreMisconfigured, match="percent-encoded") as caught:
        ClickHouse(url)
    assert "hunter2" not in caught.value.message
    assert caught.value.__context__ is None or caught.value.__suppress_context__  # nor in a traceback


def test_credentials_stay_out_of_the_shown_address() -> None:
    assert ClickHouse("https://me:secret@host/db").address == "https://host:8443"


# Opens the directory of the first argument; started while another process may have it.
OPEN = """
import asyncio, sys
from chassis.clickhouse import ClickHouse, StoreMisconfigured
async def main():
    store = ClickHouse("chdb://" + sys.argv[1])
    try:
        await store.start()
    except StoreMisconfigured as error:
        sys.exit(error.message)
    await store.close()
asyncio.run(main())
"""


def open_elsewhere(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command, variables = [sys.executable, "-c", OPEN, str(directory)], {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=variables)


def test_a_second_process_on_the_same_directory_is_told_so(embedded_url: str) -> None:
    directory = Path(urlsplit(embedded_url).path)
    other = open_elsewhere(directory)
    assert other.returncode == 1
    assert f"The directory {directory} is in use by another process" in other.stderr


def test_an_engine_without_a_time_zone_is_told_so(tmp_path: Path) -> None:
    other = open_elsewhere(tmp_path / "data", TZ="No/Where")
    assert other.returncode == 1
    assert "The embedded engine (chdb) is installed but cannot be loaded." in other.stderr
    assert "tzdata" in other.stderr


def test_a_directory_that_is_a_file_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    other = open_elsewhere(tmp_path / "file")
    assert other.returncode == 1
    assert "cannot be created" in other.stderr


def test_whether_an_insert_may_succeed_later() -> None:
    """By the code of the failure: of 99999, of a later release, nothing is known."""
    later = (241, 319, 516, 16, 60, 115, 497, 24, 33, 95, 96, 173, 218, 290, 384, 735, 999, 1001, 1002, 99999, None)
    assert {type(from_insert(code, "what the server says")) for code in later} == {StoreUnavailable}
    never = (6, 53, 117, 190, 321, 349, 407)
    assert {type(from_insert(code, "what the server says")) for code in never} == {StoreRejected}
    parts = "Too many parts (3001). Merges are processing significantly slower than inserts"
    assert type(from_insert(252, parts)) is StoreUnavailable
    assert type(from_insert(252, "Too many partitions for single INSERT block (more than 100)")) is StoreRejected


@pytest.mark.parametrize(
    ("code", "text", "error"),
    [
        (159, "Timeout exceeded", QueryTimeout),
        (241, "Query memory limit exceeded", QueryTooLarge),
        (241, "(total) memory limit exceeded", StoreUnavailable),
        (158, "rows", QueryTooLarge),
        (202, "Too many simultaneous queries", StoreUnavailable),
        (115, "Unknown setting", StoreUnavailable),
        (62, "Syntax error", StoreRejected),
        (None, "connection reset", StoreUnavailable),
    ],
)
def test_what_a_failed_read_means(code: int | None, text: str, error: type[Exception]) -> None:
    assert type(from_query(code, text)) is error


class Endpoint:
    """Speaks as much of ClickHouse's HTTP interface as a client needs to connect, and records what else it is sent."""

    def __init__(self) -> None:
        self.port = 0
        self.sent: list[tuple[dict[str, str], bytes]] = []
        self.answer: Callable[[], web.Response] = web.Response
        self.hang: asyncio.Event | None = None

    @property
    def url(self) -> str:
        return f"http://me:secret@127.0.0.1:{self.port}/telemetry"

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        parameters = {name: values[0] for name, values in parse_qs(request.rel_url.raw_query_string).items()}
        text = parameters.get("query", "") + body.decode("latin-1")
        if "version(), timezone()" in text:
            return web.Response(body=b"26.9.1.1\tUTC\n")
        if "system.settings" in text:
            return web.Response(body=_settings_block())
        if "SELECT 1 AS check" in text:
            return web.Response(body=b"")
        self.sent.append((parameters, body))
        if self.hang is not None:
            await self.hang.wait()
        return self.answer()


# Settings that the endpoint says it knows: all that are sent.
KNOWN = [
    *("readonly", "log_comment", "insert_deduplication_token"),
    *client.INSERT_SETTINGS,
    *client._QUERY_SETTINGS,
    *client._limit_settings(QueryLimits(max_threads=1)),
]


def _settings_block() -> bytes:
    """`name, value, readonly` of settings in Native: all 0, all may be changed."""

    def column(name: str, kind: str, data: bytes) -> bytes:
        return bytes((len(name),)) + name.encode() + bytes((len(kind),)) + kind.encode() + data

    return (
        bytes((3, len(KNOWN)))
        + column("name", "String", b"".join(bytes((len(name),)) + name.encode() for name in KNOWN))
        + column("value", "String", b"\x010" * len(KNOWN))
        + column("readonly", "UInt8", bytes(len(KNOWN)))
    )


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{tail:.*}", endpoint.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    endpoint.port = runner.addresses[0][1]
    yield endpoint
    if endpoint.hang is not None:
        endpoint.hang.set()
    await runner.cleanup()


async def test_an_insert_over_http_is_one_block_with_pinned_settings(endpoint: Endpoint) -> None:
    store = ClickHouse(endpoint.url)
    await store.insert("spans", ["n"], native(1, 2), token="7:spans:20000")
    await store.close()
    ((parameters, body),) = endpoint.sent
    sql = parameters.pop("query", "").strip()
    assert sql == "INSERT INTO spans (`n`) FORMAT Native"
    assert body == b"".join(native(1, 2))
    pinned = {
        "database": "telemetry",
        "async_insert": "0",
        "insert_deduplicate": "1",
        "insert_deduplication_token": "7:spans:20000",
        "deduplicate_blocks_in_dependent_materialized_views": "1",
        "max_partitions_per_insert_block": "100",
        "session_timezone": "UTC",
    }
    assert pinned.items() <= parameters.items()
    assert "session_id" not in parameters


async def test_a_query_over_http_carries_its_limits_and_its_values_apart(endpoint: Endpoint) -> None:
    store = ClickHouse(endpoint.url)
    assert await store.query("SELECT {a:String}", {"a": "x'"}, limits=QueryLimits(max_seconds=3)) == []
    await store.close()
    ((parameters, body),) = endpoint.sent
    assert b"SELECT {a:String}" in body
    pinned = {
        "readonly": "1",
        "max_execution_time": "3",
        "param_a": "x\\'",
        "session_timezone": "UTC",
        "skip_unavailable_shards": "0",
    }
    assert pinned.items() <= parameters.items()
    assert parameters["log_comment"].startswith("sluice:")


async def test_errors_over_http_are_told_apart(endpoint: Endpoint) -> None:
    store = ClickHouse(endpoint.url)
    for number, (status, code, text, error) in enumerate(
        (
            (500, "252", "Code: 252. DB::Exception: Too many parts (3001)", StoreUnavailable),
            (400, "117", "Code: 117. DB::Exception: Incorrect data", StoreRejected),
            (503, "", "upstream is down", StoreUnavailable),
            (502, "", "<html>bad gateway</html>", StoreUnavailable),
        ),
        1,
    ):
        headers = {"X-ClickHouse-Exception-Code": code} if code else {}
        endpoint.answer = partial(web.Response, status=status, text=text, headers=headers)
        with pytest.raises(error):
            await store.insert("spans", ["n"], native(1), token="a")
        assert len(endpoint.sent) == number  # nothing but the batcher decides about another try
    await store.close()


async def test_a_server_that_does_not_answer_in_time_is_unavailable(endpoint: Endpoint) -> None:
    endpoint.hang = asyncio.Event()
    store = ClickHouse(endpoint.url, timeout_s=1)
    with pytest.raises(StoreUnavailable) as caught:
        await store.insert("spans", ["n"], native(1), token="a")
    assert caught.value.message == "timed out"
    await store.close()
    assert len(endpoint.sent) == 1


async def test_a_service_starts_while_its_server_is_away() -> None:
    away = ClickHouse("http://127.0.0.1:1/db")
    await away.start()
    with pytest.raises(StoreUnavailable) as caught:
        await away.probe()
    assert caught.value.message == "ClickHouse cannot be reached: http://127.0.0.1:1: Connection refused"
    await away.close()


async def test_a_probe_wants_the_answer_of_clickhouse(endpoint: Endpoint) -> None:
    store = ClickHouse(endpoint.url)
    endpoint.answer = lambda: web.Response(body=b"\x01\x01\x011\x05UInt8\x01")
    await store.probe()
    for body in (b"", b"<html>welcome</html>", b"\x01\x01\x011\x05UInt8\x02"):
        endpoint.answer = partial(web.Response, body=body)
        with pytest.raises(StoreUnavailable):
            await store.probe()
    await store.close()


class NoMemory:
    """A driver's client for which nothing is left."""

    @property
    def server_settings(self) -> dict[str, object]:
        raise MemoryError


async def test_memory_that_ends_in_the_client_is_a_limit_of_the_read(
    table: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without_memory:
        without_memory.setattr("chassis.clickhouse.client._Handle.client", lambda _: NoMemory())
        with pytest.raises(QueryTooLarge):
            await table.query("SELECT 1", {}, limits=QueryLimits())
        with pytest.raises(StoreUnavailable):  # the same block may fit later
            await table.insert("numbers", ["n"], native(1), token="a")
    assert await table.query("SELECT 1", {}, limits=QueryLimits()) == [(1,)]
