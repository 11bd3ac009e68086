"""OTLP grows: a field that the installed messages have and no decoder knows is found here."""

import pytest
from google.protobuf.descriptor import Descriptor
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

# Every field by number, as of opentelemetry-proto 1.11. `key_strindex` and `string_value_strindex` are for profiles.
KNOWN = {
    "TracesData": "resource_spans=1",
    "ResourceSpans": "resource=1 scope_spans=2 schema_url=3",
    "ScopeSpans": "scope=1 spans=2 schema_url=3",
    "Span": (
        "trace_id=1 span_id=2 trace_state=3 parent_span_id=4 name=5 kind=6 start_time_unix_nano=7 end_time_unix_nano=8"
        " attributes=9 dropped_attributes_count=10 events=11 dropped_events_count=12 links=13 dropped_links_count=14"
        " status=15 flags=16"
    ),
    "Event": "time_unix_nano=1 name=2 attributes=3 dropped_attributes_count=4",
    "Link": "trace_id=1 span_id=2 trace_state=3 attributes=4 dropped_attributes_count=5 flags=6",
    "Status": "message=2 code=3",
    "LogsData": "resource_logs=1",
    "ResourceLogs": "resource=1 scope_logs=2 schema_url=3",
    "ScopeLogs": "scope=1 log_records=2 schema_url=3",
    "LogRecord": (
        "time_unix_nano=1 severity_number=2 severity_text=3 body=5 attributes=6 dropped_attributes_count=7 flags=8"
        " trace_id=9 span_id=10 observed_time_unix_nano=11 event_name=12"
    ),
    "AnyValue": (
        "string_value=1 bool_value=2 int_value=3 double_value=4 array_value=5 kvlist_value=6 bytes_value=7"
        " string_value_strindex=8"
    ),
    "ArrayValue": "values=1",
    "KeyValueList": "values=1",
    "KeyValue": "key=1 value=2 key_strindex=3",
    "InstrumentationScope": "name=1 version=2 attributes=3 dropped_attributes_count=4",
    "EntityRef": "schema_url=1 type=2 id_keys=3 description_keys=4",
    "Resource": "attributes=1 dropped_attributes_count=2 entity_refs=3",
}


def installed() -> dict[str, Descriptor]:
    files = (common_pb2, resource_pb2, trace_pb2, logs_pb2)
    messages = [message for file in files for message in file.DESCRIPTOR.message_types_by_name.values()]
    return {inner.name: inner for message in messages for inner in (message, *message.nested_types)}


def test_every_message_is_known() -> None:
    assert installed().keys() == KNOWN.keys()


@pytest.mark.parametrize("name", KNOWN)
def test_every_field_is_known(name: str) -> None:
    fields = sorted(installed()[name].fields, key=lambda field: field.number)
    assert " ".join(f"{field.name}={field.number}" for field in fields) == KNOWN[name]
