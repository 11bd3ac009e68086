"""Unix sockets in the data directory, between commands of the same user."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

_CREDENTIALS: Final = struct.Struct("3i")


class Peer(NamedTuple):
    """The process at the other end of a connection, and its user."""

    process: int
    user: int

    @property
    def is_same_user(self) -> bool:
        """Whether it runs as the user of this process."""
        return self.user == os.geteuid()


def peer_of(connection: socket.socket) -> Peer:
    """The peer of a connected socket. Raises OSError."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return Peer(process, user)


@contextmanager
def short_path(directory: Path, name: str) -> Iterator[str]:
    """A path of the socket that is short enough (unix(7): 107 bytes), however long the path of the directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
