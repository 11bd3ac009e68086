"""Each occurrence counts once in its issue: with late data, lost and repeated blocks, a clock that is set, processes
that are killed between any two statements, and two of them at once. What is counted is compared with a plain count.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.storage_order import START, Position, StoredRowList
from chassis.db.database import Database
from chassis.issues import issues
from control.issues.counting import follower as follower_module
from control.issues.counting import occurrences, progress
from control.issues.counting.follower import NAME, IssueFollower, IssueMetrics
from control.issues.counting.progress import LEASE, follower_blocks, follower_progress
from control.issues.counting.project_state import IssueUrls
from control.issues.releases.tables import release_projects, releases
from control.issues.tables import issue_activity, issue_projects
from proto.grouping.fingerprint import FINGERPRINT_VERSION
from tests.chassis.auth.tenants import Tenant, new_tenant
from tests.chassis.clickhouse.storage_world import US, Item, Server, World
from tests.control.issues.conftest import NoClickHouse, fingerprint, occurrence
from tests.selection import scaled

ERRORS = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.both_stores


class Killed(Exception):
    """The process ends here."""


class KilledNowAndThen:
    """The database of a process that may be killed before or after any of its commits."""

    def __init__(self, database: Database, chance: random.Random) -> None:
        self._database = database
        self._chance = chance
        self.careful = False
        self.kills = 0

    def read(self) -> Any:
        return self._database.read()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        fate = 1.0 if self.careful else self._chance.random()
        async with self._database.write() as connection:
            yield connection
            if fate < 0.25:
                self.kills += 1
                raise Killed
        if fate < 0.5:
            self.kills += 1
            raise Killed


def values_of(project_id: int, item: Item) -> tuple[Any, ...]:
    """What error an item is: the same wherever it is read again."""
    chance = random.Random(repr(item))
    at = EPOCH + timedelta(days=item[1], milliseconds=chance.randrange(86_400_000))
    return occurrence(project_id, fingerprint(chance.randrange(ERRORS)), at, chance.choice(("", "1.0.0", "1.1.0")))


class Grouping:
    """Which fingerprint an item has: the number of its error."""

    def values(self, project_id: int, item: Item) -> tuple[Any, ...]:
        return values_of(project_id, item)

    def texts(self, _project_id: int, _items: Sequence[Item]) -> Sequence[tuple[Any, ...]]:
        """What ClickHouse answers about the texts of these items: no details of errors."""
        return []

    def written(self, items: AbstractSet[Item]) -> None:
        """These items were written."""

    def group(self, number: int) -> int:
        """The smallest error that may have come to one issue with this one."""
        return number

    def most_issues(self, _group: int, _items: AbstractSet[Item]) -> int:
        """How many issues the errors of a group have at most."""
        return 1


class UpgradedGrouping(Grouping):
    """Five kinds of errors, which gateways of two releases group after some time. 0 and 1 have become one error; 2 has
    become two, which differ in their text; 3 has another fingerprint, and 4 is as before.
    """

    def __init__(self) -> None:
        self._before: AbstractSet[Item] = set()
        self._is_upgraded = False

    def values(self, project_id: int, item: Item) -> tuple[Any, ...]:
        project_id, _, time_ns, release, _ = values_of(project_id, item)
        version, *text = self._draw(item)
        return project_id, RULES[version](*text), time_ns, release, version

    def texts(self, project_id: int, items: Sequence[Item]) -> Sequence[tuple[Any, ...]]:
        if not self._is_upgraded:  # the follower does not know that there will be other rules
            return []
        drawn = [self._draw(item) for item in items]
        return [(project_id, RULES[version](*text), version, "", *text) for version, *text in drawn]

    def written(self, items: AbstractSet[Item]) -> None:
        if not self._is_upgraded and len(items) > 60:
            self._before, self._is_upgraded = set(items), True

    def group(self, number: int) -> int:
        return {1: 0, 10: 0, 20: 2, 21: 2, 30: 3}.get(number, number)

    def most_issues(self, group: int, items: AbstractSet[Item]) -> int:
        both = {kind for version, kind, _, _ in map(self._draw, items) if version == FINGERPRINT_VERSION} >= {"0", "1"}
        return {0: 1 if both else 2, 2: 2}.get(group, 1)

    def _draw(self, item: Item) -> tuple[int, str, str, str]:
        chance = random.Random(f"upgrade {item!r}")
        version, kind, text = chance.choice((1, FINGERPRINT_VERSION)), chance.randrange(ERRORS), chance.randrange(2)
        is_before = item in self._before or not self._is_upgraded
        return 1 if is_before else version, str(kind), str(text), ""


def current_rules(kind: str, message: str, _stacktrace: str) -> bytes:
    return fingerprint({"0": 10, "1": 10, "2": 20 + int(message), "3": 30}.get(kind, int(kind)))


def earlier_rules(kind: str, _message: str, _stacktrace: str) -> bytes:
    return fingerprint(int(kind))


RULES: Mapping[int, Callable[[str, str, str], bytes]] = {FINGERPRINT_VERSION: current_rules, 1: earlier_rules}


class Texts(NoClickHouse):
    """The texts of items."""

    def __init__(self, server: Server, grouping: Grouping) -> None:
        self._server = server
        self._grouping = grouping

    async def query(self, sql: str, parameters: Mapping[str, Any], *, limits: QueryLimits) -> Sequence[Any]:
        places = set(zip(parameters["batches"], parameters["rows"], strict=True))
        rows = await self._server.read(START, parameters["until"], 10**9)
        items = [(row.position.batch_id, row.day, row.position.row) for row in rows]
        found = [item for item in items if (item[0], item[2]) in places]
        return [*self._grouping.texts(parameters["projects"][0], found), *await super().query(sql, {}, limits=limits)]


class ErrorRows:
    """The table of the model, as the follower of issues reads it."""

    def __init__(self, server: Server, project_id: int, grouping: Grouping) -> None:
        self._server = server
        self._project_id = project_id
        self._grouping = grouping

    async def settled_time(self) -> int:
        return await self._server.settled_time()

    async def first_time(self, after_us: int, until_us: int) -> int | None:
        return await self._server.first_time(after_us, until_us)

    async def read(self, after: Position, until_us: int, limit: int) -> StoredRowList:
        return StoredRowList(
            row._replace(
                values=self._grouping.values(self._project_id, (row.position.batch_id, row.day, row.position.row))
            )
            for row in await self._server.read(after, until_us, limit)
        )

    def no_rows(self) -> StoredRowList:
        return self._server.no_rows()


class Process:
    """A follower that begins anew when it was killed."""

    def __init__(self, server: Server, database: KilledNowAndThen, project_id: int, grouping: Grouping) -> None:
        self._server = server
        self._database = database
        self._rows = ErrorRows(server, project_id, grouping)
        self._texts = Texts(server, grouping)
        self.restart()

    def restart(self) -> None:
        self._follower = IssueFollower(
            cast("Database", self._database),
            cast("ClickHouse", self._texts),
            IssueUrls(),
            IssueMetrics(None),
            rows=cast("Any", self._rows),
            now=lambda: datetime.fromtimestamp(self._server.true_s, UTC),
        )

    async def poll(self) -> bool:
        try:
            await self._follower.poll()
        except Killed:
            self.restart()
            return False
        return True


class Both:
    """Two processes that poll at the same time."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes

    def restart(self) -> None:
        for process in self._processes:
            process.restart()

    async def poll(self) -> bool:
        return all(await asyncio.gather(*(process.poll() for process in self._processes)))


class IssueWorld(World):
    """A schedule with two processes that count issues."""

    def __init__(self, seed: int, database: Database, tenant: Tenant, grouping: Grouping) -> None:
        super().__init__(seed)
        self._grouping = grouping
        self._store = database
        self._project_id = tenant.project.id
        self.database = KilledNowAndThen(database, random.Random(f"kills {seed}"))
        processes = [Process(self._server, self.database, self._project_id, grouping) for _ in range(2)]
        self._processes = processes
        self._followers = [*processes, Both(processes)]  # type: ignore[list-item]  # they are polled and restarted

    def _begin(self) -> None:
        super()._begin()
        self._grouping.written(self._written)

    async def _end(self) -> None:
        self._followers = []
        await super()._end()
        self.database.careful = True
        for process in self._processes:
            self._server.true_s += 10.0  # the lease of the other one is over
            assert await process.poll()
        assert await self._counted() == self._expected()

    def _expected(self) -> dict[int, tuple[Any, ...]]:
        found: dict[int, list[tuple[datetime, str]]] = {}
        for item in self._written:
            _, print_, time_ns, release, _ = self._grouping.values(self._project_id, item)
            group = self._grouping.group(int.from_bytes(print_))
            found.setdefault(group, []).append((EPOCH + timedelta(milliseconds=time_ns // 10**6), release))
        return {
            group: (len(moments), *((at, release or None) for at, release in (min(moments), max(moments))))
            for group, moments in found.items()
        }

    async def _counted(self) -> dict[int, tuple[Any, ...]]:
        """The counts of issues, together of those whose errors may have been one issue before or after an upgrade."""
        async with self._store.read() as connection:
            rows = (await connection.execute(sa.select(issues).where(issues.c.merged_into.is_(None)))).all()
        found: dict[int, list[Any]] = {}
        for row in rows:
            found.setdefault(self._grouping.group(int.from_bytes(row.fingerprint)), []).append(row)
        for group, of_group in found.items():
            assert len(of_group) <= self._grouping.most_issues(group, self._written), group
        return {
            group: (
                sum(row.count for row in of_group),
                min(((row.first_seen, row.first_release) for row in of_group), key=_order),
                max(((row.last_seen, row.last_release) for row in of_group), key=_order),
            )
            for group, of_group in found.items()
        }


def _order(moment: tuple[datetime, str | None]) -> tuple[datetime, str]:
    return moment[0], moment[1] or ""


@pytest.mark.sized
@pytest.mark.parametrize("grouping", [Grouping, UpgradedGrouping], ids=["current rules", "two releases"])
async def test_each_occurrence_counts_once_whatever_happens(
    database: Database, migrated_url: str, monkeypatch: pytest.MonkeyPatch, grouping: type[Grouping]
) -> None:
    monkeypatch.setattr(occurrences, "RULES", RULES)
    monkeypatch.setattr(follower_module, "PAGE_ROWS", 7)
    monkeypatch.setattr(follower_module, "PAUSE_S", 0.0)
    monkeypatch.setattr(follower_module, "IDLE_POLL_S", -1.0)  # the time of the model is not that of the process
    tenant = await new_tenant(database, "acme")
    kills = 0
    seeds = scaled(4 if migrated_url.startswith("sqlite") else 1, 200)
    for seed in range(seeds):
        world = IssueWorld(seed, database, tenant, grouping())
        try:
            await world.run(150)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        kills += world.database.kills
        async with database.write() as connection:
            for table in (issue_activity, issues, issue_projects, release_projects, releases, follower_blocks):
                await connection.execute(table.delete())
            await connection.execute(follower_progress.delete())
    assert kills > scaled(2, 5) * seeds


async def test_who_waits_for_a_lease_reads_nothing_without_the_blocks(database: Database) -> None:
    """The lease of the other one may end at any moment: what was loaded to look at it has no blocks."""
    held_until = datetime.fromtimestamp(1_000, UTC) + LEASE
    async with database.write() as connection:
        await progress.create(connection, NAME, 0, "another", datetime.fromtimestamp(1_000, UTC))
    server = Server()
    server.stored[1, 20_000] = (server.now_us - 10 * US, server.true_s, range(1))
    times = iter([held_until - timedelta(milliseconds=1), *[held_until] * 9])
    follower = IssueFollower(
        database,
        cast("ClickHouse", NoClickHouse()),
        IssueUrls(),
        IssueMetrics(None),
        rows=cast("Any", ErrorRows(server, 1, Grouping())),
        now=lambda: next(times),
    )
    await follower.poll()
    async with database.read() as connection:
        found = await progress.find(connection, NAME)
    assert found is not None
    assert (found.lease_owner, found.rows) == ("another", 0)
    await follower.poll()  # the lease is over
    async with database.read() as connection:
        found = await progress.find(connection, NAME)
    assert found is not None
    assert found.rows == 1
