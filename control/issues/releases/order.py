"""Decides which of two releases of a project is the later one, and which of all releases is the latest.

Two releases are compared by their versions if both versions belong to the same package and differ in their order.
Otherwise they are compared by time. If neither decides, the order is unknown. Among versions of one package this order
is transitive. It need not be transitive if versions in between cannot be compared. The callers therefore compare pairs,
and `latest` and `earliest` first sort the releases, so that their result does not depend on the order of a list.

The forms that are read are Semantic Versioning 2.0.0, two to four numbers (`1.2.3.4`), calendar versions
(`2026.02.09`), `git describe` (`v1.2.3-4-g1234567`), PEP 440, and the qualifiers of Maven. Each may follow the name of
a package: `checkout@1.2.3`, `@shop/checkout@1.2.3`, `checkout-v1.2.3`, `checkout/v1.2.3`. Parts of a version that do
not order it are ignored: builds (`+10`), hashes (`1.2.3-a1b2c3d`), revisions of packages (`1.2.3-1`), variants
(`1.2.3-alpine`).

A single occurrence of a build with a version such as `999.9.9` would make that version the latest, and no later release
would be the next one. Such outliers are therefore ignored. An outlier is a release that only telemetry names and whose
version is far ahead of all other versions of its package. Several releases, at most MAX_OUTLIERS, are outliers if at
least as many releases are behind the gap. Otherwise they are a new version scheme.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.issues.releases.tables import release_projects, releases

_MAX_LENGTH: Final = 200
_MAX_NUMBERS: Final = 4
# The first place with two numbers and a point between them. Only a year may be followed by leading zeros: 2026.02.09.
_CORE: Final = re.compile(
    r"(?:\A|[@/:_-])v?((?:[0-9]{4}(?:\.[0-9]+){1,3})|(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){1,3})(?![0-9])"
)
# Commits since the tag, as by git describe, versioneer (1.2.3+4.g1234567) and PEP 440 (1.2.3.post4).
_COUNT: Final = re.compile(
    r"-([0-9]{1,9})-g[0-9a-f]{4,64}(?:-(?:dirty|modified|broken))?\Z"
    r"|\+([0-9]{1,9})\.g[0-9a-f]{4,64}(?:\.dirty)?\Z"
    r"|[._-]?post([0-9]{1,9})(?:\.dev[0-9]+)?(?:\+[0-9a-zA-Z.]+)?\Z"
)
_BUILD: Final = re.compile(r"\+[0-9a-zA-Z.-]+\Z")
_SUFFIX: Final = re.compile(r"[-~][0-9a-zA-Z.~_-]+")
_QUALIFIER: Final = re.compile(r"[._]?([a-zA-Z]+)[._-]?([0-9]{0,9})(?:\.dev[0-9]*)?")  # 1.2.3rc1, 1.2.3.Final
_IDENTIFIERS: Final = re.compile(r"[.-]")
_HASH: Final = re.compile(r"(?!(?:19|20)[0-9]{6}(?:[0-9]{6})?\Z)g?[0-9a-f]{7,64}")  # and no date
_NUMBERED: Final = re.compile(r"([a-z]+)([0-9]{0,9})")
_PRERELEASES: Final = frozenset(
    {"alpha", "beta", "canary", "cr", "dev", "ea", "experimental", "milestone", "next", "nightly", "pre", "preview"}
    | {"rc", "snapshot", "a", "b", "c", "m"}
)
_FINAL: Final = frozenset(("final", "ga", "release", "sp"))
_SYNONYMS: Final = {
    "dev": "",
    "a": "alpha",
    "b": "beta",
    "c": "rc",
    "cr": "rc",
    "pre": "rc",
    "preview": "rc",
}  # PEP 440

# Identifiers of a pre-release. As in Semantic Versioning, numbers precede words, and numbers inside words are compared
# by value.
_Identifiers = tuple[tuple[bool, str, int], ...]


class Version(NamedTuple):
    """A parsed version. `package`: the name of the package, empty if none is given. `place` orders the versions of a
    package: the numbers, whether it is a release and not a pre-release, the identifiers of the pre-release, and the
    number of commits since.
    """

    package: str
    place: tuple[tuple[int, ...], bool, _Identifiers, int]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The four numbers of the release. Numbers that are not given are 0."""
        return self.place[0]


def parse_version(text: str) -> Version | None:
    """Parse a version. Returns None for a text of another form."""
    core = _CORE.search(text) if len(text) <= _MAX_LENGTH else None
    if core is None:
        return None
    rest = text[core.end() :]
    match = _COUNT.search(rest)
    count = 0 if match is None else int(next(filter(None, match.groups())))
    rest = rest[: match.start()] if match is not None else _BUILD.sub("", rest)
    numbers = [int(each) for each in core[1].split(".")]
    identifiers = _prerelease(rest)
    if identifiers is None:
        return None
    padded = (*numbers, *[0] * (_MAX_NUMBERS - len(numbers)))
    return Version(text[: core.start()], (padded, not identifiers, identifiers, count))


def _prerelease(suffix: str) -> _Identifiers | None:
    """The identifiers of a pre-release that order it. Empty for a release. None if no version ends like this."""
    if not suffix:
        return ()
    if _SUFFIX.fullmatch(suffix):
        return _ordering(_IDENTIFIERS.split(suffix[1:].casefold()))
    qualifier = _QUALIFIER.fullmatch(suffix)
    word = "" if qualifier is None else qualifier[1].casefold()
    if qualifier is not None and word in _PRERELEASES:
        return ((True, _SYNONYMS.get(word, word), int(qualifier[2] or -1)),)
    return () if word in _FINAL else None


def _ordering(identifiers: list[str]) -> _Identifiers:
    """The identifiers up to the first hash. Empty if the first identifier is not a known word of a pre-release."""
    found = list[tuple[bool, str, int]]()
    for each in identifiers:
        numbered = _NUMBERED.fullmatch(each)
        if _HASH.fullmatch(each) or not (found or (numbered and numbered[1] in _PRERELEASES)):
            break
        if each.isdigit():
            found.append((False, "", int(each)))
        else:
            found.append((True, numbered[1], int(numbered[2] or -1)) if numbered else (True, each, -1))
    return tuple(found)


_UNKNOWN: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReleaseOrder:
    """The order of the releases of a project. `times`: the times of the project's known releases, by version."""

    times: Mapping[str, datetime]

    def is_later(self, a: str, b: str) -> bool | None:
        """Whether `a` is later than `b`. None if the order is unknown."""
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
        """Since when the project has the release. None if the release is not known."""
        return self.times.get(version)

    def latest(self, versions: Iterable[str]) -> str | None:
        """The latest of the versions. None if the list is empty."""
        found: str | None = None
        for version in reversed(self._by_time(versions)):
            if found is None or self.is_later(version, found):
                found = version
        return found

    def earliest(self, versions: Iterable[str]) -> str | None:
        """The earliest of the versions. None if the list is empty."""
        found: str | None = None
        for version in self._by_time(versions):
            if found is None or self.is_later(found, version):
                found = version
        return found

    def _by_time(self, versions: Iterable[str]) -> list[str]:
        """The versions by time, the earliest first. Versions of an unknown time come first, and versions of the same
        time are in the order of their texts.
        """
        return sorted(versions, key=lambda version: (self.times.get(version, _UNKNOWN), version))


async def load_order(connection: AsyncConnection, project_id: int, versions: Collection[str]) -> ReleaseOrder:
    """The order of these versions in the project."""
    statement = (
        sa.select(releases.c.version, release_projects.c.ordered_at)
        .join_from(release_projects, releases, releases.c.id == release_projects.c.release_id)
        .where(release_projects.c.project_id == project_id, releases.c.version.in_(sorted(set(versions))))
    )
    return ReleaseOrder({row.version: row.ordered_at for row in await connection.execute(statement)})


MAX_CONSIDERED: Final = 1_000  # of the newest releases
MAX_OUTLIERS: Final = 3
_FAR: Final = (2, 10)  # a first or second number is far ahead of another if it is above twice the other plus 10


@dataclass(frozen=True, slots=True)
class LatestRelease:
    """The latest release (None if no release is known), the outliers that are later, and the order of all releases."""

    version: str | None
    outliers: tuple[str, ...]
    order: ReleaseOrder


async def find_latest(connection: AsyncConnection, project_id: int) -> LatestRelease:
    """Find the latest of the newest MAX_CONSIDERED releases of a project."""
    statement = (
        sa.select(releases.c.version, release_projects.c.ordered_at, releases.c.reported_at)
        .join_from(release_projects, releases, releases.c.id == release_projects.c.release_id)
        .where(release_projects.c.project_id == project_id)
        .order_by(release_projects.c.ordered_at.desc(), releases.c.id.desc())
        .limit(MAX_CONSIDERED)
    )
    rows = (await connection.execute(statement)).all()
    order = ReleaseOrder({row.version: row.ordered_at for row in rows})
    return latest_of(order, frozenset(row.version for row in rows if row.reported_at is not None))


def latest_of(order: ReleaseOrder, reported: frozenset[str]) -> LatestRelease:
    """The latest release of the order. `reported`: versions that are never outliers."""
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
        if one and one.package == newest.package and any(one.numbers)  # 0.0.0: a build without a version
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
