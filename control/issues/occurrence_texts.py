"""The texts of occurrences of a page, from ClickHouse: what a new issue shows, and the fingerprints that they have
in other fingerprint versions.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.storage_order import Position, StoredRow
from chassis.source_maps.resolver import ProjectResolver, SourceMaps
from control.issues.details import Details, details
from control.issues.occurrences import IssueKey
from proto.grouping.fingerprint import FINGERPRINT_VERSION, fingerprint
from proto.grouping.version_1 import fingerprint_version_1

MAX_ROWS: Final = 200  # of one statement: each has a message and a stack trace, of up to 64 KiB each

# By fingerprint version, the current one first.
RULES: Final[Mapping[int, Callable[[str, str, str], bytes]]] = {
    FINGERPRINT_VERSION: fingerprint,
    1: fingerprint_version_1,
}

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_LIMITS: Final = QueryLimits(max_seconds=30, max_memory_bytes=512 * 2**20, max_result_rows=0, priority=3)
_SQL: Final = """
SELECT project_id, fingerprint, fingerprint_version, release, type, message, stacktrace
FROM error_occurrences
WHERE project_id IN {projects:Array(UInt64)}
  AND stored_time >= fromUnixTimestamp64Micro({since:Int64}, 'UTC')
  AND stored_time <= fromUnixTimestamp64Micro({until:Int64}, 'UTC')
  AND (batch_id, row) IN (SELECT arrayJoin(arrayZip({batches:Array(UInt64)}, {rows:Array(UInt32)})))
ORDER BY project_id, fingerprint, time, batch_id, row
"""


class ErrorTexts(NamedTuple):
    """The texts of an occurrence: `sent` is its stack trace, and `resolved` the same with the frames of the sources."""

    type: str
    message: str
    sent: str
    resolved: str


class OccurrenceTexts(NamedTuple):
    """By fingerprint: what an issue shows of its first occurrence that was read; the fingerprints that the occurrences
    have in other fingerprint versions, those of later versions first.
    """

    details: dict[IssueKey, Details]
    others: dict[IssueKey, tuple[IssueKey, ...]]


NO_TEXTS: Final = OccurrenceTexts({}, {})


def choose_rows(rows: Sequence[StoredRow], every: Collection[IssueKey], first: Collection[IssueKey]) -> list[StoredRow]:
    """The rows of a page that have fingerprints in `every`, and of those in `first` the row that occurred first."""
    chosen: list[StoredRow] = []
    earliest: dict[IssueKey, StoredRow] = {}
    for row in rows:
        key = row.values[0], row.values[1]
        if key in every:
            chosen.append(row)
        elif key in first and (key not in earliest or _moment(row) < _moment(earliest[key])):
            earliest[key] = row
    return chosen + list(earliest.values())


async def read_occurrence_texts(
    clickhouse: ClickHouse, rows: Sequence[StoredRow], source_maps: SourceMaps | None = None
) -> OccurrenceTexts:
    """What the texts of these rows say, with the frames of the sources as far as there are source maps. A row that is
    not there any more is left out. Raises StoreError.
    """
    found = OccurrenceTexts({}, {})
    for start in range(0, len(rows), MAX_ROWS):
        some = rows[start : start + MAX_ROWS]
        stored = await clickhouse.query(_SQL, _parameters(some), limits=_LIMITS)
        await asyncio.to_thread(_read, stored, source_maps, found)
    return found


def other_fingerprints(version: int, texts: Iterable[ErrorTexts]) -> list[bytes]:
    """The fingerprints of texts in the other fingerprint versions than this one, each once, those of later versions
    first. Only the current version knows source maps.
    """
    known = dict.fromkeys(texts)
    return list(
        {
            rules(one.type, one.message, one.resolved if number == FINGERPRINT_VERSION else one.sent): None
            for number, rules in RULES.items()
            if number != version
            for one in known
        }
    )


def _with_texts(
    rows: Iterable[Sequence[Any]], source_maps: SourceMaps | None
) -> Iterator[tuple[Sequence[Any], ErrorTexts]]:
    """Rows with their texts. The rows of a statement wait for source maps once, however many there are."""
    deadline = 0.0 if source_maps is None else source_maps.deadline()
    of_projects: dict[int, ProjectResolver | None] = {}
    for row in rows:
        project_id, _, _, release, type_, message, sent = row
        if source_maps is not None and project_id not in of_projects:
            of_projects[project_id] = source_maps.of_project(project_id, deadline)
        maps = of_projects.get(project_id)
        yield row, ErrorTexts(type_, message, sent, sent if maps is None else maps.resolve(release, sent))


def _parameters(rows: Sequence[StoredRow]) -> dict[str, object]:
    positions = [row.position for row in rows]
    return {
        "projects": sorted({row.values[0] for row in rows}),
        "since": min(position.stored_us for position in positions),
        "until": max(position.stored_us for position in positions),
        "batches": [position.batch_id for position in positions],
        "rows": [position.row for position in positions],
    }


def _read(rows: Iterable[Sequence[Any]], source_maps: SourceMaps | None, found: OccurrenceTexts) -> None:
    texts: dict[tuple[IssueKey, int], list[ErrorTexts]] = {}
    for (project_id, fingerprint_, version, *_), text in _with_texts(rows, source_maps):
        texts.setdefault(((project_id, bytes(fingerprint_)), version), []).append(text)
    for (key, version), of_key in texts.items():
        first = of_key[0]
        try:
            shown, others = details(first.type, first.message, first.resolved), other_fingerprints(version, of_key)
        except Exception:  # else one stack trace would stop the counting of all projects
            log.exception("bug: the texts of an error cannot be read", project_id=key[0], fingerprint=key[1].hex())
            shown, others = details(first.type, first.message, ""), []
        found.details.setdefault(key, shown)
        known = found.others.get(key, ())
        added = ((key[0], one) for one in others if one != key[1])
        found.others[key] = tuple(dict.fromkeys((*known, *added)))


def _moment(row: StoredRow) -> tuple[int, Position]:
    return row.values[2], row.position._replace(stored_us=0)
