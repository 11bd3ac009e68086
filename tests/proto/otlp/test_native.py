"""Blocks are what ClickHouse reads: rows go in as Native and come back from a real engine."""

from collections import Counter
from contextlib import suppress

import pytest

from chassis.clickhouse import ClickHouse, QueryLimits
from proto.otlp.native import write_block, write_columns
from proto.otlp.policy import DecodedPayload, DecodeError, Policy
from proto.storage.tables import ATTRIBUTE_KEYS, ERROR_OCCURRENCES, INGEST_OUTCOMES, TABLES, Column, Table
from tests.proto.otlp import generate
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.generate import NOW_NS, Case
from tests.proto.otlp.realistic import request
from tests.proto.otlp.test_json_kernel import SIGNALS


@pytest.fixture
async def store(clickhouse: ClickHouse) -> ClickHouse:
    """The session's engine; its tables keep rows of any age, for what is tested here are the times of a fixed day."""
    for table in TABLES:
        await clickhouse.command(f"ALTER TABLE {table.name} REMOVE TTL")
    return clickhouse


async def insert(store: ClickHouse, table: str, pieces: list[bytes], token: str) -> None:
    columns = {one.name: one.column_names for one in TABLES}[table]
    await store.insert(table, columns, pieces, token=token)


async def found(store: ClickHouse, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in await store.query(sql, {}, limits=QueryLimits())]


async def test_rows_are_read_as_they_were_written(store: ClickHouse) -> None:
    rows = [
        (1, 1_790_000_000_123, "traces", "accepted", "", 512, 1, 9000, {"truncated": 2, "repaired": 1}, 2**64 - 1, 0),
        (2**53 - 1, 1_790_000_000_124, "logs", "rejected", "time_too_old", 3, 0, 0, {}, 2**64 - 1, 2**32 - 1),
    ]
    await insert(store, "ingest_outcomes", write_block(INGEST_OUTCOMES, rows), "a")
    await insert(store, "ingest_outcomes", write_block(INGEST_OUTCOMES, rows[1:]), "b")  # no entry in any map
    columns = "project_id, toUnixTimestamp64Milli(time), signal, outcome, reason, items, requests, wire_bytes"
    asked = f"SELECT {columns}, mapSort(modified), batch_id, row FROM ingest_outcomes ORDER BY project_id"
    assert await found(store, asked) == [rows[0], rows[1], rows[1]]

    texts = ("ValueError", "größe", "at x\nat y", "span")
    error = (5, NOW_NS, b"f" * 16, *texts, b"t" * 16, b"s" * 8, "shop", "prod", "1", 9, 0, 2)
    await insert(store, "error_occurrences", write_block(ERROR_OCCURRENCES, [error]), "a")
    asked = (
        "SELECT toUnixTimestamp64Nano(time), hex(fingerprint), type, message, stacktrace, source, hex(span_id),"
        " service_name, environment, release, fingerprint_version FROM error_occurrences"
    )
    assert await found(store, asked) == [(NOW_NS, "66" * 16, *texts, "73" * 8, "shop", "prod", "1", 2)]


async def test_dictionaries_of_every_width(store: ClickHouse) -> None:
    widths = (1, 256, 257, 65_536, 65_537)
    for keys in widths:
        rows = [(keys, 1_790_000_100, f"key {number}", number, 0) for number in range(1, keys + 1)]
        await insert(store, "attribute_keys", write_block(ATTRIBUTE_KEYS, rows), f"{keys}")
    asked = (
        "SELECT project_id, count(), uniqExact(key), sum(spans), countIf(key = concat('key ', toString(spans))),"
        " min(bucket) = toDateTime(1790000100, 'UTC') FROM attribute_keys GROUP BY project_id ORDER BY project_id"
    )
    assert await found(store, asked) == [(keys, keys, keys, keys * (keys + 1) // 2, keys, 1) for keys in widths]


async def test_what_decoders_make_is_stored_whole(store: ClickHouse) -> None:
    """Real requests and generated ones, of which some are refused."""
    sent = [Case(signal, request(signal, 50).SerializeToString(), 7, Policy(), NOW_NS) for signal in SIGNALS]
    sent += [case._replace(policy=Policy(retention_ns=0)) for case in generate.cases(0, 200)]
    for batch_id, name in enumerate(("reference", "kernel"), 1):
        decoder, decoded, expected = Decoder(name), list[DecodedPayload](), Counter[str]()
        for case in sent:
            with suppress(DecodeError):
                decoded.append(decoder.decode(case.signal, case.body, case.policy))
                expected["spans" if case.signal == "traces" else "logs"] += decoded[-1].accepted
        blocks = decoder.assemble(decoded, batch_id)
        for block in blocks:
            await insert(store, block.table, list(block.pieces), f"{name}{block.table}{block.day}")
        for table in ("spans", "logs"):
            ((rows,),) = await found(store, f"SELECT count() FROM {table} WHERE batch_id = {batch_id}")
            assert rows == sum(block.rows for block in blocks if block.table == table) == expected[table] > 50
        ((keys,),) = await found(store, "SELECT count() FROM attribute_keys")
        assert keys == batch_id * sum(block.rows for block in blocks if block.table == "attribute_keys")
        ((traces,),) = await found(store, "SELECT count() FROM trace_index")
        assert traces == batch_id * sum(block.rows for block in blocks if block.table == "trace_index")


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


CELLS = {"UInt8": 256, "UInt64": -1, "Date": 65_536, "FixedString(8)": b"1234567", "Int64": "1", "Nullable(String)": ""}


@pytest.mark.parametrize(("kind", "cell"), CELLS.items())
def test_a_cell_that_its_type_cannot_hold_names_the_column(kind: str, cell: object) -> None:
    with pytest.raises(ValueError, match="column c "):
        write_columns([Column("c", kind)], [[cell]], 1)


def test_a_column_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells in a block of 1 rows"):
        write_columns([Column("c", "UInt8")], [[1, 2]], 1)
