"""`/orgs/{orgSlug}/scim-tokens`: list, issue, rotate, revoke the tokens of the organization's directory."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id, new_scim_token
from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import organizations
from chassis.db.database import format_time, to_milliseconds
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.field_types import Name, Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.identity.directory.tables import scim_tokens
from control.identity.scim.messages import ScimUrls
from control.identity.sso.connections import require_user
from proto.identity import Scope, hash_secret, secret_hint

MAX_TOKENS: Final = 10  # valid ones of an organization


@dataclass(frozen=True, slots=True)
class StoredScimToken:
    """A token without its secret; `hint` is the end of the secret. A rotated token has `revoked_at` in the future."""

    id: str
    org_id: str
    name: str
    hint: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Whether requests with it are accepted."""
        return all(end is None or end > now for end in (self.expires_at, self.revoked_at))


@dataclass(frozen=True, slots=True)
class IssuedScimToken:
    """A token and, only here, its secret."""

    token: StoredScimToken
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AcceptedToken:
    """A token as a request presents it."""

    token: StoredScimToken
    org_slug: str


_COLUMNS: Final = [scim_tokens.c[name] for name in StoredScimToken.__slots__]


async def issue_token(
    connection: AsyncConnection, org_id: str, name: str, created_by: str, expires_at: datetime | None, now: datetime
) -> IssuedScimToken:
    """A new token. Raises Conflict beyond MAX_TOKENS."""
    now = to_milliseconds(now)
    if await _count_valid(connection, org_id, now) >= MAX_TOKENS:
        raise Conflict(f"An organization can have at most {MAX_TOKENS} valid SCIM tokens; revoke one first.")
    secret = new_scim_token()
    row: dict[str, Any] = {
        "id": new_id("sct"),
        "org_id": org_id,
        "name": name,
        "hint": secret_hint(secret),
        "created_by": created_by,
        "created_at": now,
        "expires_at": None if expires_at is None else to_milliseconds(expires_at),
        "last_used_at": None,
        "revoked_at": None,
    }
    await connection.execute(scim_tokens.insert().values(**row, hash=hash_secret(secret)))
    return IssuedScimToken(StoredScimToken(**row), secret)


async def find_accepted(connection: AsyncConnection, secret: str, now: datetime) -> AcceptedToken | None:
    """The token with this secret; None for an unknown one, and for one that has expired or is revoked."""
    found = (
        sa.select(*_COLUMNS, organizations.c.slug)
        .join(organizations, organizations.c.id == scim_tokens.c.org_id)
        .where(scim_tokens.c.hash == hash_secret(secret), organizations.c.deleted_at.is_(None))
    )
    row = (await connection.execute(found)).mappings().one_or_none()
    if row is None:
        return None
    token = _token(row)
    return AcceptedToken(token, row["slug"]) if token.is_valid(now) else None


async def is_accepted(connection: AsyncConnection, token_id: str, now: datetime) -> bool:
    """Whether requests with this token are accepted."""
    found = (
        sa.select(*_COLUMNS)
        .join(organizations, organizations.c.id == scim_tokens.c.org_id)
        .where(scim_tokens.c.id == token_id, organizations.c.deleted_at.is_(None))
    )
    row = (await connection.execute(found)).mappings().one_or_none()
    return row is not None and _token(row).is_valid(now)


async def find_token(connection: AsyncConnection, org_id: str, token_id: str) -> StoredScimToken | None:
    """The organization's token with this id, valid or not."""
    found = sa.select(*_COLUMNS).where(scim_tokens.c.org_id == org_id, scim_tokens.c.id == token_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _token(row)


async def list_tokens(
    connection: AsyncConnection, org_id: str, before_id: str | None, limit: int
) -> list[StoredScimToken]:
    """At most `limit` tokens, newest first, starting before `before_id` (None: from the newest)."""
    page = sa.select(*_COLUMNS).where(scim_tokens.c.org_id == org_id)
    if before_id is not None:
        page = page.where(scim_tokens.c.id < before_id)
    rows = await connection.execute(page.order_by(scim_tokens.c.id.desc()).limit(limit))
    return [_token(row) for row in rows.mappings()]


async def revoke_token(connection: AsyncConnection, token_id: str, at: datetime) -> None:
    """Revoke the token as of a time, unless it is revoked as of an earlier one."""
    at = to_milliseconds(at)
    later = scim_tokens.c.revoked_at.is_(None) | (scim_tokens.c.revoked_at > at)
    await connection.execute(scim_tokens.update().where(scim_tokens.c.id == token_id, later).values(revoked_at=at))


async def record_use(connection: AsyncConnection, token_id: str, now: datetime) -> None:
    """Store the time of the last use."""
    used = scim_tokens.update().where(scim_tokens.c.id == token_id)
    await connection.execute(used.values(last_used_at=to_milliseconds(now)))


async def _count_valid(connection: AsyncConnection, org_id: str, now: datetime) -> int:
    ends = (scim_tokens.c.expires_at, scim_tokens.c.revoked_at)
    valid = [end.is_(None) | (end > now) for end in ends]
    found = sa.select(sa.func.count()).select_from(scim_tokens).where(scim_tokens.c.org_id == org_id, *valid)
    return await connection.scalar(found) or 0


def _token(row: sa.RowMapping) -> StoredScimToken:
    return StoredScimToken(**{name: row[name] for name in StoredScimToken.__slots__})


TAG: Final = Tag("directory", "SCIM tokens and settings of the organization's directory.")
MAX_GRACE_HOURS: Final = 30 * 24
_TOKEN_ID: Final = re.compile(r"sct_[0-9a-z]{26}")


class NewScimToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The token to issue."""

    name: Name
    expires_in_days: Annotated[
        Annotated[int, Meta(ge=1, le=3_650)] | None, Meta(description="Null: the token does not expire.")
    ] = None


class ScimTokenRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How long the old token stays valid."""

    grace_hours: Annotated[int, Meta(ge=0, le=MAX_GRACE_HOURS)] = 24


class ScimToken(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A token without its secret; `hint` is the end of the secret. It is valid until the earlier of `expiresAt` and
    `revokedAt`.
    """

    id: str
    name: Name
    hint: str
    created_by_principal_id: str
    created_at: Timestamp
    expires_at: Timestamp | None
    last_used_at: Annotated[Timestamp | None, Meta(description="To the minute.")]
    revoked_at: Annotated[Timestamp | None, Meta(description="In the future for a token that was rotated.")]


class MadeScimToken(ScimToken, frozen=True, rename="camel", kw_only=True):
    """The token with its secret, and the endpoint."""

    token: Annotated[str, Meta(description="The secret, for `Authorization: Bearer`. Returned only in this response.")]
    endpoint: Annotated[str, Meta(description="The SCIM base URL to enter in the directory.")]


class ScimTokenPage(msgspec.Struct, rename="camel"):
    """A page of tokens, newest first."""

    data: list[ScimToken]
    next_cursor: NextCursor
    has_more: bool


_ID: Final = Parameter("scimTokenId", "path", Annotated[str, Meta(min_length=1)], "The token.")
_MADE: Final = (ResponseSpec("The token, with its secret.", json_content(MadeScimToken), 201),)
LIST: Final = Operation("listScimTokens", TAG, (ResponseSpec("A page.", json_content(ScimTokenPage)),), PAGE_PARAMETERS)
CREATE: Final = Operation(
    "createScimToken",
    TAG,
    _MADE,
    body=Body(json_content(NewScimToken), example={"name": "Okta", "expiresInDays": 365}),
    error_statuses=(409,),
)
ROTATE: Final = Operation(
    "rotateScimToken",
    TAG,
    _MADE,
    (_ID,),
    body=Body(json_content(ScimTokenRotation), example={"graceHours": 24}),
    error_statuses=(409,),
)
REVOKE: Final = Operation("revokeScimToken", TAG, (ResponseSpec("The token was revoked.", status=204),), (_ID,))


@dataclass(frozen=True, slots=True)
class ScimTokens:
    """Handlers of tokens, and their dependencies."""

    context: HandlerContext
    urls: ScimUrls

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/scim-tokens"
        one, write = every + "/{scimTokenId}", bearer(Scope.SSO_WRITE)
        return [
            Route("GET", every, self.list, bearer(Scope.SSO_READ), operation=LIST),
            Route("POST", every, self.create, write, operation=CREATE),
            Route("POST", one + "/rotate", self.rotate, write, operation=ROTATE),
            Route("DELETE", one, self.revoke, write, operation=REVOKE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the SCIM tokens of the organization, newest first, including revoked and expired ones."""
        org_id = authorization_context(request).org_id
        binding = f"scim tokens of {org_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await list_tokens(connection, org_id, page.after, page.limit + 1)
        return json_response(page_body(found, page, token_body, lambda one: one.id, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Issue a SCIM token.

        It belongs to the directory, not to whoever issues it, and reaches nothing but `/scim/v2/{orgSlug}`. The secret
        is returned only in this response. Only users may. 409 when ten are valid.
        """
        require_user(authorization_context(request))
        body = await self.context.read_body(request, NewScimToken)
        now = datetime.now(UTC)
        expires_at = None if body.expires_in_days is None else now + timedelta(days=body.expires_in_days)
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            issued = await issue_token(connection, caller.org_id, body.name, caller.principal_id, expires_at, now)
            await _record(connection, caller, "scim_token.create", issued.token, request_id(request))
        return self._made(caller, issued)

    async def rotate(self, request: web.Request) -> web.StreamResponse:
        """Issue a token that replaces another.

        It has the same name and expires after the same time. The old one stays valid for `graceHours`, a day by
        default, which leaves time to enter the new one in the directory. Only users may. 409 for a token that is not
        valid, or was rotated already.
        """
        require_user(authorization_context(request))
        async with self.context.database.read() as connection:  # 404 comes before 415
            await _load(connection, request, authorization_context(request))
        body = await self.context.read_body(request, ScimTokenRotation)
        now = datetime.now(UTC)
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            before = await _load(connection, request, caller)
            if before.revoked_at is not None or not before.is_valid(now):
                raise Conflict("The token is expired, revoked or rotated already: issue a new one.")
            await revoke_token(connection, before.id, now + timedelta(hours=body.grace_hours))
            expires_at = None if before.expires_at is None else now + (before.expires_at - before.created_at)
            issued = await issue_token(connection, caller.org_id, before.name, caller.principal_id, expires_at, now)
            data = {"replaces": before.id, "graceHours": body.grace_hours}
            await record(connection, caller, "scim_token.rotate", issued.token.id, data, request_id(request))
        return self._made(caller, issued)

    async def revoke(self, request: web.Request) -> web.StreamResponse:
        """Revoke a SCIM token, everywhere at once. Only users may. Repeating the request gets the same response."""
        require_user(authorization_context(request))
        now = datetime.now(UTC)
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            token = await _load(connection, request, caller)
            if token.revoked_at is None or token.revoked_at > now:
                await revoke_token(connection, token.id, now)
                await _record(connection, caller, "scim_token.revoke", token, request_id(request))
        return web.Response(status=204)

    def _made(self, caller: AuthorizationContext, issued: IssuedScimToken) -> web.Response:
        shown = msgspec.structs.asdict(token_body(issued.token))
        endpoint = self.urls.base(caller.org_slug)
        return json_response(MadeScimToken(**shown, token=issued.secret, endpoint=endpoint), status=201)


def token_body(token: StoredScimToken) -> ScimToken:
    """The API representation."""
    return ScimToken(
        id=token.id,
        name=token.name,
        hint=token.hint,
        created_by_principal_id=token.created_by,
        created_at=format_time(token.created_at),
        expires_at=None if token.expires_at is None else format_time(token.expires_at),
        last_used_at=None if token.last_used_at is None else format_time(token.last_used_at),
        revoked_at=None if token.revoked_at is None else format_time(token.revoked_at),
    )


async def _load(connection: AsyncConnection, request: web.Request, caller: AuthorizationContext) -> StoredScimToken:
    """The token of the path. Raises NotFound."""
    token_id = request.match_info["scimTokenId"]
    found = await find_token(connection, caller.org_id, token_id) if _TOKEN_ID.fullmatch(token_id) else None
    if found is None:
        raise NotFound
    return found


async def _record(
    connection: AsyncConnection, caller: AuthorizationContext, action: str, token: StoredScimToken, rid: str
) -> None:
    expires = "" if token.expires_at is None else format_time(token.expires_at)
    await record(connection, caller, action, token.id, {"name": token.name, "expiresAt": expires}, rid)
