"""OTLP/JSON takes the same road: same rows as protobuf, and a refusal names the field."""

import importlib
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from proto.otlp import codec
from proto.otlp.json import FieldError, to_protobuf
from proto.otlp.policy import DecodeError, Policy, RequestRejection, Signal
from proto.otlp.protobuf_writer import bytes_field
from tests.proto.otlp import sent
from tests.proto.otlp.as_json import as_json
from tests.proto.otlp.generate import NOW_NS, POLICIES, Writer
from tests.proto.otlp.native_rows import rows
from tests.selection import scaled

TRACE_ID = "5b8efff798038103d269b633813fc60c"
SPAN_ID = "eee19b7ec3c1b174"


def span(**fields: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": str(NOW_NS), "endTimeUnixNano": NOW_NS}
    return {"traceId": TRACE_ID, "spanId": SPAN_ID, **times, **fields}


def traces(*spans: Any, **resource_spans: Any) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}], **resource_spans}]}).encode()


def logs(*records: Any) -> bytes:
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}).encode()


def read(signal: Signal, body: bytes, policy: Policy | None = None) -> Any:
    policy = policy or Policy()
    converted = to_protobuf(signal, body, policy)
    return codec.decode(signal, converted.body, 1, policy, NOW_NS, converted.faults)


def row(signal: Signal, body: bytes) -> tuple[dict[str, Any], dict[str, int]]:
    decoded = read(signal, body)
    (found,) = rows(codec.build_blocks([decoded], 1), "spans" if signal == "traces" else "logs")
    return found, dict(decoded.modified)


def attribute(value: Any) -> bytes:
    return traces(span(attributes=[{"key": "k", "value": value}]))


def refused(signal: Signal, body: bytes, policy: Policy | None = None) -> DecodeError:
    with pytest.raises(DecodeError) as raised:
        to_protobuf(signal, body, policy or Policy())
    return raised.value


@pytest.mark.sized
@settings(max_examples=scaled(100, 1_000), deadline=None, database=None)
@given(st.integers(0, 2**32), st.sampled_from(["traces", "logs"]))
def test_json_and_protobuf_of_a_request_give_the_same_rows(seed: int, signal: Signal) -> None:
    random = Random(seed)
    policy = random.choice([policy for policy in POLICIES if policy.max_items == Policy().max_items])
    body = Writer(random, 0, policy, unicode_only=True).request(signal)
    message: TracesData | LogsData = (TracesData if signal == "traces" else LogsData).FromString(body)
    as_protobuf = _result(lambda: codec.decode(signal, message.SerializeToString(), 1, policy, NOW_NS))
    assert _result(lambda: read(signal, as_json(message), policy)) == as_protobuf


def _result(decode: Callable[[], Any]) -> Any:
    """What was decoded, or the refusal: some of the generated requests repeat more than their policy permits."""
    try:
        return _whole(decode())
    except DecodeError as error:
        return error.reason, error.message


def _whole(decoded: Any) -> Any:
    blocks = [(block.table, block.day, b"".join(block.pieces)) for block in codec.build_blocks([decoded], 1)]
    return dict(decoded.rejected), dict(decoded.modified), [tuple(found) for found in decoded.exceptions], blocks


VALUES = {
    "integer as a string": ({"intValue": "9223372036854775807"}, "i", "9223372036854775807"),
    "integer as a number": ({"intValue": 9223372036854775807}, "i", "9223372036854775807"),
    "integer with a fraction of zero": ({"intValue": 5.0}, "i", "5"),
    "negative integer": ({"intValue": "-9223372036854775808"}, "i", "-9223372036854775808"),
    # The SDK for JavaScript writes any number without a fraction as an integer, and in the digits of a double.
    "number beyond 64 bits": ({"intValue": 2**63}, "d", "9.223372036854776e+18"),
    "negative number beyond 64 bits": ({"intValue": -9223372036854776000}, "d", "-9.223372036854776e+18"),
    "number far beyond 64 bits": ({"intValue": 1e300}, "d", "1e+300"),
    "double": ({"doubleValue": 0.1}, "d", "0.1"),
    "double without a point": ({"doubleValue": 5}, "d", "5"),
    "double as a string": ({"doubleValue": "1e-5"}, "d", "1e-05"),
    "NaN": ({"doubleValue": "NaN"}, "d", "NaN"),
    "infinity": ({"doubleValue": "-Infinity"}, "d", "-Infinity"),
    "boolean": ({"boolValue": False}, "b", "false"),
    "bytes": ({"bytesValue": "AP/+"}, "x", "AP/+"),
    "bytes in the URL-safe alphabet without padding": ({"bytesValue": "_-A"}, "x", "/+A="),
    "array": ({"arrayValue": {"values": [{"intValue": "1"}, {}, None]}}, "a", "[1,null,null]"),
    "array without values": ({"arrayValue": {}}, "a", "[]"),
    "map": (
        {"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}, {"key": "b"}]}},
        "m",
        '{"a":true,"b":null}',
    ),
    "nothing": ({}, "n", "null"),
    "null": (None, "n", "null"),
    "a null member": ({"stringValue": None, "intValue": 1}, "i", "1"),
    "an unknown member": ({"stringValue": "s", "otherValue": {"x": [1]}}, "s", "s"),
    "an index of profiles": ({"stringValueStrindex": 3}, "n", "null"),
    "of several the last in field order": ({"intValue": 1, "stringValue": "s"}, "i", "1"),
}


def test_values() -> None:
    for name, (value, letter, text) in VALUES.items():
        found, _ = row("traces", attribute(value))
        assert found["attributes"] == [(b"k", text.encode())], name
        assert found["attribute_types"] == f"\1k\2{letter}\1".encode(), name


def test_ids_are_hex_in_either_case_wherever_they_stand() -> None:
    links = [{"traceId": TRACE_ID.upper(), "spanId": SPAN_ID.upper(), "flags": "769"}]
    found, modified = row("traces", traces(span(traceId=TRACE_ID.upper(), parentSpanId=SPAN_ID.upper(), links=links)))
    ids = [found[name].hex() for name in ("trace_id", "span_id", "parent_span_id")]
    assert ids == [TRACE_ID, SPAN_ID, SPAN_ID]
    assert f'"traceId":"{TRACE_ID}","spanId":"{SPAN_ID}"'.encode() in found["links"]
    assert modified == {}


@pytest.mark.parametrize(
    "bad", ["xyz", "5b8", "5b8efff798038103d269b633813fc60", TRACE_ID + "00", "é" * 16, " " + TRACE_ID]
)
def test_ids_that_are_none_cost_only_their_span(bad: str) -> None:
    decoded = read("traces", traces(span(), span(traceId=bad), span(spanId=bad), span()))
    assert (decoded.accepted, dict(decoded.rejected)) == (2, {"invalid_trace_id": 1, "invalid_span_id": 1})
    found, modified = row("logs", logs({"traceId": bad, "spanId": bad}))
    assert (found["trace_id"], found["span_id"], modified) == (bytes(16), bytes(8), {"repaired": 1})
    found, modified = row("traces", traces(span(parentSpanId=bad, links=[{"traceId": bad}])))
    assert (found["parent_span_id"], modified) == (bytes(8), {"repaired": 1})
    assert b'"traceId":""' in found["links"]


def test_unknown_fields_are_ignored() -> None:
    found, _ = row("traces", traces(span(droppedeventscount=5, droppedLinksCount="6", unknown={"deep": [[{}]]})))
    assert (found["dropped_events_count"], found["dropped_links_count"]) == (0, 6)


def test_nulls_are_absent() -> None:
    nothing = dict.fromkeys(("name", "kind", "attributes", "events", "links", "status", "flags", "traceState"))
    body = traces(None, span(**nothing), resource=None, schemaUrl=None)
    found, _ = row("traces", body)
    assert found["name"] == b""
    for empty in (b"{}", b'{"resourceSpans":null}', b'{"resourceSpans":[null,{"scopeSpans":[null,{"spans":null}]}]}'):
        assert to_protobuf("traces", empty, Policy()).body.strip(b"\x0a\x12\x00\x02") == b""


def test_of_duplicate_names_the_last_counts() -> None:
    body = traces(span(name="REPLACED")).replace(b'"name": "REPLACED"', b'"name":"a","name":"b"')
    found, _ = row("traces", body)
    assert found["name"] == b"b"


FAULTY = {
    "integer beyond 64 bits": (attribute({"intValue": str(2**63)}), ".attributes[0].value.intValue"),
    "number beyond the range of a double": (attribute({"intValue": 10**400}), ".attributes[0].value.intValue"),
    "integer as text": (attribute({"intValue": "five"}), ".attributes[0].value.intValue"),
    "integer with spaces": (attribute({"intValue": " 5"}), ".attributes[0].value.intValue"),
    "integer with other digits": (attribute({"intValue": "\u0665"}), ".attributes[0].value.intValue"),
    "fraction for an integer": (attribute({"intValue": 1.5}), ".attributes[0].value.intValue"),
    "double beyond the range": (attribute({"doubleValue": "1e999"}), ".attributes[0].value.doubleValue"),
    "long integer for a double": (attribute({"doubleValue": 10**400}), ".attributes[0].value.doubleValue"),
    "text for a double": (attribute({"doubleValue": "nan"}), ".attributes[0].value.doubleValue"),
    "boolean as text": (attribute({"boolValue": "true"}), ".attributes[0].value.boolValue"),
    "number for a string": (attribute({"stringValue": 5}), ".attributes[0].value.stringValue"),
    "not base64": (attribute({"bytesValue": "A"}), ".attributes[0].value.bytesValue"),
    "inside an array": (
        attribute({"arrayValue": {"values": [{}, {"intValue": "x"}]}}),
        ".arrayValue.values[1].intValue",
    ),
    "inside a map": (
        attribute({"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "x"}}]}}),
        ".kvlistValue.values[0].value.intValue",
    ),
    "unknown name of an enum": (traces(span(kind="SERVER")), ".kind"),
    "enum beyond 32 bits": (traces(span(kind=2**31)), ".kind"),
    "negative time": (traces(span(startTimeUnixNano=-1)), ".startTimeUnixNano"),
    "time beyond 64 bits": (traces(span(endTimeUnixNano=str(2**64))), ".endTimeUnixNano"),
    "flags beyond 32 bits": (traces(span(flags=2**32)), ".flags"),
    "negative count": (traces(span(droppedEventsCount=-1)), ".droppedEventsCount"),
    "a link": (traces(span(links=[{}, {"flags": -1}])), ".links[1].flags"),
    "an event": (traces(span(events=[{"timeUnixNano": "x"}])), ".events[0].timeUnixNano"),
    "status": (traces(span(status={"code": "OK"})), ".status.code"),
    "a list for an object": (traces([]), "spans[1]"),
}


def test_what_a_field_cannot_hold_costs_its_item_alone_and_is_named() -> None:
    for name, (body, path) in FAULTY.items():
        (faulty,) = json.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        decoded = read("traces", traces(span(name="before"), faulty, span(name="after")))
        found = rows(codec.build_blocks([decoded], 1), "spans")
        assert [row["name"] for row in found] == [b"before", b"after"], name
        assert (dict(decoded.rejected), dict(decoded.modified)) == ({"invalid_field": 1}, {}), name
        assert decoded.first_fault.startswith("resourceSpans[0].scopeSpans[0].spans[1]")
        assert f"{path}: " in decoded.first_fault


def test_a_faulty_log_record_costs_its_neighbours_nothing() -> None:
    decoded = read("logs", logs({"body": {"intValue": "x"}}, {}, 5, {"severityNumber": "INFO"}, None))
    assert (decoded.accepted, dict(decoded.rejected)) == (1, {"invalid_field": 3})
    assert decoded.first_fault == "resourceLogs[0].scopeLogs[0].logRecords[0].body.intValue: not an integer"


FAULTY_RESOURCE: dict[str, tuple[Any, str]] = {
    "an attribute": (
        {"resource": {"attributes": [{"key": "a", "value": {"intValue": "x"}}]}},
        "resource.attributes[0].value.intValue",
    ),
    "a number": ({"resource": 5}, "resource"),
    "a list of attributes that is none": ({"resource": {"attributes": {}}}, "resource.attributes"),
    "a count": ({"resource": {"droppedAttributesCount": -1}}, "resource.droppedAttributesCount"),
    "its schema": ({"schemaUrl": 5}, "schemaUrl"),
}
FAULTY_SCOPE: dict[str, tuple[Any, str]] = {
    "a name": ({"scope": {"name": 5}}, "scope.name"),
    "a text": ({"scope": "library"}, "scope"),
    "a count": ({"scope": {"droppedAttributesCount": -1}}, "scope.droppedAttributesCount"),
    "its schema": ({"schemaUrl": []}, "schemaUrl"),
}


@pytest.mark.parametrize(("faulty", "path"), FAULTY_RESOURCE.values(), ids=FAULTY_RESOURCE.keys())
def test_a_faulty_resource_costs_its_own_items_alone(faulty: Any, path: str) -> None:
    sent = {"scopeSpans": [{"spans": [span(), None, 5]}, {"scope": 5, "spans": [{}]}], **faulty}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span()]}]}, sent, None, {}]}).encode()
    decoded = read("traces", body)
    assert (decoded.accepted, dict(decoded.rejected)) == (1, {"invalid_resource": 3})
    assert decoded.first_fault.startswith(f"resourceSpans[1].{path}: ")


@pytest.mark.parametrize(("faulty", "path"), FAULTY_SCOPE.values(), ids=FAULTY_SCOPE.keys())
def test_a_faulty_scope_costs_its_own_items_alone(faulty: Any, path: str) -> None:
    scopes = [{"spans": [span()]}, {"spans": [span(), 5, None], **faulty}, {"spans": [span(), {"name": 5}]}]
    decoded = read("traces", json.dumps({"resourceSpans": [{"scopeSpans": scopes}]}).encode())
    assert (decoded.accepted, dict(decoded.rejected)) == (2, {"invalid_scope": 2, "invalid_field": 1})
    assert decoded.first_fault.startswith(f"resourceSpans[0].scopeSpans[1].{path}: ")


def test_a_faulty_origin_without_items_costs_nothing() -> None:
    body = json.dumps({"resourceSpans": [{"resource": 5}, {"resource": 5, "scopeSpans": [{"spans": [None]}]}]}).encode()
    decoded = read("traces", body)
    assert (dict(decoded.rejected), decoded.first_fault) == ({}, "")


STRUCTURE: dict[str, tuple[Any, str]] = {
    "resources": ({"resourceSpans": 1}, "resourceSpans"),
    "a resource": ({"resourceSpans": [{}, "x"]}, "resourceSpans[1]"),
    "scopes": ({"resourceSpans": [{"scopeSpans": {}}]}, "resourceSpans[0].scopeSpans"),
    "a scope": ({"resourceSpans": [{"scopeSpans": [5]}]}, "resourceSpans[0].scopeSpans[0]"),
    "items": ({"resourceSpans": [{"scopeSpans": [{"spans": {}}]}]}, "resourceSpans[0].scopeSpans[0].spans"),
    "items of a faulty resource": (
        {"resourceSpans": [{"resource": 5, "scopeSpans": [{"spans": "x"}]}]},
        "resourceSpans[0].scopeSpans[0].spans",
    ),
}


@pytest.mark.parametrize(("body", "path"), STRUCTURE.values(), ids=STRUCTURE.keys())
def test_where_it_cannot_be_told_which_items_there_are_the_request_is_refused(body: Any, path: str) -> None:
    error = refused("traces", json.dumps(body).encode())
    assert isinstance(error, FieldError)
    assert (error.reason, error.path) == (RequestRejection.MALFORMED, path)


def test_items_that_are_no_objects_are_counted_without_being_kept() -> None:
    odd = [5, "a,b]}", [[1, 2], {"a": [1]}], True, {"x": ["}", 1]}, None, 1.5]
    decoded = read("traces", traces(span(), *odd, span()))
    assert (decoded.accepted, dict(decoded.rejected)) == (2, {"invalid_field": 5, "invalid_trace_id": 1})
    assert refused("traces", traces(*odd), Policy(max_items=6)).reason == RequestRejection.TOO_MANY_ITEMS
    assert read("traces", traces(*odd), Policy(max_items=7)).accepted == 0


def test_a_faulty_item_may_hold_text_that_is_not_unicode() -> None:
    body = traces(span(name="FIRST", kind="x"), span(name="SECOND", flags=-1), span(name="THIRD"))
    decoded = read("traces", body.replace(b"FIRST", b"\xff").replace(b"SECOND", rb"\ud800").replace(b"THIRD", b"\xe6"))
    assert (decoded.accepted, dict(decoded.rejected), dict(decoded.modified)) == (
        1,
        {"invalid_field": 2},
        {"repaired": 1},
    )


NOT_JSON = {
    "nothing": b"",
    "half an object": b'{"resourceSpans":',
    "more than an object": b"{}{}",
    "a list": b"[]",
    "a bare NaN": b'{"resourceSpans":NaN}',
    "a control character": b'{"a":"\x01"}',
    "bytes": b"\xff\xfe",
    "protobuf": b"\x0a\x00",
    "an unknown escape": rb'{"a":"\x"}',
}


def test_what_is_not_json_is_refused() -> None:
    reasons = {name: refused("traces", body).reason for name, body in NOT_JSON.items()}
    assert reasons == dict.fromkeys(NOT_JSON, RequestRejection.MALFORMED)


ILL_FORMED = {
    b"\xff": "�",
    b"a\xf0\x9f\x92b\xe6": "a�b�",
    b"\xed\xa0\x80": "���",
    rb"\ud83d": "�",
    rb"\ude00 \ud83d": "� �",
    rb"\ud83d\ud83d\ude00": "�😀",
    rb"\\ud83d\n\ud800": "\\ud83d\n�",
    "�".encode() + b"\xff\xef\xb7\x90\\ufdd1\\uFDD2": "��\ufdd0\ufdd1\ufdd2",
}


@pytest.mark.parametrize(("raw", "text"), ILL_FORMED.items())
def test_text_that_is_not_unicode_is_repaired_and_counted_and_costs_no_neighbour(raw: bytes, text: str) -> None:
    body = traces(
        span(name="FIRST"), span(name="SECOND �", attributes=[{"key": "SECOND", "value": {"stringValue": "v"}}])
    )
    decoded = read("traces", body.replace(b"FIRST", raw))
    first, second = rows(codec.build_blocks([decoded], 1), "spans")
    assert first["name"] == text.encode()
    assert (second["name"], second["attributes"]) == ("SECOND �".encode(), [(b"SECOND", b"v")])
    assert dict(decoded.modified) == {"repaired": 1}


def test_ill_formed_text_reads_the_same_as_in_protobuf() -> None:
    raw = b"\xc0\xaf\xe6\x97x\xf0\x9f\x92"
    as_protobuf = codec.decode("traces", sent.request(sent.span(bytes_field(5, raw))), 1, Policy(), NOW_NS)
    (expected,) = rows(codec.build_blocks([as_protobuf], 1), "spans")
    found, modified = row("traces", traces(span(name="NAME")).replace(b"NAME", raw))
    assert (found["name"], modified) == (expected["name"], dict(as_protobuf.modified))


def test_ill_formed_text_in_a_field_that_nobody_reads_costs_nothing() -> None:
    found, modified = row("traces", traces(span(unknown="X")).replace(b'"X"', b'"\xff\\ud800"'))
    assert (found["trace_id"].hex(), modified) == (TRACE_ID, {})


def test_characters_that_repair_itself_writes_stay_what_they_are() -> None:
    raw = "\x7f\x7f1\x7f0\ufffd\x7f2".encode() + rb"\u007f1\u007F\\u007f\ud8001" + b"\xff"
    found, modified = row("traces", traces(span(name="NAME")).replace(b"NAME", raw))
    assert found["name"].decode() == "\x7f\x7f1\x7f0\ufffd\x7f2\x7f1\x7f\\u007f\ufffd1\ufffd"
    assert modified == {"repaired": 1}


@given(
    st.lists(
        st.sampled_from([b"a", b"\x80", b"\xe2\x82\xac", b"\xf0\x9f", b"\xef\xbf\xbd", b"\x7f", b"\xff", rb"\ud800"])
    )
)
@pytest.mark.sized
@settings(max_examples=scaled(100, 1_000), deadline=None, database=None)
def test_a_body_is_repaired_in_steps_as_it_is_in_one(pieces: list[bytes]) -> None:
    repairing = importlib.import_module("proto.otlp.json.utf_repair")
    body = b"".join(pieces)
    whole = repairing.repair(body)
    for step in (1, 2, 3, 7):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(repairing, "_STEP", step)
            assert repairing.repair(body) == whole


def nested(depth: int) -> Any:
    value: Any = {"intValue": 1}
    for place in range(depth - 1):
        in_map = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
        value = {"arrayValue": {"values": [value]}} if place % 2 else in_map
    return value


def test_a_value_may_be_32_deep_and_no_deeper() -> None:
    assert read("traces", attribute(nested(32))).accepted == 1
    assert refused("traces", attribute(nested(33))).reason == RequestRejection.TOO_DEEP
    assert refused("logs", logs({"body": nested(33)})).reason == RequestRejection.TOO_DEEP


@pytest.mark.parametrize("opening", [b"[", b'{"x":', b'[{"x":'])
def test_deep_nesting_that_nobody_reads_is_refused(opening: bytes) -> None:
    assert refused("traces", b'{"unknown":' + opening * 100_000).reason in (
        RequestRejection.TOO_DEEP,
        RequestRejection.MALFORMED,
    )
    closing = opening.replace(b'"x":', b"").translate(bytes.maketrans(b"[{", b"]}"))[::-1]
    whole = b'{"unknown":' + opening * 5000 + b"1" + closing * 5000 + b"}"
    assert refused("traces", whole).reason == RequestRejection.TOO_DEEP


def test_items_and_objects_have_limits() -> None:
    policy = Policy(max_items=2)
    assert read("traces", traces(span(), span()), policy).accepted == 2
    for items in (3, 40_000):
        assert refused("traces", traces(*[{}] * items), policy).reason == RequestRejection.TOO_MANY_ITEMS
    scopes = [{"spans": [span()]}, {"spans": [span()] * 2}]
    several = json.dumps({"resourceSpans": [{"scopeSpans": scopes}]}).encode()
    assert refused("traces", several, policy).reason == RequestRejection.TOO_MANY_ITEMS
    assert refused("traces", traces(*[{}] * 98), Policy(max_parts=100)).reason == RequestRejection.TOO_MANY_PARTS
    both = Policy(max_items=5, max_parts=100)
    assert refused("traces", traces(*[{}] * 97), both).reason == RequestRejection.TOO_MANY_ITEMS


def test_braces_in_strings_are_no_objects() -> None:
    text = '{"\\' * 100
    assert read("traces", traces(span(name=text)), Policy(max_parts=5)).accepted == 1
    assert refused("traces", traces(span(name=text)), Policy(max_parts=2)).reason == RequestRejection.TOO_MANY_PARTS


def test_objects_are_counted_exactly_whatever_stands_in_texts_between_them() -> None:
    """Nothing of it is well formed: it is refused for their number, or for what it is."""
    for braces in (999, 1_000, 1_001, 2_000, 2_001, 2_500, 2_501):
        body = b'{"\\"{{\\\\":[' * braces + b'"{{{'  # the last text does not end
        for most in (999, 1_000, 1_001, 2_500):
            reason = refused("traces", body, Policy(max_parts=most)).reason
            assert (reason == RequestRejection.TOO_MANY_PARTS) == (braces > most)


@pytest.mark.sized
@settings(max_examples=scaled(100, 1_000), deadline=None, database=None)
@given(st.binary(max_size=60), st.integers(0, 400))
def test_damaged_json_is_refused_or_read_but_never_breaks(piece: bytes, at: int) -> None:
    body = bytearray(traces(span(name="é", attributes=[{"key": "k", "value": {"intValue": "5"}}])))
    body[at : at + len(piece)] = piece
    try:
        read("traces", bytes(body))
    except DecodeError as error:
        assert error.message  # noqa: PT017 - a refusal is one of two good ends
