"""Bodies that are small on the wire and enormous in memory, and what they are answered with."""

import gzip
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from backports import zstd

from proto.otlp.protobuf_writer import bytes_field
from tests.faults.hostile import JSON, MIB, PROTOBUF

ZEROS: Final = 80 * MIB  # more than any cap


class Bomb(NamedTuple):
    """What is sent, and its answer."""

    content: bytes
    status: int
    encoding: str = "identity"
    media: str = PROTOBUF


def streamed(packer: object, nbytes: int) -> bytes:
    """So many zeros through a compressor."""
    pieces = [packer.compress(bytes(MIB)) for _ in range(nbytes // MIB)]  # type: ignore[attr-defined]  # zlib's or zstd's
    return b"".join([*pieces, packer.flush()])  # type: ignore[attr-defined]


def windowed() -> bytes:
    """A frame that needs half a gigabyte to be read."""
    return streamed(zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 29}), MIB)


def spans(body: bytes) -> bytes:
    """An export request of one scope that has these fields."""
    return bytes_field(1, bytes_field(2, body))


def largest_json() -> bytes:
    """A legal body of 64 MiB, one text that takes four times as much to repair."""
    return b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"' + b"\xff" * (64 * MIB - 64) + b'"}]}]}]}'


BOMBS: Final[dict[str, Callable[[], Bomb]]] = {
    "gzip-zeros": lambda: Bomb(streamed(zlib.compressobj(1, wbits=31), ZEROS), 413, "gzip"),
    "deflate-zeros": lambda: Bomb(streamed(zlib.compressobj(1), ZEROS), 413, "deflate"),
    "zstd-zeros": lambda: Bomb(streamed(zstd.ZstdCompressor(), ZEROS), 413, "zstd"),
    "zstd-window": lambda: Bomb(windowed(), 413, "zstd"),
    "gzip-members": lambda: Bomb(gzip.compress(b"") * 100_000, 413, "gzip"),
    "zstd-frames": lambda: Bomb(zstd.compress(b"") * 100_000, 413, "zstd"),
    "gzip-in-gzip": lambda: Bomb(gzip.compress(gzip.compress(bytes(MIB))), 415, "gzip, gzip"),
    "empty-spans": lambda: Bomb(gzip.compress(spans(b"\x12\x00" * 2_000_000)), 413, "gzip"),
    "empty-attributes": lambda: Bomb(gzip.compress(spans(bytes_field(2, b"\x4a\x00" * 3_000_000))), 413, "gzip"),
    "empty-events": lambda: Bomb(gzip.compress(spans(bytes_field(2, b"\x5a\x00" * 3_000_000))), 413, "gzip"),
    "json-spans": lambda: Bomb(
        gzip.compress(b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 2_000_000 + b"{}]}]}]}"),
        413,
        "gzip",
        JSON,
    ),
    "json-braces": lambda: Bomb(gzip.compress(b'{"a":' * 3_000_000), 413, "gzip", JSON),
    "json-depth": lambda: Bomb(gzip.compress(b'{"a":' * 1_000_000), 400, "gzip", JSON),
    "json-zeros": lambda: Bomb(streamed(zlib.compressobj(1, wbits=31), 65 * MIB), 413, "gzip", JSON),
    "json-largest": lambda: Bomb(gzip.compress(largest_json(), 1), 200, "gzip", JSON),
    "json-text": lambda: Bomb(gzip.compress(b'{"x":"' + b"y" * (15 * MIB) + b'"}'), 200, "gzip", JSON),
}
