"""`/orgs/{orgSlug}/projects/{projectSlug}/keys`: list, create, change, rotate, revoke."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.field_types import Name, Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.identity import project_key_repository
from proto.identity import MAX_KEY_RATE, Scope, format_dsn

DAY_MINUTES: Final = 24 * 60
MAX_GRACE_MINUTES: Final = 30 * DAY_MINUTES
MAX_KEYS: Final = 100  # active ones per project; rotation may double them, since old keys stay active for a while
Rate = Annotated[
    int,
    Meta(
        ge=0, le=MAX_KEY_RATE, description="Requests per second, from 1 to the configured default, or the current rate."
    ),
]

_KEY_ID: Final = re.compile(r"key_[0-9a-z]{26}")


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key to create."""

    name: Name


class KeyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a key; omitted fields stay as they are. `rate` null: the configured default."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    enabled: bool | msgspec.UnsetType = msgspec.UNSET
    rate: Rate | msgspec.UnsetType | None = msgspec.UNSET


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How long the old key works alongside the new one."""

    grace_minutes: Annotated[int, Meta(ge=0, le=MAX_GRACE_MINUTES)] = DAY_MINUTES


class ProjectKey(msgspec.Struct, frozen=True, rename="camel"):
    """A project key, without its secret."""

    id: Annotated[str, Meta(pattern=f"^{_KEY_ID.pattern}$")]
    name: Name
    hint: Annotated[str, Meta(description="The last four characters of the secret.")]
    enabled: bool
    rate: Annotated[
        int | None,
        Meta(description="Requests per second. Null: the configured default. 0: unlimited; only the operator sets it."),
    ]
    created_at: Timestamp
    revoked_at: Annotated[
        Timestamp | None, Meta(description="The key works until this time, which may be in the future.")
    ]


class MadeKey(ProjectKey, frozen=True, rename="camel"):
    """A new key; the only response that holds its secret, alone and inside a DSN."""

    key: Annotated[str, Meta(description="The secret. Returned only in this response.")]
    dsn: Annotated[str, Meta(description="The secret in the form `{scheme}://{key}@{host}/{projectId}`.")]


class KeyPage(msgspec.Struct, rename="camel"):
    """A page of keys, newest first."""

    data: list[ProjectKey]
    next_cursor: NextCursor
    has_more: bool


TAG: Final = Tag("keys", "Project keys, which authenticate telemetry exports.")
LIST: Final = Operation("listKeys", TAG, (ResponseSpec("A page.", json_content(KeyPage)),), PAGE_PARAMETERS)
CREATE: Final = Operation(
    "createKey",
    TAG,
    (ResponseSpec("The key, with its secret.", json_content(MadeKey), 201),),
    body=Body(json_content(NewKey), example={"name": "checkout in production"}),
    error_statuses=(409,),
)
_ID: Final = Parameter("keyId", "path", Annotated[str, Meta(min_length=1)], "The key.")
CHANGE: Final = Operation(
    "changeKey",
    TAG,
    (ResponseSpec("The updated key.", json_content(ProjectKey)),),
    (_ID,),
    body=Body(json_content(KeyChange), example={"enabled": False}),
)
ROTATE: Final = Operation(
    "rotateKey",
    TAG,
    (ResponseSpec("The new key, with its secret.", json_content(MadeKey), 201),),
    (_ID,),
    body=Body(json_content(Rotation), example={"graceMinutes": 60}),
    error_statuses=(409,),
)
REVOKE: Final = Operation("revokeKey", TAG, (ResponseSpec("The key was revoked.", status=204),), (_ID,))


@dataclass(frozen=True, slots=True)
class Keys:
    """Handlers of project keys, and their dependencies. `base_url` is the address in DSNs, `default_rate` the requests
    per second of a key by the settings (0: no limit).
    """

    context: HandlerContext
    base_url: str
    default_rate: int = 0

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, one = (
            "/orgs/{orgSlug}/projects/{projectSlug}/keys",
            "/orgs/{orgSlug}/projects/{projectSlug}/keys/{keyId}",
        )
        return [
            Route("GET", every, self.list, bearer(Scope.KEYS_READ), operation=LIST),
            Route("POST", every, self.create, bearer(Scope.KEYS_WRITE), operation=CREATE),
            Route("PATCH", one, self.change, bearer(Scope.KEYS_WRITE), operation=CHANGE),
            Route("POST", one + "/rotate", self.rotate, bearer(Scope.KEYS_WRITE), operation=ROTATE),
            Route("DELETE", one, self.revoke, bearer(Scope.KEYS_WRITE), operation=REVOKE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List keys including revoked ones, newest first."""
        project_id = _project_id(authorization_context(request))
        binding = f"keys of {project_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await project_key_repository.list_project_keys(connection, project_id, page.after, page.limit + 1)
        return json_response(page_body(found, page, key_body, lambda one: one.id, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a key.

        The secret is returned only in this response. 409 when the project has the maximum number of active keys.
        """
        body = await self.context.read_body(request, NewKey)
        async with self.context.write_transaction(request) as (connection, caller):
            await project_key_repository.check_key_limit(connection, _project_id(caller), MAX_KEYS)
            issued = await project_key_repository.create_project_key(
                connection, caller.org_id, _project_id(caller), body.name, caller.principal_id
            )
            await record(connection, caller, "key.create", issued.key.id, _audit_data(issued.key), request_id(request))
        return self._created_response(issued)

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a key.

        Disabling it or changing its rate takes effect in this process at once; in others at once with Redis, else
        within five seconds. Only the operator sets a rate above the configured default.
        """
        body = await self._read_change(request, (await self._load_key(request)).rate)
        async with self.context.write_transaction(request) as (connection, caller):
            key = await _get_key(connection, request)
            key_hash = await _apply_change(connection, caller, key, body)
            changed = await _get_key(connection, request)
            await record(connection, caller, "key.update", key.id, _audit_data(changed), request_id(request))
        if key_hash is not None:
            self.context.guards.invalidate_key(key_hash)
        return json_response(key_body(changed))

    async def rotate(self, request: web.Request) -> web.StreamResponse:
        """Replace a key by a new one.

        The new key has the same name and rate. The old one works until `graceMinutes` have passed, a day by default,
        which leaves time to deploy the new one.
        """
        await self._load_key(request)
        body = await self.context.read_body(request, Rotation)
        now = datetime.now(UTC)
        async with self.context.write_transaction(request) as (connection, caller):
            key = await _get_key(connection, request)
            if key.revoked_at is not None:
                raise Conflict("The key is already revoked or rotated.")
            if body.grace_minutes:
                await project_key_repository.check_key_limit(connection, key.project_id, 2 * MAX_KEYS)
            ends_at = now + timedelta(minutes=body.grace_minutes)
            key_hash = await project_key_repository.revoke_project_key(connection, key.project_id, key.id, ends_at)
            issued = await project_key_repository.create_project_key(
                connection, caller.org_id, key.project_id, key.name, caller.principal_id, key.rate
            )
            data = _audit_data(issued.key) | {"replaces": key.id, "until": format_time(ends_at)}
            await record(connection, caller, "key.rotate", issued.key.id, data, request_id(request))
        if key_hash is not None:
            self.context.guards.invalidate_key(key_hash)
        return self._created_response(issued)

    async def revoke(self, request: web.Request) -> web.StreamResponse:
        """Revoke a key.

        It stops working in this process at once; in others at once with Redis, else within five seconds. Repeating the
        request gets the same response.
        """
        async with self.context.write_transaction(request) as (connection, caller):
            key = await _get_key(connection, request)
            key_hash = await project_key_repository.revoke_project_key(connection, key.project_id, key.id)
            if (await _get_key(connection, request)).revoked_at != key.revoked_at:
                await record(connection, caller, "key.revoke", key.id, {"name": key.name}, request_id(request))
        if key_hash is not None:
            self.context.guards.invalidate_key(key_hash)
        return web.Response(status=204)

    async def _load_key(self, request: web.Request) -> project_key_repository.StoredProjectKey:
        """The key in the path, read before the body so that 404 comes before 400. Raises NotFound."""
        async with self.context.database.read() as connection:
            return await _get_key(connection, request)

    async def _read_change(self, request: web.Request, current_rate: int | None) -> KeyChange:
        """Raises BadRequest, also for a rate that only the operator may set; the key's current rate is always
        accepted.
        """
        issues = Issues()
        body = await self.context.read_partial_body(request, KeyChange, {}, issues)
        if body is not None and isinstance(body.rate, int) and body.rate != current_rate:
            if not body.rate:
                issues.add("body.rate", "Must be at least 1.", "too_small")
            if 0 < self.default_rate < body.rate:
                issues.add("body.rate", f"Must be at most {self.default_rate}, the configured default.", "too_large")
        issues.raise_if_any("The request body is not valid.")
        if body is None:
            raise TypeError("a missing body must have issues")
        return body

    def _created_response(self, issued: project_key_repository.IssuedProjectKey) -> web.Response:
        fields = msgspec.structs.asdict(key_body(issued.key))
        dsn = format_dsn(self.base_url, issued.secret, issued.key.project_id)
        return json_response(MadeKey(**fields, key=issued.secret, dsn=dsn), status=201)


def key_body(key: project_key_repository.StoredProjectKey) -> ProjectKey:
    """The API representation."""
    return ProjectKey(
        id=key.id,
        name=key.name,
        hint=key.hint,
        enabled=key.enabled,
        rate=key.rate,
        created_at=format_time(key.created_at),
        revoked_at=None if key.revoked_at is None else format_time(key.revoked_at),
    )


async def _get_key(connection: AsyncConnection, request: web.Request) -> project_key_repository.StoredProjectKey:
    """The key in the path. Raises NotFound."""
    key_id = request.match_info["keyId"]
    if _KEY_ID.fullmatch(key_id) is None:  # a path may hold characters that no database column accepts
        raise NotFound
    found = await project_key_repository.find_project_key(
        connection, _project_id(authorization_context(request)), key_id
    )
    if found is None:
        raise NotFound
    return found


async def _apply_change(
    connection: AsyncConnection,
    caller: AuthorizationContext,
    key: project_key_repository.StoredProjectKey,
    body: KeyChange,
) -> bytes | None:
    """Apply the change. Returns the key's hash if guards have to invalidate it."""
    key_hash = None
    if body.name is not msgspec.UNSET:
        await project_key_repository.rename_project_key(connection, key.project_id, key.id, body.name)
    if body.enabled is not msgspec.UNSET:
        key_hash = await project_key_repository.enable_project_key(connection, key.project_id, key.id, body.enabled)
    if body.rate is not msgspec.UNSET:
        key_hash = await project_key_repository.set_key_rate(connection, caller.org_id, key.id, body.rate)
    return key_hash


def _audit_data(key: project_key_repository.StoredProjectKey) -> dict[str, object]:
    """Data of the audit event."""
    data: dict[str, object] = {"name": key.name, "enabled": key.enabled, "projectId": str(key.project_id)}
    return data if key.rate is None else data | {"rate": key.rate}


def _project_id(caller: AuthorizationContext) -> int:
    if caller.project_id is None:
        raise TypeError("the path has no project")
    return caller.project_id
