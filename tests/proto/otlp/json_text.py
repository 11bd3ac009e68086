"""OTLP/JSON as no serializer would write it: any order, spacing and escapes, every form of number, and odd things.

Written from the typed structures that the reader in Python goes by. The same seed gives the same text.
"""

import json
from random import Random
from typing import Final

import msgspec.inspect as types

from proto.otlp.json import messages
from proto.otlp.json.names import ENUM_NAMES
from proto.otlp.policy import Signal

_REQUESTS: Final = {
    "traces": (types.type_info(messages.TracesRequest), types.type_info(list[messages.Span | None])),
    "logs": (types.type_info(messages.LogsRequest), types.type_info(list[messages.LogRecord | None])),
}
_TEXTS: Final = (
    "",
    "a",
    "GET",
    "checkout",
    "é",
    "日本",
    "😀",
    "\ufffd",
    "\x7f1",
    "\ufdd0",
    "k" * 15,
    "x" * 130,
    "y" * 300,
)
_RAW: Final = [*rb"\n \/ \u0041 \ud83d\ude00 \ud83d \udc00 \u007f \u0000".split(), b"\xff", b"\xe6\x97", b"\x7f"]
_BAD: Final = (rb"\x \u12 \ud83d\u1 " + b"\\ \x01").split(b" ")
_SPACES: Final = (b"", b"", b"", b" ", b" ", b"\n\t", b"  \r\n")
_KEYS: Final = (
    "http.route",
    "k",
    "",
    "service.name",
    "a.very.long.key." * 9,
    "password",
    "tokenCount",
    "session.id",
    "é",
)
_WHOLE: Final = (
    b"0 -0 1 5.0 1e3 -1 1.5 2147483647 4294967295 4294967296 9223372036854775807 9223372036854775808"
    b" -9223372036854775808 18446744073709551615 18446744073709551616 111111111111111111111"
).split()
_REAL: Final = (
    b"0.1 -0.0 216.95 1e-5 1E+22 1e23 123456789012345678 0.30000000000000004 1e308 1e309 5e-324 1e-400 0e999 00.1"
    b" 9007199254740993 9007199254740993.0 2.2250738585072011e-308 1111111111111111111111111111111111111111"
    b' "NaN" "Infinity" "-Infinity" "0.1" "-0" "1e5" "007" "nan" "1_0"'
).split()
_ODD: Final = b'null true {} [] 0 "" [null] "x" 1e5 NaN [[]] {"x":{}} 01 - tru '.split(b" ")
_UNREAD: Final = (  # on any level; on some of them known mistakes
    *("resourceSpans", "resourceLogs", "resource_metrics", "resourceProfiles", "scopeLogs", "scope_spans", "metrics"),
    *("spans", "log_records", "instrumentationLibrarySpans", "instrumentation_library_logs", "instrumentationLibrary"),
    *("logs", "logs_", "name", "trace__id", "traceID", "_name", "Resource_spans"),
)
_UNREAD_VALUES: Final = b'null "" [] {} [\t] { } [{}] {"x":1} "x" 0'.split(b" ")
_UNKNOWN: Final = b'1 -1.5e9 1e999 "\xff\\ud800" {"a":[1,{"b":null}],"":"\\""} [[[[]]]] true 1e-999'.split()


class JsonWriter:
    """Bodies of OTLP/JSON. `odd` is how likely something is that a sender should not have written."""

    _signal: Signal

    def __init__(self, random: Random, odd: float) -> None:
        self._random = random
        self._odd = odd
        self._deep = 0

    def request(self, signal: Signal) -> bytes:
        self._signal = signal
        return self._space() + self._value(_REQUESTS[signal][0], "") + self._space()

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _space(self) -> bytes:
        return self._random.choice(_SPACES)

    def _value(self, kind: types.Type, name: str) -> bytes:
        match kind:
            case _ if self._chance(self._odd):
                written = self._random.choice(_ODD)
            case types.UnionType():
                written = self._union(kind, name)
            case types.StructType():
                written = self._object(kind)
            case types.ListType():
                several = self._random.choice((0, 1, 1, 2, 3)) if self._deep < 12 else 0
                written = self._joined(b"[", [self._value(kind.item_type, name) for _ in range(several)], b"]")
            case types.RawType():
                written = self._value(_REQUESTS[self._signal][1], name)
            case types.StrType():
                written = self._text(name)
            case types.BoolType():
                written = self._random.choice((b"true", b"false"))
            case _:
                written = self._integer(name)
        return written

    def _union(self, kind: types.UnionType, name: str) -> bytes:
        some = [member for member in kind.types if not isinstance(member, types.NoneType)]
        if len(some) < len(kind.types) and self._chance(0.05):
            return b"null"
        if len(some) == 1:
            return self._value(some[0], name)
        return self._real() if name == "doubleValue" else self._integer(name)

    def _object(self, kind: types.StructType) -> bytes:
        self._deep += 1
        fields = [field for field in kind.fields if kind.cls is not messages.AnyValue and self._chance(0.7)]
        if kind.cls is messages.AnyValue:
            fields = self._random.sample(kind.fields[:7], 1 if not self._chance(self._odd) else 2)
            if self._deep > 12:
                fields = list(kind.fields[:1])
        self._random.shuffle(fields)
        members = [
            self._member(self._name(field.encode_name), self._value(field.type, field.encode_name)) for field in fields
        ]
        if self._chance(0.05):
            members.insert(0, self._member(b'"unknown"', self._random.choice(_UNKNOWN)))
        if self._chance(0.05) and kind.cls is not messages.AnyValue:
            name = self._random.choice([name for name in _UNREAD if name not in {f.encode_name for f in kind.fields}])
            members.append(self._member(self._name(name), self._random.choice(_UNREAD_VALUES)))
        if members and self._chance(self._odd / 2):
            members.append(self._random.choice(members))
        if fields and self._chance(self._odd / 2):
            field = self._random.choice(fields)
            members.append(self._member(self._name(field.encode_name), self._value(field.type, field.encode_name)))
        self._deep -= 1
        return self._joined(b"{", members, b"}")

    def _member(self, name: bytes, value: bytes) -> bytes:
        return name + self._space() + b":" + self._space() + value

    def _joined(self, opening: bytes, pieces: list[bytes], closing: bytes) -> bytes:
        between = self._space() + b"," + self._space()
        return opening + self._space() + between.join(pieces) + self._space() + closing

    def _name(self, name: str) -> bytes:
        if self._chance(0.1):
            name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        if self._chance(0.02):
            at = self._random.randrange(len(name))
            name = f"{name[:at]}\\u{ord(name[at]):04x}{name[at + 1 :]}"
        return f'"{name}"'.encode()

    def _text(self, name: str) -> bytes:
        if name.endswith("Id"):
            digits = self._random.randbytes(8 if "span" in name.lower() else 16).hex()
            return (
                f'"{self._random.choice((digits, digits, digits.upper(), digits[1:], "", "xyz", "é" * 16))}"'.encode()
            )
        if name == "bytesValue":
            return self._random.choice(
                (b'""', b'"AP/+"', b'"_-A"', b'"AA=="', b'"AA====="', b'"A"', b'"AAA?"', b'"AB"')
            )
        if name == "key" and self._chance(0.7):
            return json.dumps(self._random.choice(_KEYS)).encode()
        pieces = [
            json.dumps(self._random.choice(_TEXTS), ensure_ascii=self._chance(0.3))[1:-1].encode()
            if self._chance(0.8)
            else self._random.choice(_BAD if self._chance(self._odd) else _RAW)
            for _ in range(self._random.choice((0, 1, 1, 2, 4)))
        ]
        return b'"' + b"".join(pieces) + b'"'

    def _integer(self, name: str) -> bytes:
        if name in ENUM_NAMES and self._chance(0.2):
            known = ENUM_NAMES[name] if not self._chance(self._odd) else ("", "SERVER", "span_kind_server")
            return f'"{self._random.choice(known)}"'.encode()
        number = self._random.choice(_WHOLE) if self._chance(max(self._odd, 0.02)) else b"%d" % self._small(name)
        return b'"%s"' % number if name not in ("kind", "code", "severityNumber") and self._chance(0.4) else number

    def _small(self, name: str) -> int:
        if name.endswith("UnixNano"):
            return 1_790_000_000 * 10**9 - self._random.randrange(10**10)
        return self._random.choice((0, 1, 2, 3, 200, 404, 8443, 2**31 - 1))

    def _real(self) -> bytes:
        if self._chance(max(self._odd, 0.05)):
            return self._random.choice(_REAL)
        return repr(
            self._random.choice((self._random.uniform(1, 500), round(self._random.uniform(1, 500), 2), 5))
        ).encode()


def damaged(random: Random, body: bytes) -> bytes:
    """`body` after a few changes: bytes replaced, left out, doubled, or a piece of it somewhere else."""
    changed = bytearray(body)
    for _ in range(random.choice((1, 1, 2, 4))):
        at, length = random.randrange(len(changed) + 1), random.choice((1, 1, 2, 8, 40))
        match random.randrange(5):
            case 0:
                changed[at : at + 1] = bytes((random.randrange(256),))
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = changed[at : at + length]
            case 3:
                other = random.randrange(len(changed) + 1)
                changed[at:at] = changed[other : other + length]
            case _:
                changed[at:at] = random.choice(
                    (b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"e", b".", b"-", b"null", b" ", b"\x00")
                )
    return bytes(changed)
