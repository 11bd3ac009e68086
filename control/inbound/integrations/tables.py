"""Integrations, the webhook events that they have sent, and the tables of both."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from control.http.field_types import Slug
from proto.identity import MAX_NAME_LENGTH

MAX_PROJECTS: Final = 20
MAX_HOOK_ID_LENGTH: Final = 128


class IntegrationKind(StrEnum):
    """The system that sends webhooks. The values for source control are the providers of `/webhooks/scm/{provider}`."""

    GITHUB = "github"
    GITLAB = "gitlab"
    BITBUCKET = "bitbucket"
    GITEA = "gitea"
    FORGEJO = "forgejo"
    LINEAR = "linear"
    JIRA = "jira"
    PAGERDUTY = "pagerduty"
    GENERIC = "generic"

    @property
    def is_source_control(self) -> bool:
        """Whether the system sends to `/webhooks/scm/{provider}`. The others send to `/webhooks/integrations/{id}`."""
        return self in SOURCE_CONTROL


SOURCE_CONTROL: Final = frozenset(
    {
        IntegrationKind.GITHUB,
        IntegrationKind.GITLAB,
        IntegrationKind.BITBUCKET,
        IntegrationKind.GITEA,
        IntegrationKind.FORGEJO,
    }
)


class IntegrationConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Options of an integration."""

    projects: Annotated[
        list[Slug],
        Meta(
            max_length=MAX_PROJECTS,
            description="Slugs of the projects to which the reported releases and deployments belong. If the list is "
            "empty, change events (such as deployments) belong to all projects, and releases are not recorded.",
        ),
    ] = []
    allow_plain_token: Annotated[
        bool, Meta(description="Accept GitLab's old token, which does not sign the body. Only for `gitlab`.")
    ] = False
    sync_status: Annotated[
        bool,
        Meta(description="Whether closing or reopening a ticket resolves or reopens the issues that are linked to it."),
    ] = True


@dataclass(frozen=True, slots=True)
class Integration:
    """An integration without its secrets. `hook_id`: the id of the webhook in the platform's header. `version` counts
    changes of the integration. `previous_secret_until`: until when the secret before the last rotation is accepted.
    """

    id: str
    org_id: str
    org_slug: str
    kind: IntegrationKind
    name: str
    enabled: bool
    config: IntegrationConfig
    hook_id: str | None
    version: int
    previous_secret_until: datetime | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """An enabled integration with the secrets that are accepted, the current one first."""

    integration: Integration
    secrets: tuple[bytes, ...] = field(repr=False)


class DeliveryStatus(StrEnum):
    """The status of a webhook event."""

    PROCESSED = "processed"
    FAILED = "failed"  # processed again if it is sent again, or on demand


MAX_DELIVERY_KEY_LENGTH: Final = 128
MAX_EVENT_LENGTH: Final = 100
MAX_ERROR_LENGTH: Final = 500

integrations: Final = sa.Table(
    "integrations",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("kind", text(16), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("config", sa.JSON(none_as_null=True), nullable=False),
    sa.Column("hook_id", text(MAX_HOOK_ID_LENGTH)),  # the id of the webhook in the platform's header
    sa.Column("secret", sa.LargeBinary, info={"sealed": True}, nullable=False),
    sa.Column("previous_secret", sa.LargeBinary, info={"sealed": True}),  # accepted until the time below
    sa.Column("previous_secret_until", UtcTime),
    sa.Column("version", sa.Integer, nullable=False),  # counts changes; a process with an older version reads again
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    enum_check("kind", IntegrationKind),
    sa.CheckConstraint("(previous_secret IS NULL) = (previous_secret_until IS NULL)", name="previous_secret"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "hook_id"),
)

inbound_deliveries: Final = sa.Table(
    "inbound_deliveries",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("integration_id", text(32), sa.ForeignKey("integrations.id", ondelete="CASCADE"), nullable=False),
    sa.Column("delivery_key", text(MAX_DELIVERY_KEY_LENGTH), nullable=False),  # a repeated event has the same key
    sa.Column("event", text(MAX_EVENT_LENGTH), nullable=False),  # the platform's name of the event
    sa.Column("status", text(16), nullable=False),
    sa.Column("result", sa.JSON(none_as_null=True)),  # the answer; a repetition gets it again
    sa.Column("error", text(MAX_ERROR_LENGTH)),
    # compressed; NULL: too large, beyond the organization's limit, or removed by housekeeping
    sa.Column("body", sa.LargeBinary, info={"sealed": True}),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("received_at", UtcTime, nullable=False),
    sa.Column("processed_at", UtcTime, nullable=False),  # time of the last attempt
    enum_check("status", DeliveryStatus),
    sa.UniqueConstraint("integration_id", "delivery_key"),
    sa.Index(None, "integration_id", "id"),
    sa.Index(None, "org_id"),
    sa.Index(None, "received_at"),
)
