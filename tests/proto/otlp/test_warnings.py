"""Requests that are read although they are not what OTLP says, or that are not read: the response has a warning."""

import json
from random import Random
from typing import Any, Final

import msgspec
import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from proto.otlp import codec
from proto.otlp.json import canonical, reading, to_protobuf
from proto.otlp.json.names import camel_case
from proto.otlp.policy import Policy, RequestWarning, Signal
from proto.otlp.protobuf_writer import bytes_field, fixed64_field, varint_field
from tests.proto.otlp import realistic
from tests.proto.otlp.as_json import as_json
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.generate import NOW_NS, Writer
from tests.proto.otlp.native_rows import rows
from tests.proto.otlp.test_json import SPAN_ID, TRACE_ID, logs, read, refused, span, traces
from tests.proto.otlp.test_json_kernel import by_kernel, by_reference

TABLES: Final[dict[Signal, str]] = {"traces": "spans", "logs": "logs"}


def both(signal: Signal, body: bytes) -> tuple[list[dict[str, Any]], dict[str, int], str, list[str]]:
    """Rows, rejections, first fault and warnings: those of the kernel and of the reference, which are the same."""
    converted = to_protobuf(signal, body, Policy())
    decoded = codec.decode(signal, converted.body, 1, Policy(), NOW_NS, converted.faults)
    by_both = codec.decode_json(signal, body, 1, Policy(), NOW_NS)
    assert list(by_both.warnings) == list(decoded.warnings)
    assert by_kernel(signal, body, Policy(), len(body)) in (None, by_reference(signal, body, Policy()))
    read = rows(codec.build_blocks([by_both], 1), TABLES[signal])
    return read, dict(by_both.rejected), by_both.first_fault, list(by_both.warnings)


def warnings(signal: Signal, body: bytes) -> list[str]:
    return both(signal, body)[3]


def snake_case(value: Any) -> Any:
    """The same with every member in snake_case."""
    if isinstance(value, list):
        return [snake_case(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name): snake_case(member)
        for name, member in value.items()
    }


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_every_member_is_read_in_snake_case_by_the_kernel_alone(signal: Signal) -> None:
    sent = [as_json(realistic.request(signal, 40))]
    message = (TracesData if signal == "traces" else LogsData).FromString
    writers = (Writer(Random(seed), 0, Policy(), unicode_only=True) for seed in range(40))
    sent += [as_json(message(writer.request(signal))) for writer in writers]
    for body in sent:
        snake = json.dumps(snake_case(json.loads(body)), ensure_ascii=False).encode()
        expected = by_reference(signal, body, Policy())
        assert expected.counts is None or expected.counts[-1] == []
        found = by_kernel(signal, snake, Policy(), 0)
        assert found == by_reference(signal, snake, Policy())
        assert found is not None
        assert found.blocks == expected.blocks
        if found.counts is not None and body != b"{}":
            assert found.counts[-1] == ["snake_case"]


def test_names_of_enum_values_are_read() -> None:
    body = traces(span(kind="SPAN_KIND_CONSUMER", status={"code": "STATUS_CODE_ERROR"}))
    (row,), _, _, found = both("traces", body)
    assert (row["kind"], row["status_code"], found) == (5, 2, ["enum_names"])
    records = [{"severityNumber": f"SEVERITY_NUMBER_{name}"} for name in ("UNSPECIFIED", "TRACE", "INFO3", "FATAL4")]
    read, _, _, found = both("logs", logs(*records))
    assert ([row["severity_number"] for row in read], found) == ([0, 1, 11, 24], ["enum_names"])
    assert by_kernel("logs", logs(*records), Policy(), 0) is not None


@pytest.mark.parametrize("name", ["", "SERVER", "SPAN_KIND_", "SPAN_KIND_SERVERS", "span_kind_server", "2"])
def test_a_name_that_is_none_of_the_enum_rejects_its_item(name: str) -> None:
    read, rejected, fault, found = both("traces", traces(span(kind=name), span()))
    assert (len(read), rejected, found) == (1, {"invalid_field": 1}, [])
    place = "resourceSpans[0].scopeSpans[0].spans[0].kind"
    assert fault == f"{place}: not a name or number of SpanKind, for example SPAN_KIND_SERVER"


ATTRIBUTES: Final = [b'[{"key":"a","value":{"intValue":1}}]', b"[ ]", b' [ {"key":"b"} , null ] ', b"null"]


@pytest.mark.parametrize("second", ["attributes", r"a\u0074tributes"])
def test_a_list_given_several_times_is_joined_in_order(second: str) -> None:
    members = ",".join(
        f'"{second if place else "attributes"}":{text.decode()}' for place, text in enumerate(ATTRIBUTES)
    )
    body = traces(span(x="X")).replace(b'"x": "X"', members.encode())
    (row,), _, _, found = both("traces", body)
    assert (row["attribute_types"], found) == (b"\1a\2i\1b\2n\1", ["repeated_list"])


LISTS: Final = {
    "resources": (b'{"resourceSpans":[%s],"resource_spans":[%s]}', b'{"scopeSpans":[{"spans":[%s]}]}'),
    "scopes": (b'{"resourceSpans":[{"scopeSpans":[%s],"scope_spans":[%s]}]}', b'{"spans":[%s]}'),
    "items": (b'{"resourceSpans":[{"scopeSpans":[{"spans":[%s],"spans":[%s]}]}]}', b"%s"),
}


@pytest.mark.parametrize(("body", "element"), LISTS.values(), ids=LISTS.keys())
def test_lists_are_joined_on_every_level_and_a_fault_is_located_in_the_joined_list(body: bytes, element: bytes) -> None:
    one, other = json.dumps(span(name="a")).encode(), json.dumps(span(name=5)).encode()
    read, rejected, fault, found = both("traces", body % (element % one, element % other))
    assert ([row["name"] for row in read], rejected) == ([b"a"], {"invalid_field": 1})
    assert "[1]" in fault
    assert found == ["snake_case", "repeated_list"] if b"_spans" in body else ["repeated_list"]


def test_what_is_given_twice_and_is_no_list_is_faulty() -> None:
    for members in (b'"events":[],"events":5', b'"events":5,"events":[]', b'"events":{},"events":[],"events":[]'):
        _, rejected, fault, _ = both("traces", traces(span(x="X")).replace(b'"x": "X"', members))
        assert (rejected, fault.partition(": ")[0]) == (
            {"invalid_field": 1},
            "resourceSpans[0].scopeSpans[0].spans[0].events",
        )


@pytest.mark.parametrize(
    ("members", "name", "expected"),
    [
        ('"name":"a","name":"b"', b"b", ["repeated_member"]),
        ('"name":5,"name":"b"', b"b", ["repeated_member"]),
        ('"name":"a","name":null', b"a", []),
        ('"name":null,"name":"b","name":null', b"b", []),
        ('"unknown":1,"unknown":2,"name":"b"', b"b", []),
        (r'"name":"a","n\u0061me":"b"', b"b", ["repeated_member"]),
    ],
)
def test_of_another_member_the_last_one_counts(members: str, name: bytes, expected: list[str]) -> None:
    body = traces(span(x="X")).replace(b'"x": "X"', members.encode())
    (row,), _, _, found = both("traces", body)
    assert (row["name"], found) == (name, expected)


def test_both_spellings_of_a_member_are_the_same_member() -> None:
    body = traces(span(x="X")).replace(b'"x": "X"', b'"trace_state":"a","traceState":"b"')
    (row,), _, _, found = both("traces", body)
    assert (row["trace_state"], found) == (b"b", ["snake_case", "repeated_member"])


SEVERAL: Final = {
    "text before lists": ('"events":"TEXT"', '"events":[]', {"invalid_field": 1}),
    "a list before empty lists": ('"events":[{"name":"TEXT"}]', '"events":[ ]', {}),
    "a list before lists": ('"events":[ {"name":"TEXT"} ]', '"events":[{}]', {}),
    "lists before text": ('"events":[{}]', '"events":"TEXT"', {"invalid_field": 1}),
}


@pytest.mark.parametrize(("first", "other", "expected"), SEVERAL.values(), ids=SEVERAL.keys())
def test_joining_lists_copies_each_of_them_once(
    first: str, other: str, expected: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = 0
    copy = canonical._Rewriter._copied

    def counting(rewriter: canonical._Rewriter, start: int, end: int) -> bytearray:
        nonlocal copied
        copied += end - start
        return copy(rewriter, start, end)

    monkeypatch.setattr(canonical._Rewriter, "_copied", counting)
    members = ",".join([first, *[other] * 63]).replace("TEXT", "x" * 10_000)
    body = traces(span(x="X")).replace(b'"x": "X"', members.encode())
    decoded = codec.decode_json("traces", body, 1, Policy(), NOW_NS)
    assert (decoded.rejected, copied <= len(body)) == (expected, True)


@pytest.mark.parametrize("member", ['"events":[]', '"name":"a"', r'"n\u0061me":"a"', '"status":{}'])
@pytest.mark.parametrize("times", [64, 65, 5_000])
def test_an_item_with_a_member_given_too_often_is_faulty(member: str, times: int) -> None:
    members = ",".join([member] * times)
    body = traces(span(x="X"), span()).replace(b'"name": "GET /",', b"").replace(b'"x": "X"', members.encode())
    read, rejected, fault, _ = both("traces", body)
    name = member.partition(":")[0].strip('"').replace(r"\u0061", "a")
    place = "resourceSpans[0].scopeSpans[0].spans[0]"
    expected = f"{place}: the member {name} is given more than 64 times in one message"
    assert (len(read), rejected, fault) == ((2, {}, "") if times == 64 else (1, {"invalid_field": 1}, expected))


def test_a_resource_or_scope_with_a_member_given_too_often_is_faulty() -> None:
    repeated = ",".join(['"attributes":[]'] * 65)
    for body, rejected in (
        ('{"resourceSpans":[{"resource":{X},"scopeSpans":[{"spans":[{}]}]}]}', {"invalid_resource": 1}),
        ('{"resourceSpans":[{"scopeSpans":[{"scope":{X},"spans":[{}]}]}]}', {"invalid_scope": 1}),
    ):
        assert both("traces", body.replace("X", repeated).encode())[1] == rejected


def test_outside_of_items_a_member_given_too_often_is_malformed() -> None:
    for body, member in (
        ("{X}", '"resourceSpans":[]'),
        ('{"resourceSpans":[{X}]}', '"scope_spans":[{}]'),
        ('{"resourceSpans":[{"scopeSpans":[{X}]}]}', '"spans":[{}]'),
    ):
        error = refused("traces", body.replace("X", ",".join([member] * 65)).encode())
        assert (error.reason, "is given more than 64 times in one message" in error.message) == ("malformed", True)
        both("traces", body.replace("X", ",".join([member] * 64)).encode())


def test_what_is_not_json_is_refused_as_that_although_a_member_is_given_too_often() -> None:
    repeated = b",".join([b'"resourceSpans":[]'] * 65)
    assert refused("traces", b"{" + repeated).message.startswith("The body is not JSON")


REWRITTEN: Final = {
    '"events":[{"name":"a\\"b\\\\","timeUnixNano":"1"}],"n\\u0061me":"\\u0022"': False,
    '"attributes":[{"value":{"arrayValue":{"values":[{"intValue":1},{"stringValue":""}]}},"key":""}]': False,
    '"flags":1.0,"status":{"code":1},"attributes":[],"links":[{}]': False,
    '"trace_state":"a"': True,
    '"events":[{"n\\u0061me":"a","name":"a"}]': True,
    '"links":[],"links":[]': True,
    '"attributes":[{"value":{"array_value":{}}}]': True,
    '"unknown":1': True,
}


@pytest.mark.parametrize(("members", "rewritten"), REWRITTEN.items())
def test_only_what_may_have_to_be_rewritten_is_looked_at_name_by_name(
    members: str, rewritten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[bytes] = []

    def recording(raw: bytes | msgspec.Raw, *others: Any) -> bytes | msgspec.Raw:
        looked_at.append(bytes(raw))
        return canonical.canonical(raw, *others)

    monkeypatch.setattr(reading, "canonical", recording)
    body = traces(span(x="X")).replace(b'"x": "X"', members.encode())
    decoded = read("traces", body)
    assert (decoded.accepted, len(looked_at)) == (1, int(rewritten))


SPAN: Final = span()
UNREAD: Final[dict[str, tuple[Signal, Any, str]]] = {
    "spans": ("logs", {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}, "spans_sent_as_logs"),
    "spans in snake_case": ("logs", {"resource_spans": [{}]}, "spans_sent_as_logs"),
    "scopes of spans": ("logs", {"resourceLogs": [{"scopeSpans": [{"spans": []}]}]}, "spans_sent_as_logs"),
    "spans for log records": ("logs", {"resourceLogs": [{"scopeLogs": [{"spans": [{}]}]}]}, "spans_sent_as_logs"),
    "log records": ("traces", {"resourceLogs": [{}]}, "logs_sent_as_spans"),
    "log records in a scope": (
        "traces",
        {"resourceSpans": [{"scopeSpans": [{"logRecords": [{}]}]}]},
        "logs_sent_as_spans",
    ),
    "metrics": ("traces", {"resourceMetrics": [{"scopeMetrics": []}]}, "unsupported_signal"),
    "metrics as logs": ("logs", {"resource_metrics": [{}]}, "unsupported_signal"),
    "profiles": ("logs", {"resourceProfiles": [{}]}, "unsupported_signal"),
    "libraries": ("traces", {"resourceSpans": [{"instrumentationLibrarySpans": [{"spans": [SPAN]}]}]}, "retired_names"),
    "libraries of logs": ("logs", {"resourceLogs": [{"instrumentation_library_logs": [{}]}]}, "retired_names"),
    "a library": (
        "traces",
        {"resourceSpans": [{"scopeSpans": [{"instrumentationLibrary": {"name": "x"}}]}]},
        "retired_names",
    ),
    "logs": ("logs", {"resourceLogs": [{"scopeLogs": [{"logs": [{}]}]}]}, "retired_names"),
}


@pytest.mark.parametrize(("signal", "body", "expected"), UNREAD.values(), ids=UNREAD.keys())
def test_what_is_known_and_not_read_is_warned_about(signal: Signal, body: Any, expected: str) -> None:
    assert both(signal, json.dumps(body).encode()) == ([], {}, "", [expected])
    assert by_kernel(signal, json.dumps(body).encode(), Policy(), 0) is not None


@pytest.mark.parametrize("empty", ["null", "[]", "[ ]", "{}", '""'])
def test_nothing_is_not_warned_about(empty: str) -> None:
    assert warnings("traces", f'{{"resourceLogs":{empty},"resource_metrics":{empty}}}'.encode()) == []
    assert warnings("traces", f'{{"resourceSpans":[{{"instrumentationLibrarySpans":{empty}}}]}}'.encode()) == []


def test_a_name_of_a_log_record_is_retired_and_elsewhere_it_is_not() -> None:
    assert warnings("logs", logs({"name": "x"})) == ["retired_names"]
    assert warnings("traces", traces(span(name="x", logs=[1], scopeSpans=[1], instrumentationLibrary=1))) == []
    assert warnings("logs", logs({"eventName": "x", "logRecords": [1], "brand_new": 5, "brandNew": {}})) == []


def test_warnings_are_one_of_each_kind_in_one_order() -> None:
    item = span(trace_state="x", kind="SPAN_KIND_SERVER")
    body = traces(item, item, resource={"x": 1}).replace(
        b'"x": 1', b'"dropped_attributes_count":1,"attributes":[],"attributes":[]'
    )
    body = body[:-1] + b',"resourceMetrics":[1],"resourceLogs":[1]}'
    assert warnings("traces", body) == [
        *("snake_case", "enum_names", "repeated_list", "logs_sent_as_spans", "unsupported_signal"),
    ]


@pytest.mark.parametrize(
    ("name", "camel"),
    [
        (b"trace_id", b"traceId"),
        (b"string_value_strindex", b"stringValueStrindex"),
        *((name, None) for name in (b"trace", b"_id", b"id_", b"a__b", b"trace_Id", b"Trace_id", b"a1_b", b"_", b"")),
    ],
)
def test_snake_case(name: bytes, camel: bytes | None) -> None:
    assert camel_case(name) == camel


# --- protobuf --------------------------------------------------------------------------------------------------------


def of_items(*items: bytes) -> bytes:
    return bytes_field(1, bytes_field(2, b"".join(bytes_field(2, item) for item in items)))


IDS: Final = bytes_field(1, bytes.fromhex(TRACE_ID)) + bytes_field(2, bytes.fromhex(SPAN_ID))
TIMES: Final = fixed64_field(7, NOW_NS) + fixed64_field(8, NOW_NS)
SENT_SPAN: Final = IDS + bytes_field(5, b"GET /cart") + varint_field(6, 2) + TIMES
SENT_LOG: Final = fixed64_field(1, NOW_NS) + varint_field(2, 9) + bytes_field(5, bytes_field(1, b"x"))
OBSERVED_LOG: Final = bytes_field(5, bytes_field(1, b"x")) + bytes_field(6, b"") + fixed64_field(11, NOW_NS)
WITH_TRACE_ID: Final = SENT_LOG + bytes_field(9, bytes.fromhex(TRACE_ID)) + bytes_field(10, bytes.fromhex(SPAN_ID))
METRIC: Final = bytes_field(1, b"http.server.requests") + bytes_field(7, bytes_field(1, fixed64_field(3, NOW_NS)))
FOREIGN: Final[dict[str, tuple[Signal, bytes, str]]] = {
    "a span": ("logs", SENT_SPAN, "spans_sent_as_logs"),
    "a metric as a log record": ("logs", METRIC, "unsupported_signal"),
    "a log record": ("traces", SENT_LOG, "logs_sent_as_spans"),
    "a log record of a trace": ("traces", WITH_TRACE_ID, "logs_sent_as_spans"),
    "a log record with the observed time alone": ("traces", OBSERVED_LOG, "logs_sent_as_spans"),
}


@pytest.mark.parametrize(("signal", "item", "expected"), FOREIGN.values(), ids=FOREIGN.keys())
def test_an_item_of_another_signal_is_not_stored_and_costs_its_neighbours_nothing(
    decoder: Decoder, signal: Signal, item: bytes, expected: str
) -> None:
    own = SENT_SPAN if signal == "traces" else SENT_LOG
    decoded = decoder.decode(signal, of_items(own, item, own))
    assert (decoded.accepted, dict(decoded.rejected), list(decoded.warnings)) == (2, {}, [expected])
    assert [row["row"] for row in decoder.rows(TABLES[signal], decoded)] == [0, 1]
    alone = decoder.decode(signal, of_items(item))
    assert (alone.accepted, dict(alone.rejected), list(alone.warnings)) == (0, {}, [expected])


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_what_an_sdk_sends_has_no_warning(decoder: Decoder, signal: Signal) -> None:
    body = realistic.request(signal, 60).SerializeToString()
    assert list(decoder.decode(signal, body).warnings) == []
    assert list(decoder.decode(signal, of_items(SENT_SPAN if signal == "traces" else OBSERVED_LOG)).warnings) == []


def test_retired_fields_of_protobuf_are_warned_about(decoder: Decoder) -> None:
    libraries = bytes_field(1, bytes_field(1000, bytes_field(2, SENT_SPAN)))
    for signal in TABLES:
        assert list(decoder.decode(signal, libraries).warnings) == [RequestWarning.RETIRED_NAMES]
    named = decoder.decode("logs", of_items(SENT_LOG + bytes_field(4, b"name")))
    assert (named.accepted, list(named.warnings)) == (1, [RequestWarning.RETIRED_NAMES])
    assert list(decoder.decode("logs", of_items(SENT_LOG + bytes_field(4, b""))).warnings) == []
    assert (
        list(decoder.decode("traces", bytes_field(1000, b"") + bytes_field(1, bytes_field(1001, b"x"))).warnings) == []
    )
