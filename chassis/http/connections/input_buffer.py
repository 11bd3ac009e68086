"""What has come on a connection and is not parsed yet: a head that is not whole, and what waits behind a request."""

from typing import Final

_END: Final = b"\r\n\r\n"
_BLANK: Final = b"\r\n"


class InputBuffer:
    """Bytes in the order in which they came. What comes in many pieces costs no more than what comes in one."""

    __slots__ = ("_bytes", "_searched")

    def __init__(self) -> None:
        self._bytes: bytes | bytearray = b""
        self._searched = 0  # bytes from the front in which no head ends

    def __len__(self) -> int:
        return len(self._bytes)

    def append(self, data: bytes) -> None:
        """Behind what is there."""
        if not self._bytes:
            self._bytes = data
        else:
            if isinstance(self._bytes, bytes):
                self._bytes = bytearray(self._bytes)
            self._bytes += data

    def take(self, count: int) -> bytes:
        """So many from the front, or all there are."""
        self._searched = 0
        kept = self._bytes
        if count >= len(kept):
            self._bytes = b""
            return bytes(kept)
        if isinstance(kept, bytes):
            self._bytes = kept = bytearray(kept)
        taken = bytes(memoryview(kept)[:count])
        del kept[:count]  # moves nothing: a bytearray knows where it begins
        return taken

    def clear(self) -> None:
        """Forget all of it."""
        self._bytes, self._searched = b"", 0

    def skip_blank_lines(self) -> None:
        """In front of a head; RFC 9112 2.2."""
        if self._bytes[:1] in (b"\r", b"\n"):
            self.replace(bytes(self._bytes).lstrip(_BLANK))

    def replace(self, data: bytes) -> None:
        """Instead of what is there."""
        self._bytes, self._searched = data, 0

    def head_end(self) -> int:
        """Bytes of the head in front, which ends in an empty line; -1 when it is not whole."""
        at = self._bytes.find(_END, max(0, self._searched - len(_END) + 1))
        if at < 0:
            return -1
        return at + len(_END)

    def may_become_head(self) -> bool:
        """Whether what came may yet become a head, of which the end is not there. What begins otherwise, or has lines
        that end otherwise, never does.
        """
        start, self._searched = max(0, self._searched - 1), len(self._bytes)
        return b"A" <= self._bytes[:1] <= b"Z" and self._bytes.find(b"\n\n", start) < 0

    def peek(self, count: int) -> bytes:
        """The first `count` bytes, and what is behind them where that costs nothing."""
        return self._bytes if isinstance(self._bytes, bytes) else bytes(memoryview(self._bytes)[:count])
