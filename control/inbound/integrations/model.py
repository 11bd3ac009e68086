"""Integrations as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from control.http.field_types import Slug

MAX_PROJECTS: Final = 20
MAX_HOOK_ID_LENGTH: Final = 128


class IntegrationKind(StrEnum):
    """The system that sends. The values of source control are the providers of `/webhooks/scm/{provider}`."""

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
        """Whether it sends to `/webhooks/scm/{provider}`; the others send to `/webhooks/integrations/{id}`."""
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
    """What an integration does."""

    projects: Annotated[
        list[Slug],
        Meta(
            max_length=MAX_PROJECTS,
            description="Slugs of the projects that its releases and deployments are of. None: change events concern "
            "all projects, and releases none.",
        ),
    ] = []
    allow_plain_token: Annotated[
        bool, Meta(description="Accept GitLab's old token, which does not sign the body. Only for `gitlab`.")
    ] = False
    sync_status: Annotated[
        bool,
        Meta(description="Whether a ticket that is closed or reopened resolves or reopens the issues linked to it."),
    ] = True


@dataclass(frozen=True, slots=True)
class Integration:
    """An integration without its secrets. `hook_id`: how the platform names the webhook in a header. `version` counts
    its changes. `previous_secret_until`: until when the secret before the last rotation is accepted.
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
class Hook:
    """An enabled integration with the secrets that it may sign with, the current one first."""

    integration: Integration
    secrets: tuple[bytes, ...] = field(repr=False)


class DeliveryStatus(StrEnum):
    """What became of a delivery."""

    PROCESSED = "processed"
    FAILED = "failed"  # sent again, or redelivered, it is processed again


@dataclass(frozen=True, slots=True)
class StoredInboundDelivery:
    """A delivery. `result`: what was answered; `error`: why there is none."""

    id: str
    integration_id: str
    delivery_key: str
    event: str
    status: DeliveryStatus
    result: Mapping[str, Any] | None
    error: str | None
    attempts: int
    received_at: datetime
    processed_at: datetime
    has_body: bool
