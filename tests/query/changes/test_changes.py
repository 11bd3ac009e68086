"""Change events on the time line of a project."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chassis.auth.tables import new_id, organizations, projects
from chassis.changes import change_events
from chassis.clickhouse import ClickHouse
from chassis.db.database import Database
from query.settings import QuerySettings
from tests.query.conftest import NOW, OTHER_PROJECT, PROJECT, Explore, issues, served

ORG = "o1"
MOMENT = datetime.fromtimestamp(NOW // 10**9, UTC)


class ChangeStore:
    """Stores change events of acme as control does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, title: str, minutes: float, project: int | None = PROJECT, **more: Any) -> None:
        """A change so many minutes ago."""
        row: dict[str, Any] = {
            "id": new_id("chg"),
            "org_id": ORG,
            "project_id": project,
            "kind": "deployment",
            "title": title,
        }
        row |= {"at": MOMENT - timedelta(minutes=minutes), "source": "api", "created_at": MOMENT}
        async with self._database.write() as connection:
            await connection.execute(change_events.insert().values(row | more))


@pytest.fixture
async def changes(database: Database) -> ChangeStore:
    places = ((ORG, PROJECT, "shop"), (ORG, OTHER_PROJECT, "till"), ("o2", 9, "shop"))
    async with database.write() as connection:
        for org_id in (ORG, "o2"):
            row: dict[str, Any] = {"id": org_id, "slug": org_id, "name": "x", "created_at": MOMENT, "monthly_items": 0}
            await connection.execute(organizations.insert().values(row))
        for org_id, project_id, slug in places:
            row = {"id": project_id, "org_id": org_id, "slug": slug, "name": "x", "sensitive_words": []}
            await connection.execute(projects.insert().values(row | {"created_at": MOMENT}))
    return ChangeStore(database)


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    """The relational one."""
    opened = Database(migrated_url)
    await opened.start()
    yield opened
    await opened.close()


@pytest.fixture
async def explore(database: Database) -> AsyncIterator[Explore]:
    """Without ClickHouse, which change events do not need."""
    async with served(ClickHouse("http://127.0.0.1:1"), QuerySettings(), [NOW], database=database) as client:
        yield client


async def titles(explore: Explore, **query: Any) -> list[str]:
    return [one["title"] for one in await explore.data("/changes", **query)]


@pytest.mark.both_stores
async def test_changes_of_project_and_organization_are_shown(explore: Explore, changes: ChangeStore) -> None:
    more: dict[str, Any] = {"detail": "d", "environment": "production", "release": "1.0", "url": "https://x.example"}
    await changes.add("deployed", 10.0001, **more, service="cart")
    await changes.add("everywhere", 5, None, kind="flag")
    await changes.add("of another project", 3, OTHER_PROJECT)
    await changes.add("of others", 3, 9, org_id="o2")
    await changes.add("long ago", 25 * 60)
    answer = await explore.get("/changes")
    assert [one["title"] for one in answer.json["data"]] == ["everywhere", "deployed"]
    deployed = answer.json["data"][1]
    assert {**deployed, "id": ""} == {
        **more,
        "id": "",
        "kind": "deployment",
        "title": "deployed",
        "serviceName": "cart",
        "ofProject": True,
        "time": (MOMENT - timedelta(minutes=10.0001)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "000000Z",
    }
    assert await titles(explore, hours=30) == ["everywhere", "deployed", "long ago"]


@pytest.mark.both_stores
async def test_filters_keep_what_concerns_everything(explore: Explore, changes: ChangeStore) -> None:
    await changes.add("one", 1, environment="production", service="cart")
    await changes.add("two", 2, environment="staging", service="cart", kind="flag")
    await changes.add("three", 3, service="mail")
    assert await titles(explore, environment="production") == ["one", "three"]
    assert await titles(explore, service="cart") == ["one", "two"]
    assert await titles(explore, kind="flag") == ["two"]
    assert await titles(explore, environment="production", service="mail") == ["three"]


async def test_bounds_are_inclusive_and_exclusive(explore: Explore, changes: ChangeStore) -> None:
    for minutes in (1, 2, 3):
        await changes.add(str(minutes), minutes)
    from_, to = ((MOMENT - timedelta(minutes=minutes)).isoformat() for minutes in (3, 1))
    assert await titles(explore, from_=from_, to=to) == ["2", "3"]


async def test_pages_have_each_change_once(explore: Explore, changes: ChangeStore) -> None:
    """Also those of the same moment; the window stays that of the first page."""
    for number in range(5):
        await changes.add(str(number), 1 if number < 3 else 2)
    pages = await explore.pages("/changes", limit=2)
    assert sorted(one["title"] for page in pages for one in page) == list("01234")
    assert [len(page) for page in pages] == [2, 2, 1]
    first = (await explore.get("/changes", limit=2)).json
    assert issues(await explore.get("/changes", cursor=first["nextCursor"], kind="flag")) == [
        ("query.cursor", "invalid")
    ]


async def test_without_the_database_it_is_503() -> None:
    async with served(ClickHouse("http://127.0.0.1:1"), QuerySettings(), [NOW]) as explore:
        answer = await explore.get("/changes")
    assert (answer.status, answer.json["error"]["code"]) == (503, "service_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1
