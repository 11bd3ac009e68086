"""Listening sockets, from a supervisor to the next one on its port: in a rolling restart no connection is lost.

What waits in the queue of a listening socket is reset when its last owner closes it, whoever else listens on the same
port (SO_REUSEPORT). So the next supervisor gets the sockets themselves, over a Unix socket in the data directory, and
both accept from them until the one before is told to end. The last that began is the one that hands them on: it has
the path once all its workers accept. Whoever had it before looks whether it is still there, and has it again when it is
not, however it ended: the next one that begins finds the sockets in any case.
"""

import asyncio
import errno
import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from chassis.errors import StartupError

REPLY_TIMEOUT_S: Final = 2.0
CHECK_INTERVAL_S: Final = 0.5  # between two looks at who has the path
TAKEOVER_WAIT_S: Final = 3.0  # of one that begins, with those who listen and do not offer: some looks
LOCK: Final = "listeners.lock"  # in the data directory
MAX_NAME: Final = 64  # bytes of a command's
NO_SOCKETS_TAKEN_OVER: Final = "no listening sockets taken over; opened new ones"
MAX_SOCKETS: Final = 253  # sockets in one message (SCM_MAX_FD)
_CREDENTIALS: Final = struct.Struct("3i")  # of a peer: process, user, group

log = structlog.get_logger(__name__)


class HandoverReply(NamedTuple):
    """What came of asking for sockets: those, or why there are none (empty where nobody is there)."""

    sockets: list[socket.socket]
    process: int = 0
    reason: str = ""


def take_over_sockets(directory: Path, bound: socket.socket, command: str) -> list[socket.socket]:
    """What a supervisor with this data directory listens on at the address of `bound`; empty where there is none.

    Where somebody listens it may be about to have the path again: it is asked for a while. Raises StartupError when it
    serves with another command than `command`.
    """
    end = time.monotonic() + TAKEOVER_WAIT_S
    while True:
        reply = _request_sockets(directory, bound, command)
        if reply.sockets or not _is_address_in_use(bound) or time.monotonic() > end:
            break
        time.sleep(CHECK_INTERVAL_S / 10)
    if reply.sockets:
        port = bound.getsockname()[1]
        said = f"took over {len(reply.sockets)} listening sockets on port {port} from process {reply.process}"
        log.warning(said)
    elif reply.reason:
        log.warning(NO_SOCKETS_TAKEN_OVER, reason=reply.reason)
    else:
        log.info(NO_SOCKETS_TAKEN_OVER)
    return reply.sockets


def _request_sockets(directory: Path, bound: socket.socket, command: str) -> HandoverReply:
    address = bound.getsockname()
    with _socket_path(directory, address[1]) as path, socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(REPLY_TIMEOUT_S)
        try:
            asking.connect(path)
            process, ours = _peer_credentials(asking)
            if not ours:
                return HandoverReply([], process, f"process {process} is another user's")
            name, descriptors, _, _ = socket.recv_fds(asking, MAX_NAME, MAX_SOCKETS)
            found = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        except (FileNotFoundError, ConnectionRefusedError):
            return HandoverReply([])
        except OSError as error:
            return HandoverReply([], 0, str(error))
    others = [each.getsockname() for each in found if each.getsockname() != address]
    serves = name.decode("ascii", "replace")
    if others or not found or serves != command:
        for each in found:
            each.close()
    if others or not found:
        what = f"listens on {others[0][0]}" if others else "gave none"
        return HandoverReply([], process, f"process {process} {what}")
    if serves != command:
        raise StartupError(
            f"`sluice {serves}` (process {process}) listens on port {address[1]} with this data directory; choose "
            "another port with --port."
        )
    return HandoverReply(found, process)


def _is_address_in_use(bound: socket.socket) -> bool:
    """At the address of `bound`, which does not: without SO_REUSEPORT only sockets that listen are in the way."""
    with socket.socket(bound.family, bound.type) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(bound.getsockname())
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


@contextmanager
def offer_sockets(directory: Path, sockets: Sequence[socket.socket], command: str) -> Iterator[None]:
    """Hand the sockets, which `command` serves, to whoever asks while the block runs; in a running loop."""
    with _socket_path(directory, sockets[0].getsockname()[1]) as path:
        offer = _SocketOffer(Path(path), sockets, command)
        offer.check()
        try:
            yield
        finally:
            offer.end()


class _SocketOffer:
    """Has the path, at first in the place of whoever did, and again whenever nobody has it who lives."""

    def __init__(self, path: Path, sockets: Sequence[socket.socket], command: str) -> None:
        self._path = path
        self._sockets = sockets
        self._command = command
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        # Held when another has the path, too: as long as it is open nobody's file gets its number.
        self._listener: socket.socket | None = None
        self._inode = 0
        self._failed = False

    def check(self) -> None:
        """See to the path, now and every LOOK_S. What keeps it from being had is said once, and keeps nobody else."""
        self._timer = self._loop.call_later(CHECK_INTERVAL_S, self.check)
        try:
            if not self._owns_path():
                with _directory_lock(self._path.parent):
                    self._bind_unless_served()
            self._failed = False
        except BlockingIOError:
            pass  # another is at it: the next look
        except OSError as error:
            if not self._failed:
                log.warning("the listening sockets cannot be offered to the next supervisor", detail=str(error))
            self._failed = True

    def _bind_unless_served(self) -> None:
        again = self._listener is not None
        if again and _is_served(self._path):
            return
        self._bind_path()
        if again:
            log.info("offering the listening sockets again: who did is gone")

    def _bind_path(self) -> None:
        fresh = self._path.with_name(f"{self._path.name}.new")
        fresh.unlink(missing_ok=True)  # of one that was killed just here
        offering = socket.socket(socket.AF_UNIX)
        try:
            offering.setblocking(False)
            os.fchmod(offering.fileno(), 0o600)  # of the file, too, from when it is there (Linux)
            offering.bind(str(fresh))
            offering.listen()
            number = fresh.lstat().st_ino
            fresh.rename(self._path)  # at once in the place of the one before
        except OSError:
            offering.close()
            raise
        self._close()
        self._listener, self._inode = offering, number
        self._loop.add_reader(offering.fileno(), _send_sockets, offering, self._sockets, self._command)

    def end(self) -> None:
        """Take back what is its own yet, and nobody else's."""
        if self._timer is not None:
            self._timer.cancel()
        with suppress(OSError), _directory_lock(self._path.parent):  # a path that is left does no harm: nobody is there
            if self._owns_path():
                self._path.unlink()
        self._close()

    def _owns_path(self) -> bool:
        try:
            return self._listener is not None and self._path.lstat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _close(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()


def _send_sockets(offering: socket.socket, sockets: Sequence[socket.socket], command: str) -> None:
    with suppress(OSError):
        asking, name = offering.accept()
        with asking:
            process, ours = _peer_credentials(asking)
            if ours and not name:
                socket.send_fds(asking, [command.encode()], [each.fileno() for each in sockets[:MAX_SOCKETS]])
                port = sockets[0].getsockname()[1]
                said = f"handed the listening sockets on port {port} to process {process}"
                said += "; send SIGTERM to this one when that is ready"
                log.warning(said)


def _is_served(path: Path) -> bool:
    """Whether a process of ours has this socket. Nothing is asked of it."""
    with socket.socket(socket.AF_UNIX) as looking:
        looking.setblocking(False)
        looking.bind("")  # any name (unix(7), autobind): by it who only looks is told from who asks
        try:
            looking.connect(str(path))
        except BlockingIOError:
            return True  # and has a full queue
        except OSError:
            return False
        return _peer_credentials(looking)[1]


@contextmanager
def _directory_lock(directory: Path) -> Iterator[None]:
    """No other supervisor changes paths in this directory meanwhile. Raises BlockingIOError while one does."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _socket_path(directory: Path, port: int) -> Iterator[str]:
    """A path of the Unix socket that is short enough for one (unix(7): 107 bytes), whatever the directory's."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/listeners-{port}"
    finally:
        os.close(descriptor)


def _peer_credentials(connection: socket.socket) -> tuple[int, bool]:
    """The process at the other end, and whether it is of the same user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return process, user == os.geteuid()
