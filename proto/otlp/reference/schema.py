"""OTLP's messages as protobuf classes that never refuse what the survey let through.

The descriptors of `opentelemetry-proto` are mirrored with two changes, field numbers kept:
- strings are bytes, so that one ill-formed string does not refuse a request;
- a field that holds an `AnyValue` is repeated bytes, so that nesting never meets protobuf's own recursion limit, and
  merging the occurrences of a single field is joining their bytes (`merged`).
"""

import functools
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

_FILES: Final = (common_pb2, resource_pb2, trace_pb2, logs_pb2)  # each after what it imports
_ANY_VALUE: Final = ".opentelemetry.proto.common.v1.AnyValue"


class Schema(NamedTuple):
    """Message classes: parse with `Class.FromString(body)`."""

    traces: Any
    logs: Any
    any_value: Any


@functools.cache
def schema() -> Schema:
    """The mirrored classes, built on first use."""
    pool = DescriptorPool()
    for module in _FILES:
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            for inner in (message, *message.nested_type):
                for field in inner.field:
                    _mirror(field)
        pool.Add(file)

    def message_class(name: str) -> Any:
        return GetMessageClass(pool.FindMessageTypeByName(f"opentelemetry.proto.{name}"))

    return Schema(
        traces=message_class("trace.v1.TracesData"),
        logs=message_class("logs.v1.LogsData"),
        any_value=message_class("common.v1.AnyValue"),
    )


def _mirror(field: FieldDescriptorProto) -> None:
    if field.type == FieldDescriptorProto.TYPE_STRING:
        field.type = FieldDescriptorProto.TYPE_BYTES
    elif field.type_name == _ANY_VALUE:
        field.type = FieldDescriptorProto.TYPE_BYTES
        field.label = FieldDescriptorProto.LABEL_REPEATED
        field.ClearField("type_name")


def merge_occurrences(occurrences: Any) -> bytes:
    """The one message that these occurrences of a field stand for: reading them one after the other merges them."""
    return b"".join(occurrences)
