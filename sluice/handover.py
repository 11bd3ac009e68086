"""Hands listening sockets from a supervisor to the next supervisor on its port, so that a rolling restart loses no
connection.

When the last owner of a listening socket closes it, the connections in its accept queue are reset, even if other
sockets listen on the same port (SO_REUSEPORT). So the next supervisor gets the sockets themselves, over a Unix socket
in the data directory (`take_over_sockets`), and both supervisors accept connections from them until the previous
supervisor is stopped.

The most recently started supervisor offers the sockets (`offer_sockets`): it binds the path of the Unix socket once all
its workers accept connections. Earlier owners of the path check every CHECK_INTERVAL_S whether its current owner still
runs, and bind the path again if the owner has exited for any reason. So the next supervisor always finds the sockets.
"""

import asyncio
import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from chassis.errors import StartupError
from sluice.data_dir import peer_of, short_path

REPLY_TIMEOUT_S: Final = 2.0
CHECK_INTERVAL_S: Final = 0.5  # between two checks of the path's owner
# How long a start waits for a process that listens but does not offer its sockets: several checks.
TAKEOVER_WAIT_S: Final = 3.0
LOCK: Final = "listeners.lock"  # a file in the data directory
MAX_NAME: Final = 64  # bytes of a command's name
NO_SOCKETS_TAKEN_OVER: Final = "no listening sockets taken over; opened new ones"
MAX_SOCKETS: Final = 253  # sockets per message (SCM_MAX_FD)

log = structlog.get_logger(__name__)


class HandoverReply(NamedTuple):
    """The sockets that were received, or the reason why there are none (empty if no process offers sockets)."""

    sockets: list[socket.socket]
    process: int = 0
    reason: str = ""


def take_over_sockets(directory: Path, bound: socket.socket, command: str) -> list[socket.socket]:
    """The listening sockets of the running supervisor with this data directory, at the address of `bound`; or none.

    If a process listens at this address, it may be about to bind the path again: this retries for TAKEOVER_WAIT_S.
    Raises StartupError if that supervisor runs another command than `command`.
    """
    deadline = time.monotonic() + TAKEOVER_WAIT_S
    while True:
        reply = _request_sockets(directory, bound, command)
        if reply.sockets or not _is_address_in_use(bound) or time.monotonic() > deadline:
            break
        time.sleep(CHECK_INTERVAL_S / 10)
    if reply.sockets:
        port = bound.getsockname()[1]
        message = f"took over {len(reply.sockets)} listening sockets on port {port} from process {reply.process}"
        log.warning(message)
    elif reply.reason:
        log.warning(NO_SOCKETS_TAKEN_OVER, reason=reply.reason)
    else:
        log.info(NO_SOCKETS_TAKEN_OVER)
    return reply.sockets


def _request_sockets(directory: Path, bound: socket.socket, command: str) -> HandoverReply:
    address = bound.getsockname()
    with short_path(directory, _socket_name(address[1])) as path, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(REPLY_TIMEOUT_S)
        try:
            connection.connect(path)
            peer = peer_of(connection)
            process = peer.process
            if not peer.is_same_user:
                return HandoverReply([], process, f"process {process} runs as another user")
            name, descriptors, _, _ = socket.recv_fds(connection, MAX_NAME, MAX_SOCKETS)
            sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        except (FileNotFoundError, ConnectionRefusedError):
            return HandoverReply([])
        except OSError as error:
            return HandoverReply([], 0, str(error))
    others = [each.getsockname() for each in sockets if each.getsockname() != address]
    served_command = name.decode("ascii", "replace")
    if others or not sockets or served_command != command:
        for each in sockets:
            each.close()
    if others or not sockets:
        fault = f"listens on {others[0][0]}" if others else "sent no listening sockets"
        return HandoverReply([], process, f"process {process} {fault}")
    if served_command != command:
        raise StartupError(
            f"`sluice {served_command}` (process {process}) listens on port {address[1]} with this data directory; "
            "choose another port with --port."
        )
    return HandoverReply(sockets, process)


def _is_address_in_use(bound: socket.socket) -> bool:
    """Whether another socket listens at the address of `bound`, which itself does not listen. Without SO_REUSEPORT
    only a listening socket makes bind() fail.
    """
    with socket.socket(bound.family, bound.type) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(bound.getsockname())
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


@contextmanager
def offer_sockets(directory: Path, sockets: Sequence[socket.socket], command: str) -> Iterator[None]:
    """Offer the sockets, which `command` serves, to the next supervisor while the block runs. Needs a running loop."""
    with short_path(directory, _socket_name(sockets[0].getsockname()[1])) as path:
        offer = _SocketOffer(Path(path), sockets, command)
        offer.check()
        try:
            yield
        finally:
            offer.end()


class _SocketOffer:
    """Owns the path: first replaces the previous owner, and binds the path again whenever no running process owns
    it."""

    def __init__(self, path: Path, sockets: Sequence[socket.socket], command: str) -> None:
        self._path = path
        self._sockets = sockets
        self._command = command
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        # Stays open when another process owns the path, so that no other file gets its inode number.
        self._listener: socket.socket | None = None
        self._inode = 0
        self._failed = False

    def check(self) -> None:
        """Check the path now and every CHECK_INTERVAL_S. An error is logged once, and does not affect other
        supervisors."""
        self._timer = self._loop.call_later(CHECK_INTERVAL_S, self.check)
        try:
            if not self._owns_path():
                with _directory_lock(self._path.parent):
                    self._bind_unless_served()
            self._failed = False
        except BlockingIOError:
            pass  # another supervisor holds the lock: the next check decides
        except OSError as error:
            if not self._failed:
                log.warning("offering the listening sockets to the next supervisor failed", detail=str(error))
            self._failed = True

    def _bind_unless_served(self) -> None:
        bound_before = self._listener is not None
        if bound_before and _is_served(self._path):
            return
        self._bind_path()
        if bound_before:
            log.info("offering the listening sockets again: the previous owner has exited")

    def _bind_path(self) -> None:
        new_path = self._path.with_name(f"{self._path.name}.new")
        new_path.unlink(missing_ok=True)  # left by a process that was killed at this point
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.setblocking(False)
            os.fchmod(listener.fileno(), 0o600)  # on Linux also the mode of the file that bind() creates
            listener.bind(str(new_path))
            listener.listen()
            inode = new_path.lstat().st_ino
            new_path.rename(self._path)  # replaces the previous socket atomically
        except OSError:
            listener.close()
            raise
        self._close()
        self._listener, self._inode = listener, inode
        self._loop.add_reader(listener.fileno(), _send_sockets, listener, self._sockets, self._command)

    def end(self) -> None:
        """Remove the path if this process still owns it."""
        if self._timer is not None:
            self._timer.cancel()
        with suppress(OSError), _directory_lock(self._path.parent):  # a stale path is harmless: no process serves it
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


def _send_sockets(listener: socket.socket, sockets: Sequence[socket.socket], command: str) -> None:
    with suppress(OSError):
        connection, name = listener.accept()
        with connection:
            peer = peer_of(connection)
            if peer.is_same_user and not name:
                socket.send_fds(connection, [command.encode()], [each.fileno() for each in sockets[:MAX_SOCKETS]])
                port = sockets[0].getsockname()[1]
                message = f"handed the listening sockets on port {port} to process {peer.process}"
                message += "; send SIGTERM to this process when the other process is ready"
                log.warning(message)


def _is_served(path: Path) -> bool:
    """Whether a process of this user serves the socket. Sends no request."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        connection.bind("")  # any name (unix(7), autobind) marks a check; a peer without a name requests the sockets
        try:
            connection.connect(str(path))
        except BlockingIOError:
            return True  # served, with a full queue
        except OSError:
            return False
        return peer_of(connection).is_same_user


@contextmanager
def _directory_lock(directory: Path) -> Iterator[None]:
    """Prevent other supervisors from changing paths in the directory. Raises BlockingIOError while another supervisor
    has the lock."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _socket_name(port: int) -> str:
    return f"listeners-{port}"
