"""Accepting connections: many at a time, and none while there is no file descriptor for them.

asyncio's own way logs an error for each connection that it has no descriptor for. uvloop's takes one connection each
time around the loop (since libuv 1.45), so under load, when that is long, new clients wait for many seconds; and it
closes those that it has no descriptor for. Here both loops take what waits, a bounded number at a time, and without a
descriptor leave it to wait in the kernel for a moment.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from chassis.runtime.telemetry import Telemetry

BACKLOG: Final = 1024  # connections the kernel holds while the loop is busy
ACCEPT_BATCH: Final = 64  # of them are accepted before something else has its turn
PAUSE_S: Final = 0.5  # without descriptors or memory for another one

_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Acceptor:
    """Hands what arrives at a bound socket over to new protocols, from `start` until it is closed."""

    def __init__(self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol], telemetry: Telemetry) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._protocol = protocol
        self._telemetry = telemetry
        self._connecting: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to listen. Raises OSError."""
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections have it from here
        self._listener.listen(BACKLOG)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    async def close(self) -> None:
        """Accept what waits and no more; the listener is left open."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        else:
            self._loop.remove_reader(self._listener.fileno())
            with suppress(OSError):
                self._accept_some(BACKLOG)
        await asyncio.gather(*self._connecting)

    def _accept(self) -> None:
        try:
            self._accept_some(ACCEPT_BATCH)
        except OSError as error:
            self._pause_accepting(error)

    def _accept_some(self, most: int) -> None:
        """What waits, so many at most. Raises OSError when there is nothing left to accept with."""
        for _ in range(most):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    raise
                continue  # that connection went away
            accepted.setblocking(False)
            task = self._loop.create_task(self._connect(accepted))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError:  # it went away in the meantime
            accepted.close()

    def _pause_accepting(self, error: OSError) -> None:
        """Nothing can be accepted: to ask at once again would be a busy loop."""
        self._telemetry.accept_pauses.inc()
        self._telemetry.log.warning("no connection can be accepted for now", detail=error.strerror, pause_s=PAUSE_S)
        self._loop.remove_reader(self._listener.fileno())
        self._pause = self._loop.call_later(PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener.fileno(), self._accept)
