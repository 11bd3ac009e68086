"""Pages of errors and of their occurrences, while others arrive; cursors that fit nothing but their own list."""

import json
import random

import pytest

from query.settings import QuerySettings
from query.values import HOUR
from tests.query.conftest import NOW, SECOND, Explore
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
