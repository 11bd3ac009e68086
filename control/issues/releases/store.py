"""Releases in the database. Every function runs in the caller's transaction.

`SeenReleases` notes the releases that occurrences name. Each process remembers the releases that it has noted.
"""

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id
from chassis.db.database import to_milliseconds
from chassis.issues import MAX_VERSION_LENGTH, issues
from control.issues.releases.order import find_latest, load_order
from control.issues.releases.tables import release_projects, releases
from control.issues.store import insert_rows
from proto.identity import NAME_PATTERN

# Per project, of the releases that only telemetry names: a service may name another one in each request.
MAX_SEEN_RELEASES: Final = 1_000
MAX_EVICTED: Final = 100  # per page
# Distinct releases after which issues of a project are resolved. As many are settled in one call.
MAX_OPEN_VERSIONS: Final = 1_000
_VERSION: Final = re.compile(NAME_PATTERN)


@dataclass(frozen=True, slots=True)
class SeenRelease:
    """A release as it is stored. `ordered_at`: its time in one project, None if it is not in the project."""

    id: str
    released_at: datetime | None
    ordered_at: datetime | None
    first_seen: datetime | None


def is_version(text: str) -> bool:
    """Whether the text may be the version of a release. Telemetry may contain any text."""
    return len(text) <= MAX_VERSION_LENGTH and _VERSION.match(text) is not None


async def note_seen(
    connection: AsyncConnection, org_id: str, project_id: int, seen: Mapping[str, datetime], now: datetime
) -> list[str]:
    """Record releases that telemetry names, each with its earliest time. Returns the releases that are new in the
    project.

    The number of statements does not depend on the number of releases: there are at most nine. A project keeps the
    latest MAX_SEEN_RELEASES of the releases that only telemetry names. A new release replaces the earliest one that no
    issue names, at most MAX_EVICTED per call.
    """
    times = {version: to_milliseconds(at) for version, at in seen.items() if is_version(version)}
    if not times:
        return []
    found = await _find_seen(connection, org_id, project_id, times)
    await _move_earlier(connection, project_id, {found[name]: at for name, at in times.items() if name in found})
    new = [name for name in times if name not in found or found[name].ordered_at is None]
    if not new:
        return []
    room = max(0, MAX_SEEN_RELEASES - await _count_seen(connection, project_id))
    by_time = sorted(new, key=lambda name: (times[name], name))
    if len(new) > room:
        room += await _evict(connection, project_id, times[by_time[-1]], min(len(new) - room, MAX_EVICTED))
    kept = by_time[len(new) - room :] if len(new) > room else by_time
    ids = {name: one.id for name, one in found.items()} | {name: new_id("rel") for name in kept if name not in found}
    await insert_rows(
        connection,
        releases,
        [{"id": ids[name], "org_id": org_id, "version": name, "created_at": now} for name in kept if name not in found],
    )
    await insert_rows(
        connection,
        release_projects,
        [
            {
                "project_id": project_id,
                "release_id": ids[name],
                "org_id": org_id,
                "ordered_at": (found[name].released_at if name in found else None) or times[name],
                "first_seen": times[name],
            }
            for name in kept
        ],
    )
    return kept


async def settle_next_release(
    connection: AsyncConnection, project_id: int, versions: Collection[str], now: datetime
) -> int:
    """Settle the issues that were resolved in the release after an earlier one: they are resolved in the earliest of
    these versions that is later. Returns the number of issues. `versions`: versions that are new in the project, or
    were reported again.
    """
    after = issues.c.resolved_after_release
    waiting = sa.select(after).distinct().where(issues.c.project_id == project_id, after.is_not(None))
    earlier = list((await connection.execute(waiting.order_by(after).limit(MAX_OPEN_VERSIONS))).scalars())
    if not earlier or not versions:
        return 0
    order = await load_order(connection, project_id, [*earlier, *versions])
    by_next: dict[str, list[str]] = {}
    without: list[str] = []
    for version in earlier:
        next_one = order.earliest(each for each in versions if order.is_later(each, version))
        if next_one is None:
            without.append(version)
        else:
            by_next.setdefault(next_one, []).append(version)
    settled = 0
    for next_one, settled_versions in by_next.items():
        settled += await _settle(connection, project_id, settled_versions, next_one, now)
    if without:
        settled += await _settle_after_outliers(connection, project_id, without, versions, now)
    return settled


async def _settle_after_outliers(
    connection: AsyncConnection, project_id: int, waiting: Sequence[str], versions: Collection[str], now: datetime
) -> int:
    """Settle issues that were resolved after an outlier. If such an issue was resolved before the project's latest
    release existed, it is resolved in the latest release, provided that this release is one of `versions`.
    """
    latest = await find_latest(connection, project_id)
    outliers = [version for version in waiting if version in latest.outliers]
    if not outliers or latest.version is None or latest.version not in versions:
        return 0
    was_before = issues.c.resolved_at < latest.order.times[latest.version]
    return await _settle(connection, project_id, outliers, latest.version, now, was_before)


async def _settle(
    connection: AsyncConnection,
    project_id: int,
    after: Sequence[str],
    next_one: str,
    now: datetime,
    *where: sa.ColumnElement[bool],
) -> int:
    """Resolve the issues that were resolved after these versions in a release. Returns the number of issues."""
    of_project = (issues.c.project_id == project_id) & issues.c.resolved_after_release.in_(after)
    values = {"resolved_in_release": next_one, "resolved_after_release": None, "updated_at": now}
    return (await connection.execute(issues.update().where(of_project, *where).values(values))).rowcount


async def _find_seen(
    connection: AsyncConnection, org_id: str, project_id: int, versions: Iterable[str]
) -> dict[str, SeenRelease]:
    in_project = (release_projects.c.release_id == releases.c.id) & (release_projects.c.project_id == project_id)
    statement = (
        sa.select(
            releases.c.version,
            releases.c.id,
            releases.c.released_at,
            release_projects.c.ordered_at,
            release_projects.c.first_seen,
        )
        .join_from(releases, release_projects, in_project, isouter=True)
        .where(releases.c.org_id == org_id, releases.c.version.in_(list(versions)))
    )
    return {version: SeenRelease(*rest) for version, *rest in await connection.execute(statement)}


async def _move_earlier(connection: AsyncConnection, project_id: int, seen: Mapping[SeenRelease, datetime]) -> None:
    """Correct the times of releases that were seen earlier than known. A reported release time is not changed."""
    rows = [
        {
            "of_release": one.id,
            "seen": at,
            "ordered": min(at, one.ordered_at) if one.released_at is None else one.ordered_at,
        }
        for one, at in seen.items()
        if one.ordered_at is not None and (one.first_seen is None or at < one.first_seen)
    ]
    if not rows:
        return
    where = (release_projects.c.project_id == project_id) & (
        release_projects.c.release_id == sa.bindparam("of_release")
    )
    values: dict[str, Any] = {"first_seen": sa.bindparam("seen"), "ordered_at": sa.bindparam("ordered")}
    await connection.execute(release_projects.update().where(where).values(values), rows)


async def _count_seen(connection: AsyncConnection, project_id: int) -> int:
    """Count the releases of the project that only telemetry names."""
    of_project = sa.select(sa.func.count()).join_from(
        release_projects, releases, releases.c.id == release_projects.c.release_id
    )
    seen = of_project.where(release_projects.c.project_id == project_id, releases.c.reported_at.is_(None))
    return await connection.scalar(seen) or 0


async def _evict(connection: AsyncConnection, project_id: int, before: datetime, number: int) -> int:
    """Remove the earliest releases of the project that only telemetry names and no resolution names. Returns their
    number.
    """
    names = sa.select(issues.c.resolved_in_release).where(
        issues.c.project_id == project_id, issues.c.resolved_in_release.is_not(None)
    )
    others = sa.select(issues.c.resolved_after_release).where(
        issues.c.project_id == project_id, issues.c.resolved_after_release.is_not(None)
    )
    earliest = (
        sa.select(releases.c.id)
        .join_from(release_projects, releases, releases.c.id == release_projects.c.release_id)
        .where(
            release_projects.c.project_id == project_id,
            release_projects.c.ordered_at < before,
            releases.c.reported_at.is_(None),
            releases.c.version.not_in(names.union(others)),
        )
        .order_by(release_projects.c.ordered_at, releases.c.id)
        .limit(number)
    )
    ids = list((await connection.execute(earliest)).scalars())
    if ids:
        of_project = (release_projects.c.project_id == project_id) & release_projects.c.release_id.in_(ids)
        await connection.execute(release_projects.delete().where(of_project))
        elsewhere = sa.select(release_projects.c.release_id).where(release_projects.c.release_id.in_(ids))
        await connection.execute(releases.delete().where(releases.c.id.in_(ids), releases.c.id.not_in(elsewhere)))
    return len(ids)


async def find_latest_version(connection: AsyncConnection, project_id: int) -> str | None:
    """The latest release of a project, without outliers. None if no release is known."""
    return (await find_latest(connection, project_id)).version


MAX_REMEMBERED: Final = 100_000  # releases of projects
REMEMBER_S: Final = 300.0  # some are not kept, or are replaced by others, and occur again


class SeenReleases:
    """Notes the releases that occurrences name, and remembers them, so that each is written only once in a while."""

    def __init__(self) -> None:
        self._noted: dict[tuple[int, str], datetime] = {}
        self._pending: dict[tuple[int, str], datetime] = {}
        self._since = time.monotonic()

    async def note_seen(
        self, connection: AsyncConnection, org_id: str, project_id: int, seen: Mapping[str, datetime], now: datetime
    ) -> None:
        """Note the releases of a project, each with its earliest time, unless they are already noted."""
        new = {
            version: at
            for version, at in seen.items()
            if (known := self._noted.get((project_id, version))) is None or at < known
        }
        if not new:
            return
        added = await note_seen(connection, org_id, project_id, new, now)
        if added:
            await settle_next_release(connection, project_id, added, now)
        self._pending |= {(project_id, version): at for version, at in new.items()}

    def committed(self) -> None:
        """The notes since the last call are stored."""
        now = time.monotonic()
        if now - self._since > REMEMBER_S or len(self._noted) + len(self._pending) > MAX_REMEMBERED:
            self._noted, self._since = {}, now
        self._noted |= self._pending
        self._pending = {}

    def rolled_back(self) -> None:
        """The notes since the last call are not stored."""
        self._pending = {}
