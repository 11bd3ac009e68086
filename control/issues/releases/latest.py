"""The latest release of a project, without outliers.

After one occurrence of a build with a version such as `999.9.9` no release would be the next one. An outlier is a
release that only telemetry names and whose version is far ahead of all others of its package. Several, at most
MAX_OUTLIERS, are outliers if as many releases are behind the gap; otherwise they are a new scheme of versions.
"""

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.issues.releases.order import ReleaseOrder
from control.issues.releases.tables import release_projects, releases
from control.issues.releases.versions import Version, parse_version

MAX_CONSIDERED: Final = 1_000  # releases, the newest
MAX_OUTLIERS: Final = 3
_FAR: Final = (2, 10)  # a first or second number is far ahead of another if it is above twice the other and 10


@dataclass(frozen=True, slots=True)
class LatestRelease:
    """The latest release (None if no release is known), the outliers that are later, and the order of all."""

    version: str | None
    outliers: tuple[str, ...]
    order: ReleaseOrder


async def find_latest(connection: AsyncConnection, project_id: int) -> LatestRelease:
    """The latest of the newest MAX_CONSIDERED releases of a project."""
    found = (
        sa.select(releases.c.version, release_projects.c.ordered_at, releases.c.reported_at)
        .join_from(release_projects, releases, releases.c.id == release_projects.c.release_id)
        .where(release_projects.c.project_id == project_id)
        .order_by(release_projects.c.ordered_at.desc(), releases.c.id.desc())
        .limit(MAX_CONSIDERED)
    )
    rows = (await connection.execute(found)).all()
    order = ReleaseOrder({row.version: row.ordered_at for row in rows})
    return latest_of(order, frozenset(row.version for row in rows if row.reported_at is not None))


def latest_of(order: ReleaseOrder, reported: frozenset[str]) -> LatestRelease:
    """The latest release of the order. `reported`: those that are no outliers."""
    latest = order.latest(order.times)
    outliers = () if latest is None else _outliers(latest, order, reported)
    if outliers:
        latest = order.latest(each for each in order.times if each not in outliers)
    return LatestRelease(latest, outliers, order)


def _outliers(latest: str, order: ReleaseOrder, reported: frozenset[str]) -> tuple[str, ...]:
    parsed = {version: parse_version(version) for version in order.times}
    newest = parsed[latest]
    if newest is None:
        return ()
    of_package = [
        (one, version)
        for version, one in parsed.items()
        if one and one.package == newest.package and any(one.numbers)  # 0.0.0: of a build without a version
    ]
    of_package.sort(reverse=True)
    found: tuple[str, ...] = ()
    for number in range(1, min(MAX_OUTLIERS, len(of_package) // 2) + 1):
        ahead = tuple(version for _, version in of_package[:number])
        if not reported.isdisjoint(ahead):
            break
        if _is_far_ahead(of_package[number - 1][0], of_package[number][0]):
            found = ahead
    return found


def _is_far_ahead(one: Version, other: Version) -> bool:
    factor, step = _FAR
    for a, b in zip(one.numbers[:2], other.numbers[:2], strict=True):
        if a != b:
            return a > factor * b + step
    return False
