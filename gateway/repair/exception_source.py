"""Error occurrences out of stored spans and logs: what the decoder found in the request, found again in the rows.

A span's exceptions are its events of that name, whose attributes are JSON values; of a log record they are attributes,
whose texts are stored as they are. Told apart is everything but a map of the one key `bytesValue`, which is read as the
bytes that the codec writes in the same way.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from gateway.exceptions import fingerprint, occurrence_row
from proto.otlp.policy import RaisedException
from proto.otlp.reference.text import compact_json
from proto.storage.tables import LOGS, SPANS

EXCEPTION_EVENT: Final = "exception"
_EXCEPTION_KEYS: Final = ("exception.type", "exception.message", "exception.stacktrace")
_SOURCES: Final = {SPANS.name: "span", LOGS.name: "log"}
# Number of an occurrence within its batch: of its row, the event, the table. Distinct for as many events of a span.
_EVENTS_PER_ROW: Final = 256
_MAX_UINT32: Final = 2**32


class StoredEvent(msgspec.Struct, frozen=True):
    """What of an event in the column `events` makes it an exception."""

    name: str
    attributes: dict[str, Any] = {}


class ExceptionSource(NamedTuple):
    """A row that may hold exceptions, as the statements `raising_spans` and `raising_logs` give it."""

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


def occurrence_rows(table: str, rows: Iterable[ExceptionSource]) -> Iterator[tuple[object, ...]]:
    """Rows of `error_occurrences`. Each bears the batch of its item, and a number of its own in that."""
    known: dict[tuple[str, str, str], bytes] = {}
    for row in rows:
        for number, texts in enumerate(_exceptions_of(table, row)):
            print_ = known.get(texts)
            if print_ is None:
                print_ = known[texts] = fingerprint(*texts)
            raised = RaisedException(
                row.time_ns, row.trace_id, row.span_id, *texts, row.service_name, row.environment, row.release
            )
            place = ((row.row * _EVENTS_PER_ROW + number) * 2 + (table == LOGS.name)) % _MAX_UINT32
            yield occurrence_row(row.project_id, raised, print_, _SOURCES[table], row.batch_id, place)


def _exceptions_of(table: str, row: ExceptionSource) -> Iterator[tuple[str, str, str]]:
    if table == LOGS.name:
        yield row.events_or_type, row.message, row.stacktrace
        return
    for event in _events_decoder.decode(row.events_or_type):
        if event.name == EXCEPTION_EVENT:
            kind, message, stacktrace = (canonical_text(event.attributes.get(key)) for key in _EXCEPTION_KEYS)
            yield kind, message, stacktrace


def canonical_text(value: object) -> str:
    """The text of an attribute value (docs/codec.md 2) from its JSON form."""
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
