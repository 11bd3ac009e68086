"""`/orgs/{orgSlug}/integrations`: list, create, show, change, rotate, delete."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final

from aiohttp import web
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import Database, format_time, to_milliseconds
from chassis.errors import BadRequest, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, PageOf, declared_routes, route
from chassis.http.operation import Body, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route
from control.http.context import HandlerContext, path_id
from control.http.query_filters import find_project_ids, unknown_project
from control.inbound.integrations import delivery_repository, repository
from control.inbound.integrations.model import Integration, IntegrationConfig
from control.inbound.integrations.schemas import (
    IntegrationBody,
    IntegrationChange,
    IntegrationWithSecret,
    NewIntegration,
    SecretRotation,
    check_config,
    check_secret,
    webhook_url,
    with_unique_projects,
)
from control.routing.arguments import Transaction, begin, control_arguments
from control.routing.resource import PageReader, shown_as
from control.secrets.secret_box import SecretBox
from proto.identity import Scope

DELETED_AT_ONCE: Final = 1_000  # deliveries of an integration, in one transaction
MAX_DELETIONS: Final = 50
TAG: Final = Tag("integrations", "Systems that report by webhook, and what they have delivered.")
PATH: Final = "/orgs/{orgSlug}/integrations"
ONE: Final = PATH + "/{integrationId}"
NEW: Final = {"kind": "linear", "name": "Linear", "config": {"projects": ["web"], "syncStatus": True}}
CHANGE: Final = Body(json_content(IntegrationChange), example={"enabled": False})
ROTATION: Final = Body(json_content(SecretRotation), example={"overlapHours": 24})
_READ: Final = bearer(Scope.INTEGRATIONS_READ)
_WRITE: Final = bearer(Scope.INTEGRATIONS_WRITE)


@dataclass(frozen=True, slots=True)
class Integrations:
    """Handlers of integrations, and their dependencies. `base_url`: where platforms reach this service; `forget`: what
    is kept of an integration to verify deliveries with, once it has changed.
    """

    context: HandlerContext
    secret_box: SecretBox
    base_url: str
    forget: Callable[[str], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        known = {Integration: integration_argument(self.context.database)}
        return declared_routes(self, TAG, control_arguments(self.context, known))

    @route("GET", PATH, _READ, page="IntegrationPage")
    async def list_integrations(self, caller: AuthorizationContext, page: PageReader) -> PageOf[IntegrationBody]:
        """List integrations, newest first."""
        fetch = partial(repository.list_integrations, org_id=caller.org_id)
        return await page.read(("integrations", caller.org_id), fetch, self._shown)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example=NEW)
    async def create_integration(self, body: NewIntegration, transaction: Transaction) -> IntegrationWithSecret:
        """Create an integration.

        The answer has the URL and the secret to enter at the platform. The secret is stored encrypted and not shown
        again. 409 at the maximum number of integrations.
        """
        secret, caller = body.secret or repository.generate_secret(body.kind), transaction.caller
        config = with_unique_projects(body.config)
        await _require_projects(transaction.connection, caller.org_id, config)
        created = await repository.create(
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
    async def show_integration(self, known: Integration) -> IntegrationBody:
        """Show an integration."""
        return self._shown(known)

    @route("PATCH", ONE, _WRITE, body=CHANGE)
    async def change_integration(self, known: Integration, request: web.Request) -> IntegrationBody:
        """Change an integration: its name, whether it is enabled, what it does.

        What is sent to a disabled integration gets 404. Its kind stays.
        """
        issues = Issues()
        body = await self.context.read_body(request, IntegrationChange, issues)
        check_config(known.kind, body.config, issues)
        issues.raise_if_any("The request body is not valid.")
        config = None if body.config is UNSET else with_unique_projects(body.config)
        async with begin(self.context, request) as transaction:
            known = await load_integration(transaction.connection, request)
            if config is not None:
                await _require_projects(transaction.connection, known.org_id, config)
            changed = await repository.change(
                transaction.connection,
                known,
                now=to_milliseconds(self.now()),
                name=None if body.name is UNSET else body.name,
                enabled=None if body.enabled is UNSET else body.enabled,
                config=config,
                hook_id=body.hook_id,
            )
            await _record(transaction, "integration.change", changed)
            transaction.after_commit(self.forget, changed.id)
        return self._shown(changed)

    @route("POST", ONE + "/rotate", _WRITE, body=ROTATION)
    async def rotate_integration_secret(self, known: Integration, request: web.Request) -> IntegrationWithSecret:
        """Replace the secret of an integration.

        Both secrets are valid for `overlapHours`: time to enter the new one at the platform. With 0 the previous one
        is no longer valid at once. A secret before the previous one is never valid.
        """
        issues = Issues()
        body = await self.context.read_body(request, SecretRotation, issues)
        check_secret(known.kind, body.secret, issues)
        issues.raise_if_any("The request body is not valid.")
        secret, now = body.secret or repository.generate_secret(known.kind), to_milliseconds(self.now())
        until = now + timedelta(hours=body.overlap_hours) if body.overlap_hours else None
        async with begin(self.context, request) as transaction:
            connection = transaction.connection
            known = await load_integration(connection, request)
            changed = await repository.rotate(connection, self.secret_box, known, secret, previous_until=until, now=now)
            previous = {"previousSecretUntil": None if until is None else format_time(until)}
            await _record(transaction, "integration.rotate", changed, previous)
            transaction.after_commit(self.forget, changed.id)
        return self._with_secret(changed, secret)

    @route("DELETE", ONE, _WRITE)
    async def delete_integration(self, request: web.Request) -> None:
        """Delete an integration, its secrets and its deliveries. What it has reported stays."""
        for _ in range(MAX_DELETIONS):  # each in a transaction of its own: others write, too
            async with begin(self.context, request) as transaction:
                known = await load_integration(transaction.connection, request)
                deleted = await delivery_repository.delete_some(transaction.connection, known.id, DELETED_AT_ONCE)
            if deleted < DELETED_AT_ONCE:
                break
        async with begin(self.context, request) as transaction:
            known = await load_integration(transaction.connection, request)
            await repository.delete(transaction.connection, known)
            await _record(transaction, "integration.delete", known)
            transaction.after_commit(self.forget, known.id)

    def _shown(self, integration: Integration) -> IntegrationBody:
        return shown_as(IntegrationBody, integration, url=webhook_url(self.base_url, integration))

    def _with_secret(self, integration: Integration, secret: str) -> IntegrationWithSecret:
        url = webhook_url(self.base_url, integration)
        return shown_as(IntegrationWithSecret, integration, url=url, secret=secret)


def integration_argument(database: Database) -> Argument:
    """For handlers that ask for the integration in the path: 404 comes before 415."""

    async def provide(request: web.Request, _stack: AsyncExitStack) -> Integration:
        async with database.read() as connection:
            return await load_integration(connection, request)

    return Argument(provide)


async def load_integration(connection: AsyncConnection, request: web.Request) -> Integration:
    """The integration in the path. Raises NotFound."""
    org_id, integration_id = authorization_context(request).org_id, path_id(request, "integrationId")
    found = await repository.find(connection, org_id, integration_id)
    if found is None:
        raise NotFound
    return found


async def _require_projects(connection: AsyncConnection, org_id: str, config: IntegrationConfig) -> None:
    """Raises BadRequest for unknown projects."""
    found = await find_project_ids(connection, org_id, config.projects) if config.projects else {}
    unknown = [
        unknown_project(f"body.config.projects[{number}]")
        for number, slug in enumerate(config.projects)
        if slug not in found
    ]
    if unknown:
        raise BadRequest("The request body is not valid.", unknown)


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
