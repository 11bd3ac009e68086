"""Request and response bodies of integrations and of what they have delivered."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.db.database import format_time
from chassis.http.validation import Issues
from control.channels.config import SECRET_RULE, secret_bytes
from control.http.field_types import Name, Timestamp
from control.http.paging import NextCursor
from control.integrations.model import (
    MAX_HOOK_ID_LENGTH,
    DeliveryStatus,
    Integration,
    IntegrationConfig,
    IntegrationKind,
    StoredInboundDelivery,
)

INTEGRATION_ID_PATTERN: Final = "^int_[0-9a-z]{26}$"
DELIVERY_ID_PATTERN: Final = "^ind_[0-9a-z]{26}$"
MAX_OVERLAP_HOURS: Final = 168
DEFAULT_OVERLAP_HOURS: Final = 24

_Kind = Annotated[IntegrationKind, Meta(description="The system that sends.")]
_HookId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_HOOK_ID_LENGTH,
        pattern=r"^[!-~]+(?!\n)$",
        description="How the platform names its webhook in a header, for a URL without `hook`.",
    ),
]
_Secret = Annotated[
    str,
    Meta(
        min_length=8,
        max_length=256,
        pattern=r"^[!-~](?:[ -~]*[!-~])?(?!\n)$",
        description="Must have 8 to 256 printable ASCII characters; for `generic`, whsec_ and 16 to 64 bytes in "
        "base64.",
    ),
]
_ShownSecret = Annotated[str, Meta(description="What the platform signs with. It is shown once.")]


class NewIntegration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The integration to create. Without `secret` it gets a new one."""

    kind: _Kind
    name: Name
    config: IntegrationConfig = IntegrationConfig()
    hook_id: _HookId | None = None
    secret: _Secret | None = None
    enabled: bool = True


class IntegrationChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to an integration; omitted fields stay as they are. `config` is replaced as a whole."""

    name: Name | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    config: IntegrationConfig | UnsetType = UNSET
    hook_id: _HookId | UnsetType | None = UNSET


class SecretRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The new secret; without one it is generated."""

    secret: _Secret | None = None
    overlap_hours: Annotated[
        int, Meta(ge=0, le=MAX_OVERLAP_HOURS, description="How long the previous secret stays valid.")
    ] = DEFAULT_OVERLAP_HOURS


class IntegrationBody(msgspec.Struct, frozen=True, rename="camel"):
    """An integration. Its secret is shown when it is created or rotated, and never again."""

    id: Annotated[str, Meta(pattern=INTEGRATION_ID_PATTERN)]
    kind: _Kind
    name: str
    enabled: bool
    config: IntegrationConfig
    hook_id: str | None
    url: Annotated[str, Meta(description="Where the platform sends its webhook.")]
    previous_secret_until: Annotated[
        Timestamp | None, Meta(description="Until when the secret before the last rotation is accepted.")
    ]
    created_by: str | None
    created_at: Timestamp
    updated_at: Timestamp


class IntegrationWithSecret(IntegrationBody, frozen=True, kw_only=True, rename="camel"):
    """An integration and its new secret."""

    secret: _ShownSecret


class IntegrationPage(msgspec.Struct, rename="camel"):
    """A page of integrations, newest first."""

    data: list[IntegrationBody]
    next_cursor: NextCursor
    has_more: bool


class InboundDelivery(msgspec.Struct, frozen=True, rename="camel"):
    """What an integration has sent, and what became of it."""

    id: Annotated[str, Meta(pattern=DELIVERY_ID_PATTERN)]
    event: Annotated[str, Meta(description="The platform's name.")]
    key: Annotated[str, Meta(description="Identifies the delivery: its signed id, else the SHA-256 of its body.")]
    status: DeliveryStatus
    result: Annotated[dict[str, Any] | None, Meta(description="What was answered. Null: it failed.")]
    failure: Annotated[str | None, Meta(description="Why it failed.")]
    attempts: int
    received_at: Timestamp
    processed_at: Annotated[Timestamp, Meta(description="The last attempt.")]
    redeliverable: Annotated[bool, Meta(description="Whether its body is kept.")]


class InboundDeliveryPage(msgspec.Struct, rename="camel"):
    """A page of deliveries, newest first."""

    data: list[InboundDelivery]
    next_cursor: NextCursor
    has_more: bool


def check_config(kind: IntegrationKind, config: IntegrationConfig, issues: Issues) -> IntegrationConfig:
    """The config with each project once; a fault is recorded."""
    if config.allow_plain_token and kind is not IntegrationKind.GITLAB:
        issues.add("body.config.allowPlainToken", "Is only for kind gitlab.", "not_allowed")
    return msgspec.structs.replace(config, projects=list(dict.fromkeys(config.projects)))


def check_secret(kind: IntegrationKind, secret: str | None, issues: Issues) -> None:
    """A fault is recorded."""
    if secret is None or kind is not IntegrationKind.GENERIC:
        return
    try:
        secret_bytes(secret)
    except ValueError:
        issues.add("body.secret", SECRET_RULE, "format")


def webhook_url(base_url: str, integration: Integration) -> str:
    """Where the platform sends its webhook."""
    if integration.kind.is_source_control:
        return f"{base_url}/webhooks/scm/{integration.kind.value}?hook={integration.id}"
    return f"{base_url}/webhooks/integrations/{integration.id}"


def integration_body(integration: Integration, base_url: str) -> IntegrationBody:
    """The API representation."""
    until = integration.previous_secret_until
    return IntegrationBody(
        id=integration.id,
        kind=integration.kind,
        name=integration.name,
        enabled=integration.enabled,
        config=integration.config,
        hook_id=integration.hook_id,
        url=webhook_url(base_url, integration),
        previous_secret_until=None if until is None else format_time(until),
        created_by=integration.created_by,
        created_at=format_time(integration.created_at),
        updated_at=format_time(integration.updated_at),
    )


def with_secret(body: IntegrationBody, secret: str) -> IntegrationWithSecret:
    """The API representation after a secret was set."""
    return IntegrationWithSecret(**msgspec.structs.asdict(body), secret=secret)


def delivery_body(delivery: StoredInboundDelivery) -> InboundDelivery:
    """The API representation."""
    return InboundDelivery(
        id=delivery.id,
        event=delivery.event,
        key=delivery.delivery_key,
        status=delivery.status,
        result=None if delivery.result is None else dict(delivery.result),
        failure=delivery.error,
        attempts=delivery.attempts,
        received_at=format_time(delivery.received_at),
        processed_at=format_time(delivery.processed_at),
        redeliverable=delivery.has_body,
    )
