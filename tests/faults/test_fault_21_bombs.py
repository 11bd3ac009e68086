"""Fault 21: bodies that are small on the wire and enormous in memory. 413 or 400, memory bounded, others served."""

import gzip
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from backports import zstd

from proto.otlp.wire import bytes_field
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Site
from tests.faults.hostile import JSON, MIB, PROTOBUF, memory_below, post
from tests.faults.loading import loaded, more

AT_ONCE: Final = 4
TIMES: Final = 2
MOST: Final = 400 * MIB  # of the whole process
ZEROS: Final = 80 * MIB


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
    "json-zeros": lambda: Bomb(streamed(zlib.compressobj(1, wbits=31), 20 * MIB), 413, "gzip", JSON),
    "json-text": lambda: Bomb(gzip.compress(b'{"x":"' + b"y" * (15 * MIB) + b'"}'), 200, "gzip", JSON),
}


def test_fault_21_bombs(make_gateway: MakeGateway, site: Site, run: str) -> None:
    gateway = make_gateway()
    gateway.start()
    bombs = {name: make() for name, make in BOMBS.items()}
    with loaded(gateway, site, run) as load, ThreadPoolExecutor(AT_ONCE) as senders, memory_below(gateway, MOST):
        more(load)

        def throw(bomb: Bomb) -> int:
            headers = {"Content-Type": bomb.media, "Content-Encoding": bomb.encoding}
            return post(gateway, site, bomb.content, headers).status

        for name, bomb in bombs.items():
            statuses = set(senders.map(throw, [bomb] * AT_ONCE * TIMES))
            assert bomb.status in statuses, (name, statuses)
            assert statuses <= {bomb.status, 503}, (name, statuses)  # 503: together they are too much
            more(load, 1)
        more(load)
    assert gateway.metric("sluice_gateway_inflight_bytes") == 0
