"""Occurrences of a page by issue (number, first, last, and latest of each release), and their texts from ClickHouse.
From the texts come the details that a new issue shows, and the fingerprints by other fingerprint versions.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.storage_order import Position, StoredRow
from chassis.issues import MAX_CULPRIT_LENGTH, MAX_SEARCH_LENGTH, MAX_TITLE_LENGTH, MAX_TYPE_LENGTH, MAX_VERSION_LENGTH
from chassis.source_maps.resolver import ProjectResolver, SourceMaps
from control.issues.releases.store import is_version
from control.issues.store import in_chunks
from proto.grouping.fingerprint import FINGERPRINT_VERSION, fingerprint
from proto.grouping.version_1 import fingerprint_version_1
from proto.identity import UNPRINTABLE
from proto.stack_traces import in_app_frames

COLUMNS: Final = ("project_id", "fingerprint", "toUnixTimestamp64Nano(time)", "release", "fingerprint_version")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS_PER_MS: Final = 1_000_000

IssueKey = tuple[int, bytes]  # project and fingerprint


class Moment(NamedTuple):
    """When an error occurred, in milliseconds, and in which release. The release is None if it is unknown or its name
    is too long.
    """

    at: datetime
    release: str | None


@dataclass(slots=True)
class Occurrences:
    """The occurrences of one issue on a page. `latest`: by release. `fingerprint_version`: the highest of the
    occurrences.
    """

    count: int
    first: Moment
    last: Moment
    latest: dict[str | None, datetime] = field(default_factory=dict)
    fingerprint_version: int = FINGERPRINT_VERSION

    def copy(self) -> "Occurrences":
        """A copy, into which more occurrences can be merged."""
        return Occurrences(self.count, self.first, self.last, dict(self.latest), self.fingerprint_version)

    def add(self, moment: Moment, fingerprint_version: int) -> None:
        """Count one more occurrence. Of two occurrences at the same time, the one whose release is greater as text
        counts as later. The result does therefore not depend on the order in which they were stored.
        """
        self.count += 1
        self.first = min(self.first, moment, key=in_order)
        self.last = max(self.last, moment, key=in_order)
        self.fingerprint_version = max(self.fingerprint_version, fingerprint_version)
        latest = self.latest.get(moment.release)
        self.latest[moment.release] = moment.at if latest is None else max(latest, moment.at)

    def merge(self, other: "Occurrences") -> None:
        """Count the occurrences of an issue that was merged into this one."""
        self.count += other.count
        self.first = min(self.first, other.first, key=in_order)
        self.last = max(self.last, other.last, key=in_order)
        for release, at in other.latest.items():
            known = self.latest.get(release)
            self.latest[release] = at if known is None else max(known, at)


def by_issue(rows: Iterable[StoredRow]) -> dict[IssueKey, Occurrences]:
    """Group the rows of a page, with COLUMNS, by project and fingerprint."""
    found: dict[IssueKey, Occurrences] = {}
    for row in rows:
        project_id, fingerprint, time_ns, release, version = row.values
        moment = Moment(_EPOCH + timedelta(milliseconds=time_ns // _NS_PER_MS), _version(release))
        occurred = found.get((project_id, fingerprint))
        if occurred is None:
            found[project_id, fingerprint] = Occurrences(1, moment, moment, {moment.release: moment.at}, version)
        else:
            occurred.add(moment, version)
    return found


def in_order(moment: Moment) -> tuple[datetime, str]:
    """The two moments, the earlier one first. At the same time, the release that is greater as text counts as later."""
    return moment.at, moment.release or ""


def _version(release: str) -> str | None:
    """The release as it can be reported: without surrounding white space. None for a text with control characters."""
    text = release.strip()
    return text if text and len(text) <= MAX_VERSION_LENGTH and is_version(text) else None


MAX_FINGERPRINTS: Final = 1_000  # per statement

_LIMITS: Final = QueryLimits(max_seconds=30, max_memory_bytes=512 * 2**20, max_result_rows=0, priority=3)
_MESSAGE_CHARS: Final = 1_000
_UNPRINTABLE: Final = re.compile(f"[{UNPRINTABLE}]+")
_ERASED_TITLE: Final = "(erased)"
# The first remaining occurrence of each fingerprint of a project.
_CURRENT_SQL: Final = f"""
SELECT fingerprint, argMin(type, (time, batch_id, row)),
       argMin(substringUTF8(message, 1, {_MESSAGE_CHARS}), (time, batch_id, row))
FROM error_occurrences
WHERE project_id = {{project:UInt64}} AND hex(fingerprint) IN {{fingerprints:Array(String)}}
GROUP BY fingerprint
"""


class Details(NamedTuple):
    """The details of an error that its issue shows."""

    type: str | None
    title: str
    culprit: str | None


UNKNOWN: Final = Details(None, "(unknown error)", None)


async def read_current(
    clickhouse: ClickHouse, project_id: int, fingerprints: Collection[bytes]
) -> dict[bytes, Details]:
    """Read the details of errors that still have stored occurrences, without culprits. Raises StoreError."""
    found: dict[bytes, Details] = {}
    for some in in_chunks(sorted(fingerprints), MAX_FINGERPRINTS):
        parameters = {"project": project_id, "fingerprints": [one.hex().upper() for one in some]}
        rows: Sequence[Any] = await clickhouse.query(_CURRENT_SQL, parameters, limits=_LIMITS)
        found |= {bytes(fingerprint): details(type_, message, "") for fingerprint, type_, message in rows}
    return found


def details(type_: str, message: str, stacktrace: str) -> Details:
    """Details such as `ValueError: no such sku`, with the innermost frame of the application's own code."""
    type_, line = _clean(type_), _clean(message.strip().split("\n", 1)[0])
    title = f"{type_}: {line}" if type_ and line else type_ or line or UNKNOWN.title
    frames = in_app_frames(stacktrace)
    culprit = _clean(frames[0])[:MAX_CULPRIT_LENGTH] if frames else None
    return Details(type_[:MAX_TYPE_LENGTH] or None, title[:MAX_TITLE_LENGTH], culprit or None)


def erased(type_: str | None) -> str:
    """The details of an issue whose occurrences were erased: nothing of their messages is left."""
    return type_ or _ERASED_TITLE


def search_text(title: str, culprit: str | None) -> str:
    """The text that a search looks in. It is case-folded here, because each database folds letters beyond ASCII in its
    own way.
    """
    return f"{title}\n{culprit or ''}".casefold()[:MAX_SEARCH_LENGTH]


def _clean(text: str) -> str:
    """One line without control characters and without characters that change the direction of the following text."""
    return _UNPRINTABLE.sub(" ", text.replace("\x00", "")).strip()


MAX_ROWS: Final = 200  # per statement: each row has a message and a stack trace, of up to 64 KiB each

# By fingerprint version, the current one first.
RULES: Final[Mapping[int, Callable[[str, str, str], bytes]]] = {
    FINGERPRINT_VERSION: fingerprint,
    1: fingerprint_version_1,
}

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

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
    """The texts of an occurrence. `sent`: the stack trace as sent. `resolved`: the stack trace with the frames of the
    source files.
    """

    type: str
    message: str
    sent: str
    resolved: str


class OccurrenceTexts(NamedTuple):
    """The texts by fingerprint. `details`: details of the first occurrence that was read. `others`: the fingerprints by
    other fingerprint versions, the latest version first.
    """

    details: dict[IssueKey, Details]
    others: dict[IssueKey, tuple[IssueKey, ...]]


NO_TEXTS: Final = OccurrenceTexts({}, {})


def choose_rows(rows: Sequence[StoredRow], every: Collection[IssueKey], first: Collection[IssueKey]) -> list[StoredRow]:
    """Choose the rows of a page to read texts of: all rows with a fingerprint in `every`, and the earliest row of each
    fingerprint in `first`.
    """
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
    """Read the texts of these rows, with the frames of the source files where there are source maps. A row that no
    longer exists is left out. Raises StoreError.
    """
    found = OccurrenceTexts({}, {})
    for some in in_chunks(rows, MAX_ROWS):
        stored = await clickhouse.query(_SQL, _parameters(some), limits=_LIMITS)
        await asyncio.to_thread(_read, stored, source_maps, found)
    return found


def other_fingerprints(version: int, texts: Iterable[ErrorTexts]) -> list[bytes]:
    """The fingerprints of the texts by all fingerprint versions except this one, each once, the latest version first.
    Only the current version uses source maps.
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
    """Rows with their texts. All rows of a statement together wait once for source maps."""
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
        except Exception:  # otherwise one stack trace would stop the counting of all projects
            log.exception("bug: the texts of an error cannot be read", project_id=key[0], fingerprint=key[1].hex())
            shown, others = details(first.type, first.message, ""), []
        found.details.setdefault(key, shown)
        added = ((key[0], one) for one in others if one != key[1])
        found.others[key] = tuple(dict.fromkeys((*found.others.get(key, ()), *added)))


def _moment(row: StoredRow) -> tuple[int, Position]:
    return row.values[2], row.position._replace(stored_us=0)
