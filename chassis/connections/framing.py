"""Where a request body ends among the bytes that come, as its head says. The parser decides; this is asked so that it
gets each request apart, and for what it has no limit: lines of chunks, and the fields behind them.
"""

import re
from typing import Final, Protocol

from aiohttp.http import RawRequestMessage

MAX_CHUNK_LINE: Final = 4_096  # bytes of a chunk's size and its extensions, which nobody reads

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[;\r]")
_SIZE_BYTES: Final = 17  # of a chunk's line that are looked at


class Unbounded(Exception):
    """A part of the framing is longer than what is permitted."""


class Frame(Protocol):
    """The rest of a body."""

    @property
    def held(self) -> int:
        """Bytes of fields behind the body, which the parser keeps."""

    def extent(self, data: bytes) -> int:
        """How many of the next bytes belong to the body. Raises Unbounded."""


class Known:
    """A body of so many bytes."""

    __slots__ = ("_rest",)

    held = 0

    def __init__(self, rest: int) -> None:
        self._rest = rest

    def extent(self, data: bytes) -> int:
        """As of the protocol."""
        count = min(self._rest, len(data))
        self._rest -= count
        return count


class Chunked:
    """A body in chunks, with at most `most` bytes of fields behind it. One that is not well formed has no end here."""

    __slots__ = ("_data", "_line", "_line_bytes", "_most", "_over", "_trailer", "held")

    def __init__(self, most: int) -> None:
        self._most = most
        self._line = b""  # how the one under way begins
        self._line_bytes = 0
        self._data = 0  # bytes of the chunk under way that are to come, with its line end
        self._trailer = False
        self._over = False
        self.held = 0

    def extent(self, data: bytes) -> int:
        """As of the protocol."""
        at = 0
        while at < len(data) and not self._over:
            if self._data:
                step = min(self._data, len(data) - at)
                self._data -= step
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
        self.held += end - at if self._trailer else 0
        if self.held > self._most or (self._line_bytes > MAX_CHUNK_LINE and not self._trailer):
            raise Unbounded
        if found >= 0:
            self._end_line()
        return end

    def _end_line(self) -> None:
        line, self._line, self._line_bytes = self._line, b"", 0
        if self._trailer:
            self._over = line == b"\r\n"
            return
        size = _SIZE.match(line)
        if size is None:
            self._data = 2**63  # the parser will say what is wrong with it
        elif int(size[1], 16):
            self._data = int(size[1], 16) + 2
        else:
            self._trailer = True


def frame_of(head: RawRequestMessage, most: int) -> Frame:
    """That of the body behind a head; `most`: bytes of fields behind the body."""
    return Chunked(most) if head.chunked else Known(int(head.headers.get("Content-Length", "0")))
