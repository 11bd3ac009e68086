"""Listening sockets, from a supervisor to the next one on its port: in a rolling restart no connection is lost.

What waits in the queue of a listening socket is reset when its last owner closes it, whoever else listens on the same
port (SO_REUSEPORT). So the next supervisor gets the sockets themselves, over a Unix socket in the data directory, and
both accept from them until the one before is told to end. The last that began is the one that hands them on.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import structlog

ANSWER_S: Final = 2.0
MOST: Final = 253  # sockets in one message (SCM_MAX_FD)
_CREDENTIALS: Final = struct.Struct("3i")  # of a peer: process, user, group

log = structlog.get_logger(__name__)


def taken(directory: Path, bound: socket.socket) -> list[socket.socket]:
    """What a supervisor with this data directory listens on at the address of `bound`; empty where there is none."""
    address = bound.getsockname()
    found: list[socket.socket] = []
    with _reachable(directory, address[1]) as path, socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(ANSWER_S)
        try:
            asking.connect(path)
            process, ours = _peer(asking)
            if not ours:
                return _none_taken(f"process {process} is another user's")
            _, descriptors, _, _ = socket.recv_fds(asking, 1, MOST)
            found = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        except (FileNotFoundError, ConnectionRefusedError):
            return _none_taken()  # nobody is there
        except OSError as error:
            return _none_taken(str(error))
    others = [each.getsockname() for each in found if each.getsockname() != address]
    if others or not found:
        for each in found:
            each.close()
        return _none_taken(f"process {process} listens on {others[0][0]}" if others else f"process {process} gave none")
    said = f"took over {len(found)} listening sockets on port {address[1]} from process {process}"
    log.warning(said)
    return found


def _none_taken(reason: str = "") -> list[socket.socket]:
    """Say so, with the reason where there is more to it than that nobody was there."""
    said = "no listening sockets taken over; opened new ones"
    if reason:
        log.warning(said, reason=reason)
    else:
        log.info(said)
    return []


@contextmanager
def offered(directory: Path, sockets: Sequence[socket.socket]) -> Iterator[None]:
    """Hand the sockets to whoever asks while the block runs; in a running loop."""
    loop = asyncio.get_running_loop()
    with _reachable(directory, sockets[0].getsockname()[1]) as path, socket.socket(socket.AF_UNIX) as offering:
        offering.setblocking(False)
        own = Path(f"{path}.{os.getpid()}")
        offering.bind(str(own))
        offering.listen()
        number = own.stat().st_ino
        known = own.rename(path)  # at once in the place of the one before
        loop.add_reader(offering.fileno(), _hand_on, offering, sockets)
        try:
            yield
        finally:
            loop.remove_reader(offering.fileno())
            with suppress(FileNotFoundError):
                if known.stat().st_ino == number:  # nobody else's yet
                    known.unlink()


def _hand_on(offering: socket.socket, sockets: Sequence[socket.socket]) -> None:
    with suppress(OSError):
        asking, _ = offering.accept()
        with asking:
            process, ours = _peer(asking)
            if ours:
                socket.send_fds(asking, [b"\n"], [each.fileno() for each in sockets[:MOST]])
                port = sockets[0].getsockname()[1]
                said = f"handed the listening sockets on port {port} to process {process}"
                said += "; send SIGTERM to this one when that is ready"
                log.warning(said)


@contextmanager
def _reachable(directory: Path, port: int) -> Iterator[str]:
    """A path of the Unix socket that is short enough for one (unix(7): 107 bytes), whatever the directory's."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/listeners-{port}"
    finally:
        os.close(descriptor)


def _peer(connection: socket.socket) -> tuple[int, bool]:
    """The process at the other end, and whether it is of the same user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return process, user == os.geteuid()
