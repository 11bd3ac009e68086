"""Which of two releases of a project is the later one.

By their versions, if these are of one package and tell (`control.issues.releases.versions`); else by time. Where neither
tells, it is unknown. Among versions of one package this is a weak order: of three, the first is later than the last if
it is later than the second, and the second later than the last. With others between them, whose versions tell nothing,
it need not be: the callers compare pairs, and `latest` and `earliest` compare in an order that the releases have
themselves, whatever the order of a list.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.issues.releases.tables import release_projects, releases
from control.issues.releases.versions import parse_version

_UNKNOWN: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReleaseOrder:
    """The order of releases of a project. `times`: those of the releases that are known in it, by version."""

    times: Mapping[str, datetime]

    def is_later(self, a: str, b: str) -> bool | None:
        """Whether `a` is later than `b`. None: unknown."""
        if a == b:
            return False
        first, second = parse_version(a), parse_version(b)
        if first and second and first.package == second.package and first.place != second.place:
            return first.place > second.place
        times = self.times.get(a), self.times.get(b)
        if times[0] is None or times[1] is None or times[0] == times[1]:
            return None
        return times[0] > times[1]

    def known_since(self, version: str) -> datetime | None:
        """Since when the project has the release; None if it is not known."""
        return self.times.get(version)

    def latest(self, versions: Iterable[str]) -> str | None:
        """The latest of the versions; None if there are none."""
        found: str | None = None
        for version in reversed(self._by_time(versions)):
            if found is None or self.is_later(version, found):
                found = version
        return found

    def earliest(self, versions: Iterable[str]) -> str | None:
        """The earliest of the versions; None if there are none."""
        found: str | None = None
        for version in self._by_time(versions):
            if found is None or self.is_later(found, version):
                found = version
        return found

    def _by_time(self, versions: Iterable[str]) -> list[str]:
        """The earliest first, of one time in the order of text; those of which the time is unknown are before."""
        return sorted(versions, key=lambda version: (self.times.get(version, _UNKNOWN), version))


async def load_order(connection: AsyncConnection, project_id: int, versions: Collection[str]) -> ReleaseOrder:
    """The order of these versions in the project."""
    found = (
        sa.select(releases.c.version, release_projects.c.ordered_at)
        .join_from(release_projects, releases, releases.c.id == release_projects.c.release_id)
        .where(release_projects.c.project_id == project_id, releases.c.version.in_(sorted(set(versions))))
    )
    return ReleaseOrder({row.version: row.ordered_at for row in await connection.execute(found)})
