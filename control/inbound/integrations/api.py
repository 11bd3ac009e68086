"""`/orgs/{orgSlug}/integrations`: list, create, show, change, rotate, delete."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Annotated, ClassVar, Final

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time, to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, Arguments, PageOf, route
from chassis.http.route import Body, Tag, json_content
from chassis.http.validation import Issues
from control.http.context import HandlerContext, path_id
from control.http.field_types import Name, Timestamp
from control.http.lists import require_project_ids
from control.inbound.integrations import store
from control.inbound.integrations.tables import (
    MAX_HOOK_ID_LENGTH,
    Integration,
    IntegrationConfig,
    IntegrationKind,
)
from control.notify.channels.config import SECRET_RULE, secret_bytes
from control.routing.arguments import CheckedBody, Handlers, Transaction, begin, control_arguments
from control.routing.resource import PageReader, shown_as
from control.secrets.secret_box import SecretBox
from proto.identity import Scope

INTEGRATION_ID_PATTERN: Final = "^int_[0-9a-z]{26}$"
MAX_OVERLAP_HOURS: Final = 168
DEFAULT_OVERLAP_HOURS: Final = 24

_Kind = Annotated[IntegrationKind, Meta(description="The system that sends webhooks.")]
_HookId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_HOOK_ID_LENGTH,
        pattern=r"^[!-~]+(?!\n)$",
        description="Must be the id that the platform gives to the webhook and sends in a header, without spaces. With "
        "this id, Sluice finds the integration if the URL has no `hook`.",
    ),
]
_Secret = Annotated[
    str,
    Meta(
        min_length=8,
        max_length=256,
        pattern=r"^[!-~](?:[ -~]*[!-~])?(?!\n)$",
        description="Must have 8 to 256 printable ASCII characters. For the kind `generic`, it must be whsec_ "
        "followed by 16 to 64 bytes in base64.",
    ),
]
_ShownSecret = Annotated[str, Meta(description="The secret with which the platform signs. It is shown once.")]


class NewIntegration(CheckedBody, frozen=True):
    """The integration to create. If `secret` is left out, Sluice generates one."""

    kind: _Kind
    name: Name
    config: IntegrationConfig = IntegrationConfig()
    hook_id: _HookId | None = None
    secret: _Secret | None = None
    enabled: bool = True

    def check(self, issues: Issues) -> None:
        """Record options that the kind of integration does not have."""
        check_config(self.kind, self.config, issues)
        check_secret(self.kind, self.secret, issues)


class IntegrationChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to an integration. Omitted fields are not changed. `config` replaces the complete config."""

    name: Name | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    config: IntegrationConfig | UnsetType = UNSET
    hook_id: _HookId | UnsetType | None = UNSET


class SecretRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The new secret. If it is left out, Sluice generates one."""

    secret: _Secret | None = None
    overlap_hours: Annotated[
        int, Meta(ge=0, le=MAX_OVERLAP_HOURS, description="How long the previous secret stays valid.")
    ] = DEFAULT_OVERLAP_HOURS


class IntegrationBody(msgspec.Struct, frozen=True, rename="camel"):
    """An integration. Its secret is shown only when it is created or rotated."""

    id: Annotated[str, Meta(pattern=INTEGRATION_ID_PATTERN)]
    kind: _Kind
    name: str
    enabled: bool
    config: IntegrationConfig
    hook_id: str | None
    url: Annotated[str, Meta(description="The URL to which the platform sends its webhook.")]
    previous_secret_until: Annotated[
        Timestamp | None,
        Meta(description="The time until which Sluice also accepts the secret from before the last rotation."),
    ]
    created_by: str | None
    created_at: Timestamp
    updated_at: Timestamp


class IntegrationWithSecret(IntegrationBody, frozen=True, kw_only=True, rename="camel"):
    """An integration and its new secret."""

    secret: _ShownSecret


def check_config(kind: IntegrationKind, config: IntegrationConfig | UnsetType, issues: Issues) -> None:
    """Record options that the kind does not have."""
    if config is not UNSET and config.allow_plain_token and kind is not IntegrationKind.GITLAB:
        issues.add("body.config.allowPlainToken", "Is only permitted for the kind gitlab.", "not_allowed")


def with_unique_projects(config: IntegrationConfig) -> IntegrationConfig:
    """The config with each project once."""
    return msgspec.structs.replace(config, projects=list(dict.fromkeys(config.projects)))


def check_secret(kind: IntegrationKind, secret: str | None, issues: Issues) -> None:
    """Record a secret that is not valid for the kind."""
    if secret is None or kind is not IntegrationKind.GENERIC:
        return
    try:
        secret_bytes(secret)
    except ValueError:
        issues.add("body.secret", SECRET_RULE, "format")


def webhook_url(base_url: str, integration: Integration) -> str:
    """The URL to which the platform sends its webhook."""
    if integration.kind.is_source_control:
        return f"{base_url}/webhooks/scm/{integration.kind.value}?hook={integration.id}"
    return f"{base_url}/webhooks/integrations/{integration.id}"


DELETED_AT_ONCE: Final = 1_000  # webhook events of an integration, per transaction
MAX_DELETIONS: Final = 50
TAG: Final = Tag("integrations", "Systems that report by webhook, and their deliveries.")
PATH: Final = "/orgs/{orgSlug}/integrations"
ONE: Final = PATH + "/{integrationId}"
NEW: Final = {"kind": "linear", "name": "Linear", "config": {"projects": ["web"], "syncStatus": True}}
CHANGE: Final = Body(json_content(IntegrationChange), example={"enabled": False})
ROTATION: Final = Body(json_content(SecretRotation), example={"overlapHours": 24})
_READ: Final = bearer(Scope.INTEGRATIONS_READ)
_WRITE: Final = bearer(Scope.INTEGRATIONS_WRITE)


@dataclass(frozen=True, slots=True)
class Integrations(Handlers):
    """Handlers of integrations, and their dependencies. `base_url`: the URL at which platforms reach this service.
    `forget`: removes an integration from the cache for verifying events, after the integration has changed.
    """

    TAG: ClassVar = TAG
    secret_box: SecretBox
    base_url: str
    forget: Callable[[str], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def arguments(self) -> Arguments:
        return integration_arguments(self.context)

    @route("GET", PATH, _READ, page="IntegrationPage")
    async def list_integrations(self, caller: AuthorizationContext, page: PageReader) -> PageOf[IntegrationBody]:
        """List integrations, newest first."""
        return await page.read(
            ("integrations", caller.org_id), partial(store.list_integrations, org_id=caller.org_id), self._shown
        )

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example=NEW)
    async def create_integration(self, body: NewIntegration, transaction: Transaction) -> IntegrationWithSecret:
        """Create an integration.

        The answer has the URL and the secret that you enter at the platform. Sluice stores the secret encrypted and
        does not show it again. 409 at the maximum number of integrations.
        """
        secret, caller = body.secret or store.generate_secret(body.kind), transaction.caller
        config = with_unique_projects(body.config)
        await require_project_ids(transaction.connection, caller.org_id, config.projects, "body.config.projects")
        created = await store.create_integration(
            transaction.connection,
            self.secret_box,
            org_id=caller.org_id,
            kind=body.kind,
            name=body.name,
            enabled=body.enabled,
            config=config,
            hook_id=body.hook_id,
            secret=secret,
            created_by=caller.principal_id,
            now=to_milliseconds(self.now()),
        )
        await _record(transaction, "integration.create", created)
        return self._with_secret(created, secret)

    @route("GET", ONE, _READ)
    async def show_integration(self, integration: Integration) -> IntegrationBody:
        """Show an integration."""
        return self._shown(integration)

    @route("PATCH", ONE, _WRITE, body=CHANGE)
    async def change_integration(self, integration: Integration, request: web.Request) -> IntegrationBody:
        """Change the name or the config of an integration, or enable or disable it.

        Requests to a disabled integration get 404. The kind cannot be changed.
        """
        issues = Issues()
        body = await self.context.read_body(request, IntegrationChange, issues)
        check_config(integration.kind, body.config, issues)
        issues.raise_if_any("The request body is not valid.")
        config = body.config if body.config is UNSET else with_unique_projects(body.config)
        async with begin(self.context, request) as transaction:
            integration = await load_integration(transaction.connection, request)
            if config is not UNSET:
                await require_project_ids(
                    transaction.connection, integration.org_id, config.projects, "body.config.projects"
                )
            changed = await store.change_integration(
                transaction.connection,
                integration,
                now=to_milliseconds(self.now()),
                name=body.name,
                enabled=body.enabled,
                config=config,
                hook_id=body.hook_id,
            )
            await _record(transaction, "integration.change", changed)
            transaction.after_commit(self.forget, changed.id)
        return self._shown(changed)

    @route("POST", ONE + "/rotate", _WRITE, body=ROTATION)
    async def rotate_integration_secret(self, integration: Integration, request: web.Request) -> IntegrationWithSecret:
        """Replace the secret of an integration.

        For `overlapHours`, both secrets are valid, so that you have time to enter the new one at the platform. With 0
        the previous secret is no longer valid at once. Older secrets are never valid.
        """
        issues = Issues()
        body = await self.context.read_body(request, SecretRotation, issues)
        check_secret(integration.kind, body.secret, issues)
        issues.raise_if_any("The request body is not valid.")
        secret, now = body.secret or store.generate_secret(integration.kind), to_milliseconds(self.now())
        until = now + timedelta(hours=body.overlap_hours) if body.overlap_hours else None
        async with begin(self.context, request) as transaction:
            connection = transaction.connection
            integration = await load_integration(connection, request)
            changed = await store.rotate_secret(
                connection, self.secret_box, integration, secret, previous_until=until, now=now
            )
            more = {"previousSecretUntil": None if until is None else format_time(until)}
            await _record(transaction, "integration.rotate", changed, more)
            transaction.after_commit(self.forget, changed.id)
        return self._with_secret(changed, secret)

    @route("DELETE", ONE, _WRITE)
    async def delete_integration(self, request: web.Request) -> None:
        """Delete an integration, its secrets and its deliveries. Data that it has reported, such as commits, are not
        deleted.
        """
        for _ in range(MAX_DELETIONS):  # each in its own transaction, so that other writers need not wait
            async with begin(self.context, request) as transaction:
                known = await load_integration(transaction.connection, request)
                deleted = await store.delete_events(transaction.connection, known.id, DELETED_AT_ONCE)
            if deleted < DELETED_AT_ONCE:
                break
        async with begin(self.context, request) as transaction:
            known = await load_integration(transaction.connection, request)
            await store.delete_integration(transaction.connection, known)
            await _record(transaction, "integration.delete", known)
            transaction.after_commit(self.forget, known.id)

    def _shown(self, integration: Integration) -> IntegrationBody:
        return shown_as(IntegrationBody, integration, url=webhook_url(self.base_url, integration))

    def _with_secret(self, integration: Integration, secret: str) -> IntegrationWithSecret:
        return shown_as(IntegrationWithSecret, integration, url=webhook_url(self.base_url, integration), secret=secret)


def integration_arguments(context: HandlerContext) -> Arguments:
    """The arguments of all handlers, and the integration in the path for handlers that take it. It is loaded before the
    body is read, so 404 precedes 415.
    """

    async def provide(request: web.Request, _stack: AsyncExitStack) -> Integration:
        async with context.database.read() as connection:
            return await load_integration(connection, request)

    return control_arguments(context, {Integration: Argument(provide)})


async def load_integration(connection: AsyncConnection, request: web.Request) -> Integration:
    """Load the integration in the path. Raises NotFound."""
    org_id, integration_id = authorization_context(request).org_id, path_id(request, "integrationId")
    found = await store.find_integration(connection, org_id, integration_id)
    if found is None:
        raise NotFound
    return found


async def _record(
    transaction: Transaction,
    action: str,
    integration: Integration,
    extra: Mapping[str, object] = MappingProxyType({}),
) -> None:
    config = integration.config
    data = {
        "kind": integration.kind.value,
        "name": integration.name,
        "enabled": integration.enabled,
        "projects": list(config.projects),
        "allowPlainToken": config.allow_plain_token,
        "syncStatus": config.sync_status,
        "hookId": integration.hook_id,
    }
    await transaction.record(action, integration.id, {**data, **extra})
