"""`/orgs/{orgSlug}/projects/{projectSlug}/keys`: list, create, change, rotate, revoke."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import project_keys
from chassis.db.database import format_time
from chassis.errors import Conflict
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Arguments, PageOf, route
from chassis.http.route import Tag
from chassis.http.validation import Issues
from control.http.context import path_id
from control.http.field_types import Name, Timestamp
from control.identity.organizations import project_key_store as store
from control.routing.arguments import Handlers, Transaction, control_arguments
from control.routing.resource import PageReader, Resource, ids, in_project, shown_as
from proto.identity import MAX_KEY_RATE, Scope, format_dsn

PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/keys"
ONE: Final = PATH + "/{keyId}"
_WRITE: Final = bearer(Scope.KEYS_WRITE)
DAY_MINUTES: Final = 24 * 60
MAX_GRACE_MINUTES: Final = 30 * DAY_MINUTES
MAX_KEYS: Final = 100  # active keys per project; rotation may double them, because old keys stay active for a while
Rate = Annotated[
    int,
    Meta(
        ge=0,
        le=MAX_KEY_RATE,
        description="Requests per second: at least 1, and at most the configured default. The current rate of the key "
        "is also accepted.",
    ),
]


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key to create."""

    name: Name


class KeyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a key. Omitted fields are not changed. `rate` null: the configured default."""

    name: Name | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    rate: Rate | UnsetType | None = UNSET


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How long the old key works alongside the new one."""

    grace_minutes: Annotated[int, Meta(ge=0, le=MAX_GRACE_MINUTES)] = DAY_MINUTES


class ProjectKey(msgspec.Struct, frozen=True, rename="camel"):
    """A project key, without its secret."""

    id: Annotated[str, Meta(pattern=f"^{ids('key')}$")]
    name: Name
    hint: Annotated[str, Meta(description="The last four characters of the secret.")]
    enabled: bool
    rate: Annotated[
        int | None,
        Meta(
            description="Requests per second. `null`: the configured default. 0: unlimited. Only the operator can set "
            "0."
        ),
    ]
    created_at: Timestamp
    revoked_at: Annotated[
        Timestamp | None,
        Meta(
            description="When the key stops working. After a rotation, this time may be in the future. Null: the key "
            "is not revoked."
        ),
    ]


class MadeKey(ProjectKey, frozen=True, rename="camel"):
    """A new key. Only this response contains its secret, alone and inside a DSN."""

    key: Annotated[str, Meta(description="The secret. Returned only in this response.")]
    dsn: Annotated[str, Meta(description="The secret in the form `{scheme}://{key}@{host}/{projectId}`.")]


KEYS: Final = Resource(
    "keyId",
    ids("key"),
    Scope.KEYS_READ,
    project_keys.c.id,
    in_project(project_keys),
    sa.select(project_keys),
    lambda row, _caller: shown_as(ProjectKey, row),
)


@dataclass(frozen=True, slots=True)
class Keys(Handlers):
    """Handlers of project keys, and their dependencies. `base_url` is the address in DSNs, `default_rate` the requests
    per second of a key by the settings (0: no limit).
    """

    TAG: ClassVar = Tag("keys", "Project keys, which authenticate telemetry exports.")
    base_url: str
    default_rate: int = 0

    def arguments(self) -> Arguments:
        return replace(control_arguments(self.context), read_body=self._read_body)

    @route("GET", PATH, bearer(Scope.KEYS_READ), page="KeyPage")
    async def list_keys(self, caller: AuthorizationContext, page: PageReader) -> PageOf[ProjectKey]:
        """List keys including revoked ones, newest first."""
        return await page.of(KEYS, caller)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example={"name": "checkout in production"})
    async def create_key(self, body: NewKey, transaction: Transaction) -> MadeKey:
        """Create a key.

        The secret is returned only in this response. 409 if the project has the maximum number of active keys.
        """
        connection, caller = transaction.connection, transaction.caller
        await store.check_key_limit(connection, caller.path_project_id, MAX_KEYS)
        issued = await store.create_project_key(
            connection, caller.org_id, caller.path_project_id, body.name, caller.principal_id
        )
        await transaction.record("key.create", issued.key.id, _audit_data(issued.key, caller))
        return self._made(issued)

    @route("PATCH", ONE, _WRITE, example={"enabled": False})
    async def change_key(self, key_id: str, body: KeyChange, transaction: Transaction) -> ProjectKey:
        """Change a key.

        If you disable a key or change its rate, the change takes effect in this process at once. In other processes it
        takes effect at once with Redis, and within five seconds without Redis. Only the operator can set a rate above
        the configured default.
        """
        connection, caller = transaction.connection, transaction.caller
        await KEYS.show(connection, caller, key_id)
        self._invalidate(transaction, await _apply_change(connection, caller, key_id, body))
        changed = await KEYS.show(connection, caller, key_id)
        await transaction.record("key.update", key_id, _audit_data(changed, caller))
        return changed

    @route("POST", ONE + "/rotate", _WRITE, status=201, errors=(409,), example={"graceMinutes": 60})
    async def rotate_key(self, key_id: str, body: Rotation, transaction: Transaction) -> MadeKey:
        """Replace a key by a new one.

        The new key has the same name and rate. The old key works until `graceMinutes` have passed, by default one day,
        which leaves time to deploy the new key.
        """
        connection, caller, project_id = transaction.connection, transaction.caller, transaction.caller.path_project_id
        key = await KEYS.show(connection, caller, key_id)
        if key.revoked_at is not None:
            raise Conflict("The key is already revoked or rotated.")
        if body.grace_minutes:
            await store.check_key_limit(connection, project_id, 2 * MAX_KEYS)
        ends_at = datetime.now(UTC) + timedelta(minutes=body.grace_minutes)
        self._invalidate(transaction, await store.revoke_project_key(connection, project_id, key_id, ends_at))
        issued = await store.create_project_key(
            connection, caller.org_id, project_id, key.name, caller.principal_id, key.rate
        )
        data = _audit_data(issued.key, caller) | {"replaces": key_id, "until": format_time(ends_at)}
        await transaction.record("key.rotate", issued.key.id, data)
        return self._made(issued)

    @route("DELETE", ONE, _WRITE)
    async def revoke_key(self, key_id: str, transaction: Transaction) -> None:
        """Revoke a key.

        The key stops working in this process at once. In other processes it stops at once with Redis, and within five
        seconds without Redis. If you repeat the request, the response is the same.
        """
        connection, caller = transaction.connection, transaction.caller
        key = await KEYS.show(connection, caller, key_id)
        self._invalidate(transaction, await store.revoke_project_key(connection, caller.path_project_id, key_id))
        if (await KEYS.show(connection, caller, key_id)).revoked_at != key.revoked_at:
            await transaction.record("key.revoke", key_id, {"name": key.name})

    async def _read_body(self, request: web.Request, type_: type[Any]) -> Any:
        """Read and check the body. The key in the path is loaded first, so 404 precedes 400, even if the caller lacks
        the read scope. Raises BadRequest, also for a rate that only the operator may set. The key's current rate is
        always accepted.
        """
        if type_ is NewKey:
            return await self.context.read_body(request, type_)
        async with self.context.database.read() as connection:
            key = await KEYS.show(connection, authorization_context(request), path_id(request, "keyId"))
        return (await self.context.read_checked_body(request, type_, partial(self._check_rate, key.rate)))[0]

    def _check_rate(self, current: int | None, body: Rotation | KeyChange, issues: Issues) -> None:
        rate = body.rate if isinstance(body, KeyChange) else None
        if not isinstance(rate, int) or rate == current:
            return
        if not rate:
            issues.add("body.rate", "Must be at least 1.", "too_small")
        if 0 < self.default_rate < rate:
            issues.add("body.rate", f"Must be at most {self.default_rate}, the configured default.", "too_large")

    def _invalidate(self, transaction: Transaction, key_hash: bytes | None) -> None:
        if key_hash is not None:
            transaction.after_commit(self.context.guards.invalidate_key, key_hash)

    def _made(self, issued: store.IssuedProjectKey) -> MadeKey:
        dsn = format_dsn(self.base_url, issued.secret, issued.key.project_id)
        return shown_as(MadeKey, issued.key, key=issued.secret, dsn=dsn)


async def _apply_change(
    connection: AsyncConnection, caller: AuthorizationContext, key_id: str, body: KeyChange
) -> bytes | None:
    """Apply the change. Returns the key's hash if guards have to invalidate the key."""
    key_hash, project_id = None, caller.path_project_id
    if body.name is not UNSET:
        await store.rename_project_key(connection, project_id, key_id, body.name)
    if body.enabled is not UNSET:
        key_hash = await store.enable_project_key(connection, project_id, key_id, body.enabled)
    if body.rate is not UNSET:
        key_hash = await store.set_key_rate(connection, caller.org_id, key_id, body.rate)
    return key_hash


def _audit_data(key: ProjectKey | store.StoredProjectKey, caller: AuthorizationContext) -> dict[str, object]:
    """Data of the audit event."""
    data: dict[str, object] = {"name": key.name, "enabled": key.enabled, "projectId": str(caller.path_project_id)}
    return data if key.rate is None else data | {"rate": key.rate}
