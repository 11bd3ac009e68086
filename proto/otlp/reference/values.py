"""Attribute values: their type, their canonical text, and their form in JSON (docs/codec.md 2).

`schema` has OTLP's messages as protobuf classes, which parse every message that passed `prevalidate`.

The classes mirror the descriptors of `opentelemetry-proto`, with the same field numbers and two changes:
- strings are bytes, so that an ill-formed string does not make the request unreadable;
- a field with an `AnyValue` is repeated bytes, so that nesting never reaches protobuf's recursion limit, and
  occurrences of a singular field are merged by joining their bytes (`merge_occurrences`).
"""

import base64
import functools
import math
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from proto.otlp.policy import ItemModification, Policy
from proto.otlp.reference.text import (
    SCRUBBED,
    Flags,
    KeyVerdict,
    SensitiveKeys,
    compact_json,
    cut_middle,
    pointer,
    reads_as_number,
    repair,
    scrub,
    truncate,
)

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
    """The message that these occurrences of a field represent. Parsing their concatenation merges them."""
    return b"".join(occurrences)


STACK_TRACE: Final = b"exception.stacktrace"


class Value(NamedTuple):
    """A value in its stored form: its type letter, its text, and its value inside JSON."""

    type_tag: str
    text: bytes
    json_value: object

    @property
    def is_finite_number(self) -> bool:
        """Whether the value is an integer or a finite double."""
        return self.type_tag == "i" or (self.type_tag == "d" and isinstance(self.json_value, float))

    @property
    def sent_text(self) -> bytes:
        """The text. Empty for an attribute without a value."""
        return b"" if self.type_tag == NO_VALUE.type_tag else self.text


NO_VALUE = Value("n", b"", None)
NULL_ATTRIBUTE = Value("n", b"null", None)  # filters and groups have this text for it
SCRUBBED_VALUE = Value("s", SCRUBBED, SCRUBBED.decode())


class AttributeEntry(NamedTuple):
    """The last occurrence of an attribute: its key before truncation, and the encoding of its value. `cut_key_bytes` is
    the sent size of the key in its first occurrence if the key was truncated, otherwise 0.
    """

    full_key: bytes
    raw: bytes
    cut_key_bytes: int


class ValueReader:
    """Reads values and attribute lists under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._keys = SensitiveKeys(policy)
        self._any_value = schema().any_value

    def attributes(self, pairs: Iterable[Any], flags: Flags, path: str) -> tuple[dict[bytes, Value], int]:
        """The attributes by key in stored order, and how many were dropped because they exceed the limit. `path` is the
        path of the object that contains the attributes.
        """
        entries, dropped = self._collect_entries(pairs, self._policy.max_attributes, flags)
        return {key: self._attribute(key, entry, flags, pointer(path, key)) for key, entry in entries.items()}, dropped

    def read(self, raw: bytes, limit: int, flags: Flags, path: str, *, keep_end: bool = False) -> Value:
        """The value whose protobuf encoding is `raw`, with its text truncated to `limit` bytes (for bytes: before
        base64). With `keep_end`, half of the limit is used for the end of a longer string.
        """
        value = self._any_value.FromString(raw)
        kind = value.WhichOneof("value")
        if kind == "string_value":
            text = self._string(value.string_value, flags)
            if len(text) > limit:
                flags.cut(path, len(value.string_value))
                text = cut_middle(text, limit) if keep_end else truncate(text, limit)
            return Value("s", text, text.decode())
        if kind == "bytes_value":
            if len(value.bytes_value) > limit:
                flags.cut(path, len(value.bytes_value))
            return _bytes(value.bytes_value[:limit])
        if kind in ("array_value", "kvlist_value"):
            data = self._nested(value, kind, flags, path)
            text = compact_json(data)
            if len(text) > limit:
                flags.cut(path, len(text))
                text = truncate(text, limit)
                return Value("s", text, text.decode())
            return Value("a" if kind == "array_value" else "m", text, data)
        return _scalar(value, kind)

    def _collect_entries(
        self, pairs: Iterable[Any], max_entries: int | None, flags: Flags
    ) -> tuple[dict[bytes, AttributeEntry], int]:
        """Keys in order of first appearance, with the full key and the encoding of their last value."""
        entries: dict[bytes, AttributeEntry] = {}
        dropped = 0
        for pair in pairs:
            key_flags = Flags()
            full_key = repair(pair.key, key_flags)
            key = truncate(full_key, self._policy.max_key_bytes)
            cut_key_bytes = len(pair.key) if len(key) < len(full_key) else 0
            if key in entries:
                flags.add(ItemModification.DEDUPLICATED)
                cut_key_bytes = entries[key].cut_key_bytes
            elif max_entries is not None and len(entries) >= max_entries:
                dropped += 1
                continue
            else:
                flags |= key_flags
            entries[key] = AttributeEntry(full_key, merge_occurrences(pair.value), cut_key_bytes)
        return entries, dropped

    def _attribute(self, key: bytes, entry: AttributeEntry, flags: Flags, path: str) -> Value:
        _note_cut_key(entry, flags, path)
        if self._is_scrubbed(entry.full_key, entry.raw):
            flags.add(ItemModification.SCRUBBED)
            return SCRUBBED_VALUE
        value = self.read(entry.raw, self._policy.max_value_bytes, flags, path, keep_end=key == STACK_TRACE)
        return NULL_ATTRIBUTE if value is NO_VALUE else value

    def _is_scrubbed(self, key: bytes, raw: bytes) -> bool:
        verdict = self._keys.judge(key)
        if verdict is KeyVerdict.KEPT:
            return False
        value = self._any_value.FromString(raw)
        kind: str | None = value.WhichOneof("value")
        if verdict is KeyVerdict.SCRUBBED or kind == "bool_value":
            return kind != "bool_value"
        if kind == "string_value":
            return not reads_as_number(value.string_value)
        return kind not in ("int_value", "double_value")

    def _string(self, raw: bytes, flags: Flags) -> bytes:
        text = repair(raw, flags)
        scrubbed = scrub(text)
        if scrubbed != text:
            flags.add(ItemModification.SCRUBBED)
        return scrubbed

    def _nested(self, value: Any, kind: str, flags: Flags, path: str) -> object:
        """An array or map as JSON data. Only keys are truncated. `path` is the path of the value that contains it."""
        if kind == "array_value":
            return [self._element(raw, flags, path) for raw in value.array_value.values]
        entries, _ = self._collect_entries(value.kvlist_value.values, None, flags)
        return {key.decode(): self._entry(entry, flags, path) for key, entry in entries.items()}

    def _entry(self, entry: AttributeEntry, flags: Flags, path: str) -> object:
        _note_cut_key(entry, flags, path)
        if self._is_scrubbed(entry.full_key, entry.raw):
            flags.add(ItemModification.SCRUBBED)
            return SCRUBBED_VALUE.json_value
        return self._element(entry.raw, flags, path)

    def _element(self, raw: bytes, flags: Flags, path: str) -> object:
        value = self._any_value.FromString(raw)
        kind = value.WhichOneof("value")
        if kind == "string_value":
            return self._string(value.string_value, flags).decode()
        if kind == "bytes_value":
            return _bytes(value.bytes_value).json_value
        if kind in ("array_value", "kvlist_value"):
            return self._nested(value, kind, flags, path)
        return _scalar(value, kind).json_value


def _note_cut_key(entry: AttributeEntry, flags: Flags, path: str) -> None:
    """Record a truncated key, once for all keys of an attribute and in its value, because a map may have a million of
    them.
    """
    if entry.cut_key_bytes and not (flags.truncations and flags.truncations[-1].path == path + "/#"):
        flags.cut(path + "/#", entry.cut_key_bytes)


def _bytes(raw: bytes) -> Value:
    text = base64.b64encode(raw)
    return Value("x", text, {"bytesValue": text.decode()})


def _scalar(value: Any, kind: str | None) -> Value:
    if kind == "bool_value":
        return Value("b", b"true" if value.bool_value else b"false", value.bool_value)
    if kind == "int_value":
        return Value("i", str(value.int_value).encode(), value.int_value)
    if kind == "double_value":
        return _double(value.double_value)
    return NO_VALUE  # not set, or an index into a table that exists only in profiles


def _double(number: float) -> Value:
    if math.isfinite(number):
        return Value("d", repr(number).removesuffix(".0").encode(), number)
    name = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return Value("d", name.encode(), name)
