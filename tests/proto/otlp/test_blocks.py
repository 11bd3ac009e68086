"""How the rows of a batch become blocks, and what is derived from them (docs/codec.md 5)."""

from proto.otlp.policy import NANOS_PER_DAY, Policy
from proto.otlp.protobuf_writer import bytes_field
from proto.storage.tables import TABLES
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.generate import NOW_NS
from tests.proto.otlp.sent import (
    TRACE_ID,
    attributes,
    boolean,
    double,
    integer,
    log,
    pair,
    request,
    span,
    string,
)

DAY = NOW_NS // NANOS_PER_DAY
BUCKET = NOW_NS // (300 * 10**9) * 300
OTHER_TRACE = b"o" * 16


def test_one_block_per_table_and_day_and_none_without_rows(decoder: Decoder) -> None:
    traces = request(span(), span(start=NOW_NS - NANOS_PER_DAY), span(start=NOW_NS - 1), span(trace_id=b""))
    logs = request(log(time=NOW_NS - 2 * NANOS_PER_DAY), log())
    batch = [decoder.decode("logs", logs), decoder.decode("traces", traces)]
    blocks = decoder.assemble(batch)
    assert [(block.table, block.day, block.rows) for block in blocks] == [
        ("spans", DAY - 1, 1),
        ("spans", DAY, 2),
        ("logs", DAY - 2, 1),
        ("logs", DAY, 1),
        ("trace_index", DAY - 1, 1),
        ("trace_index", DAY, 1),
    ]
    assert decoder.assemble([]) == []
    assert decoder.assemble([decoder.decode("traces", b"")]) == []


def test_blocks_have_the_columns_of_their_table(decoder: Decoder) -> None:
    batch = [
        decoder.decode("traces", request(span(attributes(9, pair("k"))))),
        decoder.decode("logs", request(log())),
    ]
    columns = {table.name: table.column_names for table in TABLES}
    for block in decoder.assemble(batch):
        (row,) = decoder.rows(block.table, *batch)
        assert tuple(row) == columns[block.table]


def test_rows_keep_the_order_of_requests_and_items_within_a_day_and_are_numbered_through(decoder: Decoder) -> None:
    def named(name: str, start: int) -> bytes:
        return span(bytes_field(5, name.encode()), start=start)

    early = NOW_NS - NANOS_PER_DAY
    first = request(named("a", NOW_NS), named("b", early), named("c", NOW_NS - 5))
    second = request(named("d", early - 1), named("e", NOW_NS))
    batch = [decoder.decode("traces", body, project_id=project) for project, body in ((9, first), (3, second))]
    found = [(row["name"], row["row"], row["project_id"]) for row in decoder.rows("spans", *batch)]
    assert found == [(b"b", 0, 9), (b"d", 1, 3), (b"a", 2, 9), (b"c", 3, 9), (b"e", 4, 3)]


def test_the_batch_is_written_on_every_row(decoder: Decoder) -> None:
    batch = [decoder.decode("logs", request(log(), log()))]
    (block,) = decoder.assemble(batch, 2**64 - 1)
    assert b"".join(block.pieces).count(b"\xff" * 16) == 1


def test_the_trace_index_says_where_traces_lie(decoder: Decoder) -> None:
    spans = request(
        span(trace_id=OTHER_TRACE),
        span(start=NOW_NS - 9),
        span(trace_id=OTHER_TRACE, start=NOW_NS - 3),
        span(start=NOW_NS - NANOS_PER_DAY),
    )
    with_trace = bytes_field(9, TRACE_ID)
    logs = request(log(with_trace, time=NOW_NS - 20), log(), log(with_trace), log(bytes_field(9, b"bad")))
    batch = [
        decoder.decode("logs", logs),
        decoder.decode("traces", spans, project_id=2),
        decoder.decode("traces", request(span())),
    ]
    found = [tuple(row.values()) for row in decoder.rows("trace_index", *batch)]
    assert found == [
        (2, TRACE_ID, 1, DAY - 1, NOW_NS - NANOS_PER_DAY, NOW_NS - NANOS_PER_DAY, 1),
        (2, OTHER_TRACE, 1, DAY, NOW_NS - 3, NOW_NS, 2),
        (2, TRACE_ID, 1, DAY, NOW_NS - 9, NOW_NS - 9, 1),
        (7, TRACE_ID, 1, DAY, NOW_NS, NOW_NS, 1),
        (7, TRACE_ID, 2, DAY, NOW_NS - 20, NOW_NS, 2),
    ]


def keys(decoder: Decoder, *bodies: bytes) -> list[tuple[object, ...]]:
    batch = [decoder.decode("traces", body) for body in bodies]
    return [tuple(row.values())[1:] for row in decoder.rows("attribute_keys", *batch)]


def test_attribute_keys_are_counted_per_bucket(decoder: Decoder) -> None:
    item = span(attributes(9, pair("n", integer(1)), pair("s", string("1")), pair("b", boolean(1)), pair("")))
    item_of_text = span(attributes(9, pair("n", string("1"))))
    late = span(attributes(9, pair("n", double(1.0))), start=BUCKET * 10**9 - 1)
    assert keys(decoder, request(item, item_of_text), request(late)) == [
        (BUCKET - 300, b"n", 1, 1),
        (BUCKET, b"", 1, 0),
        (BUCKET, b"b", 1, 0),
        (BUCKET, b"n", 2, 1),
        (BUCKET, b"s", 1, 0),
    ]


def test_resource_and_scope_keys_stand_under_their_names(decoder: Decoder) -> None:
    resource = attributes(1, pair("pid", integer(1)), pair("host", string("h")))
    scope = bytes_field(1, b"lib") + bytes_field(2, b"3") + attributes(3, pair("version", double(2.0)), pair("x"))
    assert keys(decoder, request(span(), resource=resource, scope=scope)) == [
        (BUCKET, b"resource.host", 1, 0),
        (BUCKET, b"resource.pid", 1, 1),
        (BUCKET, b"scope.name", 1, 0),
        (BUCKET, b"scope.version", 1, 1),
        (BUCKET, b"scope.x", 1, 0),
    ]


def test_what_a_span_carries_under_such_a_name_is_the_spans(decoder: Decoder) -> None:
    resource = attributes(1, pair("pid", integer(1)))
    item = span(attributes(9, pair("resource.pid", string("x")), pair("scope.name", integer(1))))
    assert keys(decoder, request(item, resource=resource, scope=bytes_field(1, b"lib"))) == [
        (BUCKET, b"resource.pid", 1, 0),
        (BUCKET, b"scope.name", 1, 1),
    ]


def test_empty_scope_names_and_rejected_spans_leave_no_keys(decoder: Decoder) -> None:
    assert keys(decoder, request(span(attributes(9, pair("k")), trace_id=b""), span())) == []


def test_keys_are_sorted_by_project_bucket_and_bytes(decoder: Decoder) -> None:
    body = request(span(attributes(9, pair("é"), pair("z"), pair("a.b"), pair("a"))))
    batch = [decoder.decode("traces", body, project_id=project) for project in (300, 2)]
    found = [(row["project_id"], row["key"].decode()) for row in decoder.rows("attribute_keys", *batch)]
    assert found == [(project, key) for project in (2, 300) for key in ("a", "a.b", "z", "é")]


def test_days_of_derived_rows_are_those_of_the_items(decoder: Decoder) -> None:
    policy = Policy(retention_ns=0)
    body = request(*(span(attributes(9, pair("k")), start=NOW_NS - days * NANOS_PER_DAY) for days in (3, 0, 100)))
    blocks = decoder.assemble([decoder.decode("traces", body, policy)])
    days = [DAY - 100, DAY - 3, DAY]
    assert [block.day for block in blocks] == days * 3
