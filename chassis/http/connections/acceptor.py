"""Accepting connections in batches; without a free file descriptor, pausing.

asyncio itself logs an error for each connection that it has no descriptor for. uvloop accepts one connection per loop
iteration (since libuv 1.45), so under load, when iterations are long, new clients wait for many seconds; and it closes
connections that it has no descriptor for. Here both loops accept what the kernel has queued, a bounded number at a
time, and without a descriptor leave the queue in the kernel for PAUSE_S.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from chassis.runtime.telemetry import Telemetry

BACKLOG: Final = 1024  # connections that the kernel queues while the loop is busy
ACCEPT_BATCH: Final = 64  # connections accepted before the loop runs something else
CLOSE_ROUNDS: Final = 64  # at the end: as long as connections keep coming while others are connected
PAUSE_S: Final = 0.5  # when descriptors or memory for another connection are exhausted

_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Acceptor:
    """Accepts connections of a bound socket and gives each a new protocol, from `start` until `close`."""

    def __init__(self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol], telemetry: Telemetry) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._protocol = protocol
        self._telemetry = telemetry
        self._connecting: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start listening and accepting. Raises OSError when the socket cannot listen."""
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit it
        self._listener.listen(BACKLOG)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    async def close(self) -> None:
        """Accept what the kernel has queued, then stop accepting. The listener stays open; its owner closes it at once:
        the kernel resets what it queues meanwhile.
        """
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        else:
            self._loop.remove_reader(self._listener.fileno())
            with suppress(OSError):
                await self._accept_queued()
        await asyncio.gather(*self._connecting)

    async def _accept_queued(self) -> None:
        """Accept until nothing came while the last ones were connected. Raises OSError like `_accept_some`."""
        for _ in range(CLOSE_ROUNDS):
            await asyncio.gather(*self._connecting)
            if not self._accept_some(BACKLOG):
                return

    def _accept(self) -> None:
        try:
            self._accept_some(ACCEPT_BATCH)
        except OSError as error:
            self._pause_accepting(error)

    def _accept_some(self, max_connections: int) -> int:
        """Accept at most `max_connections` from the queue; returns how many were taken. Raises OSError without
        descriptors or memory for another.
        """
        for taken in range(max_connections):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return taken
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    raise
                continue  # that connection was closed by its client
            accepted.setblocking(False)
            task = self._loop.create_task(self._connect(accepted))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        return max_connections

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError:  # closed by its client in the meantime
            accepted.close()

    def _pause_accepting(self, error: OSError) -> None:
        """Stop accepting for PAUSE_S: an immediate retry would be a busy loop."""
        self._telemetry.accept_pauses.inc()
        self._telemetry.log.warning("accepting connections paused", detail=error.strerror, pause_s=PAUSE_S)
        self._loop.remove_reader(self._listener.fileno())
        self._pause = self._loop.call_later(PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener.fileno(), self._accept)
