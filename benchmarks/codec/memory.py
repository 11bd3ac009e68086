"""Peak memory that one JSON body takes, against its size: each case in a process of its own.

What is printed is how far the resident set rose above where it stood with the body in memory, while the body was read
(`VmHWM` of /proc/self/status after a reset, Linux), and what the gateway pays before it reads
(`proto.otlp.codec.json_memory`): read by the kernel, with items left to Python, and by Python. The body is made
elsewhere and read from a file, so that no freed memory of its making lies ready.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple

from benchmarks.processes import peak_mib, reset_peak, resident_mib
from benchmarks.report import MIB, Table
from gateway.export import FEW_ITEMS, MANY_ITEMS
from proto.otlp import codec
from proto.otlp.policy import DecodedPayload, Policy
from tests.proto.otlp.realistic import NOW_NS

MB: Final = MIB


def _spans(*spans: str) -> bytes:
    return b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + ",".join(spans).encode() + b"]}]}]}"


def _one(fields: str, number: int = 1) -> str:
    ids = f'"traceId":"{number:032x}","spanId":"{number:016x}","startTimeUnixNano":"{NOW_NS}"'
    return f"{{{ids},{fields}}}"


def _attributes(*attributes: str) -> str:
    return f'"attributes":[{",".join(attributes)}]'


def _nested(depth: int) -> str:
    return '{"arrayValue":{"values":[' * (depth - 1) + '{"stringValue":"x"}' + "]}}" * (depth - 1)


def _resources(resources: Iterable[str]) -> bytes:
    scopes = '"scopeSpans":[{"spans":[' + _one('"name":"n"') + "]}]"
    return f'{{"resourceSpans":[{",".join(f"{{{resource}{scopes}}}" for resource in resources)}]}}'.encode()


def _keys(first: int, width: int) -> str:
    return _attributes(*(f'{{"key":"{number:0{width}}"}}' for number in range(first, first + 128)))


# The largest legal bodies that take most: each has 64 MB, two million parts, or 50 000 items.
JSON_CASES: dict[str, Callable[[], bytes]] = {
    "30 000 spans of 2 kB": lambda: _spans(
        *[_one(_attributes('{"key":"k","value":{"stringValue":"' + "x" * 1_900 + '"}}'))] * 30_000
    ),
    "30 000 values 32 deep": lambda: _spans(*[_one(_attributes(f'{{"key":"k","value":{_nested(32)}}}'))] * 28_000),
    "a name of 63 MB": lambda: _spans(_one('"name":"' + "x" * 63 * MB + '"')),
    "a name of escapes": lambda: _spans(_one('"name":"' + r"\u00e9" * 10 * MB + '"')),
    "a name of halves of pairs": lambda: _spans(_one('"name":"' + r"\ud800" * 10 * MB + '"')),
    "a name that is not UTF-8": lambda: _spans(_one('"name":"NAME"')).replace(b"NAME", b"\xff" * 63 * MB),
    "the same of control characters": lambda: _spans(_one('"name":"' + "\x7f" * 63 * MB + 'X"')).replace(b"X", b"\xff"),
    "2 M empty attributes": lambda: _spans(_one(_attributes(*["{}"] * 1_990_000))),
    "2 M empty events": lambda: _spans(*[_one('"events":[' + ",".join(["{}"] * 128) + "]")] * 15_000),
    "2 M links": lambda: _spans(
        *[_one('"links":[' + ",".join(['{"spanId":"eee19b7ec3c1b174"}'] * 128) + "]")] * 13_000
    ),
    "2 M distinct keys": lambda: _spans(*(_one(_keys(first * 128, 1)) for first in range(15_000))),
    "long distinct keys": lambda: _spans(*(_one(_keys(first * 128, 250)) for first in range(1_850))),
    "long distinct keys of resources": lambda: _resources(
        f'"resource":{{{_keys(first * 128, 250)}}},' for first in range(1_850)
    ),
    "a map of 2 M": lambda: _spans(
        _one(_attributes(f'{{"key":"k","value":{{"kvlistValue":{{{_keys_of_map(1_990_000)}}}}}}}'))
    ),
    "an array of 2 M nulls": lambda: _spans(
        _one(_attributes('{"key":"k","value":{"arrayValue":{"values":[' + ",".join(["null"] * 1_990_000) + "]}}}"))
    ),
    "50 000 resources": lambda: _resources(
        f'"resource":{{"attributes":[{{"key":"{number}","value":{{"stringValue":"v{number}"}}}}]}},'
        for number in range(50_000)
    ),
    "2 M empty scopes": lambda: b'{"resourceSpans":[{"scopeSpans":[' + b",".join([b"{}"] * 1_990_000) + b"]}]}",
    "2 M entities": lambda: (
        b'{"resourceSpans":[{"resource":{"entityRefs":[' + b",".join([b"{}"] * 1_990_000) + b"]}}]}"
    ),
    "22 M keys of an entity": lambda: (
        b'{"resourceSpans":[{"resource":{"entityRefs":[{"idKeys":[' + b",".join([b'""'] * 22_000_000) + b"]}]}}]}"
    ),
}


_PLAIN: Final = _one(_attributes('{"key":"k","value":{"stringValue":"' + "x" * 1_900 + '"}}'))

# The same with items that the kernel leaves to Python: all of them, or the largest that it does.
FAULTY_CASES: dict[str, Callable[[], bytes]] = {
    "200 faulty of 30 000": lambda: JSON_CASES["30 000 spans of 2 kB"]().replace(
        b'"startT', b'"kind":"X","startT', 200
    ),
    "30 000 faulty": lambda: JSON_CASES["30 000 spans of 2 kB"]().replace(b'"startT', b'"kind":"X","startT'),
    "30 000 odd": lambda: JSON_CASES["30 000 spans of 2 kB"]().replace(b'"startT', b'"flags":1.0,"startT'),
    "1 MB odd, empty events": lambda: _spans(
        *[_one('"flags":1.0,"events":[' + ",".join(["{}"] * 345_000) + "]")] * 5 + [_PLAIN] * 28_000
    ),
    "1 MB odd, distinct keys": lambda: _spans(
        *[_one('"flags":1.0,' + _attributes(*(f'{{"key":"{key:06}"}}' for key in range(60_000))))] * 30
        + [_PLAIN] * 13_000
    ),
    "1 MB odd, not UTF-8": lambda: _spans(*[_one('"flags":1.0,"name":"NAME"')] * 60).replace(
        b"NAME", b"\xff" * (MB - 300)
    ),
}


def _keys_of_map(count: int) -> str:
    return '"values":[' + ",".join(f'{{"key":"{number}"}}' for number in range(count)) + "]"


def measure() -> None:
    """Prints a row for each case: size, peak above it, their ratio, what is paid, and what became of the body."""
    columns = {"JSON": "", "read by": "", "body MB": ".2f", "peak MB": ".1f", "ratio": ".1f"}
    table = Table({**columns, "paid MB": ".1f", "outcome": ""})
    for cases, ways in ((JSON_CASES, ("kernel", "python")), (FAULTY_CASES, ("items", "python"))):
        for name, make in cases.items():
            body = make()
            for way in ways:
                found = grown(body, way)
                table.row(
                    name, way, len(body) / MB, found.peak / MB, found.peak / len(body), found.paid / MB, found.outcome
                )


class Grown(NamedTuple):
    """How much memory a body took besides itself, in bytes, how much is paid for that, and what became of it."""

    peak: int
    paid: int
    outcome: str


def grown(body: bytes, way: str) -> Grown:
    """Measured in a process of its own. `way`: kernel, items, python."""
    with NamedTemporaryFile() as file:
        Path(file.name).write_bytes(body)
        command = [sys.executable, "-m", "benchmarks.codec.memory", file.name, way]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, paid, outcome = done.stdout.split(" ", 2)
    return Grown(int(peak), int(paid), outcome.strip())


def _measure_here(path: str, way: str) -> None:
    body, pid = Path(path).read_bytes(), os.getpid()
    read = {"kernel": _read, "items": lambda body: _read(body, _ANY_ITEMS), "python": _read_in_python}[way]
    read(_spans("{}"))  # what is loaded once is no body's memory
    paid = codec.estimate_json_memory(body, Policy(), _LEFT.get(way))
    reset_peak(pid)
    before = resident_mib(pid)
    outcome = read(body)
    print(round((peak_mib(pid) - before) * MIB), paid, outcome)


_ANY_ITEMS: Final = MANY_ITEMS._replace(total_bytes=2**63)  # the gateway refuses more in total, which needs no memory
_LEFT: Final = {"kernel": FEW_ITEMS, "items": _ANY_ITEMS}


def _read(body: bytes, left: codec.PythonReadLimit = FEW_ITEMS) -> str:
    decoded = codec.decode_json_within(left, "traces", body, 1, Policy(), NOW_NS)
    return "left to Python" if decoded is None else _outcome(decoded)


def _read_in_python(body: bytes) -> str:
    return _outcome(codec.decode_json_in_python("traces", body, 1, Policy(), NOW_NS))


def _outcome(decoded: DecodedPayload) -> str:
    return f"{decoded.accepted + sum(decoded.rejected.values())} items, {decoded.accepted} accepted"


if __name__ == "__main__":
    _measure_here(*sys.argv[1:])
