"""Derived tables made anew hold what the batches brought, whatever was sent."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pytest

from chassis.clickhouse import ClickHouse, QueryLimits
from gateway.inserts import blocks
from gateway.inserts.blocks import occurrence_blocks
from gateway.repair import days, derivation
from gateway.repair.days import DayStillWritten, Repair
from proto.grouping.fingerprint import FINGERPRINT_VERSION, fingerprint
from proto.otlp.codec import NamedKeySet, build_blocks, decode, new_named_keys
from proto.otlp.policy import DecodedPayload, DecodeError, Policy
from proto.otlp.protobuf_writer import bytes_field, varint_field
from proto.storage.tables import FIRST_REBUILT_ROW, TABLES
from tests.proto.otlp.generate import NOW_NS, case
from tests.proto.otlp.sent import (
    array,
    attributes,
    binary,
    boolean,
    double,
    integer,
    log,
    mapping,
    pair,
    request,
    span,
    string,
)

DAY: Final = datetime.fromtimestamp(NOW_NS // 10**9, UTC).date()
DAYS: Final = [DAY - timedelta(days=before) for before in range(-1, 3)]
OTHER_DAY: Final = DAY - timedelta(days=9)
COLUMNS: Final = {table.name: table.column_names for table in TABLES}
CASES: Final = 1_000
BATCH: Final = 100  # requests
VALUES: Final = (
    *(string("card"), boolean(1), boolean(0), integer(-(2**63))),
    *map(double, (200.0, 1e16, -0.0, 0.1)),
    *(double(float("nan")), binary(b"\xff\0"), b"", array(double(2.0), integer(2), string("ä\n")), array()),
    *(mapping(pair("k", mapping(pair("bytesValue", boolean(1))))), mapping(), None),
    mapping(pair("bytesValue", string("x")), pair("k")),
)

# What readers see of the derived tables; how rows are spread over parts, and numbers within a batch, mean nothing.
CONTENTS: Final = (
    """SELECT project_id, trace_id, signal, day, toUnixTimestamp64Nano(min(min_time)),
    toUnixTimestamp64Nano(max(max_time)), sum(items) FROM trace_index GROUP BY ALL ORDER BY ALL""",
    "SELECT project_id, bucket, key, sum(spans), sum(numeric) FROM attribute_keys GROUP BY ALL ORDER BY ALL",
    """SELECT project_id, toUnixTimestamp64Nano(time), fingerprint, type, message, stacktrace, source, trace_id,
    span_id, service_name, environment, release, batch_id FROM error_occurrences ORDER BY ALL""",
)
NUMBERS: Final = "SELECT count(), uniqExact(batch_id, row) FROM error_occurrences"


@pytest.fixture
def store(unexpiring: ClickHouse) -> ClickHouse:
    """Tables without expiry: the requests of the generator have fixed times."""
    return unexpiring


async def read(store: ClickHouse, sql: str) -> list[tuple[Any, ...]]:
    return await store.query(sql, {}, limits=QueryLimits())


async def contents(store: ClickHouse) -> list[list[tuple[Any, ...]]]:
    return [await read(store, sql) for sql in CONTENTS]


async def insert(
    store: ClickHouse, batch: Sequence[DecodedPayload], batch_id: int, named: NamedKeySet | None = None
) -> None:
    for number, block in enumerate([*build_blocks(batch, batch_id, named), *occurrence_blocks(batch, batch_id)]):
        await store.insert(block.table, COLUMNS[block.table], block.pieces, token=f"{batch_id}:{number}")


def odd_requests(count: int) -> list[DecodedPayload]:
    """Requests of every kind that is accepted, of few days, and none with more exceptions than are taken."""
    found = []
    first = (DAYS[-1] - date(1970, 1, 1)).days
    for seed in range(count):
        one = case(seed)
        try:
            decoded = decode(*one)
        except DecodeError:
            continue
        if decoded.accepted and decoded.days[0] >= first and not decoded.exceptions_over_limit:
            found.append(decoded)
    return found


def raising(days_ago: int = 0) -> list[DecodedPayload]:
    """A span with an exception event for each kind of value, as its message, and a log record for each."""
    at = NOW_NS - days_ago * 86_400 * 10**9
    messages = [pair("exception.message", value) for value in VALUES]
    events = [bytes_field(11, bytes_field(2, b"exception") + attributes(3, message)) for message in messages]
    pairs = [*((pair("exception.type", string("E")), message) for message in messages)]
    pairs.append((pair("exception.type"), pair("exception.message")))  # is none
    logs = [] if days_ago else [log(varint_field(2, 17), attributes(6, *both)) for both in pairs]
    return [
        decode("traces", request(span(*events, start=at, end=at)), 1, Policy(), NOW_NS),
        decode("logs", request(*logs), 1, Policy(), NOW_NS),
    ]


async def lose(store: ClickHouse) -> None:
    """Everything derived is gone but one wrong row for each table."""
    for table in days.DERIVED_TABLES:
        await store.command(f"TRUNCATE TABLE {table}")
    await add_wrong_rows(store, DAY)


async def add_wrong_rows(store: ClickHouse, day: date) -> None:
    await store.command(f"INSERT INTO attribute_keys VALUES (7, '{day} 00:00:00', 'wrong', 1, 1)")
    await store.command(f"INSERT INTO trace_index VALUES (7, 'wrong', 1, '{day}', 0, 0, 1)")
    await store.command(f"INSERT INTO error_occurrences (project_id, time, type) VALUES (7, '{day} 00:00:00', 'wrong')")


async def test_after_a_repair_the_tables_hold_what_the_batches_brought(
    store: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [*odd_requests(CASES), *raising()]
    for start in range(0, len(requests), BATCH):
        await insert(store, requests[start : start + BATCH], start + 1)
    brought = await contents(store)
    assert min(map(len, brought)) > 50
    await lose(store)
    monkeypatch.setattr(derivation, "CHUNK_ROWS", 100)  # some hundred spans of DAY are of one project, in five minutes
    monkeypatch.setattr(days, "CHUNK_BYTES", 20_000)
    for day in DAYS:
        changes = await repair(store).repair_day(day)
        assert [change.table for change in changes] == list(days.DERIVED_TABLES)
    assert await contents(store) == brought
    ((rows, numbers),) = await read(store, NUMBERS)
    assert rows == numbers
    assert await read(store, "SELECT name FROM system.tables WHERE name LIKE 'repair%'") == []


def repair(
    store: ClickHouse,
    *,
    replace: bool = True,
    quiet_s: float = 0,
    keys_per_day: int = 0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Repair:
    return Repair(store, replace=replace, quiet_s=quiet_s, keys_per_day=keys_per_day, sleep=sleep)


async def test_a_repair_touches_its_day_alone_and_a_dry_one_nothing(store: ClickHouse) -> None:
    await insert(store, raising(), 1)
    await insert(store, raising(days_ago=9), 2)
    for day in (DAY, OTHER_DAY):
        await add_wrong_rows(store, day)
    found = await contents(store)
    dry = await repair(store, replace=False).repair_day(DAY)
    assert await contents(store) == found
    assert await repair(store).repair_day(DAY) == dry
    assert [(change.table, change.total_before, change.total_after) for change in dry] == [
        ("trace_index", 2, 1),  # log records without a trace have no place in it
        ("attribute_keys", 1, 0),
        ("error_occurrences", 2 * len(VALUES) + 1, 2 * len(VALUES)),
    ]
    left = [row for table in await contents(store) for row in table if row[0] == 7]
    assert len(left) == len(days.DERIVED_TABLES)  # those of the other day
    assert (await repair(store).repair_day(OTHER_DAY))[2].total_after == len(VALUES)


async def test_occurrences_that_differ_only_in_their_fingerprint_stay_as_they_are(
    store: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of an earlier release have fingerprints by its rules, and followers would count them again."""
    places = "SELECT stored_time, batch_id, row, fingerprint, fingerprint_version FROM error_occurrences ORDER BY ALL"
    with monkeypatch.context() as earlier:
        earlier.setattr(blocks, "fingerprint", lambda *texts: fingerprint(*texts)[::-1])
        earlier.setattr(blocks, "FINGERPRINT_VERSION", 1)
        await insert(store, raising(), 1)
    await insert(store, raising(), 2)
    before = await read(store, places)
    assert {(row[1], row[4]) for row in before} == {(1, 1), (2, FINGERPRINT_VERSION)}
    (_, _, errors) = await repair(store).repair_day(DAY)
    assert (errors.total_before, errors.total_after) == (len(before), len(before))
    assert await read(store, places) == before
    await add_wrong_rows(store, DAY)
    await store.command("ALTER TABLE error_occurrences DELETE WHERE row IN (1, 3)", settings={"mutations_sync": 2})
    await repair(store).repair_day(DAY)
    after = await read(store, places)
    made = set(after) - set(before)
    assert set(before) - set(after) == {row for row in before if row[2] in (1, 3)}
    assert sorted((row[1], row[4], row[2] >= FIRST_REBUILT_ROW) for row in made) == [
        *[(1, FINGERPRINT_VERSION, True)] * 2,
        *[(2, FINGERPRINT_VERSION, True)] * 2,
    ]


async def test_a_day_without_items_is_left_alone(store: ClickHouse) -> None:
    await add_wrong_rows(store, DAY)
    found = await contents(store)
    assert await repair(store).repair_day(DAY) == []
    assert await contents(store) == found


async def test_a_repair_waits_until_a_day_gets_no_more_rows(store: ClickHouse) -> None:
    await insert(store, raising(), 1)
    waits = []

    async def written_while_it_waits(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) <= 2:
            await insert(store, raising(), 1 + len(waits))

    await repair(store, quiet_s=10.0, sleep=written_while_it_waits).repair_day(DAY)
    assert waits == [10.0] * 3
    assert sum(row[-1] for row in (await contents(store))[0]) == 3


async def test_a_day_that_is_written_to_all_the_time_is_left_with_what_its_batches_brought(
    store: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = 1
    await insert(store, raising(), batches)
    command = store.command

    async def written_to(sql: str, *arguments: Any) -> None:
        nonlocal batches
        await command(sql, *arguments)
        if sql.startswith("CREATE TABLE repair_trace_index"):
            batches += 1
            await insert(store, raising(), batches)

    monkeypatch.setattr(store, "command", written_to)
    with pytest.raises(DayStillWritten, match=str(DAY)):
        await repair(store).repair_day(DAY)
    assert batches == 1 + days.MAX_ATTEMPTS
    assert len((await contents(store))[2]) == batches * len(VALUES) * 2


async def test_readers_see_the_old_rows_or_the_new_ones_and_never_a_gap(store: ClickHouse) -> None:
    await insert(store, raising(), 1)
    await add_wrong_rows(store, DAY)
    seen = []
    repairing = asyncio.create_task(repair(store).repair_day(DAY))
    while not repairing.done():
        seen += await read(store, "SELECT count() FROM error_occurrences")
    await repairing
    assert set(seen) <= {(2 * len(VALUES) + 1,), (2 * len(VALUES),)}
    assert len(seen) > 1


async def test_tables_of_a_repair_that_was_killed_long_ago_are_dropped(
    store: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.command("CREATE TABLE repair_trace_index_0 AS trace_index")
    await repair(store).drop_leftovers()
    names = "SELECT name FROM system.tables WHERE database = currentDatabase() AND name LIKE 'repair%'"
    assert len(await read(store, names)) == 1  # another repair may be at work
    monkeypatch.setattr(days, "LEFTOVER_AGE_S", -5)
    await repair(store).drop_leftovers()
    assert await read(store, names) == []


async def test_as_many_attribute_keys_are_named_as_a_gateway_names(store: ClickHouse) -> None:
    keys = [b"often", *(b"only.%d" % number for number in range(20))]
    spans = [
        span(*(attributes(9, pair(key.decode(), string("v"))) for key in (b"often", key)), start=NOW_NS, end=NOW_NS)
        for key in keys
    ]
    batch = [decode("traces", request(*spans), project, Policy(), NOW_NS) for project in (1, 2)]
    await insert(store, batch, 1, new_named_keys(0, 5))
    sql = "SELECT project_id, hex(key), sum(spans), sum(numeric) FROM attribute_keys GROUP BY ALL ORDER BY ALL"
    brought = await read(store, sql)
    assert len(brought) == 2 * 6
    await lose(store)
    changes = await repair(store, keys_per_day=5).repair_day(DAY)
    assert changes[1].rows_after == 2 * 6
    assert await read(store, sql) == brought
