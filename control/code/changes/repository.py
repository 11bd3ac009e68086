"""Writes change events. Every function runs in the caller's transaction."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.changes.tables import ChangeKind, change_events
from control.code.row_limits import RowLimit

MAX_CHANGES: Final = 50_000  # of an organization; beyond it the oldest are deleted
MAX_AGE: Final = timedelta(days=400)
MAX_AHEAD: Final = timedelta(days=1)  # a change may be planned, and clocks differ
_PRUNED_AT_ONCE: Final = 1_000

_limit: Final = RowLimit(change_events)


RELEASE_KEYS: Final = "release:"  # how dedupe keys of releases begin; nobody else may use them


@dataclass(frozen=True, slots=True)
class NewChangeEvent:
    """A change event to record. `source`: the platform that reports it."""

    kind: ChangeKind
    title: str
    at: datetime
    source: str
    project_id: int | None = None
    detail: str | None = None
    environment: str | None = None
    release: str | None = None
    service: str | None = None
    url: str | None = None
    dedupe_key: str | None = None
    created_by: str | None = None


class RecordedChange(NamedTuple):
    """The event, and whether it is new."""

    id: str
    is_new: bool


async def create_change(connection: AsyncConnection, org_id: str, new: NewChangeEvent, now: datetime) -> RecordedChange:
    """Record an event; or find the one with its deduplication key, which stays as it is."""
    if new.dedupe_key is not None:
        same = (change_events.c.org_id == org_id) & (change_events.c.dedupe_key == new.dedupe_key)
        known = await connection.scalar(sa.select(change_events.c.id).where(same))
        if known is not None:
            return RecordedChange(known, is_new=False)
    await _prune(connection, org_id, now)
    change_id = new_id("chg")
    row = {"id": change_id, "org_id": org_id, "created_at": now, **asdict(new)}
    await connection.execute(change_events.insert().values(row))
    return RecordedChange(change_id, is_new=True)


async def _prune(connection: AsyncConnection, org_id: str, now: datetime) -> None:
    """Make room for one event: delete those that are too old, then the oldest."""
    of_org = change_events.c.org_id == org_id
    oldest_first = sa.select(change_events.c.id).where(of_org).order_by(change_events.c.at, change_events.c.id)
    outdated = oldest_first.where(change_events.c.at < now - MAX_AGE).limit(_PRUNED_AT_ONCE)
    await connection.execute(change_events.delete().where(change_events.c.id.in_(outdated)))
    surplus = await _limit.find_surplus(connection, org_id, 1, MAX_CHANGES, _PRUNED_AT_ONCE)
    if surplus:
        oldest = oldest_first.limit(surplus)
        await connection.execute(change_events.delete().where(change_events.c.id.in_(oldest)))
