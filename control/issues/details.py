"""What an issue shows of its error, from the texts of its first occurrence: type, title and culprit."""

import re
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.issues.tables import MAX_CULPRIT_LENGTH, MAX_SEARCH_LENGTH, MAX_TITLE_LENGTH, MAX_TYPE_LENGTH
from proto.identity import UNPRINTABLE
from proto.stack_traces import in_app_frames

MAX_FINGERPRINTS: Final = 1_000  # of one statement

_LIMITS: Final = QueryLimits(max_seconds=30, max_memory_bytes=512 * 2**20, max_result_rows=0, priority=3)
_MESSAGE_CHARS: Final = 1_000
_UNPRINTABLE: Final = re.compile(f"[{UNPRINTABLE}]+")
_ERASED_TITLE: Final = "(erased)"
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


async def read_current(
    clickhouse: ClickHouse, project_id: int, fingerprints: Collection[bytes]
) -> dict[bytes, Details]:
    """The details of errors as far as their occurrences are stored, without culprits. Raises StoreError."""
    wanted = sorted(fingerprints)
    found: dict[bytes, Details] = {}
    for start in range(0, len(wanted), MAX_FINGERPRINTS):
        some = [one.hex().upper() for one in wanted[start : start + MAX_FINGERPRINTS]]
        parameters = {"project": project_id, "fingerprints": some}
        rows: Sequence[Any] = await clickhouse.query(_CURRENT_SQL, parameters, limits=_LIMITS)
        found |= {bytes(fingerprint): details(type_, message, "") for fingerprint, type_, message in rows}
    return found


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
