"""Find the end of a request body in the received bytes, as the head of the request declares it.

The parser reads the body. This module separates requests, so that the parser gets one request at a time, and limits
chunk lines and trailer fields, which the parser does not limit.

`InputBuffer` contains the received bytes that are not parsed yet: an incomplete head, and the bytes after the current
request.
"""

import re
from typing import Final, Protocol

from aiohttp.http import RawRequestMessage

MAX_CHUNK_LINE: Final = 4_096  # bytes of a chunk's size and extensions; extensions are ignored

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[;\r]")
_SIZE_BYTES: Final = 17  # bytes of a chunk line that are parsed


class FramingLimitExceeded(Exception):
    """A chunk line is longer than MAX_CHUNK_LINE, or the trailer fields are longer than their limit."""


class BodyFrame(Protocol):
    """The rest of a body, as its bytes are received."""

    @property
    def trailer_bytes(self) -> int:
        """Bytes of trailer fields received so far, which the parser keeps."""

    def consume(self, data: bytes) -> int:
        """The number of leading bytes of `data` that belong to the body. Raises FramingLimitExceeded."""


class ContentLengthFrame:
    """A body of `content_length` bytes."""

    __slots__ = ("_remaining_bytes",)

    trailer_bytes = 0

    def __init__(self, content_length: int) -> None:
        self._remaining_bytes = content_length

    def consume(self, data: bytes) -> int:
        """See `BodyFrame`."""
        count = min(self._remaining_bytes, len(data))
        self._remaining_bytes -= count
        return count


class ChunkedFrame:
    """A chunked body with at most `max_trailer_bytes` of trailer fields. A malformed body has no end for this class,
    and the parser reports the error.
    """

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
        self._line = b""  # the start of the current chunk line
        self._line_bytes = 0
        self._chunk_remaining_bytes = 0  # bytes of the current chunk and its line end that are not received yet
        self._in_trailer = False
        self._is_complete = False
        self.trailer_bytes = 0

    def consume(self, data: bytes) -> int:
        """See `BodyFrame`."""
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
        """The position after the line that continues at `at`, or the end of `data`. Raises FramingLimitExceeded."""
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
            self._chunk_remaining_bytes = 2**63  # malformed: the parser reports it
        elif int(size[1], 16):
            self._chunk_remaining_bytes = int(size[1], 16) + 2
        else:
            self._in_trailer = True


def build_body_frame(head: RawRequestMessage, max_trailer_bytes: int) -> BodyFrame:
    """The frame of the body that follows a head. `max_trailer_bytes` limits its trailer fields."""
    return (
        ChunkedFrame(max_trailer_bytes)
        if head.chunked
        else ContentLengthFrame(int(head.headers.get("Content-Length", "0")))
    )


_END: Final = b"\r\n\r\n"
_BLANK: Final = b"\r\n"


class InputBuffer:
    """Received bytes in order. Bytes that arrive in many pieces cost no more than bytes that arrive in one piece."""

    __slots__ = ("_bytes", "_searched")

    def __init__(self) -> None:
        self._bytes: bytes | bytearray = b""
        self._searched = 0  # leading bytes that contain no end of a head

    def __len__(self) -> int:
        return len(self._bytes)

    def append(self, data: bytes) -> None:
        """Append received bytes."""
        if not self._bytes:
            self._bytes = data
        else:
            if isinstance(self._bytes, bytes):
                self._bytes = bytearray(self._bytes)
            self._bytes += data

    def take(self, count: int) -> bytes:
        """Remove and return the first `count` bytes, or all if there are fewer."""
        self._searched = 0
        kept = self._bytes
        if count >= len(kept):
            self._bytes = b""
            return bytes(kept)
        if isinstance(kept, bytes):
            self._bytes = kept = bytearray(kept)
        taken = bytes(memoryview(kept)[:count])
        del kept[:count]  # moves no bytes, because a bytearray stores the offset of its start
        return taken

    def clear(self) -> None:
        """Drop all bytes."""
        self._bytes, self._searched = b"", 0

    def skip_blank_lines(self) -> None:
        """Drop empty lines in front of a head (RFC 9112 section 2.2)."""
        if self._bytes[:1] in (b"\r", b"\n"):
            self.replace(bytes(self._bytes).lstrip(_BLANK))

    def replace(self, data: bytes) -> None:
        """Replace the content."""
        self._bytes, self._searched = data, 0

    def head_end(self) -> int:
        """The length in bytes of the first head, including the empty line that ends it. -1 when it is incomplete."""
        at = self._bytes.find(_END, max(0, self._searched - len(_END) + 1))
        if at < 0:
            return -1
        return at + len(_END)

    def may_become_head(self) -> bool:
        """Whether the content may be the start of a head whose end is not received yet. False when the content does not
        start with a capital letter, or has an empty line without carriage returns.
        """
        start, self._searched = max(0, self._searched - 1), len(self._bytes)
        return b"A" <= self._bytes[:1] <= b"Z" and self._bytes.find(b"\n\n", start) < 0

    def peek(self, count: int) -> bytes:
        """The first `count` bytes, and also the bytes after them if that needs no copy."""
        return self._bytes if isinstance(self._bytes, bytes) else bytes(memoryview(self._bytes)[:count])
