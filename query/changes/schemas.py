"""Response schemas of change events."""

from datetime import datetime
from typing import Annotated

import msgspec

from chassis.changes import ChangeKind, StoredChange
from query.json_types import Range, Timestamp
from query.timestamps import format_timestamp


class ChangeEvent(msgspec.Struct, rename="camel"):
    """A deployment, a release or another change. An environment or a service that is null: it concerns all of them."""

    id: Annotated[str, msgspec.Meta(pattern="^chg_[0-9a-z]{26}$")]
    kind: ChangeKind
    title: str
    detail: str | None
    time: Timestamp
    environment: str | None
    release: str | None
    service_name: str | None
    url: str | None
    of_project: Annotated[bool, msgspec.Meta(description="False: it concerns all projects of the organization.")]


class ChangeEventPage(msgspec.Struct, rename="camel"):
    """A page of change events, newest first. `range` is the time range of the first page."""

    range: Range
    data: list[ChangeEvent]
    next_cursor: Annotated[
        str | None, msgspec.Meta(description="Pass it as `cursor` to get the next page; null on the last page.")
    ]
    has_more: bool


def change_event(change: StoredChange) -> ChangeEvent:
    """The API representation."""
    return ChangeEvent(
        id=change.id,
        kind=change.kind,
        title=change.title,
        detail=change.detail,
        time=format_timestamp(nanoseconds(change.at)),
        environment=change.environment,
        release=change.release,
        service_name=change.service,
        url=change.url,
        of_project=change.project_id is not None,
    )


def nanoseconds(time: datetime) -> int:
    """Since 1970; stored times are exact in milliseconds."""
    return round(time.timestamp() * 1_000) * 1_000_000
