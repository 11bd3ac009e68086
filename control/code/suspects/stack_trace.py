"""Reads the stack trace of an issue from ClickHouse."""

from datetime import timedelta
from typing import Final, NamedTuple

from chassis.clickhouse import ClickHouse, QueryLimits
from control.code.suspects.candidates import SuspectedIssue

LIMITS: Final = QueryLimits(max_seconds=10.0, max_memory_bytes=512 * 2**20, max_result_rows=1, max_threads=1)
NEAR: Final = timedelta(hours=1)  # around the times of the issue, which are exact in milliseconds

_SELECT: Final = (
    "SELECT stacktrace, release FROM error_occurrences WHERE project_id = {project:UInt64}"
    " AND hex(fingerprint) IN {fingerprints:Array(String)} AND stacktrace != ''"
    " AND time >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND time < fromUnixTimestamp64Milli({to:Int64}, 'UTC')"
)
_FIRST: Final = f"{_SELECT} ORDER BY time, batch_id, row LIMIT 1"
_LAST: Final = f"{_SELECT} ORDER BY time DESC, batch_id DESC, row DESC LIMIT 1"


class StackTrace(NamedTuple):
    """A stack trace as it was sent, and the release that it is of; empty if it was not sent."""

    text: str
    release: str


async def read_stack_trace(clickhouse: ClickHouse, issue: SuspectedIssue) -> StackTrace | None:
    """That of the first occurrence with any of the issue's fingerprints, else of the latest; None if neither is stored
    with one. Raises StoreError.
    """
    begin, end = issue.first_seen, issue.last_seen + timedelta(milliseconds=1)
    for statement, since, until in ((_FIRST, begin, begin + NEAR), (_LAST, end - NEAR, end)):
        parameters = {
            "project": issue.project_id,
            "fingerprints": [one.hex().upper() for one in issue.fingerprints],
            "from": round(since.timestamp() * 1_000),
            "to": round(until.timestamp() * 1_000),
        }
        rows = await clickhouse.query(statement, parameters, limits=LIMITS)
        if rows:
            text, release = rows[0]
            return StackTrace(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text), str(release))
    return None
