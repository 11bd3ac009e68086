"""`/orgs/{orgSlug}/scim-tokens`: list, issue, rotate, revoke the tokens of the organization's directory. Also has the
guard of SCIM.

The guard looks the token up at every request, so that a revoked token stops working everywhere at once.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext, DirectoryIdentity
from chassis.auth.tables import new_id, new_scim_token, organizations
from chassis.db.database import Database, format_time, to_milliseconds
from chassis.errors import Conflict, NotFound, Unauthorized
from chassis.http.access import bearer, directory_identity
from chassis.http.declaration import PageOf, route
from control.http.context import RequestSlots
from control.http.field_types import Name, Timestamp
from control.identity.directory.tables import scim_tokens
from control.identity.scim.messages import ScimUrls
from control.routing.arguments import Handlers, Transaction
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from proto.identity import SCIM_PREFIX, Scope, hash_secret, is_token, secret_hint

PATH: Final = "/orgs/{orgSlug}/scim-tokens"
ONE: Final = PATH + "/{scimTokenId}"
MAX_TOKENS: Final = 10  # valid tokens per organization
MAX_GRACE_HOURS: Final = 30 * 24
_WRITE: Final = bearer(Scope.SSO_WRITE)


class NewScimToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The token to issue."""

    name: Name
    expires_in_days: Annotated[
        Annotated[int, Meta(ge=1, le=3_650)] | None, Meta(description="Null: the token does not expire.")
    ] = None


class ScimTokenRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The time for which the old token stays valid."""

    grace_hours: Annotated[int, Meta(ge=0, le=MAX_GRACE_HOURS)] = 24


class ScimToken(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A token without its secret. `hint` is the end of the secret. The token is valid until the earlier of `expiresAt`
    and `revokedAt`.
    """

    id: str
    name: Name
    hint: str
    created_by_principal_id: str
    created_at: Timestamp
    expires_at: Timestamp | None
    last_used_at: Annotated[Timestamp | None, Meta(description="Updated at most once per minute.")]
    revoked_at: Annotated[Timestamp | None, Meta(description="May be in the future if the token was rotated.")]


class MadeScimToken(ScimToken, frozen=True, rename="camel", kw_only=True):
    """The token with its secret, and the endpoint."""

    token: Annotated[str, Meta(description="The secret, for `Authorization: Bearer`. Returned only in this response.")]
    endpoint: Annotated[str, Meta(description="The SCIM base URL to enter in the directory.")]


SCIM_TOKENS: Final = Resource(
    "scimTokenId",
    ids("sct"),
    Scope.SSO_READ,
    scim_tokens.c.id,
    in_organization(scim_tokens),
    sa.select(scim_tokens),
    lambda row, _caller: shown_as(ScimToken, row, created_by_principal_id=row.created_by),
)


@dataclass(frozen=True, slots=True)
class ScimTokens(Handlers):
    """Handlers of tokens, and their dependencies."""

    urls: ScimUrls

    @route("GET", PATH, bearer(Scope.SSO_READ))
    async def list_scim_tokens(self, caller: AuthorizationContext, page: PageReader) -> PageOf[ScimToken]:
        """List the SCIM tokens of the organization, newest first, including revoked and expired tokens."""
        return await page.of(SCIM_TOKENS, caller)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example={"name": "Okta", "expiresInDays": 365})
    async def create_scim_token(self, body: NewScimToken, transaction: Transaction) -> MadeScimToken:
        """Issue a SCIM token.

        The token belongs to the directory, not to the user who issues it, and works only for `/scim/v2/{orgSlug}`. The
        secret is returned only in this response. Only users may issue tokens. 409 if ten tokens are valid.
        """
        now = datetime.now(UTC)
        expires_at = None if body.expires_in_days is None else now + timedelta(days=body.expires_in_days)
        issued = await self._issue(transaction, body.name, expires_at, now)
        data = {"name": issued.name, "expiresAt": issued.expires_at or ""}
        await transaction.record("scim_token.create", issued.id, data)
        return issued

    @route("POST", ONE + "/rotate", _WRITE, status=201, errors=(409,), example={"graceHours": 24})
    async def rotate_scim_token(
        self, scim_token_id: str, body: ScimTokenRotation, transaction: Transaction
    ) -> MadeScimToken:
        """Issue a token that replaces another.

        The new token has the same name and expires after the same time. The old token stays valid for `graceHours`, a
        day by default, so that you can enter the new token in the directory. Only users may rotate tokens. 409 for a
        token that is not valid, or was already rotated.
        """
        now = datetime.now(UTC)
        before = await _find(transaction, scim_token_id)
        if before.revoked_at is not None or (before.expires_at is not None and before.expires_at <= now):
            raise Conflict("The token is expired, revoked or already rotated. Issue a new token.")
        await _revoke(transaction, scim_token_id, now + timedelta(hours=body.grace_hours))
        expires_at = None if before.expires_at is None else now + (before.expires_at - before.created_at)
        issued = await self._issue(transaction, before.name, expires_at, now)
        data = {"replaces": scim_token_id, "graceHours": body.grace_hours}
        await transaction.record("scim_token.rotate", issued.id, data)
        return issued

    @route("DELETE", ONE, _WRITE)
    async def revoke_scim_token(self, scim_token_id: str, transaction: Transaction) -> None:
        """Revoke a SCIM token.

        The token stops working everywhere at once. Only users may revoke tokens. A repeated request gets the same
        response.
        """
        token = await _find(transaction, scim_token_id)
        if await _revoke(transaction, scim_token_id, datetime.now(UTC)):
            expires = "" if token.expires_at is None else format_time(token.expires_at)
            await transaction.record("scim_token.revoke", token.id, {"name": token.name, "expiresAt": expires})

    async def _issue(
        self, transaction: Transaction, name: str, expires_at: datetime | None, now: datetime
    ) -> MadeScimToken:
        """Issue a token. Raises Conflict beyond MAX_TOKENS."""
        connection, caller, now = transaction.connection, transaction.caller, to_milliseconds(now)
        valid = sa.select(sa.func.count()).where(scim_tokens.c.org_id == caller.org_id, *_is_valid(now))
        if (await connection.scalar(valid) or 0) >= MAX_TOKENS:
            raise Conflict(f"An organization can have at most {MAX_TOKENS} valid SCIM tokens. Revoke one first.")
        secret, token_id = new_scim_token(), new_id("sct")
        row = {
            "id": token_id,
            "org_id": caller.org_id,
            "name": name,
            "hash": hash_secret(secret),
            "hint": secret_hint(secret),
            "created_by": caller.principal_id,
            "created_at": now,
            "expires_at": None if expires_at is None else to_milliseconds(expires_at),
        }
        await connection.execute(scim_tokens.insert().values(row))
        shown = msgspec.structs.asdict(await SCIM_TOKENS.show(connection, caller, token_id))
        return MadeScimToken(**shown, token=secret, endpoint=self.urls.base(caller.org_slug))


async def _find(transaction: Transaction, token_id: str) -> sa.Row[Any]:
    """The row of the organization's token, valid or not. Raises NotFound."""
    statement = sa.select(scim_tokens).where(
        scim_tokens.c.org_id == transaction.caller.org_id, scim_tokens.c.id == token_id
    )
    row = (await transaction.connection.execute(statement)).one_or_none()
    if row is None:
        raise NotFound
    return row


async def _revoke(transaction: Transaction, token_id: str, at: datetime) -> bool:
    """Revoke the token as of a time. False, without a change, if it is revoked as of an earlier time."""
    at = to_milliseconds(at)
    later = scim_tokens.c.revoked_at.is_(None) | (scim_tokens.c.revoked_at > at)
    revoked = scim_tokens.update().where(scim_tokens.c.id == token_id, later).values(revoked_at=at)
    return (await transaction.connection.execute(revoked)).rowcount == 1


async def record_use(connection: AsyncConnection, token_id: str, now: datetime) -> None:
    """Store the time of the last use."""
    used = scim_tokens.update().where(scim_tokens.c.id == token_id)
    await connection.execute(used.values(last_used_at=to_milliseconds(now)))


async def find_accepted(
    connection: AsyncConnection, which: sa.ColumnElement[bool], now: datetime
) -> sa.Row[Any] | None:
    """The row of the token, with the `slug` of its organization. None if it has expired, or is revoked or unknown."""
    statement = (
        sa.select(scim_tokens, organizations.c.slug)
        .join(organizations, organizations.c.id == scim_tokens.c.org_id)
        .where(which, organizations.c.deleted_at.is_(None), *_is_valid(to_milliseconds(now)))
    )
    return (await connection.execute(statement)).one_or_none()


def _is_valid(now: datetime) -> list[sa.ColumnElement[bool]]:
    """Conditions of a valid token. `revoked_at` of a rotated token is in the future."""
    return [end.is_(None) | (end > now) for end in (scim_tokens.c.expires_at, scim_tokens.c.revoked_at)]


TOO_MANY: Final = "Too many requests of this directory wait. Try again."
USE_PRECISION: Final = timedelta(minutes=1)
TOKEN_REQUIRED: Final = "A SCIM token is required: Authorization: Bearer scim_..."  # noqa: S105 (a message)
INVALID_TOKEN: Final = "The SCIM token is invalid, expired or revoked."  # noqa: S105 (a message)


@dataclass(frozen=True, slots=True)
class DirectoryGuard:
    """Checks the tokens of directories."""

    database: Database
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    # Slots by token: directories also need connections of the database.
    lookups: RequestSlots = field(default_factory=lambda: RequestSlots(TOO_MANY))

    async def check(self, authorization: str | None, org_slug: str) -> DirectoryIdentity:
        """The directory of a token. Raises Unauthorized. Raises NotFound for another organization than the token's.
        Raises RateLimited, DatabaseUnavailable.
        """
        secret = _parse_bearer(authorization)
        if not secret.startswith(SCIM_PREFIX):
            raise Unauthorized(TOKEN_REQUIRED)
        if not is_token(secret, SCIM_PREFIX):
            raise Unauthorized(INVALID_TOKEN)
        now = self.now()
        async with self.lookups.taken(hash_secret(secret)), self.database.read() as connection:
            found = await find_accepted(connection, scim_tokens.c.hash == hash_secret(secret), now)
        if found is None:
            raise Unauthorized(INVALID_TOKEN)
        if found.slug != org_slug:
            raise NotFound
        if found.last_used_at is None or now - found.last_used_at >= USE_PRECISION:
            async with self.database.write() as connection:
                await record_use(connection, found.id, now)
        return DirectoryIdentity(found.id, found.org_id, found.slug)

    @asynccontextmanager
    async def write_transaction(self, request: web.Request) -> AsyncIterator[tuple[AsyncConnection, DirectoryIdentity]]:
        """A write transaction of the calling directory. Its token is checked again, because a body may take long to
        arrive. Raises Unauthorized, DatabaseUnavailable.
        """
        identity = directory_identity(request)
        async with self.database.write() as connection:
            if await find_accepted(connection, scim_tokens.c.id == identity.token_id, self.now()) is None:
                raise Unauthorized(INVALID_TOKEN)
            yield connection, identity


def _parse_bearer(authorization: str | None) -> str:
    scheme, _, credential = (authorization or "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(TOKEN_REQUIRED)
    return credential.strip()
