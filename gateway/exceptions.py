"""Error occurrences: what the decoder found as exceptions, each with a fingerprint that survives a release.

The fingerprint is of the exception's type and its top frames in the application's own code, or of its message where
there is no stack trace. Line numbers, addresses, ids, hashes, versions and directories are taken out first: they change
with every build while the error stays the same.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from gateway.stack_traces import in_app_frames, normalize_message
from proto.otlp.native import write_block
from proto.otlp.policy import NANOS_PER_DAY, Block, DecodedPayload, RaisedException
from proto.storage.tables import ERROR_OCCURRENCES

FINGERPRINT_BYTES: Final = 16
FINGERPRINT_FRAMES: Final = 5  # the deeper ones are how it got there, and change with callers
_SOURCES: Final = {"traces": "span", "logs": "log"}


def fingerprint(kind: str, message: str, stacktrace: str) -> bytes:
    """16 bytes that are the same for the same error, whatever the release. Costs at most a few hundred microseconds."""
    frames = in_app_frames(stacktrace)[:FINGERPRINT_FRAMES]
    parts = [kind.strip(), *frames] if frames else [kind.strip(), "", normalize_message(message)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=FINGERPRINT_BYTES).digest()


def occurrence_blocks(decoded: Sequence[DecodedPayload], batch_id: int) -> list[Block]:
    """The exceptions of a batch as blocks of `error_occurrences`, one per day of their own time, rows numbered."""
    days: dict[int, list[tuple[object, ...]]] = {}
    known: dict[tuple[str, str, str], bytes] = {}  # the same error tends to come many times in a batch
    number = 0
    for request in decoded:
        source = _SOURCES[request.signal]
        for raised in request.exceptions:
            key = (raised.type, raised.message, raised.stacktrace)
            print_ = known.get(key)
            if print_ is None:
                print_ = known[key] = fingerprint(*key)
            row = occurrence_row(request.project_id, raised, print_, source, batch_id, number)
            days.setdefault(raised.time_ns // NANOS_PER_DAY, []).append(row)
            number += 1
    return [
        Block(ERROR_OCCURRENCES.name, day, len(rows), write_block(ERROR_OCCURRENCES, rows))
        for day, rows in sorted(days.items())
    ]


def occurrence_row(
    project_id: int, raised: RaisedException, digest: bytes, source: str, batch_id: int, number: int
) -> tuple[object, ...]:
    """The cells of `error_occurrences` for an exception; `number` is its own in the batch."""
    return (
        project_id,
        raised.time_ns,
        digest,
        raised.type,
        raised.message,
        raised.stacktrace,
        source,
        raised.trace_id,
        raised.span_id,
        raised.service_name,
        raised.environment,
        raised.release,
        batch_id,
        number,
    )
