"""Export requests from a seed: realistic ones for benchmarks, and odd and hostile ones for the two decoders.

Messages are lists of encoded fields, written here byte by byte: what breaks a decoder is what no encoder writes.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from proto.otlp.policy import NANOS_PER_DAY, YEAR_2000_NS, Policy, Signal
from proto.otlp.protobuf_writer import bytes_field, double_field, fixed32_field, fixed64_field, varint, varint_field

NOW_NS = 1_790_000_000 * 10**9  # 2026-09-21T13:33:20Z
HOUR_NS = 3600 * 10**9

POLICIES = (
    Policy(),
    Policy(max_key_bytes=10, max_value_bytes=24, max_name_bytes=9, max_body_bytes=30, max_attributes=3),
    Policy(max_events=1, max_links=1, max_exceptions=1, max_value_bytes=5, max_key_bytes=24, max_body_bytes=12),
    Policy(max_items=3, max_parts=40),
    Policy(max_resource_bytes=40, max_scope_bytes=20, max_repeated_bytes=300),
    Policy(
        retention_ns=0, sensitive_words=("Wallet-Id", "k", "", "x_y", "token"), exempt_keys=("token", "k", "API_Key")
    ),
    Policy(retention_ns=400 * NANOS_PER_DAY, max_future_ns=0, max_value_bytes=200, max_name_bytes=64),
)

KEYS = (
    *(b"http.method", b"http.status_code", b"service.name", b"service.version", b"deployment.environment"),
    *(b"deployment.environment.name", b"exception.type", b"exception.message", b"exception.stacktrace"),
    *(b"resource.host", b"host", b"scope.name", b"scope.version", b"name", b"version", b"scope.k", b"k", b"resource.k"),
    *(
        b"password",
        b"http.request.header.x-api-key",
        b"API_Key",
        b"tokens",
        b"wallet.id",
        b"a.x-y.b",
        b"auth",
        b"",
        b"\0",
        b"a\1b\2i\3C\1",
    ),
    *(b"clientSecret", b"HTTPAuthorization", b"OAuthToken", b"tokenCount", b"token_count", b"session.id", b"auth_mode"),
    *(
        b"llm.token_count.total",
        b"session_id_length",
        b"JSESSIONID",
        b"jwt",
        b"Pass",
        b"pin2",
        b"token=count",
        b"token",
    ),
    *("schlüssel".encode(), "日本語キー".encode(), b"bad\xffkey", b"cut\xe6\x97", b'quote"\\\n', b"k" * 300),
)
# What sensitive keys are made of, and what stands between.
KEY_PARTS = (
    *(b"token", b"auth", b"Auth", b"O", b"o", b"secret", b"session", b"id", b"api", b"key", b"pass", b"word", b"pin"),
    *(b"count", b"ms", b"usage", b"x", b"7", b"0", "é".encode(), b"wallet", b"k", b"password", b"JWT", b"cookie"),
)
SEPARATORS = (b"", b"", b".", b"-", b"_", b"=", b"__", b"/")
WORDS = (
    *(b"", b"GET", b"/api/v1/users", b"exception", b"a b", "größe".encode(), "日本語".encode(), "👩‍👩‍👧".encode()),
    *(
        b"\x00\x01\x02\x03A\x1f\x7f",
        b'"quoted" \\ / \b\f\n\r\t',
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x92",
        b"\xc0\xaf",
        b"e\xcc\x81",
    ),
    *(b"4111111111111111", b"4111 1111-1111 1111", b"card 5555555555554444.", b"123-45-6789", b"1-123-45-6789-1"),
    *(b"378282246310005", b"6011 0009 9013 9424", b"4111  1111 1111 1111", b"4222222222222", b"1 4111111111111111 2"),
    *(
        b"3782 822463 10005",
        b"3782-822463 10005",
        b"x4111111111111111",
        b"4111-1111-1111-1111",
        b"12",
        b"-1.5e+3",
        b"1.",
    ),
    *(b"5710977633876551", b"6759649826438453", b"1111 4111 1111 1111 1111", b"0.4111111111111111", b"_123-45-6789"),
    *(b"00000000000000000", b"tel 030 123-45 6789", b"62" + b"0" * 14, b"3528" + b"1" * 12, b"[scrubbed]"),
)
DOUBLES = (
    *(0.0, -0.0, 1.0, 200.0, 0.1, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308, -2.5),
    *(float("nan"), float("inf"), float("-inf"), 1 / 3, 1e22, 1e21, 2.0**63, 9007199254740993.0),
)
INTEGERS = (0, 1, -1, 200, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), 2**32, 17, 24, 25, 5, 6, 3)


class Case(NamedTuple):
    """One call of `decode`."""

    signal: Signal
    body: bytes
    project_id: int
    policy: Policy
    now_ns: int


def cases(first: int, count: int) -> Iterator[Case]:
    """Cases number `first` and on: the same for the same number."""
    for seed in range(first, first + count):
        yield case(seed)


def case(seed: int) -> Case:
    random = Random(seed)
    signal: Signal = random.choice(("traces", "traces", "logs"))
    policy = random.choice((POLICIES[0], *POLICIES))
    level = random.choice((0, 0, 1, 1, 2))
    body = Writer(random, level, policy).request(signal)
    if level == 2 and random.random() < 0.4:
        body = _damaged(random, body)
    now_ns = random.choice((*[NOW_NS] * 9, NOW_NS + 7, NOW_NS + 20 * HOUR_NS + 5, YEAR_2000_NS + 5))
    return Case(signal, body, random.choice((1, 2, 2**53 - 1)), policy, now_ns)


def _damaged(random: Random, body: bytes) -> bytes:
    """A few bytes changed, cut out, put in, or the end missing."""
    damaged = bytearray(body)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(damaged) + 1)
        way = random.randrange(4)
        if way == 0 and at < len(damaged):
            damaged[at] = random.choice(
                (0, 1, 0x7F, 0x80, 0xFF, damaged[at] ^ 1, damaged[at] ^ 4, random.randrange(256))
            )
        elif way == 1:
            del damaged[at : at + random.choice((1, 2, 9))]
        elif way == 2:
            damaged[at:at] = random.choice((b"\x00", b"\x80", b"\xff" * 11, b"\x0a\x00", random.randbytes(3)))
        else:
            del damaged[at:]
    return bytes(damaged)


def _unicode(texts: Sequence[bytes]) -> Sequence[bytes]:
    return [text for text in texts if text.decode(errors="ignore").encode() == text]


class Writer:
    """Writes messages. Level 0: as an SDK would, with odd values; 1: as protobuf allows; 2: as nobody should."""

    def __init__(self, random: Random, level: int, policy: Policy, *, unicode_only: bool = False) -> None:
        self.random = random
        self.level = level
        self.policy = policy
        self.words = _unicode(WORDS) if unicode_only else WORDS
        self.keys = _unicode(KEYS) if unicode_only else KEYS

    def request(self, signal: Signal) -> bytes:
        own, other = (self.span, self.log) if signal == "traces" else (self.log, self.span)

        def item() -> bytes:
            return self.of_another_signal(other) if self.level >= 1 and self.chance(0.05) else own()

        def retired() -> list[bytes]:
            return [bytes_field(1000, b"x")] if self.level >= 1 and self.chance(0.05) else []

        scoped = lambda: self.message(  # noqa: E731 - a message inside a message, as the schema has them
            self.maybe(1, self.scope), self.some(2, item, (0, 1, 1, 2, 4)), self.maybe_text(3, 0.3)
        )
        sent = lambda: self.message(  # noqa: E731
            self.maybe(1, self.resource), self.some(2, scoped, (0, 1, 1, 2)), self.maybe_text(3, 0.3), retired()
        )
        return self.message(self.some(1, sent, (1, 1, 2, 3)))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def message(self, *groups: Sequence[bytes]) -> bytes:
        """The fields of a message, joined; in any order and with foreign ones between them at higher levels."""
        fields = [field for group in groups for field in group]
        if self.level >= 1 and self.chance(0.15):
            self.random.shuffle(fields)
        if self.level >= 1 and self.chance(0.15):
            fields.insert(self.random.randrange(len(fields) + 1), self.foreign())
        if self.level >= 1 and fields and self.chance(0.1):
            fields.append(self.random.choice(fields))
        if self.level == 2 and self.chance(0.02):
            fields.insert(self.random.randrange(len(fields) + 1), self.broken())
        return b"".join(fields)

    def foreign(self) -> bytes:
        """A sound field that is unknown, or known with another wire type, or just written at length."""
        number = self.random.choice((*range(1, 20), 99, 15_000, 2**29 - 21))
        spelled_out = b"\x82\x80\x80\x80\x80\x80\x80\x80\x80" + self.random.choice((b"\x00", b"\x01"))
        write: Callable[[], bytes] = self.random.choice(
            (
                lambda: varint_field(number, self.random.choice(INTEGERS)),
                lambda: fixed64_field(number, self.random.randrange(2**64)),
                lambda: fixed32_field(number, self.random.randrange(2**32)),
                lambda: bytes_field(number + 20, self.random.randbytes(self.random.randrange(9))),
                lambda: self.group(number, self.random.choice((1, 1, 2, 32))),
                lambda: bytes((number << 3 & 0x78 | 0x80, 0x80, 0x00)) + b"\x05",  # a tag in more bytes than it needs
                lambda: varint(number << 3) + spelled_out,
                lambda: varint(number << 3) + b"\x80\x80\x80\x00",
            )
        )
        return write()

    def group(self, number: int, nested: int) -> bytes:
        inner = self.group(number, nested - 1) if nested > 1 else varint_field(3, 7) + bytes_field(1, b"in a group")
        return varint(number << 3 | 3) + inner + varint(number << 3 | 4)

    def broken(self) -> bytes:
        return self.random.choice(
            (
                *(b"\x00\x00", b"\x07", b"\x0e", b"\x0c", b"\x0b", b"\x0b\x14", b"\x80", b"\x0a\x05", b"\x08\x80"),
                *(b"\x08" + b"\xff" * 9 + b"\x02", b"\x08" + b"\x80" * 10 + b"\x00", b"\x80\x80\x80\x80\x10\x00"),
                *(
                    b"\x88\x80\x80\x80\x80\x00\x05",
                    b"\x8a\x80\x80\x80\x10\x00",
                    b"\x0a\x80\x80\x80\x80\x80\x00",
                    b"\x09\x01",
                    b"\x0d\x01",
                ),
                *(self.group(7, 33), b"\x0a\xff\xff\xff\xff\x7f"),
            )
        )

    def maybe(self, number: int, write: Callable[[], bytes], probability: float = 0.9) -> list[bytes]:
        """A message field that is not repeated; written in two pieces that merge at higher levels."""
        if not self.chance(probability):
            return []
        again = self.level >= 1 and self.chance(0.1)
        return [bytes_field(number, write()) for _ in range(2 if again else 1)]

    def some(self, number: int, write: Callable[[], bytes], counts: Sequence[int]) -> list[bytes]:
        return [bytes_field(number, write()) for _ in range(self.random.choice(counts))]

    def maybe_text(self, number: int, probability: float = 0.8) -> list[bytes]:
        return [bytes_field(number, self.text())] if self.chance(probability) else []

    def maybe_id(self, number: int, size: int, good: float = 0.95) -> list[bytes]:
        identifier = bytes((self.random.randrange(1, 5),)) * size
        if self.chance(good):
            return [bytes_field(number, identifier)]
        bad = (b"", bytes(size), identifier[1:], identifier + b"\x01", b"\x01")
        return [bytes_field(number, self.random.choice(bad))] if self.chance(0.8) else []

    def maybe_count(self, number: int, probability: float = 0.2) -> list[bytes]:
        values = (0, 1, 2**32 - 1, 2**32 - 2, 2**32 + 3, 2**64 - 1)
        return [varint_field(number, self.random.choice(values))] if self.chance(probability) else []

    def maybe_enum(self, number: int, most: int) -> list[bytes]:
        value = self.random.randrange(most + 1) if self.chance(0.9) else self.random.choice((*INTEGERS, 2**32 + 2))
        return [varint_field(number, value)] if self.chance(0.8) else []

    def maybe_flags(self, number: int) -> list[bytes]:
        return [fixed32_field(number, self.random.choice((0, 1, 0x301, 2**32 - 1)))] if self.chance(0.4) else []

    def time(self, number: int, good: float = 0.85) -> list[bytes]:
        """A time near now, or at one of the edges."""
        policy = self.policy
        oldest = NOW_NS - (policy.retention_ns or NOW_NS - YEAR_2000_NS)
        edges = [0, 1, oldest, oldest - 1, NOW_NS + policy.max_future_ns, NOW_NS + policy.max_future_ns + 1]
        edges += [2**63 - 1, 2**63, 2**64 - 1, NOW_NS // NANOS_PER_DAY * NANOS_PER_DAY, YEAR_2000_NS, YEAR_2000_NS + 3]
        if self.chance(good):
            back = self.random.choice((10**9, HOUR_NS, 3 * NANOS_PER_DAY, 29 * NANOS_PER_DAY))
            return [fixed64_field(number, NOW_NS - self.random.randrange(back))]
        return [fixed64_field(number, self.random.choice(edges))]

    def text(self) -> bytes:
        if self.chance(0.02):
            limits = (self.policy.max_name_bytes, self.policy.max_value_bytes, self.policy.max_body_bytes)
            size = min(self.random.choice(limits), 20_000) + self.random.randrange(-3, 4)
            character = self.random.choice(("x", "ü", "日", "👩")).encode()
            return character * (size // len(character)) + b"y" * (size % len(character))
        space = self.random.choice((b" ", b" ", b"", b".", b"-", b"_", b"="))
        return space.join(self.random.choice(self.words) for _ in range(self.random.choice((1, 1, 1, 2, 3))))

    def attributes(self, number: int) -> list[bytes]:
        counts = (0, 1, 2, 3, 5) if self.chance(0.98) else (128, 129, 131)
        count = self.random.choice(counts)
        if count > 9:
            return [
                bytes_field(number, self.attribute(b"k%d" % self.random.randrange(count + 2))) for _ in range(count)
            ]
        return self.some(number, self.attribute, (count,))

    def attribute(self, key: bytes | None = None) -> bytes:
        key = self.key() if key is None else key
        keys = [bytes_field(1, key)] if key or self.chance(0.5) else []
        return self.message(keys, self.maybe(2, self.value, 0.95))

    def key(self) -> bytes:
        """A listed key, or one of parts that may be sensitive together."""
        if self.chance(0.7):
            return self.random.choice(self.keys)
        parts = self.random.choices(KEY_PARTS, k=self.random.choice((1, 2, 2, 3)))
        cases = (bytes, bytes, bytes.upper, bytes.capitalize)
        return b"".join(self.random.choice(cases)(part) + self.random.choice(SEPARATORS) for part in parts)

    def value(self, depth: int = 1) -> bytes:
        """An AnyValue; at higher levels with several members, of which the last counts or which merge."""
        members = [self.member(depth)] if self.chance(0.97) else []
        while self.level >= 1 and self.chance(0.08):
            members.append(self.member(depth))
        return self.message(members)

    def member(self, depth: int) -> bytes:
        if self.level >= 1 and self.chance(0.02):
            return self.nest(self.random.choice((30, 31, 31, 32)) - depth)
        write: dict[str, Callable[[], bytes]] = {
            "s": lambda: bytes_field(1, self.text()),
            "b": lambda: varint_field(2, self.random.choice((0, 1, 1, 2, 2**32, 2**63))),
            "i": lambda: varint_field(3, self.random.choice(INTEGERS)),
            "d": lambda: double_field(4, self.double()),
            "a": lambda: bytes_field(5, self.message(self.some(1, lambda: self.value(depth + 1), (0, 1, 2, 3)))),
            "m": lambda: bytes_field(6, self.message(self.some(1, lambda: self.entry(depth + 1), (0, 1, 2, 4)))),
            "x": lambda: bytes_field(7, self.random.randbytes(self.random.choice((0, 1, 2, 3, 23, 24, 25, 60)))),
            "n": lambda: varint_field(8, self.random.choice((0, 5))),
        }
        return write[self.random.choice("sssssiiidbxnam" if depth < 6 else "sidbx")]()

    def entry(self, depth: int) -> bytes:
        return self.message([bytes_field(1, self.key())], self.maybe(2, lambda: self.value(depth), 0.9))

    def nest(self, depth: int) -> bytes:
        """A member that holds a value `depth` deeper."""
        value = b""
        for _ in range(max(depth, 1)):
            value = (
                bytes_field(5, bytes_field(1, value))
                if self.chance(0.5)
                else bytes_field(6, bytes_field(1, bytes_field(2, value)))
            )
        return value

    def double(self) -> float:
        if self.chance(0.6):
            return self.random.choice(DOUBLES)
        number: float = struct.unpack("<d", self.random.randbytes(8))[0]
        return number

    def resource(self) -> bytes:
        return self.message(self.attributes(1), self.maybe_count(2), self.some(3, self.entity_ref, (0, 0, 0, 1, 2)))

    def entity_ref(self) -> bytes:
        keys = [bytes_field(number, self.text()) for number in (3, 3, 4) if self.chance(0.5)]
        return self.message(self.maybe_text(1), self.maybe_text(2), keys)

    def scope(self) -> bytes:
        return self.message(self.maybe_text(1), self.maybe_text(2, 0.4), self.attributes(3), self.maybe_count(4))

    def span(self) -> bytes:
        many = self.chance(0.01)
        return self.message(
            self.maybe_id(1, 16),
            self.maybe_id(2, 8),
            self.maybe_text(3, 0.2),
            self.maybe_id(4, 8, 0.7),
            self.maybe_text(5),
            self.maybe_enum(6, 5),
            self.time(7),
            self.time(8),
            self.attributes(9),
            self.maybe_count(10),
            self.some(11, self.event, (130,) if many else (0, 0, 1, 2)),
            self.maybe_count(12),
            self.some(13, self.link, (129,) if many else (0, 0, 1, 2)),
            self.maybe_count(14),
            self.maybe(15, self.status, 0.4),
            self.maybe_flags(16),
        )

    def of_another_signal(self, other: Callable[[], bytes]) -> bytes:
        """An item of the other signal, a metric, or what begins as one of them."""
        item = self.random.choice((other, other, self.metric))()
        return item[: self.random.randrange(len(item) + 1)] if self.level == 2 and self.chance(0.3) else item

    def metric(self) -> bytes:
        point = fixed64_field(3, NOW_NS) + double_field(4, self.double()) + bytes_field(7, self.attribute())
        held = bytes_field(self.random.choice((5, 7, 9, 10, 11)), bytes_field(1, point))
        return self.message(
            [bytes_field(1, self.text() or b"requests")], self.maybe_text(2), self.maybe_text(3), [held]
        )

    def event(self) -> bytes:
        name = [bytes_field(2, b"exception")] if self.chance(0.4) else self.maybe_text(2)
        return self.message(self.time(1, 0.9), name, self.attributes(3), self.maybe_count(4))

    def link(self) -> bytes:
        return self.message(
            self.maybe_id(1, 16, 0.8),
            self.maybe_id(2, 8, 0.8),
            self.maybe_text(3, 0.3),
            self.attributes(4),
            self.maybe_count(5),
            self.maybe_flags(6),
        )

    def status(self) -> bytes:
        return self.message(self.maybe_text(2, 0.6), self.maybe_enum(3, 2))

    def log(self) -> bytes:
        return self.message(
            self.time(1) if self.chance(0.7) else [],
            self.maybe_enum(2, 24),
            self.maybe_text(3, 0.5),
            self.maybe(5, self.value, 0.9),
            self.attributes(6),
            self.maybe_count(7),
            self.maybe_flags(8),
            self.maybe_id(9, 16, 0.7),
            self.maybe_id(10, 8, 0.7),
            self.time(11) if self.chance(0.5) else [],
            self.maybe_text(12, 0.2),
            self.maybe_text(4, 0.02) if self.level >= 1 else [],
        )
