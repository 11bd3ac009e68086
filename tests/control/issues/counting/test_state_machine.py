"""The life of issues against a model: whatever people do and errors occur, in any order, on both databases."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from chassis.issues import IssueStatus, issues
from control.issues import lifecycle
from control.issues.counting import regrouping
from control.issues.lifecycle import Ignoring, Resolution
from control.issues.tables import ActivityKind, IssueRecord, issue_activity
from proto.grouping.fingerprint import FINGERPRINT_VERSION
from tests.chassis.auth.tenants import new_tenant
from tests.control.issues.conftest import MINUTE, Ledger, fingerprint, occurrence
from tests.selection import scaled

ERRORS = 5
RELEASES = ("", "1.0.0", "1.1.0", "1.2.0", "1.10.0")  # as texts, the last would come before the second last

pytestmark = pytest.mark.both_stores


@dataclass
class Modelled:
    """An issue as the documentation describes it."""

    seen: list[tuple[datetime, str]] = field(default_factory=list)
    state: str = "unresolved"
    resolved_at: datetime | None = None
    fixed_from: str | None = None  # a release: in it and later ones the error must not occur
    fixed_after: str | None = None
    until: datetime | None = None
    until_count: int | None = None
    assignee: str | None = None
    into: int | None = None
    regressions: int = 0

    def occur(self, at: datetime, release: str, since: datetime, now: datetime) -> None:
        """`since`: when the release occurred first."""
        self.seen.append((at, release))
        if self.state == "resolved" and self._contradicts(at, release, since):
            self.regressions += 1
            self.open()
        by_count = self.until_count is not None and len(self.seen) >= self.until_count
        if self.state == "ignored" and (by_count or self.status(now) == "unresolved"):
            self.open()

    def _contradicts(self, at: datetime, release: str, since: datetime) -> bool:
        assert self.resolved_at is not None
        if at <= self.resolved_at:
            return False
        if not release:
            return True
        if self.fixed_from is not None:
            return RELEASES.index(release) >= RELEASES.index(self.fixed_from)
        if self.fixed_after is not None:
            was_known = since <= self.resolved_at
            return not was_known and RELEASES.index(release) > RELEASES.index(self.fixed_after)
        return True

    def appear(self, release: str) -> None:
        if self.fixed_after is not None and RELEASES.index(release) > RELEASES.index(self.fixed_after):
            self.fixed_from, self.fixed_after = release, None

    def open(self) -> None:
        self.state = "unresolved"
        self.resolved_at = self.fixed_from = self.fixed_after = self.until = self.until_count = None

    def status(self, now: datetime) -> str:
        return "unresolved" if self.state == "ignored" and self.until is not None and self.until <= now else self.state


class Model:
    """Issues that do what they are told, beside their models."""

    def __init__(self, ledger: Ledger, chance: random.Random) -> None:
        self._ledger = ledger
        self._chance = chance
        self._issues: dict[int, Modelled] = {}
        self._known: dict[str, datetime] = {}
        self._members = [ledger.tenant.owner_id, None]

    async def step(self) -> None:
        actions = (self._occur, self._occur, self._occur, self._resolve, self._ignore, self._reopen, self._assign)
        await self._chance.choice((*actions, self._merge, self._pass_time))()
        await self._check()

    def _pick(self) -> int | None:
        return self._chance.choice([number for number, one in self._issues.items() if one.into is None] or [None])

    async def _occur(self) -> None:
        error, release = self._chance.randrange(ERRORS), self._chance.choice(RELEASES)
        at = self._ledger.now - self._chance.choice((timedelta(0), MINUTE, 60 * MINUTE))
        assign = await self._send(error, release, at)
        if release and release not in self._known:  # the next release of what was resolved before it
            for one in self._issues.values():
                one.appear(release)
        since = self._known[release] = min(self._known.get(release, at), at)
        self._issues[self._left(assign())].occur(at, release, since, self._ledger.now)

    async def _send(self, error: int, release: str, at: datetime) -> Callable[[], int]:
        """An error occurs. Returns what assigns it to an issue: the number of that issue."""
        await self._ledger.occur(error, release, at=at)
        self._issues.setdefault(error, Modelled())
        return lambda: error

    def _left(self, number: int) -> int:
        into = self._issues[number].into
        return number if into is None else into

    async def _resolve(self) -> None:
        number, kind = self._pick(), self._chance.choice(("now", "in", "after"))
        if number is None:
            return
        release = self._chance.choice(RELEASES[1:])
        resolution = Resolution(release if kind == "in" else None, release if kind == "after" else None)
        issue = self._issues[number]
        if (issue.state, issue.fixed_from, issue.fixed_after) != ("resolved", *_named(resolution)):
            issue.open()
            issue.state, issue.resolved_at = "resolved", self._ledger.now
            issue.fixed_from, issue.fixed_after = _named(resolution)
        async with self._ledger.database.write() as connection:
            stored = await self._stored(connection, number)
            await lifecycle.set_resolved(connection, stored, resolution, now=self._ledger.now, by=None)

    async def _ignore(self) -> None:
        number = self._pick()
        if number is None:
            return
        until = self._chance.choice((None, self._ledger.now + 5 * MINUTE))
        more = self._chance.choice((None, 3))
        issue = self._issues[number]
        issue.open()
        issue.state, issue.until = "ignored", until
        issue.until_count = None if more is None else len(issue.seen) + more
        async with self._ledger.database.write() as connection:
            stored = await self._stored(connection, number)
            await lifecycle.set_ignored(connection, stored, Ignoring(until, more), now=self._ledger.now, by=None)

    async def _reopen(self) -> None:
        number = self._pick()
        if number is None:
            return
        if self._issues[number].status(self._ledger.now) == "unresolved":
            return
        stored = (await self._all())[number]
        async with self._ledger.database.write() as connection:
            await lifecycle.set_unresolved(connection, stored, now=self._ledger.now, by=None)
        self._issues[number].open()

    async def _assign(self) -> None:
        number, to = self._pick(), self._chance.choice(self._members)
        if number is None:
            return
        self._issues[number].assignee = to
        async with self._ledger.database.write() as connection:
            stored = await self._stored(connection, number)
            await lifecycle.set_assignee(connection, stored, to, now=self._ledger.now, by=None)

    async def _merge(self) -> None:
        target, source = self._pick(), self._pick()
        if target is None or source is None or target == source or self._chance.random() < 0.7:
            return
        self._join(target, source)
        async with self._ledger.database.write() as connection:
            stored = [await self._stored(connection, number) for number in (target, source)]
            await lifecycle.merge(connection, stored[0], stored[1:], now=self._ledger.now, by=None)

    def _join(self, target: int, source: int) -> None:
        now, into, gone = self._ledger.now, self._issues[target], self._issues[source]
        if into.until_count is not None:
            into.until_count += len(gone.seen)
        into.seen += gone.seen
        if "unresolved" in (into.status(now), gone.status(now)):
            into.open()
        for one in self._issues.values():
            one.into = target if one is gone or one.into == source else one.into

    async def _pass_time(self) -> None:
        self._ledger.pass_by(self._chance.choice((timedelta(seconds=1), MINUTE, 10 * MINUTE)))

    async def _all(self) -> dict[int, IssueRecord]:
        """The issues by the numbers of their models."""
        return {int.from_bytes(one.fingerprint): one for one in await self._ledger.all()}

    async def _stored(self, connection: AsyncConnection, number: int) -> IssueRecord:
        key = (self._ledger.project_id, fingerprint(number))
        return (await regrouping.find_links(connection, [key]))[key].issue

    async def _check(self) -> None:
        now, every = self._ledger.now, await self._all()
        for number, issue in self._issues.items():
            stored = every[number]
            if issue.into is not None:
                assert stored.merged_into == every[issue.into].id
                continue
            first, last = min(issue.seen), max(issue.seen)
            assert (stored.count, stored.status_at(now).value) == (len(issue.seen), issue.status(now))
            assert (stored.first_seen, stored.first_release or "") == first
            assert (stored.last_seen, stored.last_release or "") == last
            if stored.status is IssueStatus.RESOLVED:
                assert stored.resolved_at == issue.resolved_at
            assert stored.assignee_id == issue.assignee
            assert (stored.regressed_at is not None) == (issue.regressions > 0)
        async with self._ledger.database.read() as connection:
            where = issue_activity.c.kind == ActivityKind.REGRESSED.value
            regressions = await connection.scalar(sa.select(sa.func.count()).where(where))
        assert regressions == sum(issue.regressions for issue in self._issues.values())


# Fingerprints of errors by the rules before and now: 0 and 1 have become one, 2 and 3 were one, 4 is as before.
EARLIER = (0, 1, 2, 2, 4)
CURRENT = (10, 10, 12, 13, 4)


class UpgradedModel(Model):
    """Errors that gateways of two releases group by their rules; `is_upgraded`: no longer only the earlier one. Issues
    are modelled by their own numbers.
    """

    def __init__(self, ledger: Ledger, chance: random.Random) -> None:
        super().__init__(ledger, chance)
        self.is_upgraded = False
        self._leads: dict[int, int] = {}
        self._pending: set[int] = set()

    async def _send(self, error: int, release: str, at: datetime) -> Callable[[], int]:
        version = self._chance.choice((1, FINGERPRINT_VERSION)) if self.is_upgraded else 1
        names = {1: EARLIER[error], FINGERPRINT_VERSION: CURRENT[error]}
        name, other = names[version], names[1 if version == FINGERPRINT_VERSION else FINGERPRINT_VERSION]
        others = [other] if self.is_upgraded and other != name else []
        project_id = self._ledger.project_id
        await self._ledger.count(
            [occurrence(project_id, fingerprint(name), at, release, version)],
            others={(project_id, fingerprint(name)): [(project_id, fingerprint(one)) for one in others]},
        )
        return lambda: self._assign_to_issue(name, others, is_current=version == FINGERPRINT_VERSION)

    def _assign_to_issue(self, name: int, others: list[int], *, is_current: bool) -> int:
        known = [other for other in others if other in self._leads]
        if not is_current:
            if name not in self._leads and known:
                self._leads[name] = self._leads[known[0]]
            elif name not in self._leads:
                self._leads |= dict.fromkeys((name, *others), self._create(Modelled()))
                self._pending |= set() if others else {name}
            return self._leads[name]
        pending = self._pending & {name, *others}
        if name in self._leads or pending:
            target, *merged = sorted({self._left(self._leads[one]) for one in {name, *pending} if one in self._leads})
            for one in merged:
                assignee = self._issues[target].assignee or self._issues[one].assignee
                self._join(target, one)
                self._issues[target].assignee = assignee
            self._leads.setdefault(name, target)
            self._pending -= pending
        else:
            source = self._issues[self._left(self._leads[known[0]])] if known else None
            self._leads[name] = self._create(Modelled() if source is None else _part_of(source))
        return self._leads[name]

    def _create(self, issue: Modelled) -> int:
        number = len(self._issues) + 1
        self._issues[number] = issue
        return number

    async def _all(self) -> dict[int, IssueRecord]:
        return {one.number: one for one in await self._ledger.all()}

    async def _stored(self, connection: AsyncConnection, number: int) -> IssueRecord:
        where = (issues.c.project_id == self._ledger.project_id) & (issues.c.number == number)
        return IssueRecord.from_row((await connection.execute(sa.select(issues).where(where))).mappings().one())


def _part_of(source: Modelled) -> Modelled:
    """An issue that is split from this one."""
    left = None if source.until_count is None else max(1, source.until_count - len(source.seen))
    return replace(source, seen=[], until_count=left, regressions=0)


def _named(resolution: Resolution) -> tuple[str | None, str | None]:
    return resolution.in_release, resolution.after_release


@pytest.mark.sized
@pytest.mark.parametrize("kind", [Model, UpgradedModel])
async def test_issues_do_what_the_model_does(database: Database, migrated_url: str, kind: type[Model]) -> None:
    for seed in range(scaled(2 if migrated_url.startswith("sqlite") else 1, 100)):
        ledger = Ledger(database, await new_tenant(database, f"acme-{seed}"))
        await _clear(database)
        model = kind(ledger, random.Random(seed))
        for step in range(80):
            if isinstance(model, UpgradedModel):
                model.is_upgraded = step >= 30
            try:
                await model.step()
            except AssertionError as error:
                error.add_note(f"seed {seed}, step {step}")
                raise


async def _clear(database: Database) -> None:
    async with database.write() as connection:
        await connection.execute(issue_activity.delete())
        await connection.execute(issues.delete())
