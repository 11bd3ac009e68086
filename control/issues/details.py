"""What an issue shows of its error, read from its occurrences in ClickHouse: type, title and culprit."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.issues.tables import MAX_CULPRIT_LENGTH, MAX_SEARCH_LENGTH, MAX_TITLE_LENGTH, MAX_TYPE_LENGTH
from chassis.source_maps.resolver import SourceMaps
from control.issues.occurrences import IssueKey
from proto.identity import UNPRINTABLE
from proto.stack_traces import in_app_frames

MAX_FINGERPRINTS: Final = 200  # of one statement: each has a stack trace

_LIMITS: Final = QueryLimits(max_seconds=30, max_memory_bytes=512 * 2**20, max_result_rows=0, priority=3)
_MESSAGE_CHARS: Final = 1_000
_TRACE_CHARS: Final = 4_096  # of either end, as `proto.stack_traces` reads them
_UNPRINTABLE: Final = re.compile(f"[{UNPRINTABLE}]+")
_ERASED_TITLE: Final = "(erased)"
# The first occurrence of each fingerprint, whichever of its copies is stored first.
_SQL: Final = f"""
SELECT project_id, fingerprint, type, substringUTF8(message, 1, {_MESSAGE_CHARS}),
       if(length(stacktrace) <= {4 * _TRACE_CHARS}, stacktrace,
          concat(substringUTF8(stacktrace, 1, {_TRACE_CHARS}), '\\n', substringUTF8(stacktrace, -{_TRACE_CHARS}))),
       release
FROM error_occurrences
WHERE project_id IN {{projects:Array(UInt64)}} AND hex(fingerprint) IN {{fingerprints:Array(String)}}
  AND stored_time >= fromUnixTimestamp64Micro({{since:Int64}}, 'UTC')
  AND stored_time <= fromUnixTimestamp64Micro({{until:Int64}}, 'UTC')
ORDER BY project_id, fingerprint, time, batch_id, row
LIMIT 1 BY project_id, fingerprint
"""


# The first that is left of each fingerprint of a project.
_CURRENT_SQL: Final = f"""
SELECT fingerprint, argMin(type, (time, batch_id, row)),
       argMin(substringUTF8(message, 1, {_MESSAGE_CHARS}), (time, batch_id, row))
FROM error_occurrences
WHERE project_id = {{project:UInt64}} AND hex(fingerprint) IN {{fingerprints:Array(String)}}
GROUP BY fingerprint
"""


class Details(NamedTuple):
    """What an issue shows of its error."""

    type: str | None
    title: str
    culprit: str | None


UNKNOWN: Final = Details(None, "(unknown error)", None)


async def read_details(
    clickhouse: ClickHouse,
    keys: Sequence[IssueKey],
    since_us: int,
    until_us: int,
    source_maps: SourceMaps | None = None,
) -> dict[IssueKey, Details]:
    """The details of errors, from the first of their occurrences that were stored in a time (microseconds since 1970,
    inclusive). What has no occurrence is left out. Culprits are those of the sources as far as there are source maps.
    Raises StoreError.
    """
    found: dict[IssueKey, Details] = {}
    for start in range(0, len(keys), MAX_FINGERPRINTS):
        wanted = keys[start : start + MAX_FINGERPRINTS]
        parameters: Mapping[str, object] = {
            "projects": sorted({project_id for project_id, _ in wanted}),
            "fingerprints": sorted({fingerprint.hex().upper() for _, fingerprint in wanted}),
            "since": since_us,
            "until": until_us,
        }
        rows: Sequence[Any] = await clickhouse.query(_SQL, parameters, limits=_LIMITS)
        for project_id, fingerprint, type_, message, sent, release in rows:
            resolved = None if source_maps is None else await source_maps.resolve(project_id, release, sent)
            found[project_id, bytes(fingerprint)] = details(type_, message, resolved or sent)
    return {key: found[key] for key in keys if key in found}


async def read_current(clickhouse: ClickHouse, project_id: int, fingerprints: Sequence[bytes]) -> dict[bytes, Details]:
    """The details of errors as far as their occurrences are stored, without culprits. Raises StoreError."""
    parameters = {"project": project_id, "fingerprints": [one.hex().upper() for one in fingerprints]}
    rows: Sequence[Any] = await clickhouse.query(_CURRENT_SQL, parameters, limits=_LIMITS)
    return {bytes(fingerprint): details(type_, message, "") for fingerprint, type_, message in rows}


def details(type_: str, message: str, stacktrace: str) -> Details:
    """`ValueError: no such sku` and the innermost frame of the application's own code."""
    type_, line = _clean(type_), _clean(message.strip().split("\n", 1)[0])
    title = f"{type_}: {line}" if type_ and line else type_ or line or UNKNOWN.title
    frames = in_app_frames(stacktrace)
    culprit = _clean(frames[0])[:MAX_CULPRIT_LENGTH] if frames else None
    return Details(type_[:MAX_TYPE_LENGTH] or None, title[:MAX_TITLE_LENGTH], culprit or None)


def erased(type_: str | None) -> str:
    """The title of an issue whose occurrences were erased: nothing of their messages."""
    return type_ or _ERASED_TITLE


def search_text(title: str, culprit: str | None) -> str:
    """What a search looks in: databases fold letters beyond ASCII each in its own way, so they are folded here."""
    return f"{title}\n{culprit or ''}".casefold()[:MAX_SEARCH_LENGTH]


def _clean(text: str) -> str:
    """One line without control characters, and without those that change the direction of what follows."""
    return _UNPRINTABLE.sub(" ", text.replace("\x00", "")).strip()
