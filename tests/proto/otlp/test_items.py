"""Which items are accepted, and what their rows hold (docs/codec.md 3)."""

import math

import pytest

from proto.otlp.policy import MAX_NANOS, NANOS_PER_DAY, YEAR_2000_NS, Policy, RaisedException, Signal
from proto.otlp.protobuf_writer import bytes_field, fixed32_field, fixed64_field, varint_field
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.generate import NOW_NS
from tests.proto.otlp.native_rows import as_list
from tests.proto.otlp.sent import (
    SPAN_ID,
    TRACE_ID,
    array,
    attributes,
    binary,
    double,
    integer,
    log,
    mapping,
    pair,
    request,
    span,
    string,
)

POLICY = Policy()
LATEST = NOW_NS + POLICY.max_future_ns
EARLIEST = NOW_NS - POLICY.retention_ns

REJECTED_SPANS = {
    "no trace id": (span(trace_id=b""), "invalid_trace_id"),
    "trace id of 15 bytes": (span(trace_id=b"1" * 15), "invalid_trace_id"),
    "trace id of 17 bytes": (span(trace_id=b"1" * 17), "invalid_trace_id"),
    "zero trace id": (span(trace_id=bytes(16)), "invalid_trace_id"),
    "trace id before span id": (span(trace_id=b"", span_id=b""), "invalid_trace_id"),
    "span id of 7 bytes": (span(span_id=b"1" * 7), "invalid_span_id"),
    "zero span id": (span(span_id=bytes(8)), "invalid_span_id"),
    "span id before start": (span(span_id=b"", start=0), "invalid_span_id"),
    "no start": (span(start=0), "missing_start_time"),
    "future": (span(start=LATEST + 1), "start_time_in_future"),
    "beyond 2262": (span(start=2**64 - 1), "start_time_in_future"),
    "too old": (span(start=EARLIEST - 1), "start_time_too_old"),
    "a later trace id counts": (span(bytes_field(1, b"short")), "invalid_trace_id"),
}


def test_rejected_spans_cost_their_neighbours_nothing(decoder: Decoder) -> None:
    for name, (item, reason) in REJECTED_SPANS.items():
        bad = item + bytes_field(5, b"\xff") + bytes_field(11, bytes_field(2, b"exception"))
        decoded = decoder.decode("traces", request(span(), bad, span()))
        assert (decoded.accepted, dict(decoded.rejected)) == (2, {reason: 1}), name
        assert (dict(decoded.modified), list(decoded.exceptions)) == ({}, [])
        assert len(decoder.rows("spans", decoded)) == 2


@pytest.mark.parametrize("start", [EARLIEST, LATEST])
def test_times_at_the_edge_are_taken(decoder: Decoder, start: int) -> None:
    assert decoder.decode("traces", request(span(start=start))).accepted == 1
    assert decoder.decode("logs", request(log(time=start))).accepted == 1


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_the_days_of_accepted_items_are_known(decoder: Decoder, signal: Signal) -> None:
    def item(time_ns: int) -> bytes:
        return span(start=time_ns) if signal == "traces" else log(time=time_ns)

    today, earlier = NOW_NS // NANOS_PER_DAY, EARLIEST // NANOS_PER_DAY
    decoded = decoder.decode(signal, request(*map(item, (NOW_NS, EARLIEST, NOW_NS, EARLIEST - 1))))
    assert list(decoded.days) == [earlier, today]
    assert list(decoder.decode(signal, request(item(EARLIEST - 1))).days) == []


def test_without_retention_the_year_2000_is_the_edge(decoder: Decoder) -> None:
    body = request(span(start=YEAR_2000_NS), span(start=YEAR_2000_NS - 1))
    decoded = decoder.decode("traces", body, Policy(retention_ns=0))
    assert (decoded.accepted, dict(decoded.rejected)) == (1, {"start_time_too_old": 1})
    early = decoder.decode("traces", body, now_ns=YEAR_2000_NS + 5)
    assert (early.accepted, dict(early.rejected)) == (1, {"start_time_too_old": 1})


def test_every_field_of_a_span_is_stored(decoder: Decoder) -> None:
    item = span(
        bytes_field(3, b"k=v"),
        bytes_field(4, b"parent-8"),
        bytes_field(5, b"GET /"),
        varint_field(6, 2),
        attributes(9, pair("a", integer(1))),
        varint_field(10, 3),
        bytes_field(
            11, fixed64_field(1, NOW_NS) + bytes_field(2, b"e") + attributes(3, pair("x")) + varint_field(4, 4)
        ),
        varint_field(12, 5),
        bytes_field(
            13,
            bytes_field(1, TRACE_ID)
            + bytes_field(2, SPAN_ID)
            + bytes_field(3, b"t=s")
            + attributes(4, pair("y", double(1.0)))
            + varint_field(5, 6)
            + fixed32_field(6, 0x301),
        ),
        varint_field(14, 7),
        bytes_field(15, bytes_field(2, b"broke") + varint_field(3, 2)),
        fixed32_field(16, 0x101),
    )
    resource = attributes(1, pair("service.name", string("shop")), pair("service.version", string("1.2")))
    resource += attributes(1, pair("deployment.environment.name", string("prod"))) + varint_field(2, 8)
    resource += bytes_field(3, bytes_field(1, b"u") + bytes_field(2, b"service") + bytes_field(3, b"service.name") * 2)
    scope = bytes_field(1, b"lib") + bytes_field(2, b"3") + attributes(3, pair("s", integer(2))) + varint_field(4, 9)
    body = request(
        item, resource=resource, scope=scope, scoped=bytes_field(3, b"scope-url"), sent=bytes_field(3, b"url")
    )
    decoded = decoder.decode("traces", body)
    assert decoder.assemble([decoded], 77)[0][:3] == ("spans", NOW_NS // NANOS_PER_DAY, 1)
    (row,) = decoder.rows("spans", decoded)
    assert row == {
        "project_id": 7,
        "start_time": NOW_NS,
        "duration": 5,
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "parent_span_id": b"parent-8",
        "trace_state": b"k=v",
        "flags": 0x101,
        "name": b"GET /",
        "kind": 2,
        "status_code": 2,
        "status_message": b"broke",
        "events": b'[{"timeUnixNano":%d,"name":"e","attributes":{"x":null},"droppedAttributesCount":4}]' % NOW_NS,
        "dropped_events_count": 5,
        "links": b'[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","traceState":"t=s",'
        b'"attributes":{"y":1.0},"droppedAttributesCount":6,"flags":769}]',
        "dropped_links_count": 7,
        "service_name": b"shop",
        "environment": b"prod",
        "release": b"1.2",
        "attributes": [(b"a", b"1")],
        "attribute_types": b"\1a\2i\1",
        "dropped_attributes_count": 3,
        "resource": b"\1service.name\2sshop\1service.version\2s1.2\1deployment.environment.name\2sprod\1",
        "resource_dropped_attributes_count": 8,
        "resource_schema_url": b"url",
        "entity_refs": b'[{"schemaUrl":"u","type":"service",'
        b'"idKeys":["service.name","service.name"],"descriptionKeys":[]}]',
        "scope_name": b"lib",
        "scope_version": b"3",
        "scope": b"\1s\2i2\1",
        "scope_dropped_attributes_count": 9,
        "scope_schema_url": b"scope-url",
        "truncations": b"",
        "batch_id": 1,
        "row": 0,
    }
    assert dict(decoded.modified) == {}


def test_every_field_of_a_log_record_is_stored(decoder: Decoder) -> None:
    item = log(
        varint_field(2, 10),
        bytes_field(3, b"INFO2"),
        bytes_field(5, string("hello")),
        attributes(6, pair("a", array(integer(1)))),
        varint_field(7, 3),
        fixed32_field(8, 1),
        bytes_field(9, TRACE_ID),
        bytes_field(10, SPAN_ID),
        fixed64_field(11, NOW_NS + 9),
        bytes_field(12, b"order.placed"),
    )
    decoded = decoder.decode("logs", request(item))
    (row,) = decoder.rows("logs", decoded)
    own = {name: row[name] for name in list(row)[:12]}
    assert own == {
        "project_id": 7,
        "time": NOW_NS,
        "time_source": 0,
        "observed_time": NOW_NS + 9,
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "flags": 1,
        "severity_number": 10,
        "severity_text": b"INFO2",
        "event_name": b"order.placed",
        "body": b"hello",
        "body_type": b"s",
    }
    assert (row["attributes"], row["attribute_types"]) == ([(b"a", b"[1]")], b"\1a\2a\1")
    assert (row["dropped_attributes_count"], row["environment"], row["service_name"]) == (3, b"unknown", b"")


MODIFIED_SPANS = {
    "name": (bytes_field(5, b"n" * 1025), "name", b"n" * 1024, "truncated"),
    "name that is not UTF-8": (bytes_field(5, b"\xff"), "name", "�".encode(), "repaired"),
    "name is not scrubbed": (bytes_field(5, b"4111111111111111"), "name", b"4111111111111111", None),
    "trace state": (bytes_field(3, b"n" * 65537), "trace_state", b"n" * 65536, "truncated"),
    "status message": (bytes_field(15, bytes_field(2, b"n" * 65537)), "status_message", b"n" * 65536, "truncated"),
    "short parent": (bytes_field(4, b"1234567"), "parent_span_id", bytes(8), "repaired"),
    "empty parent": (bytes_field(4, b""), "parent_span_id", bytes(8), None),
    "zero parent": (bytes_field(4, bytes(8)), "parent_span_id", bytes(8), None),
    "kind 6": (varint_field(6, 6), "kind", 0, "repaired"),
    "kind -1": (varint_field(6, -1), "kind", 0, "repaired"),
    "kind of 33 bits": (varint_field(6, 2**32 + 5), "kind", 5, None),
    "status 3": (bytes_field(15, varint_field(3, 3)), "status_code", 0, "repaired"),
    "merged status": (bytes_field(15, varint_field(3, 2)) + bytes_field(15, b""), "status_code", 2, None),
    "end beyond 2262": (fixed64_field(8, 2**63), "duration", MAX_NANOS - NOW_NS, "clamped"),
    "end at 2262": (fixed64_field(8, MAX_NANOS), "duration", MAX_NANOS - NOW_NS, None),
    "end before start": (fixed64_field(8, NOW_NS - 3), "duration", -3, "reversed"),
    "no end": (fixed64_field(8, 0), "duration", -NOW_NS, "reversed"),
    "dropped count of 33 bits": (varint_field(10, 2**32 + 3), "dropped_attributes_count", 3, None),
    "flags": (fixed32_field(16, 2**32 - 1), "flags", 2**32 - 1, None),
    "the last scalar counts": (bytes_field(5, b"a") + bytes_field(5, b"b"), "name", b"b", None),
    "even when it is empty": (bytes_field(5, b"a") + bytes_field(5, b""), "name", b"", None),
    "event beyond 2262": (
        bytes_field(11, fixed64_field(1, 2**63)),
        "events",
        b'[{"timeUnixNano":9223372036854775807,"name":"","attributes":{},"droppedAttributesCount":0}]',
        "clamped",
    ),
    "link with bad ids": (
        bytes_field(13, bytes_field(1, b"123") + bytes_field(2, b"")),
        "links",
        b'[{"traceId":"","spanId":"","traceState":"","attributes":{},"droppedAttributesCount":0,"flags":0}]',
        "repaired",
    ),
    "link without ids": (
        bytes_field(13, b""),
        "links",
        b'[{"traceId":"","spanId":"","traceState":"","attributes":{},"droppedAttributesCount":0,"flags":0}]',
        None,
    ),
}


MODIFIED_LOGS = {
    "severity 25": (varint_field(2, 25), "severity_number", 0, "repaired"),
    "severity 24": (varint_field(2, 24), "severity_number", 24, None),
    "severity text": (bytes_field(3, b"n" * 1025), "severity_text", b"n" * 1024, "truncated"),
    "event name": (bytes_field(12, b"n" * 1025), "event_name", b"n" * 1024, "truncated"),
    "short trace id": (bytes_field(9, b"123"), "trace_id", bytes(16), "repaired"),
    "empty trace id": (bytes_field(9, b""), "trace_id", bytes(16), None),
    "long span id": (bytes_field(10, b"1" * 9), "span_id", bytes(8), "repaired"),
    "observed beyond 2262": (fixed64_field(11, 2**64 - 1), "observed_time", MAX_NANOS, "clamped"),
    "body": (bytes_field(5, string("ü" * 2**19 + "x")), "body", "ü".encode() * 2**19, "truncated"),
    "body that just fits": (bytes_field(5, string("ü" * 2**19)), "body", "ü".encode() * 2**19, None),
    "scrubbed body": (bytes_field(5, string("pay 4111111111111111")), "body", b"pay [scrubbed]", "scrubbed"),
    "scrubbed in a body": (
        bytes_field(5, mapping(pair("pwd", integer(1)))),
        "body",
        b'{"pwd":"[scrubbed]"}',
        "scrubbed",
    ),
    "merged body": (bytes_field(5, array(integer(1))) * 2, "body", b"[1,1]", None),
}


def test_what_is_changed_in_spans_and_log_records(decoder: Decoder) -> None:
    for name, (field, column, cell, flag) in (MODIFIED_SPANS | MODIFIED_LOGS).items():
        in_span = name in MODIFIED_SPANS
        decoded = decoder.decode(*(("traces", request(span(field))) if in_span else ("logs", request(log(field)))))
        (row,) = decoder.rows("spans" if in_span else "logs", decoded)
        assert row[column] == cell, name
        assert dict(decoded.modified) == ({flag: 1} if flag else {}), name


@pytest.mark.parametrize(
    ("fields", "source", "time"),
    [
        (fixed64_field(1, NOW_NS - 2) + fixed64_field(11, NOW_NS - 1), 0, NOW_NS - 2),
        (fixed64_field(1, 0) + fixed64_field(11, NOW_NS - 1), 1, NOW_NS - 1),
        (b"", 2, NOW_NS),
    ],
)
def test_the_time_of_a_log_record(decoder: Decoder, fields: bytes, source: int, time: int) -> None:
    (row,) = decoder.rows("logs", decoder.decode("logs", request(fields)))
    assert (row["time_source"], row["time"]) == (source, time)


def test_log_records_out_of_time_are_rejected(decoder: Decoder) -> None:
    observed_too_old = log(fixed64_field(11, EARLIEST - 1), time=0)
    body = request(log(time=LATEST + 1), log(time=EARLIEST - 1), observed_too_old, log(fixed64_field(11, 5)))
    decoded = decoder.decode("logs", body)
    assert (decoded.accepted, dict(decoded.rejected)) == (1, {"time_in_future": 1, "time_too_old": 2})


def test_events_and_links_beyond_their_limits_are_dropped_and_counted(decoder: Decoder) -> None:
    bad_name = bytes_field(2, b"\xff")
    fields = bytes_field(11, b"") * 2 + bytes_field(11, bad_name) * 3 + varint_field(12, 5)
    fields += bytes_field(13, b"") + bytes_field(13, bytes_field(1, b"1")) + varint_field(14, 2**32 - 1)
    decoded = decoder.decode("traces", request(span(fields)), Policy(max_events=2, max_links=1))
    (row,) = decoder.rows("spans", decoded)
    assert row["events"].count(b"timeUnixNano") == 2
    assert row["links"].count(b"traceId") == 1
    assert (row["dropped_events_count"], row["dropped_links_count"]) == (8, 2**32 - 1)
    assert dict(decoded.modified) == {}


EVENT_ATTRIBUTES = {
    "a string": (string('a"b'), '"a\\"b"', None),
    "a long string": (string("123456789"), '"12345678"', "truncated"),
    "an integer": (integer(-5), "-5", None),
    "a double": (double(200.0), "200.0", None),
    "not a number": (double(math.nan), '"NaN"', None),
    "nothing": (b"", "null", None),
    "bytes": (binary(b"123456789"), '{"bytesValue":"MTIzNDU2Nzg="}', "truncated"),
    "an array": (array(integer(1)), "[1]", None),
    "a long array": (array(string("abcdef")), '"[\\"abcdef"', "truncated"),
    "a card": (string("4111111111111111"), '"[scrubbe"', "scrubbed truncated"),
}


def test_attributes_of_events_and_links_are_json(decoder: Decoder) -> None:
    for name, (value, json, flags) in EVENT_ATTRIBUTES.items():
        event, link = (
            bytes_field(11, attributes(3, pair("k", value))),
            bytes_field(13, attributes(4, pair("k", value))),
        )
        for column, field in (("events", event), ("links", link)):
            decoded = decoder.decode("traces", request(span(field)), Policy(max_value_bytes=8))
            (row,) = decoder.rows("spans", decoded)
            assert f'"attributes":{{"k":{json}}}'.encode() in row[column], name
            assert dict(decoded.modified) == dict.fromkeys((flags or "").split(), 1), name


def test_attributes_of_events_have_their_limit_too(decoder: Decoder) -> None:
    event = bytes_field(11, attributes(3, pair("a"), pair("b"), pair("a", integer(1))) + varint_field(4, 2**32 - 1))
    decoded = decoder.decode("traces", request(span(event)), Policy(max_attributes=1))
    (row,) = decoder.rows("spans", decoded)
    assert b'"attributes":{"a":1},"droppedAttributesCount":4294967295}' in row["events"]
    assert dict(decoded.modified) == {"deduplicated": 1}


def environment(older: str | None = None, newer: str | None = None) -> tuple[bytes, ...]:
    """Attributes of a resource with the environment under its older name, its newer one or both."""
    names = {"deployment.environment": older, "deployment.environment.name": newer}
    return tuple(pair(name, string(value)) for name, value in names.items() if value is not None)


def named(name: str) -> tuple[bytes, ...]:
    return (pair("service.name", string(name)),)


ORIGINS = {
    "nothing": ((), ("", "unknown", "")),
    "the newer name of the environment": (environment("old", "new"), ("", "new", "")),
    "the older one": (environment("old"), ("", "old", "")),
    "the older one when the newer is empty": (environment("old", ""), ("", "old", "")),
    "without values": (
        (pair("service.name"), pair("service.version"), pair("deployment.environment.name")),
        ("", "unknown", ""),
    ),
    "one without a value": (
        (pair("deployment.environment.name"), *environment("e"), pair("service.version")),
        ("", "e", ""),
    ),
    "named null": (named("null"), ("null", "unknown", "")),
    "other types": ((pair("service.name", integer(5)), pair("service.version", double(1.0))), ("5", "unknown", "1")),
    "scrubbed": (named("123-45-6789"), ("[scrubbed]", "unknown", "")),
    "too long": (named("é" * 600), ("é" * 512, "unknown", "")),
}


def test_service_environment_and_release(decoder: Decoder) -> None:
    for name, (pairs, names) in ORIGINS.items():
        decoded = decoder.decode("traces", request(span(), resource=attributes(1, *pairs)))
        (row,) = decoder.rows("spans", decoded)
        assert tuple(row[column].decode() for column in ("service_name", "environment", "release")) == names, name
        assert "truncated" not in decoded.modified


def test_merged_resources_and_scopes_read_as_one(decoder: Decoder) -> None:
    first, second = attributes(1, pair("a", integer(1))), attributes(1, pair("b"), pair("a", integer(2)))
    sent = bytes_field(1, first) + bytes_field(2, bytes_field(2, span())) + bytes_field(1, second)
    decoded = decoder.decode("traces", bytes_field(1, sent))
    (row,) = decoder.rows("spans", decoded)
    assert as_list(row["resource"]) == [(b"a", b"i2"), (b"b", b"nnull")]
    assert dict(decoded.modified) == {"deduplicated": 1}


def test_flags_of_resource_and_scope_count_for_each_accepted_item(decoder: Decoder) -> None:
    scope = bytes_field(1, b"\xff")
    body = request(
        span(), span(trace_id=b""), span(bytes_field(5, b"\xff")), scope=scope, sent=bytes_field(3, b"u" * 1025)
    )
    decoded = decoder.decode("traces", body)
    assert dict(decoded.modified) == {"repaired": 2, "truncated": 2}


def test_entities_that_are_too_long_are_left_out(decoder: Decoder) -> None:
    resource = bytes_field(3, bytes_field(2, b"\xff"))
    json = '[{"schemaUrl":"","type":"�","idKeys":[],"descriptionKeys":[]}]'.encode()
    for limit, cell, flags in (
        (len(json), json, {"repaired": 1}),
        (len(json) - 1, b"", {"repaired": 1, "truncated": 1}),
    ):
        decoded = decoder.decode("traces", request(span(), resource=resource), Policy(max_value_bytes=limit))
        (row,) = decoder.rows("spans", decoded)
        assert row["entity_refs"] == cell
        assert dict(decoded.modified) == flags


def exception(*pairs: bytes, time: int = 5) -> bytes:
    return bytes_field(11, fixed64_field(1, time) + bytes_field(2, b"exception") + attributes(3, *pairs))


def test_exception_events_are_handed_to_the_caller_as_they_are_stored(decoder: Decoder) -> None:
    resource = attributes(1, pair("service.name", string("shop")), pair("service.version", string("2")))
    texts = (
        pair("exception.type", string("ValueError")),
        pair("exception.message", string("card 4111111111111111")),
        pair("exception.stacktrace", double(200.0)),
    )
    body = request(span(exception(*texts), bytes_field(11, bytes_field(2, b"other")), exception()), resource=resource)
    decoded = decoder.decode("traces", body)
    origin = ("shop", "unknown", "2")
    assert [tuple(raised) for raised in decoded.exceptions] == [
        tuple(RaisedException(NOW_NS, TRACE_ID, SPAN_ID, "ValueError", "card [scrubbed]", "200", *origin)),
        tuple(RaisedException(NOW_NS, TRACE_ID, SPAN_ID, "", "", "", *origin)),
    ]
    assert decoded.exceptions_over_limit == 0


def test_events_that_are_not_stored_raise_nothing(decoder: Decoder) -> None:
    body = request(span(bytes_field(11, b""), exception()))
    assert list(decoder.decode("traces", body, Policy(max_events=1)).exceptions) == []


@pytest.mark.parametrize(
    ("severity", "pairs", "raised"),
    [
        (17, (pair("exception.type", string("E")),), ("E", "", "")),
        (17, (pair("exception.message", integer(5)), pair("exception.stacktrace", string("s"))), ("", "5", "s")),
        (16, (pair("exception.type", string("E")),), None),
        (17, (pair("exception.stacktrace", string("s")),), None),
        (17, (pair("exception.type", string("")),), None),
        (17, (pair("exception.type"), pair("exception.message")), None),
        (17, (pair("exception.type", string("E")), pair("exception.stacktrace")), ("E", "", "")),
        (25, (pair("exception.type", string("E")),), None),
    ],
)
def test_log_records_of_errors_are_exceptions(
    decoder: Decoder, severity: int, pairs: tuple[bytes, ...], raised: tuple[str, ...] | None
) -> None:
    decoded = decoder.decode("logs", request(log(varint_field(2, severity), attributes(6, *pairs))))
    origin = ("", "unknown", "")
    expected = [(NOW_NS, bytes(16), bytes(8), *raised, *origin)] if raised else []
    assert [tuple(found) for found in decoded.exceptions] == expected


def test_exceptions_beyond_the_limit_are_counted(decoder: Decoder) -> None:
    decoded = decoder.decode(
        "traces", request(span(exception(), exception()), span(exception())), Policy(max_exceptions=1)
    )
    assert (len(decoded.exceptions), decoded.exceptions_over_limit) == (1, 2)
