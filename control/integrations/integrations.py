"""`/orgs/{orgSlug}/integrations`: list, create, show, change, rotate, delete."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Final

from aiohttp import web
from msgspec import UNSET, Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time, to_milliseconds
from chassis.errors import BadRequest, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.http.path_ids import path_id
from control.http.query_filters import find_project_ids, unknown_project
from control.integrations import delivery_repository, repository
from control.integrations.model import Integration, IntegrationConfig
from control.integrations.schemas import (
    IntegrationBody,
    IntegrationChange,
    IntegrationPage,
    IntegrationWithSecret,
    NewIntegration,
    SecretRotation,
    check_config,
    check_secret,
    integration_body,
    with_secret,
)
from control.secrets.secret_box import SecretBox
from proto.identity import Scope

DELETED_AT_ONCE: Final = 1_000  # deliveries of an integration, in one transaction
MAX_DELETIONS: Final = 50
TAG: Final = Tag("integrations", "Systems that report by webhook, and what they have delivered.")
ID: Final = Parameter("integrationId", "path", Annotated[str, Meta(min_length=1)], "The integration.")
LIST: Final = Operation(
    "listIntegrations", TAG, (ResponseSpec("A page.", json_content(IntegrationPage)),), PAGE_PARAMETERS
)
CREATE: Final = Operation(
    "createIntegration",
    TAG,
    (ResponseSpec("The integration, with its secret.", json_content(IntegrationWithSecret), 201),),
    body=Body(
        json_content(NewIntegration),
        example={"kind": "linear", "name": "Linear", "config": {"projects": ["web"], "syncStatus": True}},
    ),
    error_statuses=(409,),
)
SHOW: Final = Operation(
    "showIntegration", TAG, (ResponseSpec("The integration.", json_content(IntegrationBody)),), (ID,)
)
CHANGE: Final = Operation(
    "changeIntegration",
    TAG,
    (ResponseSpec("The updated integration.", json_content(IntegrationBody)),),
    (ID,),
    body=Body(json_content(IntegrationChange), example={"enabled": False}),
)
ROTATE: Final = Operation(
    "rotateIntegrationSecret",
    TAG,
    (ResponseSpec("The integration, with its new secret.", json_content(IntegrationWithSecret)),),
    (ID,),
    body=Body(json_content(SecretRotation), example={"overlapHours": 24}),
)
DELETE: Final = Operation("deleteIntegration", TAG, (ResponseSpec("The integration was deleted.", status=204),), (ID,))


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
        """Every route of this resource with its scope."""
        every, one = "/orgs/{orgSlug}/integrations", "/orgs/{orgSlug}/integrations/{integrationId}"
        read, write = bearer(Scope.INTEGRATIONS_READ), bearer(Scope.INTEGRATIONS_WRITE)
        return [
            Route("GET", every, self.list, read, operation=LIST),
            Route("POST", every, self.create, write, operation=CREATE),
            Route("GET", one, self.show, read, operation=SHOW),
            Route("PATCH", one, self.change, write, operation=CHANGE),
            Route("POST", one + "/rotate", self.rotate, write, operation=ROTATE),
            Route("DELETE", one, self.delete, write, operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List integrations, newest first."""
        org_id = authorization_context(request).org_id
        binding = f"integrations of {org_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await repository.list_integrations(connection, org_id, page.after, page.limit + 1)
        return json_response(page_body(found, page, self._body, lambda one: one.id, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create an integration.

        The answer has the URL and the secret to enter at the platform. The secret is stored encrypted and not shown
        again. 409 at the maximum number of integrations.
        """
        issues = Issues()
        body = await self.context.read_body(request, NewIntegration, issues)
        config = check_config(body.kind, body.config, issues)
        check_secret(body.kind, body.secret, issues)
        issues.raise_if_any("The request body is not valid.")
        secret = body.secret or repository.generate_secret(body.kind)
        async with self.context.write_transaction(request) as (connection, caller):
            await _require_projects(connection, caller.org_id, config)
            created = await repository.create(
                connection,
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
            await _record_audit(connection, request, caller, "integration.create", created)
        return json_response(with_secret(self._body(created), secret), status=201)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show an integration."""
        async with self.context.database.read() as connection:
            return json_response(self._body(await load_integration(connection, request)))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change an integration: its name, whether it is enabled, what it does.

        What is sent to a disabled integration gets 404. Its kind stays.
        """
        async with self.context.database.read() as connection:  # 404 comes before 415
            kind = (await load_integration(connection, request)).kind
        issues = Issues()
        body = await self.context.read_body(request, IntegrationChange, issues)
        config = None if body.config is UNSET else check_config(kind, body.config, issues)
        issues.raise_if_any("The request body is not valid.")
        async with self.context.write_transaction(request) as (connection, caller):
            known = await load_integration(connection, request)
            if config is not None:
                await _require_projects(connection, caller.org_id, config)
            changed = await repository.change(
                connection,
                known,
                now=to_milliseconds(self.now()),
                name=None if body.name is UNSET else body.name,
                enabled=None if body.enabled is UNSET else body.enabled,
                config=config,
                hook_id=body.hook_id,
            )
            await _record_audit(connection, request, caller, "integration.change", changed)
        self.forget(changed.id)
        return json_response(self._body(changed))

    async def rotate(self, request: web.Request) -> web.StreamResponse:
        """Replace the secret of an integration.

        Both secrets are valid for `overlapHours`: time to enter the new one at the platform. With 0 the previous one
        is no longer valid at once. A secret before the previous one is never valid.
        """
        async with self.context.database.read() as connection:  # 404 comes before 415
            kind = (await load_integration(connection, request)).kind
        issues = Issues()
        body = await self.context.read_body(request, SecretRotation, issues)
        check_secret(kind, body.secret, issues)
        issues.raise_if_any("The request body is not valid.")
        secret, now = body.secret or repository.generate_secret(kind), to_milliseconds(self.now())
        until = now + timedelta(hours=body.overlap_hours) if body.overlap_hours else None
        async with self.context.write_transaction(request) as (connection, caller):
            known = await load_integration(connection, request)
            changed = await repository.rotate(connection, self.secret_box, known, secret, previous_until=until, now=now)
            previous = {"previousSecretUntil": None if until is None else format_time(until)}
            await _record_audit(connection, request, caller, "integration.rotate", changed, previous)
        self.forget(changed.id)
        return json_response(with_secret(self._body(changed), secret))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete an integration, its secrets and its deliveries. What it has reported stays."""
        for _ in range(MAX_DELETIONS):  # each in a transaction of its own: others write, too
            async with self.context.write_transaction(request) as (connection, _caller):
                known = await load_integration(connection, request)
                if await delivery_repository.delete_some(connection, known.id, DELETED_AT_ONCE) < DELETED_AT_ONCE:
                    break
        async with self.context.write_transaction(request) as (connection, caller):
            known = await load_integration(connection, request)
            await repository.delete(connection, known)
            await _record_audit(connection, request, caller, "integration.delete", known)
        self.forget(known.id)
        return web.Response(status=204)

    def _body(self, integration: Integration) -> IntegrationBody:
        return integration_body(integration, self.base_url)


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


async def _record_audit(
    connection: AsyncConnection,
    request: web.Request,
    caller: AuthorizationContext,
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
    await record(connection, caller, action, integration.id, {**data, **extra}, request_id(request))
