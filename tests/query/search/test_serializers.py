"""Everything OTLP carries of a span and of a log record, back from the API with value and type."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import EntityRef, InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from proto.storage.attribute_encoding import escape
from query.rows import AttributeColumns
from query.values import decode_attribute_list, format_timestamp, json_value, merged_attributes
from tests.query.conftest import NOW, SECOND, Explore, Loader, key_values, span, span_id, trace_id

START = NOW - 600 * SECOND + 123_456_789
EVERY_TYPE: dict[str, Any] = {
    "text": 'a "quoted" \\ line\n\t\x00\u2028 é 😀',
    "empty": "",
    "true": True,
    "false": False,
    "int": 42,
    "max": 2**63 - 1,
    "min": -(2**63),
    "past.floats": 2**53 + 1,
    "double": 200.0,
    "fraction": 0.1,
    "large": 1e300,
    "tiny": 5e-324,
    "sixteen": 1e16,
    "minus.zero": -0.0,
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus.infinity": float("-inf"),
    "bytes": b"\x00\xff",
    "nothing": None,
    "array": ["x", 1, 2.0, True, None, b"\x00", [2**63 - 1], {"a": -0.0}],
    "map": {"k": {"deep": [1.0, float("nan")]}, "ключ": "é"},
    "empty.array": [],
    "empty.map": {},
    'key "with" \\ é': 1,
}
# As JSON text: parsing would forgive what a 64-bit client does not.
EVERY_TYPE_JSON = (
    '{"text":"a \\"quoted\\" \\\\ line\\n\\t\\u0000\u2028 é 😀","empty":"","true":true,"false":false,"int":42,'
    '"max":9223372036854775807,"min":-9223372036854775808,"past.floats":9007199254740993,"double":200.0,"fraction":0.1,'
    '"large":1e+300,"tiny":5e-324,"sixteen":1e+16,"minus.zero":-0.0,"nan":"NaN","infinity":"Infinity",'
    '"minus.infinity":"-Infinity","bytes":{"bytesValue":"AP8="},"nothing":null,'
    '"array":["x",1,2.0,true,null,{"bytesValue":"AA=="},[9223372036854775807],{"a":-0.0}],'
    '"map":{"k":{"deep":[1.0,"NaN"]},"ключ":"é"},"empty.array":[],"empty.map":{},"key \\"with\\" \\\\ é":1'
)
RESOURCE = Resource(
    attributes=key_values({"service.name": "cart", "service.version": "1.2.3", "pid": 7, "cpu": 1.0}),
    dropped_attributes_count=3,
    entity_refs=[
        EntityRef(
            schema_url="https://e", type="service", id_keys=["service.name"], description_keys=["service.version"]
        )
    ],
)
SCOPE = InstrumentationScope(
    name="otel.http", version="0.9", attributes=key_values({"tier": 3, "on": True}), dropped_attributes_count=4
)
SHOWN_RESOURCE = {
    "attributes": {"service.name": "cart", "service.version": "1.2.3", "pid": 7, "cpu": 1.0},
    "droppedAttributesCount": 3,
    "schemaUrl": "https://resource/1",
    "entityRefs": [
        {
            "schemaUrl": "https://e",
            "type": "service",
            "idKeys": ["service.name"],
            "descriptionKeys": ["service.version"],
        }
    ],
}
SHOWN_SCOPE = {
    "name": "otel.http",
    "version": "0.9",
    "attributes": {"tier": 3, "on": True},
    "droppedAttributesCount": 4,
    "schemaUrl": "https://scope/1",
}
INHERITED_JSON = (
    ',"resource.service.name":"cart","resource.service.version":"1.2.3","resource.pid":7,"resource.cpu":1.0,'
    '"scope.tier":3,"scope.on":true,"scope.name":"otel.http","scope.version":"0.9"}'
)
TRACE, SPAN, PARENT = "0123456789abcdef" * 2, "fedcba9876543210", "00000000000000ff"


def full_span() -> bytes:
    retry = {"n": 2**63 - 1, "d": 2.0, "b": b"x"}
    link = Span.Link(trace_id=trace_id(9), span_id=span_id(8), trace_state="c=3", flags=0x100)
    link.attributes.extend(key_values({"why": ["batch", 1.0]}))
    link.dropped_attributes_count = 7
    whole = Span(
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes.fromhex(SPAN),
        trace_state="a=1,b=2",
        parent_span_id=bytes.fromhex(PARENT),
        flags=0x301,
        name="GET /cart",
        kind=Span.SPAN_KIND_CONSUMER,
        start_time_unix_nano=START,
        end_time_unix_nano=START + 12_345_678,
        attributes=key_values(EVERY_TYPE),
        dropped_attributes_count=1,
        events=[
            Span.Event(
                time_unix_nano=START + 1, name="retry", attributes=key_values(retry), dropped_attributes_count=5
            ),
            Span.Event(time_unix_nano=START + 2, name="done"),
        ],
        dropped_events_count=6,
        links=[link, Span.Link()],
        dropped_links_count=8,
        status=Status(code=Status.STATUS_CODE_ERROR, message="refused"),
    )
    scoped = ScopeSpans(scope=SCOPE, schema_url="https://scope/1", spans=[whole])
    group = ResourceSpans(resource=RESOURCE, schema_url="https://resource/1", scope_spans=[scoped])
    return ExportTraceServiceRequest(resource_spans=[group]).SerializeToString()


SPAN_SHOWN: dict[str, Any] = {
    "id": f"{TRACE}-{SPAN}",
    "traceId": TRACE,
    "spanId": SPAN,
    "parentSpanId": PARENT,
    "name": "GET /cart",
    "kind": "CONSUMER",
    "startTime": format_timestamp(START),
    "endTime": format_timestamp(START + 12_345_678),
    "durationMs": 12.345678,
    "statusCode": "ERROR",
    "statusMessage": "refused",
    "environment": "unknown",
    "release": "1.2.3",
    "serviceName": "cart",
}
RECORD_SHOWN: dict[str, Any] = {
    "traceState": "a=1,b=2",
    "flags": 0x301,
    "droppedAttributesCount": 1,
    "events": [
        {
            "time": format_timestamp(START + 1),
            "name": "retry",
            "attributes": {"n": 2**63 - 1, "d": 2.0, "b": {"bytesValue": "eA=="}},
            "droppedAttributesCount": 5,
        },
        {"time": format_timestamp(START + 2), "name": "done", "attributes": {}, "droppedAttributesCount": 0},
    ],
    "droppedEventsCount": 6,
    "links": [
        {
            "traceId": "0" * 31 + "9",
            "spanId": "0" * 15 + "8",
            "traceState": "c=3",
            "attributes": {"why": ["batch", 1.0]},
            "droppedAttributesCount": 7,
            "flags": 0x100,
        },
        dict.fromkeys(("traceId", "spanId", "traceState"))
        | {"attributes": {}, "droppedAttributesCount": 0, "flags": 0},
    ],
    "droppedLinksCount": 8,
    "resource": SHOWN_RESOURCE,
    "scope": SHOWN_SCOPE,
    "truncations": [],
    "alternates": [],
}


async def test_a_span_comes_back_as_specified(loader: Loader, explore: Explore) -> None:
    await loader.request("traces", full_span())
    answer = await explore.get("/spans")
    assert answer.headers["Content-Type"] == "application/json"
    page = answer.json
    assert page == {
        "data": [{**SPAN_SHOWN, "attributes": page["data"][0]["attributes"]}],
        "nextCursor": None,
        "hasMore": False,
    }
    assert list(page["data"][0]) == [*SPAN_SHOWN, "attributes"]
    assert f'"attributes":{EVERY_TYPE_JSON}{INHERITED_JSON}' in answer.text


async def test_the_whole_record_of_a_span(loader: Loader, explore: Explore) -> None:
    await loader.request("traces", full_span())
    answer = await explore.get(f"/traces/{TRACE}/spans/{SPAN}")
    found = answer.json
    assert found == {**SPAN_SHOWN, "attributes": found["attributes"], **RECORD_SHOWN}
    assert f'"attributes":{EVERY_TYPE_JSON}{INHERITED_JSON}' in answer.text
    assert '"attributes":{"n":9223372036854775807,"d":2.0,"b":{"bytesValue":"eA=="}}' in answer.text


async def test_a_log_record_comes_back_whole(loader: Loader, explore: Explore) -> None:
    record = LogRecord(
        time_unix_nano=START,
        observed_time_unix_nano=START + 5,
        severity_number=17,  # type: ignore[arg-type]
        severity_text="ERROR",
        body=key_values({"b": {"int": 2**63 - 1, "double": 3.0, "list": [None, b"\xff"]}})[0].value,
        attributes=key_values(EVERY_TYPE),
        dropped_attributes_count=2,
        flags=1,
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes.fromhex(SPAN),
        event_name="cart.failed",
    )
    scoped = ScopeLogs(scope=SCOPE, schema_url="https://scope/1", log_records=[record])
    group = ResourceLogs(resource=RESOURCE, schema_url="https://resource/1", scope_logs=[scoped])
    await loader.request("logs", ExportLogsServiceRequest(resource_logs=[group]).SerializeToString())
    answer = await explore.get("/logs")
    (found,) = answer.json["data"]
    assert found == {
        "id": "0000000000000001-0",
        "time": format_timestamp(START),
        "timeSource": "time",
        "observedTime": format_timestamp(START + 5),
        "traceId": TRACE,
        "spanId": SPAN,
        "flags": 1,
        "severityNumber": 17,
        "severityText": "ERROR",
        "eventName": "cart.failed",
        "body": {"int": 2**63 - 1, "double": 3.0, "list": [None, {"bytesValue": "/w=="}]},
        "environment": "unknown",
        "release": "1.2.3",
        "serviceName": "cart",
        "attributes": found["attributes"],
        "droppedAttributesCount": 2,
        "resource": SHOWN_RESOURCE,
        "scope": SHOWN_SCOPE,
        "truncations": [],
    }
    assert f'"attributes":{EVERY_TYPE_JSON}{INHERITED_JSON}' in answer.text
    assert '"body":{"int":9223372036854775807,"double":3.0,"list":[null,{"bytesValue":"/w=="}]}' in answer.text


async def test_a_body_keeps_its_type(loader: Loader, explore: Explore) -> None:
    bodies = ["text", "", 5, 5.0, float("nan"), True, b"\xff", [1, 2.0], None]
    values = [key_values({"b": body})[0].value for body in bodies]
    await loader.logs(*(LogRecord(time_unix_nano=START - n, body=value) for n, value in enumerate(values)))
    shown = re.findall(r'"body":(.*?),"environment"', (await explore.get("/logs")).text)
    expected = ['"text"', '""', "5", "5.0", '"NaN"', "true", '{"bytesValue":"/w=="}', "[1,2.0]", "null"]
    assert shown == expected


async def test_where_the_time_of_a_log_record_comes_from(loader: Loader, explore: Explore) -> None:
    await loader.logs(LogRecord(time_unix_nano=START), LogRecord(observed_time_unix_nano=START - 5), LogRecord())
    rows = await explore.data("/logs", to="now+1h")
    assert [(row["timeSource"], row["time"], row["observedTime"]) for row in rows] == [
        ("receiveTime", format_timestamp(NOW), None),
        ("time", format_timestamp(START), None),
        ("observedTime", format_timestamp(START - 5), format_timestamp(START - 5)),
    ]


async def test_what_is_empty_is_null(loader: Loader, explore: Explore) -> None:
    await loader.spans(Span(trace_id=trace_id(1), span_id=span_id(1), start_time_unix_nano=START))
    (found,) = await explore.data()
    assert found == {
        **dict.fromkeys(("parentSpanId", "statusMessage", "release", "serviceName")),
        "id": f"{1:032x}-{1:016x}",
        "traceId": f"{1:032x}",
        "spanId": f"{1:016x}",
        "name": "",
        "kind": "UNSPECIFIED",
        "durationMs": 0,
        "statusCode": "UNSET",
        "environment": "unknown",
        "startTime": format_timestamp(START),
        "endTime": "1970-01-01T00:00:00.000000000Z",  # none was sent; what was sent is shown
        "attributes": {},
    }


async def test_a_span_attribute_wins_over_resource_and_scope(loader: Loader, explore: Explore) -> None:
    await loader.spans(
        span(1, attributes={"resource.host": "span", "scope.name": 1, "scope.k": True}),
        resource={"host": "resource", "port": 1},
        scope=InstrumentationScope(name="n", version="v", attributes=key_values({"k": "scope", "version": 2})),
    )
    (found,) = await explore.data()
    assert found["attributes"] == {
        "resource.host": "span",
        "scope.name": 1,
        "scope.k": True,
        "resource.port": 1,
        "scope.version": 2,
    }


@given(st.dictionaries(st.text(), st.text()))
def test_a_list_in_one_text_reads_as_what_was_written(texts: dict[str, str]) -> None:
    written = "".join(f"\1{escape(key)}\2s{escape(text)}" for key, text in texts.items())
    assert decode_attribute_list(written and written + "\1") == texts
    assert [*decode_attribute_list(written and written + "\1")] == [*texts]


def test_merging_keeps_the_order_own_resource_scope() -> None:
    carried = AttributeColumns(
        *("", "", "", {"b": "1", "a": "2"}, "\1a\2s\1b\2i\1", "\1r\2btrue\1", "s", "", "\1t\2d0.5\1")
    )
    assert [*merged_attributes(carried)] == ["a", "b", "resource.r", "scope.t", "scope.name"]


@pytest.mark.parametrize("text", ["200", "-0", "1e+16", "0.1", "5e-324"])
def test_a_double_stays_a_double(text: str) -> None:
    shown = json.loads(msgspec.json.encode(json_value(text, "d")))
    assert isinstance(shown, float)
    assert repr(shown).removesuffix(".0") == text
