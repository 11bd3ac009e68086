"""The connection of `sluice backup` to the process that serves a data directory.

The messages between `sluice backup` and this process are JSON lines over a Unix socket:

    command                                    process
    Begin                                 ->   takes a snapshot
                                          <-   Taken, or Failed and the end
    Alive, every few seconds              ->   keeps the snapshot
                                          <-   Held
    Done                                  ->   notes the time, removes the snapshot
                                          <-   Held

When the connection ends, or no message arrives for SILENCE_S, the process removes the snapshot.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from sluice.backup.manifest import BackupFailed, Record, Snapshot
from sluice.data_dir import short_path

SOCKET: Final = "backup.sock"
SILENCE_S: Final = 60.0
ALIVE_S: Final = 5.0
MAX_LINE_BYTES: Final = 2**24


class Begin(msgspec.Struct, frozen=True, tag=True):
    """Take a snapshot, for a backup in this directory."""

    target: str


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The command is still copying."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """The backup is complete and on disk."""

    record: Record


class Taken(msgspec.Struct, frozen=True, tag=True):
    """The snapshot."""

    snapshot: Snapshot


class Failed(msgspec.Struct, frozen=True, tag=True):
    """There is no snapshot; the message is one sentence with the reason."""

    message: str


class Held(msgspec.Struct, frozen=True, tag=True):
    """The snapshot has been complete until now."""


Request = Begin | Alive | Done
Reply = Taken | Failed | Held

_REQUESTS: Final = msgspec.json.Decoder(Request)
_REPLIES: Final = msgspec.json.Decoder(Reply)


def decode_request(line: bytes) -> Request:
    """Of a line. Raises msgspec.MsgspecError."""
    request: Request = _REQUESTS.decode(line)
    return request


def decode_reply(line: bytes) -> Reply:
    """Of a line. Raises msgspec.MsgspecError."""
    reply: Reply = _REPLIES.decode(line)
    return reply


def encode(message: Request | Reply) -> bytes:
    """A line."""
    return msgspec.json.encode(message) + b"\n"


TAKE_TIMEOUT_S: Final = 600.0  # linking very many files takes a while; inserts wait for a fraction of it
REPLY_TIMEOUT_S: Final = 30.0
NOT_SERVED: Final = (
    "The process that uses the data directory {} takes no backups: the process is starting or stopping, or it is not "
    "`sluice up` of this release with the embedded stores. Try again later."
)
LOST: Final = "No backup was made, because the connection to the process that uses the data directory was lost: {}."


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
        """Ask the process for a snapshot. Raises BackupFailed."""
        self._connection.settimeout(TAKE_TIMEOUT_S)
        reply = self._ask(Begin(str(target)))
        self._connection.settimeout(REPLY_TIMEOUT_S)
        if isinstance(reply, Failed):
            raise BackupFailed(reply.message)
        if not isinstance(reply, Taken):
            raise BackupFailed(LOST.format("the process sent an unexpected reply"))
        self._heartbeat.start()
        return reply.snapshot

    def confirm(self) -> None:
        """Returns if the snapshot has been complete until now. Otherwise raises BackupFailed, later calls with the same
        error: the process sends the reason once, and ends the connection.
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

    def _require_held(self, reply: Reply) -> None:
        if isinstance(reply, Failed):
            raise BackupFailed(reply.message)
        if not isinstance(reply, Held):
            raise BackupFailed(LOST.format("the process sent an unexpected reply"))

    def _ask(self, request: Request) -> Reply:
        try:
            with self._lock:
                self._connection.sendall(encode(request))
                line = self._lines.readline(MAX_LINE_BYTES)
            if not line:
                raise BackupFailed(LOST.format("the process ended the connection"))
            return decode_reply(line)
        except (OSError, msgspec.MsgspecError) as error:
            raise BackupFailed(LOST.format(error)) from error

    def _keep_alive(self) -> None:
        while not self._stop.wait(ALIVE_S):
            try:
                self.confirm()
            # The copying continues: it fails if a file is missing, otherwise the backup is complete.
            except BackupFailed:
                return


@contextmanager
def connected(data: Path) -> Iterator[SnapshotConnection]:
    """A connection to the process that serves `data`. Raises BackupFailed if none accepts it."""
    with short_path(data, SOCKET) as path, socket.socket(socket.AF_UNIX) as connection:
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
