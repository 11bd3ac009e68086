"""Request and response bodies of change events."""

from typing import Annotated

import msgspec
from msgspec import Meta

from chassis.changes.repository import StoredChange
from chassis.changes.tables import (
    MAX_DEDUPE_KEY_LENGTH,
    MAX_DETAIL_LENGTH,
    MAX_NAME_LENGTH,
    MAX_TITLE_LENGTH,
    ChangeKind,
)
from chassis.db.database import format_time
from control.http.field_types import Slug, Timestamp
from control.http.paging import NextCursor
from control.http.text_types import Url, line, lines
from control.http.time_input import TimeInput

_Title = Annotated[str, line(MAX_TITLE_LENGTH)]
_Name = Annotated[str, line(MAX_NAME_LENGTH)]
_Kind = Annotated[ChangeKind, Meta(description="What changed: `flag` is a feature flag.")]


class NewChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The change event to record."""

    kind: _Kind
    title: _Title
    project: Annotated[
        Slug | None, Meta(description="Must be the slug of its project. Null: it concerns all projects.")
    ] = None
    detail: Annotated[str, lines(MAX_DETAIL_LENGTH)] | None = None
    at: Annotated[
        TimeInput | None,
        Meta(description="Must be an RFC 3339 time, at most 400 days ago: when it happened, by default now."),
    ] = None
    environment: _Name | None = None
    release: _Name | None = None
    service: _Name | None = None
    url: Url | None = None
    dedupe_key: Annotated[
        Annotated[str, line(MAX_DEDUPE_KEY_LENGTH)] | None,
        Meta(description="Must be one line: a change that is recorded again with the same key is the same event."),
    ] = None


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """A change event. `project` is null for one that concerns all projects; `source`: who reported it."""

    id: Annotated[str, Meta(pattern="^chg_[0-9a-z]{26}$")]
    kind: _Kind
    title: _Title
    project: Slug | None
    detail: str | None
    at: Timestamp
    environment: str | None
    release: str | None
    service: str | None
    url: str | None
    source: Annotated[str, Meta(description="`api`, `release`, or the platform that reported it.")]
    dedupe_key: str | None
    created_by: str | None
    created_at: Timestamp


class ChangePage(msgspec.Struct, rename="camel"):
    """A page of change events, newest first."""

    data: list[Change]
    next_cursor: NextCursor
    has_more: bool


def change_body(change: StoredChange) -> Change:
    """The API representation."""
    return Change(
        id=change.id,
        kind=change.kind,
        title=change.title,
        project=change.project_slug,
        detail=change.detail,
        at=format_time(change.at),
        environment=change.environment,
        release=change.release,
        service=change.service,
        url=change.url,
        source=change.source,
        dedupe_key=change.dedupe_key,
        created_by=change.created_by,
        created_at=format_time(change.created_at),
    )
