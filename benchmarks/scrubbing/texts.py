"""Texts that applications send and that hold no card number, and card and social security numbers in all spellings."""

import ipaddress
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final, NamedTuple

from proto.otlp.reference.text import ISSUERS

Write = Callable[[Random], str]

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_NOW_S: Final = 1_795_000_000  # 2026-11-18
_VECTOR: Final = 1_024  # numbers of one vector


def _seconds(random: Random) -> float:
    return _NOW_S - random.random() * 86_400 * 365


def _digits(random: Random, count: int) -> str:
    return "".join(random.choices("0123456789", k=count))


def _uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def _uuid_7(random: Random) -> str:
    bits = int(_seconds(random) * 1000) << 80 | 7 << 76 | random.getrandbits(76)
    return str(uuid.UUID(int=bits & ~(3 << 62) | 2 << 62))


def _ulid(random: Random) -> str:
    value = int(_seconds(random) * 1000) << 80 | random.getrandbits(80)
    return "".join(_CROCKFORD[value >> 5 * place & 31] for place in reversed(range(26)))


def _snowflake(random: Random) -> str:
    return str((int(_seconds(random) * 1000) - 1_288_834_974_657) << 22 | random.getrandbits(22))


def _access_line(random: Random) -> str:
    counts = [random.randrange(10 ** random.randrange(1, 7)) for _ in range(4)]
    return f"GET /items/{random.randrange(10**5)} {random.choice((200, 404, 500))} " + " ".join(map(str, counts))


def _flow_line(random: Random) -> str:
    """A line of an AWS VPC flow log."""
    start = int(_seconds(random))
    source = f"2 {_digits(random, 12)} eni-{random.getrandbits(64):016x} 10.0.0.1 10.0.0.2"
    ports = f"{random.randrange(65_536)} {random.randrange(65_536)} 6 {random.randrange(99)} {random.randrange(10**5)}"
    return f"{source} {ports} {start} {start + 60} ACCEPT OK"


def _table_line(random: Random) -> str:
    return " ".join(_digits(random, random.randrange(1, 7)) for _ in range(12))


def _phone(random: Random) -> str:
    area, middle, last = _digits(random, 3), _digits(random, 3), _digits(random, 4)
    return random.choice((f"+1 {area} {middle} {last}", f"{area}-{middle}-{last}", f"+49 30 {_digits(random, 8)}"))


HARMLESS: Final[Mapping[str, Write]] = {
    "UUID, version 4": _uuid,
    "UUID, version 7": _uuid_7,
    "UUID in a log line": lambda random: f"request {_uuid(random)} finished in {random.randrange(10**4)} ms",
    "trace id (32 hexadecimal digits)": lambda random: f"{random.getrandbits(128):032x}",
    "span id (16 hexadecimal digits)": lambda random: f"{random.getrandbits(64):016x}",
    "ULID": _ulid,
    "snowflake id (19 digits)": _snowflake,
    "random number of 64 bits": lambda random: str(random.getrandbits(64)),
    "random number of 16 digits": lambda random: str(random.randrange(10**15, 10**16)),
    "double from 0 to 1": lambda random: repr(random.random()),
    "double, any magnitude": lambda random: repr(random.uniform(-1, 1) * 10.0 ** random.randrange(-20, 20)),
    "Unix time in seconds, decimal": lambda random: f"{_seconds(random):.6f}",
    "Unix time in milliseconds": lambda random: str(int(_seconds(random) * 10**3)),
    "Unix time in microseconds": lambda random: str(int(_seconds(random) * 10**6)),
    "Unix time in nanoseconds": lambda random: str(int(_seconds(random) * 10**9)),
    "date and time": lambda random: (
        f"2026-{random.randrange(1, 13):02}-{random.randrange(1, 29):02} 12:30:{random.random() * 60:09.6f}"
    ),
    "IPv4 address": lambda random: str(ipaddress.IPv4Address(random.getrandbits(32))),
    "IPv6 address": lambda random: str(ipaddress.IPv6Address(random.getrandbits(128))),
    "telephone number": _phone,
    "line of an access log": _access_line,
    "line of a flow log": _flow_line,
    "line of twelve columns of digits": _table_line,
    "order number (2026-000000-00000)": lambda random: f"2026-{_digits(random, 6)}-{_digits(random, 5)}",
    "vector of 1 024 doubles as JSON": lambda random: json.dumps([random.uniform(-1, 1) for _ in range(_VECTOR)]),
    "vector of 1 024 integers as JSON": lambda random: json.dumps([random.randrange(10**6) for _ in range(_VECTOR)]),
}


class Secret(NamedTuple):
    """A kind of number that has to be found, and what writes it."""

    name: str
    write: Write


def card(random: Random, low: str, high: str, length: int) -> str:
    """A card number of an issuer's range with a valid check digit."""
    prefix = str(random.randint(int(low), int(high)))
    body = prefix + _digits(random, length - 1 - len(prefix))
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in body[::-2])
    return f"{body}{-(sum(doubled) + sum(map(int, body[-2::-2]))) % 10}"


def _grouped(number: str, separator: str) -> str:
    sizes = (4, 6, 5) if len(number) == 15 else (4, 4, 4, 4)
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return separator.join(number[start : start + size] for start, size in zip(starts, sizes, strict=True))


def secrets() -> Iterator[Secret]:
    """Cards of every issuer, unbroken and in groups, and social security numbers."""
    yield Secret("cards, unbroken", lambda random: _any_card(random, any_length=True))
    yield Secret("cards, spaces", lambda random: _grouped(_any_card(random, any_length=False), " "))
    yield Secret("cards, dashes", lambda random: _grouped(_any_card(random, any_length=False), "-"))
    yield Secret("social security numbers", lambda random: "-".join(_digits(random, count) for count in (3, 2, 4)))


def _any_card(random: Random, *, any_length: bool) -> str:
    """A card number, which has 15 or 16 digits unless `any_length`, because only these are written in groups."""
    while True:
        low, high, lengths = random.choice(ISSUERS)
        length = random.choice(tuple(lengths))
        if any_length or length == 16 or (length == 15 and low in ("34", "37")):
            return card(random, low, high, length)
