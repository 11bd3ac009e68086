"""Pages of errors and of their occurrences, while others arrive; cursors that fit nothing but their own list."""

import json
import random
from typing import Any

import pytest

from chassis.http.cursor import CursorSigner
from query.settings import QuerySettings
from query.timestamps import HOUR
from tests.query.conftest import FOREIGN_PATH, NOW, OTHER_PATH, OTHER_PROJECT, SECOND, Explore, issues
from tests.query.error_groups.conftest import Occurrences, Raised, fingerprint
from tests.query.error_groups.model import ordered

LIST = f"/errors/{fingerprint(1)}/occurrences"


@pytest.mark.parametrize("sort", ["lastSeen", "count", "firstSeen"])
async def test_each_group_comes_once_whatever_the_ties(sort: str, occurrences: Occurrences, explore: Explore) -> None:
    rng = random.Random(sort)
    agos = (1, SECOND, 300 * SECOND, HOUR, 20 * HOUR)
    raised = [Raised(rng.randint(1, 60), NOW - rng.choice(agos), message=str(n)) for n in range(150)]
    stored = await occurrences.store(*raised)
    for limit in (7, 50):
        pages = await explore.pages("/errors", limit=limit, sort=sort)
        assert [each for page in pages for each in page] == ordered(stored, sort)
        assert {len(page) for page in pages[:-1]} <= {limit}


async def test_a_limit_defaults_to_fifty(occurrences: Occurrences, explore: Explore) -> None:
    await occurrences.store(*(Raised(n) for n in range(1, 62)))
    assert [len(page) for page in await explore.pages("/errors")] == [50, 11]


@pytest.mark.parametrize("sort", ["lastSeen", "count", "firstSeen"])
async def test_groups_that_nothing_arrives_for_come_once_while_others_change(
    sort: str, occurrences: Occurrences, explore: Explore
) -> None:
    """Between pages, occurrences arrive inside the window for the odd ones, and new errors too."""
    rng = random.Random(sort)
    await occurrences.store(*(Raised(n, NOW - rng.randrange(1, HOUR)) for n in range(1, 41) for _ in range(1 + n % 7)))
    found, cursor = list[str](), None
    while True:
        page = (await explore.get("/errors", sort=sort, limit=5, hours=2, cursor=cursor)).json
        found += [each["fingerprint"] for each in page["data"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
        late = [*range(1, 41, 2), 100 + len(found)]
        await occurrences.store(*(Raised(n, NOW - rng.randrange(1, 2 * HOUR)) for n in late))
    quiet = {fingerprint(n) for n in range(2, 41, 2)}
    assert sorted(each for each in found if each in quiet) == sorted(quiet)
    if sort == "firstSeen":
        assert {fingerprint(n) for n in range(1, 41)} <= set(found)
    else:
        assert len(found) == len(set(found))


async def test_a_window_does_not_move_between_pages(
    occurrences: Occurrences, explore: Explore, moving_clock: list[int]
) -> None:
    await occurrences.store(*(Raised(n, NOW - n * 60 * SECOND) for n in range(1, 11)))
    query: dict[str, Any] = {"from_": "now-10m", "filters": "time:>=now-9m", "limit": 4}
    first = (await explore.get("/errors", **query)).json
    moving_clock[0] += 8 * 60 * SECOND
    await occurrences.store(Raised(11, NOW + 1), Raised(8, NOW + 1))
    second = (await explore.get("/errors", **query, cursor=first["nextCursor"])).json
    third = (await explore.get("/errors", **query, cursor=second["nextCursor"])).json
    found = [int(each["fingerprint"], 16) for page in (first, second, third) for each in page["data"]]
    assert found == [*range(1, 10)]
    assert third["nextCursor"] is None


async def test_a_cursor_opens_its_own_list_only(occurrences: Occurrences, explore: Explore) -> None:
    for project in (7, OTHER_PROJECT, 9):
        await occurrences.store(
            *(Raised(n) for n in range(1, 10)), *(Raised(1, NOW - n) for n in range(1, 9)), project=project
        )
    query: dict[str, Any] = {"filters": "type:ValueError", "hours": 3, "limit": 2}
    cursor = (await explore.get("/errors", **query)).json["nextCursor"]
    assert len(cursor) <= 500
    assert len(await explore.data("/errors", **{**query, "limit": 5}, cursor=cursor)) == 5
    inside = (await explore.get(LIST, **query)).json["nextCursor"]
    assert len(await explore.data(LIST, **{**query, "limit": 5}, cursor=inside)) == 5
    refused = [
        await explore.get("/errors", **{**query, "filters": None}, cursor=cursor),
        await explore.get("/errors", **{**query, "hours": 4}, cursor=cursor),
        await explore.get("/errors", **query, sort="count", cursor=cursor),
        await explore.get("/errors", **query, from_="now-3h", cursor=cursor),
        await explore.get("/errors", base=OTHER_PATH, **query, cursor=cursor),
        await explore.get("/errors", base=FOREIGN_PATH, token="foreign", **query, cursor=cursor),
        await explore.get("/errors", **query, cursor=inside),
        await explore.get(LIST, **query, cursor=cursor),
        await explore.get(LIST, base=OTHER_PATH, **query, cursor=inside),
        await explore.get(LIST, **{**query, "filters": None}, cursor=inside),
        await explore.get(f"/errors/{fingerprint(2)}/occurrences", **query, cursor=inside),
        await explore.get("/spans", hours=3, cursor=inside),
    ]
    assert [issues(answer) for answer in refused] == [[("query.cursor", "invalid")]] * len(refused)


async def test_an_altered_cursor_is_refused(occurrences: Occurrences, explore: Explore) -> None:
    await occurrences.store(*(Raised(n) for n in range(1, 4)))
    cursor = str((await explore.get("/errors", limit=2)).json["nextCursor"])
    rng = random.Random(7)
    for _ in range(40):
        at = rng.randrange(len(cursor))
        altered = cursor[:at] + rng.choice("AZaz09-_".replace(cursor[at], "")) + cursor[at + 1 :]
        assert issues(await explore.get("/errors", limit=2, cursor=altered)) == [("query.cursor", "invalid")]
    for foreign in (cursor[:-1], cursor + "A", "!" * 500, CursorSigner(b"x" * 32).sign((1,), b"")):
        assert issues(await explore.get("/errors", limit=2, cursor=foreign)) == [("query.cursor", "invalid")]


class TestPagesOfFewBytes:
    """With pages of 64 KiB."""

    @pytest.fixture
    def query_settings(self) -> QuerySettings:
        return QuerySettings(max_page_bytes=2**16)

    async def test_groups_with_long_messages_come_on_short_pages_and_each_once(
        self, occurrences: Occurrences, explore: Explore
    ) -> None:
        await occurrences.store(
            *(Raised(n, NOW - n * 60 * SECOND, message="x" * (100_000 if n == 7 else 15_000)) for n in range(1, 31)),
            *(Raised(1, NOW - n, release="r" * 1000 + str(n)) for n in range(100, 200)),
        )
        pages = await explore.pages("/errors", limit=200)
        assert [int(each["fingerprint"], 16) for page in pages for each in page] == [*range(1, 31)]
        assert all(len(page) == 1 or len(json.dumps(page)) < 1.3 * 2**16 for page in pages)
        assert max(map(len, pages)) > 1

    async def test_occurrences_likewise(self, occurrences: Occurrences, explore: Explore) -> None:
        await occurrences.store(*(Raised(1, NOW - n * 60 * SECOND, message="x" * 15_000) for n in range(1, 31)))
        pages = await explore.pages(LIST, limit=200)
        assert sum(map(len, pages)) == 30
        assert {len(page) for page in pages} <= {2, 3, 4}
