"""Request and response bodies of integrations."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.http.validation import Issues
from control.http.field_types import Name, Timestamp
from control.inbound.integrations.model import (
    MAX_HOOK_ID_LENGTH,
    Integration,
    IntegrationConfig,
    IntegrationKind,
)
from control.notify.channels.config import SECRET_RULE, secret_bytes
from control.routing.arguments import CheckedBody

INTEGRATION_ID_PATTERN: Final = "^int_[0-9a-z]{26}$"
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


class NewIntegration(CheckedBody, frozen=True):
    """The integration to create. Without `secret` it gets a new one."""

    kind: _Kind
    name: Name
    config: IntegrationConfig = IntegrationConfig()
    hook_id: _HookId | None = None
    secret: _Secret | None = None
    enabled: bool = True

    def check(self, issues: Issues) -> None:
        """Record what its kind does not have."""
        check_config(self.kind, self.config, issues)
        check_secret(self.kind, self.secret, issues)


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


def check_config(kind: IntegrationKind, config: IntegrationConfig | UnsetType, issues: Issues) -> None:
    """A fault is recorded."""
    if config is not UNSET and config.allow_plain_token and kind is not IntegrationKind.GITLAB:
        issues.add("body.config.allowPlainToken", "Is only for kind gitlab.", "not_allowed")


def with_unique_projects(config: IntegrationConfig) -> IntegrationConfig:
    """The config with each project once."""
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
