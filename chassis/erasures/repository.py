"""Erasures in the database: control and the command write them, gateways read them.

Every function runs in the caller's transaction. Write transactions are serialized, so the numbers of erasures ascend in
the order of commits: a reader that has read up to number N has missed no erasure up to N.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id, projects
from chassis.db.database import to_milliseconds
from chassis.erasures.tables import (
    ErasureKind,
    ErasureState,
    erasure_acknowledgements,
    erasure_journals,
    erasures,
)

MAX_TOMBSTONES: Final = 1_000  # read at once
DEADLINE: Final = timedelta(hours=24)  # for the completion of an erasure, if gateways and ClickHouse are available
OPEN_STATES: Final = (ErasureState.PENDING, ErasureState.RUNNING)

Filters = Sequence[Mapping[str, Any]]  # as explore accepts them in a body: key, op, value


@dataclass(frozen=True, slots=True, kw_only=True)
class NewErasure:
    """A new erasure. `filters` None: everything from `from_ns` to `to_ns` (nanoseconds since 1970, None: no bound).
    `requested_by` None: the operator. `purged`: there are no relational rows to delete. `id`: the id that the same
    erasure has in another database, or None to generate an id.
    """

    kind: ErasureKind
    org_id: str
    project_id: int | None = None
    project_slug: str | None = None
    filters: Filters | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    dry_run: bool = False
    id: str | None = None
    requested_by: str | None = None
    purged: bool = False


@dataclass(frozen=True, slots=True)
class StoredErasure:
    """An erasure and its progress. `counts`: the number of deleted rows, or rows found by a dry run, by table.
    `pending_deletion`: a deletion that was begun and may not have been executed, with its `rows` by table and the
    `deletionId` in its statements. `days`: ISO dates of items. Relative times in `filters` are relative to
    `requested_at`.
    """

    id: str
    number: int
    org_id: str
    project_id: int | None
    project_slug: str | None
    kind: ErasureKind
    filters: Filters | None
    from_ns: int | None
    to_ns: int | None
    dry_run: bool
    requested_by: str | None
    requested_at: datetime
    state: ErasureState
    counts: Mapping[str, int]
    pending_deletion: Mapping[str, Any] | None
    days: Sequence[str] | None
    message: str | None
    attempts: int
    lease_owner: str | None
    lease_until: datetime | None
    retry_at: datetime | None
    purged_at: datetime | None
    erased_at: datetime | None
    completed_at: datetime | None
    expired_at: datetime | None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Selects items that are deleted even if they are stored later: items of the project that match the filters and
    were received before `received_before`. None means at any time, because the project is deleted.
    """

    number: int
    erasure_id: str
    project_id: int
    filters: Filters | None
    from_ns: int | None
    to_ns: int | None
    requested_at: datetime
    received_before: datetime | None


@dataclass(frozen=True, slots=True)
class OpenErasures:
    """How many erasures are pending or running, how many have failed, and when the oldest of them was requested."""

    open: int
    failed: int
    oldest: datetime | None


async def create(connection: AsyncConnection, new: NewErasure, now: datetime) -> StoredErasure:
    """Store an erasure. The erasure is in force from the commit on."""
    [erasure_id] = await create_many(connection, [new], now)
    return await get(connection, erasure_id)


async def create_many(connection: AsyncConnection, wanted: Sequence[NewErasure], now: datetime) -> list[str]:
    """Store erasures. Returns their ids in the same order."""
    if not wanted:
        return []
    now = to_milliseconds(now)
    first = 1 + await tombstone_version(connection)
    rows = [_row(new, number, now) for number, new in enumerate(wanted, first)]
    await connection.execute(erasures.insert(), rows)
    return [str(row["id"]) for row in rows]


async def find(connection: AsyncConnection, erasure_id: str, org_id: str | None = None) -> StoredErasure | None:
    """The erasure with this id, of the organization or (None) of any organization."""
    statement = sa.select(erasures).where(erasures.c.id == erasure_id)
    if org_id is not None:
        statement = statement.where(erasures.c.org_id == org_id)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else erasure_from_row(row)


async def get(connection: AsyncConnection, erasure_id: str) -> StoredErasure:
    """An erasure that is known to exist. Raises LookupError."""
    found = await find(connection, erasure_id)
    if found is None:
        raise LookupError(erasure_id)
    return found


async def list_erasures(
    connection: AsyncConnection, org_id: str | None, before_id: str | None, limit: int, *, only_open: bool = False
) -> list[StoredErasure]:
    """At most `limit` erasures of the organization or (None) of all organizations, newest first, starting with the
    first one older than `before_id`. `only_open`: erasures that are not COMPLETED.
    """
    page = sa.select(erasures).order_by(erasures.c.id.desc()).limit(limit)
    if org_id is not None:
        page = page.where(erasures.c.org_id == org_id)
    if before_id is not None:
        page = page.where(erasures.c.id < before_id)
    if only_open:
        page = page.where(erasures.c.state != ErasureState.COMPLETED.value)
    return [erasure_from_row(row) for row in (await connection.execute(page)).mappings()]


async def count_open_filters(connection: AsyncConnection, org_id: str) -> int:
    """Erasures by filter of the organization, dry runs included, that are pending or running."""
    statement = sa.select(sa.func.count()).where(
        erasures.c.org_id == org_id, erasures.c.kind == ErasureKind.FILTER.value, _is_open()
    )
    return await connection.scalar(statement) or 0


async def tombstone_version(connection: AsyncConnection) -> int:
    """The number of the latest erasure, or 0 if there is none. It costs one index look-up, so it can be polled every
    few seconds.
    """
    return await connection.scalar(sa.select(sa.func.max(erasures.c.number))) or 0


async def list_tombstones(connection: AsyncConnection, after: int = 0, limit: int = MAX_TOMBSTONES) -> list[Tombstone]:
    """At most `limit` tombstones in force with a number above `after`, in order. Dry runs have no tombstone, and a
    deleted organization has one tombstone for each of its projects.
    """
    statement = (
        sa.select(erasures)
        .where(
            erasures.c.number > after,
            erasures.c.project_id.is_not(None),
            erasures.c.dry_run.is_(sa.false()),
            erasures.c.expired_at.is_(None),
        )
        .order_by(erasures.c.number)
        .limit(limit)
    )
    return [_tombstone(erasure_from_row(row)) for row in (await connection.execute(statement)).mappings()]


async def list_retention_days(connection: AsyncConnection) -> dict[int, int]:
    """The retention in days of each project that has its own retention. The shorter of this retention and the retention
    of the settings applies.
    """
    statement = sa.select(projects.c.id, projects.c.retention_days).where(
        projects.c.retention_days.is_not(None), projects.c.deleted_at.is_(None)
    )
    return {row.id: row.retention_days for row in await connection.execute(statement)}


async def register_journal(connection: AsyncConnection, journal: str, now: datetime) -> None:
    """Register a gateway's journal, so that erasures wait for its acknowledgement. Call at the start and regularly."""
    now = to_milliseconds(now)
    where = erasure_journals.c.journal == journal
    if (await connection.execute(erasure_journals.update().where(where).values(seen_at=now))).rowcount == 0:
        await connection.execute(erasure_journals.insert().values(journal=journal, registered_at=now, seen_at=now))


async def remove_journal(connection: AsyncConnection, journal: str) -> bool:
    """Remove a journal that does not exist any more, so that no erasure waits for it. False when it is unknown."""
    removed = erasure_journals.delete().where(erasure_journals.c.journal == journal)
    return (await connection.execute(removed)).rowcount == 1


async def list_journals(connection: AsyncConnection) -> dict[str, datetime]:
    """The registered journals, each with the time at which its gateway was last seen."""
    statement = sa.select(erasure_journals.c.journal, erasure_journals.c.seen_at).order_by(erasure_journals.c.journal)
    return {row.journal: row.seen_at for row in await connection.execute(statement)}


async def acknowledge(connection: AsyncConnection, erasure_ids: Sequence[str], journal: str, now: datetime) -> None:
    """Record that the journal holds no request that these erasures cover and that was received before them.
    Idempotent.
    """
    statement = sa.select(erasure_acknowledgements.c.erasure_id).where(
        erasure_acknowledgements.c.journal == journal, erasure_acknowledgements.c.erasure_id.in_(list(erasure_ids))
    )
    acknowledged = set((await connection.scalars(statement)).all())
    at = to_milliseconds(now)
    rows = [
        {"erasure_id": one, "journal": journal, "acknowledged_at": at}
        for one in dict.fromkeys(erasure_ids)
        if one not in acknowledged
    ]
    if rows:
        await connection.execute(erasure_acknowledgements.insert(), rows)


async def missing_acknowledgements(connection: AsyncConnection, erasure_id: str) -> list[str]:
    """The journals that were registered before the erasure was requested and have not acknowledged it. Journals that
    were registered later have known the tombstone since their start.
    """
    acknowledged = sa.select(erasure_acknowledgements.c.journal).where(
        erasure_acknowledgements.c.erasure_id == erasure_id
    )
    requested_at = sa.select(erasures.c.requested_at).where(erasures.c.id == erasure_id).scalar_subquery()
    statement = (
        sa.select(erasure_journals.c.journal)
        .where(erasure_journals.c.registered_at <= requested_at, erasure_journals.c.journal.not_in(acknowledged))
        .order_by(erasure_journals.c.journal)
    )
    return list((await connection.scalars(statement)).all())


async def list_unacknowledged(connection: AsyncConnection, journal: str, limit: int = MAX_TOMBSTONES) -> list[str]:
    """Ids of at most `limit` erasures that wait for this journal, the oldest first."""
    acknowledged = sa.exists().where(
        erasure_acknowledgements.c.erasure_id == erasures.c.id, erasure_acknowledgements.c.journal == journal
    )
    statement = (
        sa.select(erasures.c.id)
        .where(
            erasures.c.state != ErasureState.COMPLETED.value,
            erasures.c.project_id.is_not(None),
            erasures.c.dry_run.is_(sa.false()),
            ~acknowledged,
        )
        .order_by(erasures.c.number)
        .limit(limit)
    )
    return list((await connection.scalars(statement)).all())


async def supersede_filters(connection: AsyncConnection, org_id: str, project_id: int | None, now: datetime) -> None:
    """End the erasures by filter of a deleted project, or (None) of a deleted organization, and delete their filters,
    which may contain personal data. The tombstones of the deleted projects cover all items that these erasures covered.
    """
    by_filter = (erasures.c.org_id == org_id) & (erasures.c.kind == ErasureKind.FILTER.value)
    if project_id is not None:
        by_filter &= erasures.c.project_id == project_id
    now = to_milliseconds(now)
    ended = {
        "state": ErasureState.COMPLETED.value,
        "completed_at": now,
        "message": "The project was deleted.",
        "lease_owner": None,
        "lease_until": None,
    }
    open_or_failed = erasures.c.state != ErasureState.COMPLETED.value
    await connection.execute(erasures.update().where(by_filter, open_or_failed).values(ended))
    values = {"filters": None, "from_ns": None, "to_ns": None, "expired_at": now}
    await connection.execute(erasures.update().where(by_filter, erasures.c.expired_at.is_(None)).values(values))


async def has_filters_from_before(connection: AsyncConnection, before: datetime) -> bool:
    """Whether `expire_filters` would delete any filters."""
    return await connection.scalar(sa.select(erasures.c.id).where(_is_expirable(before)).limit(1)) is not None


async def expire_filters(connection: AsyncConnection, before: datetime, now: datetime) -> int:
    """Delete the filters of erasures that were completed before `before`, and thereby their tombstones. Returns the
    number of these erasures.
    """
    values = {"filters": None, "from_ns": None, "to_ns": None, "expired_at": to_milliseconds(now)}
    return (await connection.execute(erasures.update().where(_is_expirable(before)).values(values))).rowcount


async def list_unpurged(connection: AsyncConnection, limit: int) -> list[StoredErasure]:
    """At most `limit` erasures whose relational rows are not deleted yet, the oldest first."""
    statement = sa.select(erasures).where(erasures.c.purged_at.is_(None)).order_by(erasures.c.number).limit(limit)
    return [erasure_from_row(row) for row in (await connection.execute(statement)).mappings()]


async def begin_purge(connection: AsyncConnection, erasure_id: str) -> None:
    """Record that the rows of an organization are being deleted. The state of other erasures depends on the deletion of
    their telemetry.
    """
    pending = (
        (erasures.c.id == erasure_id)
        & (erasures.c.kind == ErasureKind.ORGANIZATION.value)
        & (erasures.c.state == ErasureState.PENDING.value)
    )
    await connection.execute(erasures.update().where(pending).values(state=ErasureState.RUNNING.value))


async def add_counts(connection: AsyncConnection, erasure_id: str, deleted: Mapping[str, int]) -> None:
    """Add the numbers of rows, by table, that the transaction deletes."""
    stored = await connection.scalar(sa.select(erasures.c.counts).where(erasures.c.id == erasure_id))
    counts = dict(Counter(stored or {}) + Counter(deleted))
    await connection.execute(erasures.update().where(erasures.c.id == erasure_id).values(counts=counts))


async def mark_purged(connection: AsyncConnection, erasure: StoredErasure, now: datetime) -> None:
    """Record that the relational rows are deleted. Completes the erasure if its telemetry is deleted too.
    Idempotent.
    """
    unpurged = (erasures.c.id == erasure.id) & erasures.c.purged_at.is_(None)
    await connection.execute(erasures.update().where(unpurged).values(purged_at=to_milliseconds(now)))
    await complete_if_done(connection, erasure.id, erasure.org_id, now)


async def retry(connection: AsyncConnection, erasure_id: str) -> bool:
    """Restart a failed erasure. False when there is no failed erasure with this id."""
    failed = (erasures.c.id == erasure_id) & (erasures.c.state == ErasureState.FAILED.value)
    values = {"state": ErasureState.PENDING.value, "message": None, "retry_at": None}
    return (await connection.execute(erasures.update().where(failed).values(values))).rowcount == 1


async def repeat_completed(connection: AsyncConnection, since: datetime) -> int:
    """Restart the erasures of telemetry that were completed since then, because the erased telemetry was restored. The
    erasures of an organization's projects also cover the organization. Returns the number of restarted erasures.
    """
    completed = (
        erasures.c.project_id.is_not(None),
        erasures.c.state == ErasureState.COMPLETED.value,
        erasures.c.completed_at >= to_milliseconds(since),
        erasures.c.dry_run.is_(False),
        erasures.c.expired_at.is_(None),
    )
    values = {"state": ErasureState.PENDING.value, "erased_at": None, "completed_at": None, "retry_at": None}
    return (await connection.execute(erasures.update().where(*completed).values(values))).rowcount


async def count_unfinished(connection: AsyncConnection) -> OpenErasures:
    """Count unfinished erasures, for metrics and `sluice doctor`."""
    failed = erasures.c.state == ErasureState.FAILED.value
    statement = sa.select(
        sa.func.count(), sa.func.count(sa.case((failed, 1))), sa.func.min(erasures.c.requested_at)
    ).where(erasures.c.state != ErasureState.COMPLETED.value)
    number, number_failed, oldest = (await connection.execute(statement)).one()
    return OpenErasures(number - number_failed, number_failed, oldest)


async def merged_counts(connection: AsyncConnection, erasure_id: str, counts: Mapping[str, int]) -> dict[str, int]:
    """The stored counts, with `counts` replacing the stored counts of the same tables."""
    stored = await connection.scalar(sa.select(erasures.c.counts).where(erasures.c.id == erasure_id))
    return {**(stored or {}), **counts}


async def complete_if_done(connection: AsyncConnection, erasure_id: str, org_id: str, now: datetime) -> None:
    """Complete the erasure if telemetry and relational rows are deleted. Also complete the erasure of its organization,
    if the erasures of all of the organization's projects are completed.
    """
    completed = {"state": ErasureState.COMPLETED.value, "completed_at": to_milliseconds(now), "message": None}
    purged = erasures.c.purged_at.is_not(None) & (erasures.c.state != ErasureState.COMPLETED.value)
    one = (erasures.c.id == erasure_id) & erasures.c.erased_at.is_not(None)
    await connection.execute(erasures.update().where(one, purged).values(completed))
    unfinished = sa.select(erasures.c.id).where(
        erasures.c.org_id == org_id,
        erasures.c.kind == ErasureKind.PROJECT.value,
        erasures.c.state != ErasureState.COMPLETED.value,
    )
    if await connection.scalar(unfinished.limit(1)) is None:
        of_org = (erasures.c.org_id == org_id) & (erasures.c.kind == ErasureKind.ORGANIZATION.value)
        values = {**completed, "erased_at": to_milliseconds(now)}
        await connection.execute(erasures.update().where(of_org, purged).values(values))


def erasure_from_row(row: sa.RowMapping) -> StoredErasure:
    """The erasure of a row of `erasures`."""
    return StoredErasure(**{**row, "kind": ErasureKind(row["kind"]), "state": ErasureState(row["state"])})


def _row(new: NewErasure, number: int, now: datetime) -> dict[str, Any]:
    return {
        "id": new.id or new_id("ers"),
        "number": number,
        "org_id": new.org_id,
        "project_id": new.project_id,
        "project_slug": new.project_slug,
        "kind": new.kind.value,
        "filters": None if new.filters is None else [dict(one) for one in new.filters],
        "from_ns": new.from_ns,
        "to_ns": new.to_ns,
        "dry_run": new.dry_run,
        "requested_by": new.requested_by,
        "requested_at": now,
        "state": ErasureState.PENDING.value,
        "counts": {},
        "attempts": 0,
        "purged_at": now if new.purged else None,
    }


def _tombstone(erasure: StoredErasure) -> Tombstone:
    if erasure.project_id is None:
        raise ValueError(f"{erasure.id} erases an organization")
    return Tombstone(
        erasure.number,
        erasure.id,
        erasure.project_id,
        erasure.filters,
        erasure.from_ns,
        erasure.to_ns,
        erasure.requested_at,
        None if erasure.kind is ErasureKind.PROJECT else erasure.requested_at,
    )


def _is_open() -> sa.ColumnElement[bool]:
    return erasures.c.state.in_([state.value for state in OPEN_STATES])


def _is_expirable(before: datetime) -> sa.ColumnElement[bool]:
    return (
        erasures.c.expired_at.is_(None)
        & (erasures.c.kind == ErasureKind.FILTER.value)
        & (erasures.c.state == ErasureState.COMPLETED.value)
        & (erasures.c.completed_at < before)
    )
