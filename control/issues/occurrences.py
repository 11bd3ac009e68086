"""Occurrences of a page by issue: how many, the first and the last, and the latest of each release."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from chassis.clickhouse.storage_order import StoredRow
from chassis.issues.tables import MAX_VERSION_LENGTH
from control.issues.releases.repository import is_version
from proto.grouping.fingerprint import FINGERPRINT_VERSION

COLUMNS: Final = ("project_id", "fingerprint", "toUnixTimestamp64Nano(time)", "release", "fingerprint_version")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS_PER_MS: Final = 1_000_000

IssueKey = tuple[int, bytes]  # project and fingerprint


class Moment(NamedTuple):
    """When an error occurred, in milliseconds, and in which release; None: the release is unknown or its name too
    long.
    """

    at: datetime
    release: str | None


@dataclass(slots=True)
class Seen:
    """What a page has of one issue. `latest`: by release; `fingerprint_version`: the highest of them."""

    count: int
    first: Moment
    last: Moment
    latest: dict[str | None, datetime] = field(default_factory=dict)
    fingerprint_version: int = FINGERPRINT_VERSION

    def copy(self) -> "Seen":
        """Another one, to merge more into."""
        return Seen(self.count, self.first, self.last, dict(self.latest), self.fingerprint_version)

    def add(self, moment: Moment, fingerprint_version: int) -> None:
        """Count one more occurrence. Of two at the same time the release that is greater as text counts as later, so
        that the order in which they were stored does not matter.
        """
        self.count += 1
        self.first = min(self.first, moment, key=_order)
        self.last = max(self.last, moment, key=_order)
        self.fingerprint_version = max(self.fingerprint_version, fingerprint_version)
        latest = self.latest.get(moment.release)
        self.latest[moment.release] = moment.at if latest is None else max(latest, moment.at)

    def merge(self, other: "Seen") -> None:
        """Count the occurrences of an issue that was merged into this one."""
        self.count += other.count
        self.first = min(self.first, other.first, key=_order)
        self.last = max(self.last, other.last, key=_order)
        for release, at in other.latest.items():
            known = self.latest.get(release)
            self.latest[release] = at if known is None else max(known, at)


def earlier(one: Moment, other: Moment) -> Moment:
    """The earlier of two."""
    return min(one, other, key=_order)


def later(one: Moment, other: Moment) -> Moment:
    """The later of two."""
    return max(one, other, key=_order)


def by_issue(rows: Iterable[StoredRow]) -> dict[IssueKey, Seen]:
    """The rows of a page, with COLUMNS, by project and fingerprint."""
    found: dict[IssueKey, Seen] = {}
    for row in rows:
        project_id, fingerprint, time_ns, release, version = row.values
        moment = Moment(_EPOCH + timedelta(milliseconds=time_ns // _NS_PER_MS), _version(release))
        seen = found.get((project_id, fingerprint))
        if seen is None:
            found[project_id, fingerprint] = Seen(1, moment, moment, {moment.release: moment.at}, version)
        else:
            seen.add(moment, version)
    return found


def _order(moment: Moment) -> tuple[datetime, str]:
    return moment.at, moment.release or ""


def _version(release: str) -> str | None:
    """The release as it can be reported: without surrounding white space. What has control characters is none."""
    text = release.strip()
    return text if text and len(text) <= MAX_VERSION_LENGTH and is_version(text) else None
