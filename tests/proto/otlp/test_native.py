"""Blocks are what ClickHouse reads: rows go in as Native and come back from a real engine."""

import pytest

from chassis.clickhouse import ClickHouse, QueryLimits
from proto.otlp.native import write_block, write_columns
from proto.otlp.policy import DecodeError, Policy, Signal
from proto.storage.tables import ATTRIBUTE_KEYS, ERROR_OCCURRENCES, INGEST_OUTCOMES, TABLES, Column, Table
from tests.proto.otlp import generate
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.generate import NOW_NS
from tests.proto.otlp.realistic import request


@pytest.fixture
async def store(clickhouse: ClickHouse) -> ClickHouse:
    """The session's engine; its tables keep rows of any age, for what is tested here are the times of a fixed day."""
    for table in TABLES:
        await clickhouse.command(f"ALTER TABLE {table.name} REMOVE TTL")
    return clickhouse


async def insert(store: ClickHouse, table: str, pieces: list[bytes], token: str) -> None:
    columns = {one.name: one.column_names for one in TABLES}[table]
    await store.insert(table, columns, pieces, token=token)


async def test_outcomes_with_and_without_modifications(store: ClickHouse) -> None:
    rows = [
        (1, 1_790_000_000_123, "traces", "accepted", "", 512, 1, 9000, {"truncated": 2, "repaired": 1}, 2**64 - 1, 0),
        (2**53 - 1, 1_790_000_000_124, "logs", "rejected", "time_too_old", 3, 0, 0, {}, 2**64 - 1, 2**32 - 1),
    ]
    await insert(store, "ingest_outcomes", write_block(INGEST_OUTCOMES, rows), "a")
    await insert(store, "ingest_outcomes", write_block(INGEST_OUTCOMES, rows[1:]), "b")  # no entry in any map
    found = await store.query(
        "SELECT project_id, toUnixTimestamp64Milli(time), signal, outcome, reason, items, requests, wire_bytes,"
        " mapSort(modified), batch_id, row FROM ingest_outcomes ORDER BY project_id",
        {},
        limits=QueryLimits(),
    )
    assert [tuple(row) for row in found] == [rows[0], rows[1], rows[1]]


async def test_errors(store: ClickHouse) -> None:
    row = (
        5,
        NOW_NS,
        b"f" * 16,
        "ValueError",
        "größe",
        "at x\nat y",
        "span",
        b"t" * 16,
        b"s" * 8,
        "shop",
        "prod",
        "1",
        9,
        0,
        2,
    )
    await insert(store, "error_occurrences", write_block(ERROR_OCCURRENCES, [row]), "a")
    found = await store.query(
        "SELECT toUnixTimestamp64Nano(time), hex(fingerprint), type, message, stacktrace, source, hex(span_id),"
        " service_name, environment, release, fingerprint_version FROM error_occurrences",
        {},
        limits=QueryLimits(),
    )
    expected = (NOW_NS, "66" * 16, "ValueError", "größe", "at x\nat y", "span", "73" * 8, "shop", "prod", "1", 2)
    assert [tuple(one) for one in found] == [expected]


@pytest.mark.parametrize("keys", [1, 256, 257, 65_536, 65_537])
async def test_dictionaries_of_every_width(store: ClickHouse, keys: int) -> None:
    rows = [(1, 1_790_000_100, f"key {number}", number, 0) for number in range(1, keys + 1)]
    await insert(store, "attribute_keys", write_block(ATTRIBUTE_KEYS, rows), "a")
    found = await store.query(
        "SELECT count(), uniqExact(key), sum(spans), countIf(key = concat('key ', toString(spans))), min(bucket)"
        " = toDateTime(1790000100, 'UTC') FROM attribute_keys",
        {},
        limits=QueryLimits(),
    )
    assert [tuple(row) for row in found] == [(keys, keys, keys * (keys + 1) // 2, keys, 1)]


@pytest.mark.parametrize("signal", ["traces", "logs"])
async def test_what_a_decoder_makes_is_stored_whole(store: ClickHouse, decoder: Decoder, signal: Signal) -> None:
    decoded = decoder.decode(signal, request(signal, 50).SerializeToString(), now_ns=NOW_NS)
    for block in decoder.assemble([decoded], 2**63):
        await insert(store, block.table, list(block.pieces), f"{block.table}{block.day}")
        (row,) = await store.query(f"SELECT count() FROM {block.table}", {}, limits=QueryLimits())
        assert row[0] == block.rows


async def test_generated_requests_are_stored_whole(store: ClickHouse, decoder: Decoder) -> None:
    expected = {"spans": 0, "logs": 0}
    batch = []
    for case in generate.cases(0, 300):
        try:
            decoded = decoder.decode(case.signal, case.body, Policy(retention_ns=0))
        except DecodeError:
            continue
        batch.append(decoded)
        expected["spans" if case.signal == "traces" else "logs"] += decoded.accepted
    stored = {"spans": 0, "logs": 0}
    for block in decoder.assemble(batch):
        if block.table in stored:
            await insert(store, block.table, list(block.pieces), f"{block.table}{block.day}")
            stored[block.table] += block.rows
    for table, rows in stored.items():
        (row,) = await store.query(f"SELECT count() FROM {table}", {}, limits=QueryLimits())
        assert row[0] == rows == expected[table]
        assert rows > 0


def test_golden_bytes() -> None:
    table = Table(
        "t", (Column("a", "UInt8"), Column("s", "LowCardinality(String)"), Column("m", "Map(String, Float64)"))
    )
    head, a, s, m = write_block(table, [(1, "x", {}), (2, "y", {"k": 0.5}), (3, "x", {})])
    assert head == b"\x03\x03"
    assert a == b"\x01a\x05UInt8\x01\x02\x03"
    assert s == b"\x01s\x16LowCardinality(String)" + bytes.fromhex(
        "0100000000000000 0006000000000000 0200000000000000 0178 0179 0300000000000000 00 01 00"
    )
    assert m == b"\x01m\x14Map(String, Float64)" + bytes.fromhex(
        "0000000000000000 0100000000000000 0100000000000000 016b 000000000000e03f"
    )


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("UInt8", 256),
        ("UInt64", -1),
        ("Date", 65_536),
        ("FixedString(8)", b"1234567"),
        ("Int64", "1"),
        ("Nullable(String)", "x"),
    ],
)
def test_a_cell_that_its_type_cannot_hold_names_the_column(kind: str, cell: object) -> None:
    with pytest.raises(ValueError, match="column c "):
        write_columns([Column("c", kind)], [[cell]], 1)


def test_a_column_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells in a block of 1 rows"):
        write_columns([Column("c", "UInt8")], [[1, 2]], 1)
