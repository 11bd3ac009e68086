"""OTLP/JSON of any shape: refused as documented, or the protobuf that a plain reading of the mapping gives, without the
items that are faulty by it.

The oracle reads with Python's own JSON and fills the official messages field by field, as the OTLP and protobuf
mappings say. An input: a byte that chooses signal and limits, and the body.
"""

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor as Kind
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from proto.otlp import codec
from proto.otlp.json import ConvertedRequest, to_protobuf
from proto.otlp.json.canonical import MAX_TIMES
from proto.otlp.policy import DecodeError, Policy, RequestRejection, Signal
from tests.proto.otlp.generate import NOW_NS

LIMITED: Final = Policy(max_items=2, max_parts=12)
POLICIES: Final = (Policy(), LIMITED)
_SIGNALS: Final[Sequence[tuple[Signal, type[Message]]]] = (("traces", TracesData), ("logs", LogsData))
_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})
_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HALF_A_PAIR: Final = re.compile(r"[\ud800-\udfff]")


def parts(data: bytes) -> tuple[Signal, Policy, bytes]:
    """Signal, limits and body of an input."""
    choice = data[:1].ljust(1, b"\0")[0]
    return _SIGNALS[choice % 2][0], POLICIES[choice // 2 % 2], data[1:]


class Faulty(Exception):
    """A value that its field cannot hold."""


def check(data: bytes) -> None:
    signal, policy, body = parts(data)
    message = dict(_SIGNALS)[signal]
    try:
        converted = to_protobuf(signal, body, policy)
    except DecodeError as error:
        assert error.reason in RequestRejection
        return
    try:
        decoded = codec.decode(signal, converted.body, 1, policy, NOW_NS, converted.faults)
    except DecodeError as error:
        assert error.reason != RequestRejection.MALFORMED, "made of JSON, and malformed"
        return
    assert bool(decoded.first_fault) == bool(converted.faults.rejected)
    check_meaning(message, body, converted)


def check_meaning(message: type[Message], body: bytes, converted: ConvertedRequest) -> None:
    try:
        value = json.loads(body.decode(), object_pairs_hook=Members)
    except (UnicodeDecodeError, RecursionError):  # repaired as protobuf's text is: other tests hold that
        return
    if _HALF_A_PAIR.search(json.dumps(json.loads(body), ensure_ascii=False)):
        return
    rejected: Counter[str] = Counter()
    expected = message()
    fill_request(expected, value, rejected)
    assert converted.faults.rejected == rejected
    decoded = message.FromString(converted.body)
    assert decoded.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


class Members:
    """An object: its members in the order of the text."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs

    def get(self, name: str, *, repeated: bool = False) -> Any:
        """The last value of a member that is not null, under either name; of lists, all elements."""
        found = [value for given, value in self.pairs if given in (name, _snake(name)) and value is not None]
        if len(found) > MAX_TIMES:
            raise Faulty
        if not found or not repeated:
            return found[-1] if found else None
        if all(isinstance(value, list) for value in found):
            return [element for value in found for element in value]
        return next(value for value in found if not isinstance(value, list))


def fill_request(request: Any, value: Members, rejected: Counter[str]) -> None:
    """What is faulty costs an item, or all items of its resource or scope."""
    resources, scopes, items = (
        ("resourceSpans", "scopeSpans", "spans")
        if request.DESCRIPTOR.name == "TracesData"
        else ("resourceLogs", "scopeLogs", "logRecords")
    )
    for sent in value.get(resources, repeated=True) or ():
        if sent is None:
            continue
        made, lost = filled(request.DESCRIPTOR.fields_by_name, resources, sent, scopes)
        for scoped in sent.get(scopes, repeated=True) or ():
            if scoped is None:
                continue
            inner, inner_lost = filled(made.DESCRIPTOR.fields_by_name, scopes, scoped, items)
            for item in scoped.get(items, repeated=True) or ():
                if item is None:
                    continue
                one, faulty = filled(inner.DESCRIPTOR.fields_by_name, items, item, "")
                if lost or inner_lost or faulty:
                    rejected["invalid_resource" if lost else "invalid_scope" if inner_lost else "invalid_field"] += 1
                else:
                    getattr(inner, _snake(items)).append(one)
            if not inner_lost:
                getattr(made, _snake(scopes)).append(inner)
        if not lost:
            getattr(request, _snake(resources)).append(made)


def _snake(name: str) -> str:
    return re.sub("([A-Z])", lambda letter: "_" + letter[0].lower(), name)


def filled(fields: Any, name: str, value: Any, without: str) -> tuple[Any, bool]:
    """A message of this repeated field, and whether it is faulty; a member is left out that is filled by others."""
    message = GetMessageClass(fields[_snake(name)].message_type)()
    try:
        fill(message, members(value), without)
    except Faulty:
        return message, True
    return message, False


def members(value: Any) -> Members:
    if not isinstance(value, Members):
        raise Faulty
    return value


def fill(message: Message, value: Members, without: str = "") -> None:
    """The fields of `value` into `message`; in the order of their numbers, for the last of a oneof wins."""
    known: list[Any] = sorted(message.DESCRIPTOR.fields, key=lambda field: field.number)
    for field in known:
        given = value.get(field.json_name, repeated=field.is_repeated)
        if given is None or field.json_name in _UNREAD or field.json_name == without:
            continue
        if field.is_repeated:
            if not isinstance(given, list):
                raise Faulty
            for element in given:
                if field.type != Kind.TYPE_MESSAGE:
                    getattr(message, field.name).append(scalar(field, element))
                elif element is not None or message.DESCRIPTOR.name == "ArrayValue":
                    fill(getattr(message, field.name).add(), Members([]) if element is None else members(element))
        elif field.type == Kind.TYPE_MESSAGE:
            inner = getattr(message, field.name)
            inner.SetInParent()
            fill(inner, members(given))
        elif field.name == "int_value" and is_number(given) and not -(2**63) <= given < 2**63:
            message.double_value = double(given)  # type: ignore[attr-defined]  # an AnyValue, as its field says
        else:
            setattr(message, field.name, scalar(field, given))


_UNREAD: Final = frozenset({"keyStrindex"})


def is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def scalar(field: Any, given: Any) -> Any:
    if field.type in (Kind.TYPE_STRING, Kind.TYPE_BYTES):
        if not isinstance(given, str):
            raise Faulty
        if field.type == Kind.TYPE_STRING:
            return given
        return identifier(given) if field.json_name in _IDS else plain_base64(given)
    if field.type == Kind.TYPE_BOOL:
        if not isinstance(given, bool):
            raise Faulty
        return given
    if field.type == Kind.TYPE_ENUM:
        given = enum_number(field, given)
    if not (is_number(given) or isinstance(given, str)):
        raise Faulty
    if field.type == Kind.TYPE_DOUBLE:
        return double(given)
    if field.name == "string_value_strindex":
        return 0
    return whole(field, given)


def enum_number(field: Any, given: Any) -> int:
    if isinstance(given, str) and given in field.enum_type.values_by_name:
        return int(field.enum_type.values_by_name[given].number)
    if not isinstance(given, int) or isinstance(given, bool):
        raise Faulty
    return given


def double(given: float | str) -> float:
    if given in _NUMBERS:
        return _NUMBERS[str(given)]
    if isinstance(given, str) and not _DECIMAL.fullmatch(given):
        raise Faulty
    try:
        number = float(given)
    except OverflowError as error:
        raise Faulty from error
    if math.isinf(number):
        raise Faulty
    return number


_DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_RANGES: Final = {
    Kind.TYPE_ENUM: (-(2**31), 2**31),
    Kind.TYPE_UINT32: (0, 2**32),
    Kind.TYPE_FIXED32: (0, 2**32),
    Kind.TYPE_FIXED64: (0, 2**64),
    Kind.TYPE_INT64: (-(2**63), 2**63),
}


def whole(field: Any, given: float | str) -> int:
    if isinstance(given, str) and not re.fullmatch("-?[0-9]{1,20}", given):
        raise Faulty
    if isinstance(given, float) and not given.is_integer():
        raise Faulty
    least, most = _RANGES[field.type]
    if not least <= int(given) < most:
        raise Faulty
    return int(given)


def identifier(text: str) -> bytes:
    try:
        return bytes.fromhex(text) if re.fullmatch(r"(?:[0-9a-fA-F]{2})*", text) else b"\0"
    except ValueError:
        return b"\0"


def plain_base64(text: str) -> bytes:
    digits = text.replace("-", "+").replace("_", "/").rstrip("=")
    if len(digits) % 4 == 1 or not re.fullmatch("[A-Za-z0-9+/]*", digits):
        raise Faulty
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


_CAMEL_NAMES: Final = tuple(
    sorted(
        {
            *("resourceSpans", "resourceLogs", "scopeSpans", "scopeLogs", "spans", "logRecords", "resource", "scope"),
            *("attributes", "key", "value", "stringValue", "boolValue", "intValue", "doubleValue", "arrayValue"),
            *("kvlistValue", "bytesValue", "stringValueStrindex", "values", "traceId", "spanId", "parentSpanId"),
            *("traceState", "flags", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "events"),
            *("droppedAttributesCount", "droppedEventsCount", "links", "droppedLinksCount", "status", "message"),
            *("code", "version", "schemaUrl", "severityNumber", "severityText", "body", "observedTimeUnixNano"),
            *("eventName", "entityRefs", "type", "idKeys", "descriptionKeys"),
        }
    )
)
# Members that are known not to be read, on some level.
_OTHERS: Final = (
    *("resourceMetrics", "scopeMetrics", "metrics", "resourceProfiles", "instrumentationLibrarySpans"),
    *("instrumentationLibraryLogs", "instrumentationLibrary", "logs"),
)
_NAMES: Final = (*_CAMEL_NAMES, *(_snake(name) for name in _CAMEL_NAMES), *_OTHERS)
_SCALARS: Final = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        5,
        1.5,
        2.0,
        -0.0,
        1e300,
        2**31,
        2**32,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63),
    ),
    *("", "0", "-1", "18446744073709551615", "1e3", "NaN", "Infinity", "-Infinity", "00", "0x1", " 1", "1_0", "٣"),
    *("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174", "EEE19B7EC3C1B174", "zz", "AA==", "_-8", "A", "\ud83d"),
    *("SPAN_KIND_SERVER", "STATUS_CODE_ERROR", "SEVERITY_NUMBER_ERROR4", "SERVER"),
    *("größe", "\0", "\ufdd0", "4111111111111111", "password"),
)


def mutate(data: bytes, max_size: int, random: Random, mutate: Callable[[bytes, int], bytes]) -> bytes:
    """One change somewhere in the tree; at times blindly in the text, or another way to write the same."""
    choice, body = data[:1] or b"\0", data[1:]
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return mutate(data, max_size)
    if random.random() < 0.25 or not isinstance(value, dict):
        return choice + mutate(body, max_size - 1)
    if random.random() < 0.02:
        choice = bytes((random.randrange(4),))
    _change(value, random, mutate)
    text = json.dumps(value, ensure_ascii=random.random() < 0.5, indent=random.choice((None, None, None, 1)))
    if random.random() < 0.1:
        text = _twice(text, random)
    return (choice + text.encode(errors="surrogatepass"))[:max_size]


def _twice(text: str, random: Random) -> str:
    """`text` with the name of a member in place of another one, so that an object may have it twice."""
    names = [match for match in re.finditer(r'"(\w+)":', text) if match[1] in _NAMES]
    if len(names) < 2:
        return text
    taken, given = random.sample(names, 2)
    name = given[1] if random.random() < 0.5 else _snake(given[1])
    return f'{text[: taken.start()]}"{name}":{text[taken.end() :]}'


def _change(value: Any, random: Random, mutate: Callable[[bytes, int], bytes]) -> None:
    """Goes down to some object or list and changes one of its entries."""
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    inner = [place for place in places if isinstance(value[place], dict | list) and value[place]]
    if inner and random.random() < 0.85:
        _change(value[random.choice(inner)], random, mutate)
        return
    if isinstance(value, dict):
        _change_object(value, random, mutate)
        return
    place = random.randrange(len(value) + 1)
    if value and random.random() < 0.6:
        value[place:place] = [random.choice(value)] * random.choice((1, 1, 2, 40))
    elif place < len(value):
        value[place] = _changed(value[place], random, mutate)


def _change_object(value: dict[str, Any], random: Random, mutate: Callable[[bytes, int], bytes]) -> None:
    way = random.randrange(4)
    if way == 0 or not value:
        value[random.choice(_NAMES)] = _changed(None, random, mutate)
    elif way == 1:
        del value[random.choice(list(value))]
    elif way == 2:
        name = random.choice(list(value))
        value[random.choice(_NAMES)] = value.pop(name)
    else:
        name = random.choice(list(value))
        value[name] = _changed(value[name], random, mutate)


def _changed(value: Any, random: Random, mutate: Callable[[bytes, int], bytes]) -> Any:
    way = random.randrange(5)
    if way == 0 and isinstance(value, str) and value:
        return mutate(value.encode(errors="surrogatepass"), 2 * len(value) + 4).decode(errors="replace")
    if way == 1:
        return {random.choice(_NAMES): value}
    if way == 2:
        return [value]
    if way == 3 and isinstance(value, dict | list):
        return {"values": [value]}
    return random.choice(_SCALARS)
