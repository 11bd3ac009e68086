"""Issues over a store of their own."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.clickhouse import QueryLimits
from chassis.clickhouse.storage_order import Position, StoredRow
from chassis.db.database import Database
from chassis.issues import issues
from control.issues import lifecycle
from control.issues.counting import counter, project_state
from control.issues.counting.counter import Counted, CountedPage
from control.issues.counting.occurrences import Details, IssueKey, by_issue
from control.issues.counting.project_state import IssueUrls
from control.issues.lifecycle import Resolution
from control.issues.releases.store import SeenReleases
from control.issues.tables import IssueRecord
from proto.grouping.fingerprint import FINGERPRINT_VERSION
from tests.chassis.auth.tenants import Tenant, new_tenant

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def occurrence(
    project_id: int, fingerprint: bytes, at: datetime, release: str = "", fingerprint_version: int = FINGERPRINT_VERSION
) -> tuple[Any, ...]:
    """The columns of one occurrence that the follower reads."""
    return project_id, fingerprint, int(at.timestamp() * 1_000) * 1_000_000, release, fingerprint_version


def fingerprint(number: int) -> bytes:
    return number.to_bytes(16, "big")


class NoClickHouse:
    """A ClickHouse of which only the rows of the follower matter: it has no details of errors."""

    def idle_since(self, _table: str) -> float | None:
        return None

    async def query(self, _sql: str, _parameters: Mapping[str, object], *, limits: QueryLimits) -> Sequence[Any]:
        assert limits.max_seconds
        return []


class Ledger:
    """Counts occurrences in issues as the follower does, page by page, at a time that the test sets."""

    def __init__(self, database: Database, tenant: Tenant) -> None:
        self.database = database
        self.tenant = tenant
        self.now = START
        self.stored_us = int(START.timestamp()) * 1_000_000

    @property
    def project_id(self) -> int:
        return self.tenant.project.id

    async def occur(
        self,
        number: int = 1,
        release: str = "",
        *,
        at: datetime | None = None,
        times: int = 1,
        details: Details | None = None,
        quiet: bool = False,
    ) -> Counted:
        """An error occurs, and is counted a page later."""
        row = occurrence(self.project_id, fingerprint(number), at or self.now, release)
        return await self.count([row] * times, details=details, quiet=quiet)

    async def count(
        self,
        values: Sequence[tuple[Any, ...]],
        *,
        details: Details | None = None,
        others: Mapping[IssueKey, Sequence[IssueKey]] = MappingProxyType({}),
        quiet: bool = False,
    ) -> Counted:
        """Count a page with these rows."""
        self.stored_us += 1_000
        rows = [StoredRow(Position(self.stored_us, 1, at), 20_000, one) for at, one in enumerate(values)]
        found = by_issue(rows)
        known = {} if details is None else dict.fromkeys(found, details)
        page = CountedPage(found, known, others, self.stored_us, quiet)
        async with self.database.write() as connection:
            counted = await counter.count(connection, page, SeenReleases(), self.now)
            await project_state.announce(connection, counted.announced, IssueUrls("https://api.example"))
        return counted

    async def set_resolved(self, number: int = 1, resolution: Resolution | None = None) -> None:
        issue = await self.issue(number)
        async with self.database.write() as connection:
            await lifecycle.set_resolved(connection, issue, resolution or Resolution(), now=self.now, by=None)

    async def merge(self, target: int, *sources: int) -> None:
        """The issues of these errors into the one of another."""
        issues = [await self.issue(number) for number in (target, *sources)]
        async with self.database.write() as connection:
            await lifecycle.merge(connection, issues[0], issues[1:], now=self.now, by=None)

    def page(self, *numbers: int, at: datetime | None = None) -> list[tuple[Any, ...]]:
        """An occurrence of each error."""
        return [occurrence(self.project_id, fingerprint(number), at or self.now) for number in numbers]

    def pass_by(self, time: timedelta) -> None:
        self.now += time
        self.stored_us += int(time.total_seconds() * 1_000_000)

    async def issue(self, number: int = 1) -> IssueRecord:
        found = sa.select(issues).where(
            issues.c.fingerprint == fingerprint(number), issues.c.project_id == self.project_id
        )
        async with self.database.read() as connection:
            return IssueRecord.from_row((await connection.execute(found)).mappings().one())

    async def all(self) -> list[IssueRecord]:
        found_issues = sa.select(issues).where(issues.c.project_id == self.project_id).order_by(issues.c.number)
        async with self.database.read() as connection:
            found = await connection.execute(found_issues)
            return [IssueRecord.from_row(row) for row in found.mappings()]


@pytest.fixture
async def ledger(database: Database) -> Ledger:
    return Ledger(database, await new_tenant(database, "acme"))
