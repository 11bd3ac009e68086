"""Timeouts for clients: `Timeout` can be restarted, and `SendProgress` measures how many sent bytes a client has
received.
"""

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable
from typing import Final, NamedTuple


class Timeout:
    """A timeout of `seconds` from `start`. It keeps no reference to its owner, to avoid a reference cycle."""

    __slots__ = ("_loop", "_seconds", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the timeout is running."""
        return self._timer is not None

    def start(self, on_timeout: Callable[[], None]) -> None:
        """Call `on_timeout` after `seconds`, unless the timeout is cancelled before. The timeout must not be
        pending.
        """
        self._timer = self._loop.call_later(self._seconds, self._on_timer, on_timeout)

    def cancel(self) -> None:
        """Stop the timeout, if it is running."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self, on_timeout: Callable[[], None]) -> None:
        self._timer = None
        on_timeout()


_INT: Final = struct.Struct("i")


class SendProgress(NamedTuple):
    """The progress of a client: the number of responses sent, and the received bytes of the current response."""

    responses_sent: int
    sent_bytes: int

    def has_advanced_from(self, earlier: "SendProgress", min_bytes: float) -> bool:
        """Whether the client has received at least `min_bytes` (at least one byte) or the rest of a response since
        `earlier`.
        """
        return self.responses_sent > earlier.responses_sent or self.sent_bytes - earlier.sent_bytes >= max(min_bytes, 1)


def unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """The bytes written to the transport that the client's machine has not acknowledged: the bytes in this process and,
    where the system reports them (Linux), the bytes in the kernel. Values of one connection are comparable over time.
    """
    return transport.get_write_buffer_size() + _kernel_unacknowledged_bytes(transport)


def _kernel_unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """The unacknowledged bytes in the kernel. Without them a client that reads slowly and steadily would seem to make
    no progress for minutes, because the kernel buffers megabytes and accepts more bytes only when a third of its buffer
    is free.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return 0
    try:
        return int(_INT.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_INT.size)))[0])
    except OSError:
        return 0
