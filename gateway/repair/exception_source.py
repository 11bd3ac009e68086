"""Extracts error occurrences from stored spans and logs: the same that the decoder found in the request.

The exceptions of a span are its events of that name, whose attributes are JSON values; those of a log record are
attributes, whose texts are stored unchanged. All values are distinguishable except a map with the single key
`bytesValue`, which is read as bytes because the codec writes those in the same way.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from chassis.source_maps.resolver import ProjectResolver, SourceMaps
from gateway.error_occurrences import SafeFingerprints, occurrence_row
from proto.otlp.policy import RaisedException
from proto.otlp.reference.text import compact_json
from proto.storage.tables import FIRST_REBUILT_ROW, LOGS, SPANS

EXCEPTION_EVENT: Final = "exception"
_EXCEPTION_KEYS: Final = ("exception.type", "exception.message", "exception.stacktrace")
_SOURCES: Final = {SPANS.name: "span", LOGS.name: "log"}
# A rebuilt occurrence's number within its batch is made of its row, event and table: distinct for up to 256 events of a
# span, and beyond those that the gateway numbers.
_EVENTS_PER_ROW: Final = 256


class StoredEvent(msgspec.Struct, frozen=True):
    """The fields of an event in the column `events` that an exception is read from."""

    name: str
    attributes: dict[str, Any] = {}


class ExceptionSource(NamedTuple):
    """A row that may have exceptions, as `spans_with_exceptions` and `logs_with_exceptions` select it."""

    project_id: int
    time_ns: int
    trace_id: bytes
    span_id: bytes
    service_name: str
    environment: str
    release: str
    batch_id: int
    row: int
    events_or_type: str
    message: str
    stacktrace: str


_events_decoder = msgspec.json.Decoder(list[StoredEvent])


def occurrence_rows(
    table: str, rows: Iterable[ExceptionSource], source_maps: SourceMaps | None = None
) -> Iterator[tuple[object, ...]]:
    """Rows of `error_occurrences`. Each has the batch id of its item, and a number that is unique in the batch.
    Fingerprints are those of the stack traces as `source_maps` resolve them, so with them call it in a thread.
    """
    deadline = 0.0 if source_maps is None else source_maps.deadline()
    maps: dict[int, ProjectResolver | None] = {}
    fingerprints = SafeFingerprints()
    for row in rows:
        if source_maps is not None and row.project_id not in maps:
            maps[row.project_id] = source_maps.of_project(row.project_id, deadline)
        resolver = maps.get(row.project_id)
        for number, texts in enumerate(_exceptions_of(table, row)):
            raised = RaisedException(
                row.time_ns, row.trace_id, row.span_id, *texts, row.service_name, row.environment, row.release
            )
            occurrence = ((row.row * _EVENTS_PER_ROW + number) * 2 + (table == LOGS.name)) % FIRST_REBUILT_ROW
            occurrence += FIRST_REBUILT_ROW
            yield occurrence_row(
                row.project_id,
                raised,
                fingerprints.compute(raised, resolver),
                _SOURCES[table],
                row.batch_id,
                occurrence,
            )


def _exceptions_of(table: str, row: ExceptionSource) -> Iterator[tuple[str, str, str]]:
    if table == LOGS.name:
        yield row.events_or_type, row.message, row.stacktrace
        return
    for event in _events_decoder.decode(row.events_or_type):
        if event.name == EXCEPTION_EVENT:
            kind, message, stacktrace = (canonical_text(event.attributes.get(key)) for key in _EXCEPTION_KEYS)
            yield kind, message, stacktrace


def canonical_text(value: object) -> str:
    """The text form of an attribute value (docs/codec.md 2), from its JSON form."""
    match value:
        case str():
            text = value
        case None:
            text = ""
        case float():
            text = repr(value).removesuffix(".0")
        case {"bytesValue": str(base64), **others} if not others:
            text = base64
        case _:  # true and false, integers, lists, maps
            text = compact_json(value).decode()
    return text
