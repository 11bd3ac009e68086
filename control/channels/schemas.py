"""Request and response bodies of channels; no response contains a config."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.db.database import format_time
from chassis.http.validation import Issues, decode_with_placeholders
from control.channels.config import Config, Kind
from control.channels.ids import CHANNEL_ID_PATTERN, DELIVERY_ID_PATTERN
from control.channels.repository import Channel
from control.channels.validation import ChannelRules, read_config
from control.http.field_types import Name, Timestamp
from control.http.paging import NextCursor

ChannelId = Annotated[str, Meta(pattern=f"^{CHANNEL_ID_PATTERN}$")]
DeliveryId = Annotated[str, Meta(pattern=f"^{DELIVERY_ID_PATTERN}$")]
AnyConfig = Annotated[
    Any,
    Meta(
        description="Depends on the kind; write-only. "
        "`chat-a`: `webhookUrl`, or `botToken` and `channel`. `chat-b`: `webhookUrl`. "
        "`webhook`: `url`, `secret` (`whsec_...`), `previousSecret`?, `headers`?. "
        "`email`: `to`, up to 20 addresses. `pager`: `routingKey`, `severity`?. `teams`: `workflowUrl`."
    ),
]


class ChannelScope(StrEnum):
    """The scope of a channel: a project, or the whole organization."""

    PROJECT = "project"
    ORG = "org"


class NewChannel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The channel to create."""

    name: Name
    kind: Kind
    config: AnyConfig
    enabled: bool = True
    scope: Annotated[ChannelScope, Meta(description="`org` requires the role ADMIN or OWNER.")] = ChannelScope.PROJECT


class ChannelChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a channel; omitted fields stay as they are. `config` replaces the complete config."""

    name: Name | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    config: AnyConfig = UNSET


class NotificationChannel(msgspec.Struct, frozen=True, rename="camel"):
    """A channel. `projectId` is null for one of the whole organization."""

    id: ChannelId
    org_id: str
    project_id: Annotated[str, Meta(pattern="^[0-9]+$")] | None
    name: Name
    kind: Kind
    enabled: bool
    created_at: Timestamp
    updated_at: Timestamp


class ChannelPage(msgspec.Struct, rename="camel"):
    """A page of channels, newest first: the project's and the organization's."""

    data: list[NotificationChannel]
    next_cursor: NextCursor
    has_more: bool


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """Why nothing was delivered. `permanent`: another attempt would fail too."""

    permanent: bool
    retry_after_seconds: Annotated[int, Meta(ge=1, le=86_400)] | None


class ChannelTest(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a test message. `detail` is human-readable."""

    channel_id: ChannelId
    kind: Kind
    ok: bool
    delivery_id: DeliveryId
    attempted_at: Timestamp
    detail: str
    failure: Failure | None


def channel_body(channel: Channel) -> NotificationChannel:
    """The API representation."""
    return NotificationChannel(
        id=channel.id,
        org_id=channel.org_id,
        project_id=None if channel.project_id is None else str(channel.project_id),
        name=channel.name,
        kind=channel.kind,
        enabled=channel.enabled,
        created_at=format_time(channel.created_at),
        updated_at=format_time(channel.updated_at),
    )


def read_new(raw: bytes, rules: ChannelRules) -> tuple[NewChannel, Config]:
    """A body and its config. Raises BadRequest with an issue for every invalid field of both."""
    issues = Issues()
    placeholders = {"name": "x", "kind": Kind.EMAIL.value, "config": None}
    body = decode_with_placeholders(NewChannel, raw, placeholders, issues)
    config = None
    if body is not None and not any(issues.has_issue_under(f"body.{name}") for name in ("kind", "config")):
        config = read_config(body.kind, msgspec.json.encode(body.config), rules, issues)
    issues.raise_if_any("The request body is not valid.")
    if body is None or config is None:
        raise TypeError("the body has no issues, but no config")
    return body, config


def read_change(raw: bytes, kind: Kind, rules: ChannelRules) -> tuple[ChannelChange, Config | None]:
    """A change to a channel of this kind, and its config if given. Raises BadRequest as `read_new`."""
    issues = Issues()
    body = decode_with_placeholders(ChannelChange, raw, {}, issues)
    config = None
    if body is not None and body.config is not UNSET:
        config = read_config(kind, msgspec.json.encode(body.config), rules, issues)
    issues.raise_if_any("The request body is not valid.")
    if body is None:
        raise TypeError("the body has no issues, but was not decoded")
    return body, config
