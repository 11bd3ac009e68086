"""What `sluice backup` and the process that serves say to each other: JSON lines over a Unix socket.

    command                                    process
    Begin                                 ->   takes a snapshot
                                          <-   Taken, or Failed and the end
    Alive, every few seconds              ->   keeps the snapshot
                                          <-   Held
    Done                                  ->   notes the time, removes the snapshot
                                          <-   Held

When the connection ends, or nothing was said for SILENCE_S, the process removes the snapshot.
"""

from typing import Final

import msgspec

from sluice.backup.record import Record
from sluice.backup.snapshot import Snapshot

SOCKET: Final = "backup.sock"
SILENCE_S: Final = 60.0
ALIVE_S: Final = 5.0
MAX_LINE_BYTES: Final = 2**24


class Begin(msgspec.Struct, frozen=True, tag=True):
    """Take a snapshot, for a backup in this directory."""

    target: str


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The command goes on copying."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """The backup is complete and on disk."""

    record: Record


class Taken(msgspec.Struct, frozen=True, tag=True):
    """The snapshot."""

    snapshot: Snapshot


class Failed(msgspec.Struct, frozen=True, tag=True):
    """There is no snapshot; why, in one sentence."""

    message: str


class Held(msgspec.Struct, frozen=True, tag=True):
    """The snapshot has been there until now."""


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
