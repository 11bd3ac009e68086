"""What is stored, read back through the explore API, and how a test says that it is what was sent."""

import difflib
import json
import re
import time
from typing import Any

from tests.e2e.product import Sluice, call, eventually

SECOND = 10**9
PAGE = 200


def listed(sluice: Sluice, path: str) -> list[Any]:
    """All rows of a list, page by page: stored rows, so that a resent one shows twice."""
    rows: list[Any] = []
    more = ""
    while True:
        page = sluice.explore(f"{path}{'&' if '?' in path else '?'}limit={PAGE}{more}")
        if page is None:
            return rows
        rows += page["data"]
        if page["nextCursor"] is None:
            return rows
        more = f"&cursor={page['nextCursor']}"


def spans_of(sluice: Sluice, trace_id: str, count: int) -> list[Any]:
    """All stored spans of a trace, newest first, once there are as many as `count`; never more."""
    return arrived(sluice, f"/spans?traceId={trace_id}", count)


def logs_of(sluice: Sluice, trace_id: str, count: int) -> list[Any]:
    """All stored log records of a trace, likewise."""
    return arrived(sluice, f"/traces/{trace_id}/logs", count)


def arrived(sluice: Sluice, path: str, count: int) -> list[Any]:
    """The rows of a list once there are as many as `count` and nothing waits any more; never more."""

    def complete() -> list[Any] | None:
        rows = listed(sluice, path)
        assert len(rows) <= count, f"{path}: {len(rows)} rows are stored of {count} that were sent"
        return rows if len(rows) == count else None

    eventually(complete, f"{count} rows of {path}")
    settled(sluice)
    rows = listed(sluice, path)
    assert len(rows) == count, f"{path}: {len(rows)} rows are stored of {count} that were sent"
    return rows


def settled(sluice: Sluice) -> None:
    """Wait until nothing waits in the gateway: whatever it took, or found in its journal, is stored."""
    eventually(lambda: pending(sluice) == 0, "everything stored")


def pending(sluice: Sluice) -> float:
    """Items that the gateway has taken and not stored, as it says."""
    metrics = call("GET", f"{sluice.gateway_url}/metrics").body.decode()
    told = re.findall(r"^sluice_gateway_pending_items(?:{.*})? (\S+)$", metrics, re.MULTILINE)
    assert told, "the gateway does not say"
    return sum(map(float, told))


def rfc3339(nanos: int) -> str:
    """A time as explore writes it."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanos // SECOND))
    return f"{whole}.{nanos % SECOND:09d}Z"


def same(seen: Any, expected: Any) -> None:
    """Equal, and of the same JSON types: 200.0 is not 200, 1 is not true."""
    wanted, found = (json.dumps(value, sort_keys=True, indent=1).splitlines() for value in (expected, seen))
    assert found == wanted, "\n".join(difflib.unified_diff(wanted, found, "expected", "seen", n=1, lineterm=""))
