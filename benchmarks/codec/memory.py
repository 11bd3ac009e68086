"""Peak memory that one request takes, against its size: each case in a process of its own.

What is printed is how far the resident set rose above where it stood with the body in memory, while the request was
decoded and assembled (`VmHWM` of /proc/self/status after a reset, Linux). The body is made elsewhere and read from a
file, so that no freed memory of its making lies ready.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from proto.otlp import codec
from proto.otlp.json import to_protobuf
from proto.otlp.policy import DecodeError, Policy, Signal
from proto.otlp.wire import bytes_field
from tests.proto.otlp.as_json import as_json
from tests.proto.otlp.realistic import NOW_NS, request
from tests.proto.otlp.sent import attributes, mapping, pair, span, string
from tests.proto.otlp.sent import request as small

MB = 2**20


class Body(NamedTuple):
    """What is sent, and in which encoding."""

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


def measure() -> None:
    """Prints one line per case: size, peak above it, their ratio, and what became of the request."""
    print(f"\nmemory{'':36} {'body MB':>9} {'peak MB':>9} {'ratio':>7}  outcome")
    with NamedTemporaryFile() as file:
        for name, make in CASES.items():
            sent = make()
            Path(file.name).write_bytes(sent.body)
            command = [sys.executable, "-m", "benchmarks.codec.memory", file.name, sent.signal, str(int(sent.is_json))]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            print(f"  {name:40} {done.stdout}", end="")


def _measure_here(path: str, signal: str, is_json: str) -> None:
    sent = Body(Path(path).read_bytes(), "traces" if signal == "traces" else "logs", is_json == "1")
    _decode(Body(small(span())))  # what is loaded once is no request's memory
    _decode(_json(b"{}"))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again at what is resident now
    before = _status("VmRSS")
    outcome = _decode(sent)
    grown = (_status("VmHWM") - before) / 1024
    size = len(sent.body) / MB
    print(f"{size:9.2f} {grown:9.1f} {grown / size:7.1f}  {outcome}")


def _decode(sent: Body) -> str:
    policy = Policy()
    try:
        decoded = codec.decode_json(sent.signal, sent.body, 1, policy, NOW_NS) if sent.is_json else None
        if decoded is None:
            body = to_protobuf(sent.signal, sent.body, policy) if sent.is_json else sent.body
            decoded = codec.decode(sent.signal, body, 1, policy, NOW_NS)
    except DecodeError as error:
        return f"refused: {error.reason}"
    blocks = codec.assemble([decoded], 1)
    column_mb = sum(len(piece) for block in blocks for piece in block.pieces) / MB
    return f"{decoded.accepted} accepted, {sum(decoded.rejected.values())} rejected, {column_mb:.1f} MB of columns"


def _status(field: str) -> int:
    """A line of /proc/self/status, in kB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise LookupError(field)


if __name__ == "__main__":
    _measure_here(*sys.argv[1:])
