"""The socket between our connections and the core: a Unix socket that nothing but this process can reach.

It has a path only while the core binds it. Afterwards its directory is removed, and we connect by a descriptor. So no
other process can go around what is checked here, and a process that is killed leaves nothing behind.

The core calls a peer by the name that its end of the socket is bound to. Ours has the address of the client in it.
"""

import os
import secrets
import socket
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from chassis.errors import StartupError

SEND_BUFFER_BYTES: Final = 64 * 2**10  # in the kernel, for each connection; the core reads at once
_PREFIX: Final = "sluice-grpc/"
_NAME: Final = "core"


class CoreSocket:
    """The listening socket of the core. Linux: names are abstract, and descriptors have paths."""

    def __init__(self) -> None:
        """Raises StartupError where no directory is writable."""
        try:
            self._directory = tempfile.mkdtemp(prefix="sluice-grpc-")  # mode 0700
        except OSError as error:
            raise StartupError(
                f"OTLP/gRPC needs a writable directory for a moment at the start (TMPDIR, or /tmp): {error.strerror}."
            ) from error
        # By way of the descriptor the path is short: that of a socket has 107 bytes at most.
        self._descriptor = os.open(self._directory, os.O_PATH | os.O_DIRECTORY)
        self._path = f"/proc/self/fd/{self._descriptor}/{_NAME}"

    @property
    def address(self) -> str:
        """What the core listens on."""
        return f"unix:{self._path}"

    def remove_path(self) -> None:
        """Call once the core is bound, or could not be."""
        if not self._directory:
            return
        directory, self._directory = self._directory, ""
        descriptor = self._descriptor
        try:
            self._descriptor = os.open(self._path, os.O_PATH)
            Path(self._path).unlink()
        finally:
            os.close(descriptor)
            Path(directory).rmdir()

    def connect(self, client: str) -> socket.socket:
        """A connection to the core for a client of this address. Raises BlockingIOError while the core accepts more
        slowly than clients come, OSError when it has stopped.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            connection.bind(f"\0{_PREFIX}{secrets.token_hex(8)}/{client}")  # which nobody can have taken before
            connection.connect(f"/proc/self/fd/{self._descriptor}")
        except OSError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Nothing can connect any more."""
        self.remove_path()
        os.close(self._descriptor)


@lru_cache(1_024)
def peer_address(peer: str) -> str:
    """The address of the client in what the core calls the peer; empty for what is no connection of ours."""
    kind, _, name = unquote(peer).partition(":")
    return name.removeprefix(_PREFIX).partition("/")[2] if kind == "unix-abstract" and name.startswith(_PREFIX) else ""
