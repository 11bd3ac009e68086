"""What trackers report, whatever the platform. Pure: a platform's body in, these values out.

Texts of a platform are cut to what the database stores; what a person configured is refused if it does not fit.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta

from chassis.changes import ChangeKind
from chassis.db.database import to_milliseconds
from control.code.changes import MAX_AGE
from control.code.issue_links.addresses import ExternalItem
from control.inbound.integrations.tables import MAX_EVENT_LENGTH
from control.inbound.webhooks.platform import PayloadError
from control.issues.references import References
from control.issues.tables import LinkState

MAX_AHEAD: Final = timedelta(hours=1)  # of a platform's clock: a time far ahead would outdate every later report
MAX_MILLISECONDS: Final = 253_402_300_799_000  # the year 9999
_MAX_TIME_LENGTH: Final = 40

EventName = Annotated[str, Meta(min_length=1, max_length=MAX_EVENT_LENGTH, pattern=r"^[A-Za-z0-9_:.-]+(?!\n)$")]
Milliseconds = Annotated[int, Meta(ge=0, le=MAX_MILLISECONDS)]


@dataclass(frozen=True, slots=True)
class TicketReport:
    """What an item of another system is like, as of `updated_at`. None: it does not say."""

    item: ExternalItem
    title: str | None
    state: LinkState | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class IssueReport:
    """An issue of ours, named as such, was closed or reopened elsewhere."""

    issue: References
    state: LinkState


@dataclass(frozen=True, slots=True)
class LinkCreated:
    """An issue of ours was linked to an item of another system."""

    issue: References
    item: ExternalItem
    url: str
    title: str | None
    state: LinkState | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class LinkDeleted:
    """It is not linked to it any more."""

    issue: References
    item: ExternalItem


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """Something changed. `key` identifies the change within the integration. `project`: its slug, None: those of the
    integration.
    """

    kind: ChangeKind
    title: str
    at: datetime
    key: str
    detail: str | None = None
    environment: str | None = None
    service: str | None = None
    release: str | None = None
    url: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class TrackerEvent:
    """An event by the platform's name. `report` None: it changes nothing here."""

    name: str
    report: TicketReport | IssueReport | LinkCreated | LinkDeleted | ChangeReport | None


def parse_time(text: str, received_at: datetime) -> datetime:
    """A platform's time, ISO 8601 with a time zone, in milliseconds. Raises PayloadError."""
    try:
        if len(text) > _MAX_TIME_LENGTH:
            raise ValueError
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError
        return check_time(time.astimezone(UTC), received_at)
    except (ValueError, OverflowError):
        raise PayloadError("A time is not one of ISO 8601 with a time zone.") from None


def check_time(time: datetime, received_at: datetime) -> datetime:
    """The time in milliseconds. Raises PayloadError for one in the future, or before 1970."""
    if time > received_at + MAX_AHEAD:
        raise PayloadError("A time is in the future.")
    if time.year < 1970:
        raise PayloadError("A time is before 1970.")
    return to_milliseconds(time)


def check_change_time(at: datetime, received_at: datetime) -> datetime:
    """The time of a change event. Raises PayloadError for one that is too old to keep."""
    if at < received_at - MAX_AGE:
        raise PayloadError(f"The change is more than {MAX_AGE.days} days old.")
    return at
