"""OTLP's messages as protobuf classes that parse everything that passed `prevalidate`.

They mirror the descriptors of `opentelemetry-proto`, with the same field numbers and two changes:
- strings are bytes, so that an ill-formed string does not make the request unreadable;
- a field with an `AnyValue` is repeated bytes, so that nesting never reaches protobuf's recursion limit, and
  occurrences of a singular field are merged by joining their bytes (`merge_occurrences`).
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

_FILES: Final = (common_pb2, resource_pb2, trace_pb2, logs_pb2)  # each after its imports
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
    """The message that these occurrences of a field represent: parsing their concatenation merges them."""
    return b"".join(occurrences)
