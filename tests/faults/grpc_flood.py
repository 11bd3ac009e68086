"""A client without a key that sends header blocks that never end, and frames of unknown types.

    python -m tests.faults.grpc_flood PORT CONNECTIONS BYTES_PER_S SECONDS     0 bytes: as fast as it can

A connection that is closed is opened again, at most MOST_CONNECTIONS times in all. At its end it prints what it has
sent, and the CPU that it took. A process of its own: what it takes is nobody else's.
"""

import json
import select
import socket
import sys
import time
from typing import Final

from tests.gateway.grpc.frames import CONTINUATION, HEADERS, PREFACE, SETTINGS, UNKNOWN, frame

MOST_CONNECTIONS: Final = 2_000_000
ADDRESS: Final = "127.0.0.2"
_PIECE: Final = 8
_BLOCK: Final = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 0, 1, b"\x00\x7f\xff\xff\xff\x07")
_KINDS: Final = (
    (_BLOCK, frame(CONTINUATION, 0, 1, bytes(16_384)) * _PIECE),
    (PREFACE + frame(SETTINGS, 0, 0), frame(UNKNOWN, 0, 0, bytes(16_384)) * _PIECE),
)


class Flood:
    """So many connections at once."""

    def __init__(self, port: int, connections: int, bytes_per_s: int) -> None:
        self._port = port
        self._bytes_per_s = bytes_per_s
        self._poll = select.epoll()
        self._open: dict[int, tuple[socket.socket, bytes, int]] = {}  # what each repeats, and from where on
        self._wanted = connections
        self.sent = self.made = self.failed = 0

    def run(self, seconds: float) -> None:
        """Send for so long."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            for _ in range(min(50, self._wanted - len(self._open))):
                self._connect()
            for descriptor, _ in self._poll.poll(0.05, 64):
                if self._bytes_per_s and self.sent >= passed * self._bytes_per_s:
                    time.sleep(0.001)
                    break
                self._send(descriptor)
        for connection, _, _ in self._open.values():
            connection.close()

    def _connect(self) -> None:
        if self.made >= MOST_CONNECTIONS:
            return
        self.made += 1
        first, rest = _KINDS[self.made % len(_KINDS)]
        connection = socket.socket()
        connection.setblocking(False)
        connection.bind((ADDRESS, 0))
        connection.connect_ex(("127.0.0.1", self._port))
        self._open[connection.fileno()] = (connection, first + rest, 0)
        self._poll.register(connection, select.EPOLLOUT)

    def _send(self, descriptor: int) -> None:
        connection, data, at = self._open[descriptor]
        try:
            count = connection.send(memoryview(data)[at:])
        except BlockingIOError:
            return
        except OSError:
            self.failed += 1
            self._poll.unregister(connection)
            del self._open[descriptor]
            connection.close()
            return
        self.sent += count
        repeated = _KINDS[0][1] if data.endswith(_KINDS[0][1]) else _KINDS[1][1]
        self._open[descriptor] = (connection, data, at + count) if at + count < len(data) else (connection, repeated, 0)


def main() -> None:
    port, connections, bytes_per_s = map(int, sys.argv[1:4])
    flood = Flood(port, connections, bytes_per_s)
    flood.run(float(sys.argv[4]))
    done = {"sent": flood.sent, "made": flood.made, "failed": flood.failed, "cpu_s": time.process_time()}
    sys.stdout.write(json.dumps(done))


if __name__ == "__main__":
    main()
