"""Received bytes of a connection that are not parsed yet: an incomplete head, and what follows the current request."""

from typing import Final

_END: Final = b"\r\n\r\n"
_BLANK: Final = b"\r\n"


class InputBuffer:
    """Bytes in the order of receipt. Bytes received in many pieces cost no more than in one."""

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
        del kept[:count]  # moves nothing: a bytearray stores the offset of its start
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
        """Length in bytes of the first head, including the empty line that ends it; -1 when it is incomplete."""
        at = self._bytes.find(_END, max(0, self._searched - len(_END) + 1))
        if at < 0:
            return -1
        return at + len(_END)

    def may_become_head(self) -> bool:
        """Whether the content may be the start of a head whose end is not yet received. It never is when it does not
        start with a capital letter, or has an empty line without carriage returns.
        """
        start, self._searched = max(0, self._searched - 1), len(self._bytes)
        return b"A" <= self._bytes[:1] <= b"Z" and self._bytes.find(b"\n\n", start) < 0

    def peek(self, count: int) -> bytes:
        """The first `count` bytes, and also what follows them when that needs no copy."""
        return self._bytes if isinstance(self._bytes, bytes) else bytes(memoryview(self._bytes)[:count])
