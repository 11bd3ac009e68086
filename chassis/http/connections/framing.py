"""Where a request body ends among the bytes that come, as its head says. The parser decides; this is asked so that it
gets each request apart, and for what it has no limit: lines of chunks, and the fields behind them.
"""

import re
from typing import Final, Protocol

from aiohttp.http import RawRequestMessage

MAX_CHUNK_LINE: Final = 4_096  # bytes of a chunk's size and its extensions, which nobody reads

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[;\r]")
_SIZE_BYTES: Final = 17  # of a chunk's line that are looked at


class FramingLimitExceeded(Exception):
    """A part of the framing is longer than what is permitted."""


class BodyFrame(Protocol):
    """The rest of a body."""

    @property
    def trailer_bytes(self) -> int:
        """Bytes of fields behind the body, which the parser keeps."""

    def consume(self, data: bytes) -> int:
        """How many of the next bytes belong to the body. Raises Unbounded."""


class ContentLengthFrame:
    """A body of so many bytes."""

    __slots__ = ("_remaining_bytes",)

    trailer_bytes = 0

    def __init__(self, content_length: int) -> None:
        self._remaining_bytes = content_length

    def consume(self, data: bytes) -> int:
        """As of the protocol."""
        count = min(self._remaining_bytes, len(data))
        self._remaining_bytes -= count
        return count


class ChunkedFrame:
    """A body in chunks, with at most `most` bytes of fields behind it. One that is not well formed has no end here."""

    __slots__ = (
        "_chunk_remaining_bytes",
        "_in_trailer",
        "_is_complete",
        "_line",
        "_line_bytes",
        "_max_trailer_bytes",
        "trailer_bytes",
    )

    def __init__(self, max_trailer_bytes: int) -> None:
        self._max_trailer_bytes = max_trailer_bytes
        self._line = b""  # how the one under way begins
        self._line_bytes = 0
        self._chunk_remaining_bytes = 0  # bytes of the chunk under way that are to come, with its line end
        self._in_trailer = False
        self._is_complete = False
        self.trailer_bytes = 0

    def consume(self, data: bytes) -> int:
        """As of the protocol."""
        at = 0
        while at < len(data) and not self._is_complete:
            if self._chunk_remaining_bytes:
                step = min(self._chunk_remaining_bytes, len(data) - at)
                self._chunk_remaining_bytes -= step
                at += step
            else:
                at = self._to_line_end(data, at)
        return at

    def _to_line_end(self, data: bytes, at: int) -> int:
        """Behind the line that goes on at `at`, or at the end of what is there."""
        found = data.find(b"\n", at)
        end = len(data) if found < 0 else found + 1
        self._line += data[at : min(end, at + _SIZE_BYTES - len(self._line))] if len(self._line) < _SIZE_BYTES else b""
        self._line_bytes += end - at
        self.trailer_bytes += end - at if self._in_trailer else 0
        if self.trailer_bytes > self._max_trailer_bytes or (self._line_bytes > MAX_CHUNK_LINE and not self._in_trailer):
            raise FramingLimitExceeded
        if found >= 0:
            self._end_line()
        return end

    def _end_line(self) -> None:
        line, self._line, self._line_bytes = self._line, b"", 0
        if self._in_trailer:
            self._is_complete = line == b"\r\n"
            return
        size = _SIZE.match(line)
        if size is None:
            self._chunk_remaining_bytes = 2**63  # the parser will say what is wrong with it
        elif int(size[1], 16):
            self._chunk_remaining_bytes = int(size[1], 16) + 2
        else:
            self._in_trailer = True


def build_body_frame(head: RawRequestMessage, max_trailer_bytes: int) -> BodyFrame:
    """That of the body behind a head; `most`: bytes of fields behind the body."""
    return (
        ChunkedFrame(max_trailer_bytes)
        if head.chunked
        else ContentLengthFrame(int(head.headers.get("Content-Length", "0")))
    )
