"""A sender over gRPC: requests as bytes made in advance, compressed or not, over one HTTP/2 connection (RFC 9113).

grpcio's client would compress every message anew, and be slower than what is measured. This one knows as much of HTTP/2
as it takes: it does not read the status of a response, whose headers may be compressed. A refused request shows as rows
that do not arrive.
"""

import asyncio
import struct
import time
from collections.abc import Iterator
from typing import Final, cast

from benchmarks.gateway.bodies import Kind
from proto.otlp.policy import Signal

PATHS: Final[dict[Signal, str]] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_INITIAL_WINDOW_SIZE: Final = 4  # the setting
_MAX_FRAME: Final = 16_384
_WINDOW: Final = 65_535  # before any setting
_RETURN_WINDOW: Final = 2**14  # of received bytes


class GrpcError(Exception):
    """The connection was closed or a stream was reset."""


def grpc_messages(kind: Kind, key: str, bodies: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Header block and length-prefixed message of each request of a project; "" is the key of none."""
    compressed = kind.encoding == "protobuf gzip"
    fields = [("grpc-encoding", "gzip")] if compressed else []
    fields += [("x-legacy-auth", f"Legacy legacy_key={key}")] if key else []
    block = header_block(PATHS[kind.signal], fields)
    return [(block, struct.pack(">BI", compressed, len(body)) + body) for body in bodies]


def header_block(path: str, fields: list[tuple[str, str]]) -> bytes:
    """Request headers without compression (RFC 7541): static entries, else literals."""
    block = b"\x83\x86" + b"\x04" + _text(path) + b"\x01" + _text("localhost")  # POST, http
    for name, value in (("content-type", "application/grpc"), ("te", "trailers"), *fields):
        block += b"\x00" + _text(name) + _text(value)
    return block


def _text(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) >= 127:
        raise ValueError("a longer length takes several bytes")
    return bytes((len(encoded),)) + encoded


class GrpcSender(asyncio.Protocol):
    """One connection that sends the next request once the last one is answered."""

    def __init__(self, messages: Iterator[tuple[bytes, bytes]], end: float, done: "asyncio.Future[None]") -> None:
        self._messages = messages
        self._end = end
        self._begun = 0.0
        self._stream = -1
        self._received = bytearray()
        self._message = memoryview(b"")  # the rest to send
        self._initial_window = self._stream_window = self._connection_window = _WINDOW
        self._to_return = 0
        self._transport: asyncio.Transport | None = None
        self.done = done
        self.latencies: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the connection; the first request waits for the settings of the server."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(_PREFACE + _frame(_SETTINGS, 0, 0))

    def connection_lost(self, exc: Exception | None) -> None:
        """Too early, unless this side has closed it."""
        if not self.done.done():
            self.done.set_exception(GrpcError(f"the connection broke: {exc}"))

    def data_received(self, data: bytes) -> None:
        """Handle whole frames."""
        received = self._received
        received += data
        while len(received) >= 9:
            size = int.from_bytes(received[:3], "big")
            if len(received) < 9 + size:
                return
            kind, flags, stream = received[3], received[4], int.from_bytes(received[5:9], "big")
            payload = bytes(received[9 : 9 + size])
            del received[: 9 + size]
            self._on_frame(kind, flags, stream, payload)

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            self._on_settings(payload)
        elif kind == _PING and not flags & _ACK:
            self._write(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE:
            self._on_window(stream, int.from_bytes(payload, "big"))
        elif kind == _DATA:
            self._return_window(len(payload))
        elif kind == _HEADERS and flags & _END_STREAM:
            self.latencies.append(time.perf_counter() - self._begun)
            self._next()
        elif kind in (_RST_STREAM, _GOAWAY) and not self.done.done():
            self.done.set_exception(GrpcError(f"frame {kind}: {payload!r}"))

    def _on_settings(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            number, value = struct.unpack_from(">HI", payload, at)
            if number == _INITIAL_WINDOW_SIZE:
                self._stream_window += value - self._initial_window
                self._initial_window = value
        self._write(_frame(_SETTINGS, _ACK, 0))
        if self._stream < 0:
            self._next()
        else:
            self._send()

    def _on_window(self, stream: int, more: int) -> None:
        if stream == 0:
            self._connection_window += more
        elif stream == self._stream:
            self._stream_window += more
        self._send()

    def _return_window(self, nbytes: int) -> None:
        self._to_return += nbytes
        if self._to_return >= _RETURN_WINDOW:
            self._write(_frame(_WINDOW_UPDATE, 0, 0, self._to_return.to_bytes(4, "big")))
            self._to_return = 0

    def _next(self) -> None:
        self._begun = time.perf_counter()
        if self._begun >= self._end:
            self.done.set_result(None)
            if self._transport is not None:
                self._transport.close()
            return
        block, message = next(self._messages)
        self._stream += 2
        self._stream_window = self._initial_window
        self._message = memoryview(message)
        self._write(_frame(_HEADERS, _END_HEADERS, self._stream, block))
        self._send()

    def _send(self) -> None:
        """As much of the message as the windows allow."""
        frames: list[bytes | memoryview] = []
        while self._message:
            size = min(len(self._message), _MAX_FRAME, self._stream_window, self._connection_window)
            if size <= 0:
                break
            piece, self._message = self._message[:size], self._message[size:]
            self._stream_window -= size
            self._connection_window -= size
            frames += [_frame_head(_DATA, 0 if self._message else _END_STREAM, self._stream, size), piece]
        if frames:
            self._write(b"".join(frames))

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _frame_head(kind, flags, stream, len(payload)) + payload


def _frame_head(kind: int, flags: int, stream: int, size: int) -> bytes:
    return size.to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
