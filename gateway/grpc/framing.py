"""Checks the HTTP/2 frames of a connection (RFC 9113, section 4), to limit what a client can send.

The core limits messages, metadata and streams, but nothing else: it reads endless header blocks, any number of frames
of unknown types, and data of closed streams. So the bytes of both directions are checked here before they are
forwarded. Only frame headers are read, no payloads. A client is disconnected for

    any other preface than HTTP/2's                     PREFACE
    a frame above 16 KiB                                FRAME_SIZE
    a header block above MAX_HEADER_BLOCK_BYTES         HEADER_BLOCK
    a frame inside of a header block, a CONTINUATION outside of one, data or reset without a call
                                                        FRAME_ORDER
    a frame that only servers send                      FRAME_TYPE
    more open calls than MAX_OPEN_STREAMS               STREAMS
    frames that no call needs, beyond an allowance      FRAME_RATE

The allowance is FRAMES_AT_ONCE frames. It grows by FRAMES_PER_S, and by FRAMES_PER_CALL with each call that is
answered. Every frame costs one unit of it, and more if its payload is long (`_on_data`, `_on_other`). Only the headers
of a call and the data of an open call are free. So the other frames of legitimate clients (settings, window updates,
pings, resets, data of a call that has just been refused) never exceed the allowance. A call that is cancelled before it
is answered adds nothing to the allowance (CVE-2023-44487), and a frame of an unknown type costs UNKNOWN_COST.

This module does no I/O: it gets bytes and times, and returns faults.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

PREFACE_BYTES: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES: Final = 16_384  # of a payload: the initial SETTINGS_MAX_FRAME_SIZE, which the core does not change
MAX_HEADER_BLOCK_BYTES: Final = 32 * 2**10  # of HEADERS and CONTINUATION frames, their frame headers included
MAX_OPEN_STREAMS: Final = 1_000  # the core refuses calls above its own limit, which a client may not know yet
FRAMES_AT_ONCE: Final = 1_000
FRAMES_PER_S: Final = 10.0
FRAMES_PER_CALL: Final = 20
UNKNOWN_COST: Final = 100  # some clients send a few, so that servers keep ignoring unknown types (GREASE)

DATA: Final = 0
HEADERS: Final = 1
RST_STREAM: Final = 3
PUSH_PROMISE: Final = 5
GOAWAY: Final = 7
CONTINUATION: Final = 9
END_STREAM: Final = 1
END_HEADERS: Final = 4

_PROTOCOL_ERROR: Final = 1
_FRAME_SIZE_ERROR: Final = 6
_ENHANCE_YOUR_CALM: Final = 11

_FRAME_HEADER: Final = Struct(">HBBBI")  # length (16 and 8 bits), type, flags, stream
_STREAM_BITS: Final = 2**31 - 1  # the highest bit is reserved

OnFrame = Callable[[int, int, int, int], "Fault | None"]


class Fault(NamedTuple):
    """Why a client is disconnected: the label of the metric, and the error code of the GOAWAY."""

    reason: str
    code: int


PREFACE: Final = Fault("preface", _PROTOCOL_ERROR)
FRAME_SIZE: Final = Fault("frame_size", _FRAME_SIZE_ERROR)
FRAME_TYPE: Final = Fault("frame_type", _PROTOCOL_ERROR)
FRAME_ORDER: Final = Fault("frame_order", _PROTOCOL_ERROR)
HEADER_BLOCK: Final = Fault("header_block", _ENHANCE_YOUR_CALM)
STREAMS: Final = Fault("streams", _ENHANCE_YOUR_CALM)
FRAME_RATE: Final = Fault("frame_rate", _ENHANCE_YOUR_CALM)


class FrameReader:
    """Finds the frames of one direction, in chunks of any size."""

    __slots__ = ("_header", "_payload_left")

    def __init__(self) -> None:
        self._header = b""  # the incomplete header of a frame
        self._payload_left = 0  # bytes of the current frame that have not arrived

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._payload_left or self._header)

    def read(self, data: bytes, on_frame: OnFrame) -> Fault | None:
        """Call `on_frame(type, flags, stream, payload bytes)` for each frame header, up to the first fault."""
        if self._header:
            data = self._header + data
            self._header = b""
        at, end = self._payload_left, len(data)
        while at + _FRAME_HEADER.size <= end:
            high, low, kind, flags, stream = _FRAME_HEADER.unpack_from(data, at)
            size = high << 8 | low
            fault = on_frame(kind, flags, stream & _STREAM_BITS, size)
            if fault is not None:
                return fault
            at += _FRAME_HEADER.size + size
        if at < end:
            self._header = data[at:]
        self._payload_left = max(0, at - end)
        return None


class ConnectionFraming:
    """The frames of a connection in both directions, and the calls that they open and end."""

    __slots__ = (
        "_allowance",
        "_block_bytes",
        "_block_stream",
        "_client",
        "_core",
        "_last_kind",
        "_now",
        "_preface",
        "_refilled_at",
        "last_stream",
        "streams",
        "unit",
    )

    def __init__(self, now: float) -> None:
        """`now`, here and below: seconds of any clock that goes forward."""
        self._client, self._core = FrameReader(), FrameReader()
        self._preface = PREFACE_BYTES  # the part that has not arrived
        self._block_stream = 0  # the stream of the header block in progress; 0: none
        self._block_bytes = 0
        self._last_kind = HEADERS
        self._allowance = float(FRAMES_AT_ONCE)
        self._refilled_at = self._now = now
        self.streams: dict[int, bool] = {}  # unanswered calls, and whether the client may still send data for them
        self.last_stream = 0
        self.unit = 0  # number of the current frame, or header block

    @property
    def has_preface(self) -> bool:
        """Whether the client has shown that it speaks HTTP/2."""
        return not self._preface

    @property
    def owes_bytes(self) -> bool:
        """Whether the preface, a frame or a header block of the client is incomplete."""
        return bool(self._preface or self._block_stream) or self._client.is_inside_frame

    @property
    def is_inside_data(self) -> bool:
        """Whether the payload of a DATA frame is incomplete."""
        return self._last_kind == DATA and self._client.is_inside_frame

    @property
    def is_inside_headers(self) -> bool:
        """Whether a header block is incomplete."""
        return bool(self._block_stream) or (self._last_kind != DATA and self._client.is_inside_frame)

    @property
    def core_is_between_frames(self) -> bool:
        """Whether the core's last frame is complete, so that this process may send a frame of its own."""
        return not self._core.is_inside_frame

    def from_client(self, data: bytes, now: float) -> Fault | None:
        """Check bytes of the client. If this returns a fault, none of the bytes may be forwarded."""
        self._now = now
        if self._preface:
            if not (data.startswith(self._preface) or self._preface.startswith(data)):
                return PREFACE
            length = len(self._preface)
            self._preface, data = self._preface[len(data) :], data[length:]
        # Overdrawn by resets of the core, which `from_core` does not report.
        if self._allowance < 0 and self._charge(0):
            return FRAME_RATE
        return self._client.read(data, self._on_client_frame)

    def from_core(self, data: bytes) -> None:
        """Read bytes of the core."""
        self._core.read(data, self._on_core_frame)

    def _on_client_frame(self, kind: int, flags: int, stream: int, size: int) -> Fault | None:
        self._last_kind = kind
        if size > MAX_FRAME_BYTES:
            return FRAME_SIZE
        if self._block_stream or kind == CONTINUATION:
            return self._on_continuation(kind, flags, stream, size)
        self.unit += 1
        if kind == DATA:
            return self._on_data(flags, stream, size)
        if kind == HEADERS:
            return self._on_headers(flags, stream, size)
        return self._on_other(kind, stream, size)

    def _on_other(self, kind: int, stream: int, size: int) -> Fault | None:
        if kind == PUSH_PROMISE:
            return FRAME_TYPE
        if kind == RST_STREAM:
            self.streams.pop(stream, None)
            if stream > self.last_stream:
                return FRAME_ORDER
        return self._charge(1 + (size >> 8) if kind < CONTINUATION else UNKNOWN_COST)

    def _on_data(self, flags: int, stream: int, size: int) -> Fault | None:
        may_send = self.streams.get(stream, False)
        if may_send and flags & END_STREAM:
            self.streams[stream] = False
            return None
        if stream > self.last_stream:
            return FRAME_ORDER
        return None if may_send and size else self._charge(1 + (size >> 12))

    def _on_headers(self, flags: int, stream: int, size: int) -> Fault | None:
        if not stream:
            return FRAME_ORDER
        is_new = stream > self.last_stream
        if is_new:
            self.last_stream = stream
            self.streams[stream] = not flags & END_STREAM
            if len(self.streams) > MAX_OPEN_STREAMS:
                return STREAMS
        elif flags & END_STREAM and stream in self.streams:
            self.streams[stream] = False
        if not flags & END_HEADERS:
            self._block_stream, self._block_bytes = stream, _FRAME_HEADER.size + size
        return None if is_new else self._charge(1)

    def _on_continuation(self, kind: int, flags: int, stream: int, size: int) -> Fault | None:
        if kind != CONTINUATION or not self._block_stream or stream != self._block_stream:
            return FRAME_ORDER
        self._block_bytes += _FRAME_HEADER.size + size
        if self._block_bytes > MAX_HEADER_BLOCK_BYTES:
            return HEADER_BLOCK
        if flags & END_HEADERS:
            self._block_stream = 0
        return None

    def _on_core_frame(self, kind: int, flags: int, stream: int, _size: int) -> None:
        """A call ends with the core's first frame that ends it. Later frames of the client for this call cost
        allowance."""
        if kind in (DATA, HEADERS):
            if flags & END_STREAM and self.streams.pop(stream, None) is not None:
                self._allowance = min(FRAMES_AT_ONCE, self._allowance + FRAMES_PER_CALL)
        elif kind == RST_STREAM and self.streams.pop(stream, None) is not None:
            self._allowance -= 1

    def _charge(self, cost: int) -> Fault | None:
        """Add the allowance for the time since the last call of this method, then take `cost` from it."""
        if self._now > self._refilled_at:
            earned = (self._now - self._refilled_at) * FRAMES_PER_S
            self._allowance = min(FRAMES_AT_ONCE, self._allowance + earned)
            self._refilled_at = self._now
        self._allowance -= cost
        return FRAME_RATE if self._allowance < 0 else None


def goaway(last_stream: int, code: int) -> bytes:
    """The frame that ends a connection. Calls up to `last_stream` may have been handled."""
    payload = last_stream.to_bytes(4, "big") + code.to_bytes(4, "big")
    return _FRAME_HEADER.pack(0, len(payload), GOAWAY, 0, 0) + payload
