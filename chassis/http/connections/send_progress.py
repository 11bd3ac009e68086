"""How much a client has taken of what it is sent."""

import asyncio
import fcntl
import struct
import termios
from typing import Final, NamedTuple

_INT: Final = struct.Struct("i")


class SendProgress(NamedTuple):
    """How far a client is: the answers behind it, and the bytes of the next."""

    responses_sent: int
    sent_bytes: int

    def has_advanced_from(self, earlier: "SendProgress", min_bytes: float) -> bool:
        """Whether it has taken `least` bytes since, one at least, or has come to the end of an answer."""
        return self.responses_sent > earlier.responses_sent or self.sent_bytes - earlier.sent_bytes >= max(min_bytes, 1)


def unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """Bytes given to the transport that the client's machine has not acknowledged: those in this process and, where the
    system tells (Linux), those in the kernel. What it told once is comparable with what it tells later.
    """
    return transport.get_write_buffer_size() + _kernel_unacknowledged_bytes(transport)


def _kernel_unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """It holds megabytes, and takes more only when a third of that has gone: a client that reads slowly and steadily
    would seem to stand still for minutes.
    """
    connection = transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:
        return 0
    try:
        return int(_INT.unpack(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_INT.size)))[0])
    except OSError:
        return 0
