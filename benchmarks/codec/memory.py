"""Peak memory that one request takes, against its size: each case in a process of its own.

What is printed is how far the resident set rose above where it stood with the body in memory, while the request was
decoded and, but for JSON, assembled (`VmHWM` of /proc/self/status after a reset, Linux). The body is made elsewhere and
read from a file, so that no freed memory of its making lies ready. For JSON there is what the gateway pays before it
reads (`proto.otlp.codec.json_memory`), read by the kernel, with items left to Python, and by
Python.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple

from benchmarks.processes import peak_mib, reset_peak, resident_mib
from benchmarks.report import Table
from gateway.export import FEW_ITEMS, MANY_ITEMS
from proto.otlp import codec
from proto.otlp.policy import DecodedPayload, DecodeError, Policy, Signal
from proto.otlp.protobuf_writer import bytes_field
from tests.proto.otlp.as_json import as_json
from tests.proto.otlp.realistic import NOW_NS, request
from tests.proto.otlp.sent import attributes, mapping, pair, span, string
from tests.proto.otlp.sent import request as small

MB = 2**20


class Body(NamedTuple):
    """The bodies that are sent, and their encoding."""

    body: bytes
    signal: Signal = "traces"
    is_json: bool = False


def _json(spans: bytes) -> Body:
    return Body(b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + spans + b"]}]}]}", is_json=True)


def _repeated(spans: int, span_bytes: bytes, resource: bytes = b"") -> bytes:
    return small(*[span_bytes] * spans, resource=resource)


CASES: dict[str, Callable[[], Body]] = {
    "512 real spans": lambda: Body(request("traces", 512).SerializeToString()),
    "50 000 real spans": lambda: Body(request("traces", 50_000).SerializeToString()),
    "50 000 real log records": lambda: Body(request("logs", 50_000).SerializeToString(), "logs"),
    "4 MB of empty spans": lambda: Body(small(*[b""] * (2 * MB))),
    "50 000 empty spans": lambda: Body(small(*[b""] * 50_000)),
    "50 000 smallest spans": lambda: Body(_repeated(50_000, span())),
    "4 MB of empty attributes": lambda: Body(small(span(attributes(9, *[b""] * 1_990_000)))),
    "4 MB of empty attributes, 100 spans": lambda: Body(_repeated(100, span(attributes(9, *[b""] * 19_000)))),
    "128 empty attributes, 15 000 spans": lambda: Body(_repeated(15_000, span(attributes(9, *[b""] * 128)))),
    "2 M short attributes": lambda: Body(
        _repeated(15_000, span(attributes(9, *(pair(b"%d" % key, b"") for key in range(128)))))
    ),
    "4 MB of empty elements": lambda: Body(
        small(span(attributes(9, pair("k", bytes_field(5, b"\x0a\x00" * 1_990_000)))))
    ),
    "4 MB of empty map entries": lambda: Body(small(span(attributes(9, pair("k", mapping(*[b""] * 1_990_000)))))),
    "4 MB of empty events": lambda: Body(small(span(bytes_field(11, b"") * 1_990_000))),
    "4 MB of unknown fields": lambda: Body(small(span(b"\xf8\x07\x00" * (4 * MB // 3)))),
    "one value of 60 MB": lambda: Body(small(span(attributes(9, pair("k", string("x" * 60 * MB)))))),
    "2 MB of resource attributes on 120 spans": lambda: Body(
        _repeated(120, span(), attributes(1, *(pair(b"%d" % key, string("x" * 16_000)) for key in range(128))))
    ),
    "JSON: 512 real spans": lambda: Body(as_json(request("traces", 512)), is_json=True),
    "JSON: 14 000 real spans": lambda: Body(as_json(request("traces", 14_000)), is_json=True),
    "JSON: 4 MB of empty spans": lambda: _json(b",".join([b"{}"] * (4 * MB // 3))),
    "JSON: 16 MB of nulls": lambda: _json(b",".join([b"null"] * (16 * MB // 5))),
    "JSON: 6 MB of empty attributes": lambda: _json(b'{"attributes":[' + b",".join([b"{}"] * 1_990_000) + b"]}"),
    "JSON: 16 MB of braces in a string": lambda: _json(b'{"name":"' + b"{" * (16 * MB) + b'"}'),
}


def _spans(*spans: str) -> bytes:
    return _json(",".join(spans).encode()).body


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
    """Prints a row for each case: size, peak above it, their ratio, and what became of the request."""
    columns = {"body MB": ".2f", "peak MB": ".1f", "ratio": ".1f"}
    table = Table({"memory": "", **columns, "outcome": ""})
    for name, make in CASES.items():
        found = grown(make(), "whole")
        table.row(name, *found.sizes_mb, found.outcome)
    table = Table({"JSON": "", "read by": "", **columns, "paid MB": ".1f", "outcome": ""})
    for cases, ways in ((JSON_CASES, ("kernel", "python")), (FAULTY_CASES, ("items", "python"))):
        for name, make_json in cases.items():
            body = Body(make_json(), is_json=True)
            for way in ways:
                found = grown(body, way)
                table.row(name, way, *found.sizes_mb, found.paid / MB, found.outcome)


class Grown(NamedTuple):
    """How much memory a body took besides itself, in bytes, how much is paid for that (JSON), and what became of it."""

    body: int
    peak: int
    paid: int
    outcome: str

    @property
    def sizes_mb(self) -> tuple[float, float, float]:
        """Body, peak, and their ratio."""
        return self.body / MB, self.peak / MB, self.peak / self.body


def grown(sent: Body, way: str) -> Grown:
    """Measured in a process of its own. `way`: whole (decoded and assembled); JSON kernel, items, python."""
    with NamedTemporaryFile() as file:
        Path(file.name).write_bytes(sent.body)
        command = [sys.executable, "-m", "benchmarks.codec.memory", file.name, sent.signal, str(int(sent.is_json)), way]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, paid, outcome = done.stdout.split(" ", 2)
    return Grown(len(sent.body), int(peak), int(paid), outcome.strip())


def _measure_here(path: str, signal: str, is_json: str, way: str) -> None:
    sent = Body(Path(path).read_bytes(), "traces" if signal == "traces" else "logs", is_json == "1")
    decode = {"whole": _decode, "kernel": _read_json, "items": _read_json_items, "python": _read_json_in_python}[way]
    decode(Body(small(span())) if way == "whole" else _json(b"{}"))  # what is loaded once is no request's memory
    paid = codec.estimate_json_memory(sent.body, Policy(), _LEFT.get(way)) if way != "whole" else 0
    pid = os.getpid()
    reset_peak(pid)
    before = resident_mib(pid)
    outcome = decode(sent)
    print(round((peak_mib(pid) - before) * MB), paid, outcome)


_ANY_ITEMS: Final = MANY_ITEMS._replace(total_bytes=2**63)  # the gateway refuses more in total, which needs no memory
_LEFT: Final = {"kernel": FEW_ITEMS, "items": _ANY_ITEMS}


def _read_json(sent: Body, left: codec.PythonReadLimit = FEW_ITEMS) -> str:
    decoded = codec.decode_json_within(left, sent.signal, sent.body, 1, Policy(), NOW_NS)
    return "left to Python" if decoded is None else _outcome(decoded)


def _read_json_items(sent: Body) -> str:
    return _read_json(sent, _ANY_ITEMS)


def _read_json_in_python(sent: Body) -> str:
    return _outcome(codec.decode_json_in_python(sent.signal, sent.body, 1, Policy(), NOW_NS))


def _outcome(decoded: DecodedPayload) -> str:
    return f"{decoded.accepted + sum(decoded.rejected.values())} items, {decoded.accepted} accepted"


def _decode(sent: Body) -> str:
    policy = Policy()
    try:
        decode = codec.decode_json if sent.is_json else codec.decode
        decoded = decode(sent.signal, sent.body, 1, policy, NOW_NS)
    except DecodeError as error:
        return f"refused: {error.reason}"
    blocks = codec.build_blocks([decoded], 1)
    column_mb = sum(len(piece) for block in blocks for piece in block.pieces) / MB
    return f"{decoded.accepted} accepted, {sum(decoded.rejected.values())} rejected, {column_mb:.1f} MB of columns"


if __name__ == "__main__":
    _measure_here(*sys.argv[1:])
