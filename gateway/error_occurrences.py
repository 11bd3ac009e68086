"""Error occurrences: the exceptions that the decoder found, each with its fingerprint."""

from collections.abc import Sequence
from typing import Final

import structlog

from chassis.source_maps.resolver import ProjectResolver, SourceMaps
from proto.grouping.fingerprint import RULES_VERSION, fingerprint
from proto.otlp.native import write_block
from proto.otlp.policy import NANOS_PER_DAY, Block, DecodedPayload, RaisedException
from proto.storage.tables import ERROR_OCCURRENCES

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_SOURCES: Final = {"traces": "span", "logs": "log"}


def occurrence_blocks(
    decoded: Sequence[DecodedPayload], batch_id: int, source_maps: SourceMaps | None = None
) -> list[Block]:
    """The exceptions of a batch as blocks of `error_occurrences`, one per day of the exceptions' time, rows numbered
    within the batch. Fingerprints are computed from the stack traces as `source_maps` resolve them.
    """
    deadline = 0.0 if source_maps is None else source_maps.deadline()
    days: dict[int, list[tuple[object, ...]]] = {}
    number = 0
    for request in decoded:
        source = _SOURCES[request.signal]
        maps = None
        if source_maps is not None and request.exceptions:
            maps = source_maps.of_project(request.project_id, deadline)
        for raised in request.exceptions:
            digest = safe_fingerprint(raised, maps)
            row = occurrence_row(request.project_id, raised, digest, source, batch_id, number)
            days.setdefault(raised.time_ns // NANOS_PER_DAY, []).append(row)
            number += 1
    return [
        Block(ERROR_OCCURRENCES.name, day, len(rows), write_block(ERROR_OCCURRENCES, rows))
        for day, rows in sorted(days.items())
    ]


def safe_fingerprint(raised: RaisedException, maps: ProjectResolver | None) -> bytes:
    """The fingerprint of the stack trace with the frames of the sources. Where it cannot be computed, the fingerprint
    of type and message, or of the type: an acknowledged batch would otherwise be built again for ever because of one
    stack trace.
    """
    try:
        trace = raised.stacktrace if maps is None else maps.resolve(raised.release, raised.stacktrace)
        return fingerprint(raised.type, raised.message, trace)
    except Exception:
        log.exception("bug: a fingerprint cannot be computed", trace_chars=len(raised.stacktrace))
    try:
        return fingerprint(raised.type, raised.message, "")
    except Exception:
        log.exception("bug: the fingerprint of a message cannot be computed", chars=len(raised.message))
    return fingerprint(raised.type, "", "")


def occurrence_row(
    project_id: int, raised: RaisedException, digest: bytes, source: str, batch_id: int, number: int
) -> tuple[object, ...]:
    """The row of `error_occurrences` for an exception; `digest` is its fingerprint by the current rules, and `number`
    identifies it within the batch.
    """
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
        RULES_VERSION,
    )
