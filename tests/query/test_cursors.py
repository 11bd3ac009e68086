"""What holds for the pages of every list: fifty rows by default, a window that stays, cursors that fit nothing else."""

import random
from typing import Any, Final

import pytest

from chassis.clickhouse import ClickHouse
from chassis.http.cursor import CursorSigner
from tests.query.conftest import (
    FOREIGN_PATH,
    NOW,
    ONE_ENGINE,
    OTHER_PATH,
    OTHER_PROJECT,
    PROJECT,
    SECOND,
    Explore,
    Loader,
    issues,
    record,
    span,
)
from tests.query.error_groups.conftest import Occurrences, Raised, fingerprint

pytestmark = ONE_ENGINE

MINUTE: Final = 60 * SECOND
INVALID: Final = [("query.cursor", "invalid")]
LISTS: Final[list[tuple[str, dict[str, Any]]]] = [
    *((path, {"sort": sort}) for path in ("/spans", "/traces") for sort in ("time", "duration")),
    *(("/errors", {"sort": sort}) for sort in ("lastSeen", "count", "firstSeen")),
    *((path, {}) for path in ("/logs", f"/traces/{1:032x}/logs", f"/errors/{fingerprint(1)}/occurrences")),
]


def named(row: Any) -> str:
    """What tells the rows of a list apart."""
    return str(next(row[name] for name in ("id", "fingerprint", "traceId") if name in row))


async def store(clickhouse: ClickHouse, numbers: range, project: int = PROJECT) -> None:
    """A row of each list for each number, so many minutes ago."""
    loader, occurrences = Loader(clickhouse), Occurrences(clickhouse)
    of_traces = (span(n, trace=n, start=NOW - n * MINUTE, duration=n) for n in numbers)
    await loader.spans(*of_traces, project=project)
    await loader.logs(*(record(trace=1, at=NOW - n * MINUTE) for n in numbers), project=project)
    await occurrences.store(*(Raised(n, NOW - n * MINUTE) for n in numbers), project=project)
    await occurrences.store(*(Raised(1, NOW - n * MINUTE + 1) for n in numbers[1:]), project=project)


async def test_a_limit_defaults_to_fifty(clickhouse: ClickHouse, explore: Explore) -> None:
    await store(clickhouse, range(1, 62))
    for path, query in LISTS:
        assert [len(page) for page in await explore.pages(path, **query)] == [50, 11], (path, query)


async def test_a_relative_window_does_not_move_between_pages(
    clickhouse: ClickHouse, explore: Explore, moving_clock: list[int]
) -> None:
    """Nor do times in its filters."""
    await store(clickhouse, range(1, 11))
    for path, query in LISTS:
        moving_clock[0] = NOW
        time = "startTime" if path in ("/spans", "/traces") else "time"
        given = {"from_": "now-10m", "filters": f"{time}:>=now-9m", "limit": 4, **query}
        found, cursor = list[str](), None
        for ahead in (0, 8 * MINUTE, 8 * MINUTE):
            moving_clock[0] = NOW + ahead
            page = (await explore.get(path, **given, cursor=cursor)).json
            found += map(named, page["data"])
            cursor = page["nextCursor"]
        assert (len(found), len(set(found)), cursor) == (9, 9, None), (path, query)


async def test_a_cursor_opens_its_own_list_only(clickhouse: ClickHouse, explore: Explore) -> None:
    for project in (PROJECT, OTHER_PROJECT, 9):
        await store(clickhouse, range(1, 10), project)
    rng = random.Random(7)
    cursors = [(await explore.get(path, limit=2, hours=3, **query)).json["nextCursor"] for path, query in LISTS]
    for (path, query), cursor in zip(LISTS, cursors, strict=True):
        whole = [named(row) for row in await explore.data(path, hours=3, **query)]
        rest = await explore.data(path, limit=5, hours=3, **query, cursor=cursor)
        assert [named(row) for row in rest] == whole[2:7], (path, query)
        asked = {"limit": 2, "hours": 3, **query}
        assert len(cursor) <= 500
        at = rng.randrange(len(cursor))
        altered = cursor[:at] + rng.choice("AZaz09-_".replace(cursor[at], "")) + cursor[at + 1 :]
        foreign = [cursor[:-1], cursor + "A", "!" * 500, CursorSigner(b"x" * 32).sign((1,), b""), altered]
        refused = [await explore.get(path, **asked, cursor=each) for each in foreign]
        refused += [await explore.get(path, **asked | {"hours": hours}, cursor=cursor) for hours in (4, None)]
        refused += [await explore.get(path, **asked, cursor=other) for other in cursors if other != cursor]
        filters = "type:ValueError" if path.startswith("/errors") else "serviceName:x"
        refused.append(await explore.get(path, **asked, filters=filters, cursor=cursor))
        refused.append(await explore.get(path, **asked, from_="now-3h", cursor=cursor))
        refused.append(await explore.get(path, base=OTHER_PATH, **asked, cursor=cursor))
        refused.append(await explore.get(path, base=FOREIGN_PATH, token="foreign", **asked, cursor=cursor))
        assert [issues(answer) for answer in refused] == [INVALID] * len(refused), (path, query)


@pytest.mark.parametrize("path", ["/spans", "/errors"])
async def test_an_altered_cursor_is_refused(path: str, clickhouse: ClickHouse, explore: Explore) -> None:
    """Wherever it is altered."""
    await store(clickhouse, range(1, 4))
    cursor = str((await explore.get(path, limit=2)).json["nextCursor"])
    rng = random.Random(7)
    for at, was in enumerate(cursor):
        altered = cursor[:at] + rng.choice("AZaz09-_".replace(was, "")) + cursor[at + 1 :]
        assert issues(await explore.get(path, limit=2, cursor=altered)) == INVALID, at
