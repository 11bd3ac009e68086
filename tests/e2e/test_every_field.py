"""Every field that OTLP carries for spans and log records comes back with its value and its type."""

import time
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.e2e.product import Sluice, eventually
from tests.e2e.reading import SECOND, rfc3339, same

TRACE_ID = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
SPAN_ID = bytes.fromhex("b7ad6b7169203331")
PARENT_ID = bytes.fromhex("00f067aa0ba902b7")
LOG_TRACE_ID = bytes.fromhex("5b8efff798038103d269b633813fc60c")
# References into a dictionary of strings that only profiles have; elsewhere a receiver reads them as no value.
PROFILES_ONLY = {"key_strindex", "string_value_strindex"}


def every_kind_of_value() -> list[KeyValue]:
    def pair(key: str, **value: Any) -> KeyValue:
        return KeyValue(key=key, value=AnyValue(**value))

    nested = AnyValue()
    nested.kvlist_value.values.extend(
        [pair("deep", int_value=-(2**63)), pair("half", double_value=0.5), pair("whole", double_value=2.0)]
    )
    mixed = AnyValue()
    mixed.array_value.values.extend(
        [
            AnyValue(int_value=2**63 - 1),
            AnyValue(string_value="x"),
            AnyValue(bool_value=True),
            AnyValue(bytes_value=b"\xff\0"),
            nested,
            AnyValue(),
        ]
    )
    return [
        pair("text", string_value='grün \U0001f680 "quoted" \\ \n'),
        pair("empty", string_value=""),
        pair("yes", bool_value=True),
        pair("no", bool_value=False),
        pair("largest", int_value=2**63 - 1),
        pair("smallest", int_value=-(2**63)),
        pair("whole", double_value=200.0),
        pair("tenth", double_value=0.1),
        pair("tiny", double_value=5e-324),
        pair("not a number", double_value=float("nan")),
        pair("endless", double_value=float("-inf")),
        pair("raw", bytes_value=b"\0\x01\xff"),
        KeyValue(key="list", value=mixed),
        KeyValue(key="map", value=nested),
        KeyValue(key="nothing", value=AnyValue()),
    ]


EVERY_KIND = {
    "text": 'grün \U0001f680 "quoted" \\ \n',
    "empty": "",
    "yes": True,
    "no": False,
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "whole": 200.0,
    "tenth": 0.1,
    "tiny": 5e-324,
    "not a number": "NaN",
    "endless": "-Infinity",
    "raw": {"bytesValue": "AAH/"},
    "list": [2**63 - 1, "x", True, {"bytesValue": "/wA="}, {"deep": -(2**63), "half": 0.5, "whole": 2.0}, None],
    "map": {"deep": -(2**63), "half": 0.5, "whole": 2.0},
    "nothing": None,
}


def fill_origin(resource: Any, scope: Any) -> None:
    resource.attributes.add(key="service.name", value=AnyValue(string_value="cart"))
    resource.attributes.add(key="service.version", value=AnyValue(string_value="2.0.1"))
    resource.attributes.add(key="deployment.environment.name", value=AnyValue(string_value="prod"))
    resource.attributes.extend(every_kind_of_value())
    resource.dropped_attributes_count = 3
    resource.entity_refs.add(
        schema_url="https://shop.example/entity/1", type="service", id_keys=["service.name"], description_keys=["text"]
    )
    scope.name = "io.example.lib"
    scope.version = "1.2.3"
    scope.attributes.extend(every_kind_of_value())
    scope.dropped_attributes_count = 4


ORIGIN = {
    "resource": {
        "attributes": {
            "service.name": "cart",
            "service.version": "2.0.1",
            "deployment.environment.name": "prod",
            **EVERY_KIND,
        },
        "droppedAttributesCount": 3,
        "schemaUrl": "https://shop.example/schema/resource",
        "entityRefs": [
            {
                "schemaUrl": "https://shop.example/entity/1",
                "type": "service",
                "idKeys": ["service.name"],
                "descriptionKeys": ["text"],
            }
        ],
    },
    "scope": {
        "name": "io.example.lib",
        "version": "1.2.3",
        "attributes": EVERY_KIND,
        "droppedAttributesCount": 4,
        "schemaUrl": "https://shop.example/schema/scope",
    },
    "truncations": [],
    "environment": "prod",
    "release": "2.0.1",
    "serviceName": "cart",
}

# What explore shows as the attributes of an item.
MERGED = {
    **{f"resource.{key}": value for key, value in ORIGIN["resource"]["attributes"].items()},  # type: ignore[index]
    **{f"scope.{key}": value for key, value in EVERY_KIND.items()},
    "scope.name": "io.example.lib",
    "scope.version": "1.2.3",
    **EVERY_KIND,
}


def test_a_span_comes_back_whole(sluice: Sluice) -> None:
    start = time.time_ns() - SECOND
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add(schema_url="https://shop.example/schema/resource")
    scoped = group.scope_spans.add(schema_url="https://shop.example/schema/scope")
    fill_origin(group.resource, scoped.scope)
    span = scoped.spans.add(
        trace_id=TRACE_ID,
        span_id=SPAN_ID,
        trace_state="vendor=1,other=2",
        parent_span_id=PARENT_ID,
        flags=0x301,
        name="GET /cart",
        kind=3,
        start_time_unix_nano=start,
        end_time_unix_nano=start + 1_234_567,
        dropped_attributes_count=5,
        dropped_events_count=6,
        dropped_links_count=7,
    )
    span.status.message = "out of stock"
    span.status.code = Status.STATUS_CODE_ERROR
    span.attributes.extend(every_kind_of_value())
    event = span.events.add(time_unix_nano=start + 5, name="retry", dropped_attributes_count=8)
    event.attributes.extend(every_kind_of_value())
    link = span.links.add(
        trace_id=LOG_TRACE_ID, span_id=PARENT_ID, trace_state="a=b", dropped_attributes_count=9, flags=0x101
    )
    link.attributes.extend(every_kind_of_value())
    assert unset_fields(request) == set()

    answer = sluice.export("traces", request.SerializeToString())
    assert (answer.status, answer.body) == (200, b"")
    record = eventually(lambda: whole_span(sluice), "the span")

    same(
        record,
        {
            "id": f"{TRACE_ID.hex()}-{SPAN_ID.hex()}",
            "traceId": TRACE_ID.hex(),
            "spanId": SPAN_ID.hex(),
            "parentSpanId": PARENT_ID.hex(),
            "name": "GET /cart",
            "kind": "CLIENT",
            "startTime": rfc3339(start),
            "endTime": rfc3339(start + 1_234_567),
            "durationMs": 1.234567,
            "statusCode": "ERROR",
            "statusMessage": "out of stock",
            "attributes": MERGED,
            "traceState": "vendor=1,other=2",
            "flags": 0x301,
            "droppedAttributesCount": 5,
            "events": [
                {"time": rfc3339(start + 5), "name": "retry", "attributes": EVERY_KIND, "droppedAttributesCount": 8}
            ],
            "droppedEventsCount": 6,
            "links": [
                {
                    "traceId": LOG_TRACE_ID.hex(),
                    "spanId": PARENT_ID.hex(),
                    "traceState": "a=b",
                    "attributes": EVERY_KIND,
                    "droppedAttributesCount": 9,
                    "flags": 0x101,
                }
            ],
            "droppedLinksCount": 7,
            "alternates": [],
            **ORIGIN,
        },
    )


def test_a_log_record_comes_back_whole(sluice: Sluice) -> None:
    now = time.time_ns() - SECOND
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add(schema_url="https://shop.example/schema/resource")
    scoped = group.scope_logs.add(schema_url="https://shop.example/schema/scope")
    fill_origin(group.resource, scoped.scope)
    record = scoped.log_records.add(
        time_unix_nano=now,
        observed_time_unix_nano=now + 17,
        severity_number=18,
        severity_text="ERROR2",
        dropped_attributes_count=2,
        flags=1,
        trace_id=LOG_TRACE_ID,
        span_id=SPAN_ID,
        event_name="stock.changed",
    )
    record.body.kvlist_value.values.extend(every_kind_of_value())
    record.attributes.extend(every_kind_of_value())
    assert unset_fields(request) == set()

    answer = sluice.export("logs", request.SerializeToString())
    assert (answer.status, answer.body) == (200, b"")
    (seen,) = eventually(lambda: stored_logs(sluice), "the log record")

    assert isinstance(seen.pop("id"), str)
    same(
        seen,
        {
            "time": rfc3339(now),
            "timeSource": "time",
            "observedTime": rfc3339(now + 17),
            "traceId": LOG_TRACE_ID.hex(),
            "spanId": SPAN_ID.hex(),
            "flags": 1,
            "severityNumber": 18,
            "severityText": "ERROR2",
            "eventName": "stock.changed",
            "body": EVERY_KIND,
            "attributes": MERGED,
            "droppedAttributesCount": 2,
            **ORIGIN,
        },
    )


def whole_span(sluice: Sluice) -> Any:
    return sluice.explore(f"/traces/{TRACE_ID.hex()}/spans/{SPAN_ID.hex()}")


def stored_logs(sluice: Sluice) -> Any:
    page = sluice.explore(f"/traces/{LOG_TRACE_ID.hex()}/logs")
    return page and page["data"]


def unset_fields(request: Message) -> set[str]:
    """Fields of OTLP that no message of the request sets: the test must not miss one that is new."""
    seen: set[str] = set()
    messages: set[Any] = set()
    visit(request, seen, messages)
    known = {field.full_name for message in messages for field in message.fields if field.name not in PROFILES_ONLY}
    return known - seen


def visit(message: Message, seen: set[str], messages: set[Any]) -> None:
    messages.add(message.DESCRIPTOR)
    for field, value in message.ListFields():
        seen.add(field.full_name)
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        for each in value if field.is_repeated else [value]:
            visit(each, seen, messages)
