"""The connection of `sluice backup` to the process that serves a data directory."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from sluice.backup import protocol
from sluice.backup.protocol import Alive, Begin, Done, Failed, Held, Taken
from sluice.backup.record import Record
from sluice.backup.snapshot import BackupFailed, Snapshot
from sluice.unix_socket import short_path

TAKE_TIMEOUT_S: Final = 600.0  # linking very many files takes a while; inserts wait for a fraction of it
REPLY_TIMEOUT_S: Final = 30.0
NOT_SERVED: Final = (
    "The data directory {} is in use by a process that takes no backups: it is starting or stopping, or is not "
    "`sluice up` of this release with the embedded stores; try again later."
)
LOST: Final = "The connection to the process that serves the data directory was lost, so no backup was made: {}."


class SnapshotConnection:
    """A snapshot that the serving process keeps while this connection lives."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._heartbeat = threading.Thread(target=self._keep_alive, daemon=True)
        self._lost: BackupFailed | None = None

    def begin(self, target: Path) -> Snapshot:
        """Have a snapshot taken. Raises BackupFailed."""
        self._connection.settimeout(TAKE_TIMEOUT_S)
        reply = self._ask(Begin(str(target)))
        self._connection.settimeout(REPLY_TIMEOUT_S)
        if isinstance(reply, Failed):
            raise BackupFailed(reply.message)
        if not isinstance(reply, Taken):
            raise BackupFailed(LOST.format("it gave another reply"))
        self._heartbeat.start()
        return reply.snapshot

    def confirm(self) -> None:
        """Returns if the snapshot has been complete until now. Raises BackupFailed, always the first one: the process
        says once why, and ends the connection.
        """
        with self._lock:
            if self._lost is not None:
                raise self._lost
            try:
                self._require_held(self._ask(Alive()))
            except BackupFailed as error:
                self._lost = error
                raise

    def done(self, record: Record) -> None:
        """Report that the backup is complete. Raises BackupFailed."""
        self._stop_heartbeat()
        self._ask(Done(record))

    def close(self) -> None:
        """End the connection; the process removes the snapshot."""
        self._stop_heartbeat()
        self._lines.close()
        self._connection.close()

    def _stop_heartbeat(self) -> None:
        self._stop.set()
        if self._heartbeat.is_alive():
            self._heartbeat.join()

    def _require_held(self, reply: protocol.Reply) -> None:
        if isinstance(reply, Failed):
            raise BackupFailed(reply.message)
        if not isinstance(reply, Held):
            raise BackupFailed(LOST.format("it gave another reply"))

    def _ask(self, request: protocol.Request) -> protocol.Reply:
        try:
            with self._lock:
                self._connection.sendall(protocol.encode(request))
                line = self._lines.readline(protocol.MAX_LINE_BYTES)
            if not line:
                raise BackupFailed(LOST.format("it ended the connection"))
            return protocol.decode_reply(line)
        except (OSError, msgspec.MsgspecError) as error:
            raise BackupFailed(LOST.format(error)) from error

    def _keep_alive(self) -> None:
        while not self._stop.wait(protocol.ALIVE_S):
            try:
                self.confirm()
            except BackupFailed:  # a copy goes on: it fails if a file is missing, and is complete otherwise
                return


@contextmanager
def connected(data: Path) -> Iterator[SnapshotConnection]:
    """A connection to the process that serves `data`. Raises BackupFailed if none accepts it."""
    with short_path(data, protocol.SOCKET) as path, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(REPLY_TIMEOUT_S)
        try:
            connection.connect(path)
        except OSError as error:
            raise BackupFailed(NOT_SERVED.format(data)) from error
        snapshot = SnapshotConnection(connection)
        try:
            yield snapshot
        finally:
            snapshot.close()
