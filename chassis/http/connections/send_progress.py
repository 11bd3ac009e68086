"""How much of the sent bytes a client has received."""

import asyncio
import fcntl
import struct
import termios
from typing import Final, NamedTuple

_INT: Final = struct.Struct("i")


class SendProgress(NamedTuple):
    """The progress of a client: the number of responses sent, and the received bytes of the current one."""

    responses_sent: int
    sent_bytes: int

    def has_advanced_from(self, earlier: "SendProgress", min_bytes: float) -> bool:
        """Whether the client has received at least `min_bytes` (at least one) since, or the rest of a response."""
        return self.responses_sent > earlier.responses_sent or self.sent_bytes - earlier.sent_bytes >= max(min_bytes, 1)


def unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """Bytes written to the transport that the client's machine has not acknowledged: those in this process and, where
    the system reports them (Linux), those in the kernel. Values of one connection are comparable over time.
    """
    return transport.get_write_buffer_size() + _kernel_unacknowledged_bytes(transport)


def _kernel_unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """Without these bytes a client that reads slowly and steadily would seem to make no progress for minutes: the
    kernel buffers megabytes, and accepts more only when a third of its buffer is free.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return 0
    try:
        return int(_INT.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_INT.size)))[0])
    except OSError:
        return 0
