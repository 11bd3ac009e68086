"""`/orgs/{orgSlug}/tokens`, and `/orgs/{orgSlug}/principals/{principalId}/tokens`: list, create, revoke."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import Forbidden, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.field_types import Name, Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.identity import organization_repository
from control.identity import token_repository as store
from control.identity.member_repository import StoredMember
from control.identity.principals import TAG, get_visible_member
from control.identity.schemas import PRINCIPAL_ID, TOKEN_ID
from control.identity.token_revocation import RevokedCounts
from proto.identity import Role, Scope

MAX_DAYS: Final = 3_650


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The token to create. Without `scopes`: all scopes of the creating token; without `expiresInDays`: no expiry."""

    name: Name
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=len(Scope))] | None = None
    expires_in_days: Annotated[int, Meta(ge=1, le=MAX_DAYS)] | None = None


class Token(msgspec.Struct, frozen=True, rename="camel"):
    """A personal access token, without its secret. `scopes` null: all scopes of its holder's roles."""

    id: Annotated[str, Meta(pattern=f"^{TOKEN_ID.pattern}$")]
    principal_id: Annotated[str, Meta(pattern=f"^{PRINCIPAL_ID.pattern}$")]
    name: Name
    hint: Annotated[str, Meta(description="The last four characters of the secret.")]
    scopes: list[str] | None
    on_behalf_of_principal_id: Annotated[
        str | None, Meta(description="The principal on whose behalf the holder acts (RFC 8693).")
    ]
    act_chain: Annotated[list[str], Meta(description="Delegation chain (RFC 8693), the holder first.")]
    created_at: Timestamp
    expires_at: Timestamp | None
    last_used_at: Annotated[Timestamp | None, Meta(description="Updated at most once per minute.")]
    revoked_at: Timestamp | None


class MadeToken(Token, frozen=True, rename="camel"):
    """A new token; the only response that holds its secret."""

    token: Annotated[str, Meta(description="The secret, for `Authorization: Bearer`. Returned only in this response.")]


class TokenPage(msgspec.Struct, rename="camel"):
    """A page of tokens, newest first."""

    data: list[Token]
    next_cursor: NextCursor
    has_more: bool


_HOLDER: Final = Parameter("principalId", "path", Annotated[str, Meta(min_length=1)], "The holder.")
_ID: Final = Parameter("tokenId", "path", Annotated[str, Meta(min_length=1)], "The token.")
_PAGE_RESPONSE: Final = (ResponseSpec("A page.", json_content(TokenPage)),)
_CREATED_RESPONSE: Final = (ResponseSpec("The token, with its secret.", json_content(MadeToken), 201),)
_REVOKED_RESPONSE: Final = (ResponseSpec("The token was revoked.", status=204),)
_BODY: Final = Body(
    json_content(NewToken),
    example={"name": "CI", "scopes": ["approvals:read", "approvals:write"], "expiresInDays": 90},
)
LIST: Final = Operation("listTokens", TAG, _PAGE_RESPONSE, PAGE_PARAMETERS)
CREATE: Final = Operation("createToken", TAG, _CREATED_RESPONSE, body=_BODY, error_statuses=(409,))
REVOKE: Final = Operation("revokeToken", TAG, _REVOKED_RESPONSE, (_ID,))
LIST_OF_PRINCIPAL: Final = Operation("listTokensOfPrincipal", TAG, _PAGE_RESPONSE, (_HOLDER, *PAGE_PARAMETERS))
CREATE_OF_PRINCIPAL: Final = Operation(
    "createTokenOfPrincipal", TAG, _CREATED_RESPONSE, (_HOLDER,), body=_BODY, error_statuses=(409,)
)
REVOKE_OF_PRINCIPAL: Final = Operation("revokeTokenOfPrincipal", TAG, _REVOKED_RESPONSE, (_HOLDER, _ID))


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """Handlers of access tokens, and their dependencies. Without a principal in the path they act on the caller's."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        own, of_principal = "/orgs/{orgSlug}/tokens", "/orgs/{orgSlug}/principals/{principalId}/tokens"
        access = bearer(Scope.TOKENS_WRITE)
        return [
            Route("GET", own, self.list, access, operation=LIST),
            Route("POST", own, self.create, access, operation=CREATE),
            Route("DELETE", own + "/{tokenId}", self.revoke, access, operation=REVOKE),
            Route("GET", of_principal, self.list_of_principal, access, operation=LIST_OF_PRINCIPAL),
            Route("POST", of_principal, self.create_of_principal, access, operation=CREATE_OF_PRINCIPAL),
            Route(
                "DELETE", of_principal + "/{tokenId}", self.revoke_of_principal, access, operation=REVOKE_OF_PRINCIPAL
            ),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the caller's tokens, newest first, including revoked and expired ones."""
        return await self._list(request, authorization_context(request).principal_id)

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a token for the caller.

        Its scopes and expiry cannot exceed those of the token that creates it. The secret is returned only in this
        response.
        """
        return await self._create(request, authorization_context(request).principal_id)

    async def revoke(self, request: web.Request) -> web.StreamResponse:
        """Revoke one of the caller's tokens.

        Revokes all tokens derived from it, directly or indirectly, and open invitations created with any of them. They
        stop working in this process at once; in others at once with Redis, else within five seconds. Repeating the
        request gets the same response.
        """
        return await self._revoke(request, authorization_context(request).principal_id)

    async def list_of_principal(self, request: web.Request) -> web.StreamResponse:
        """List the tokens of a principal.

        The caller must own the principal, or have the scope `members:read`.
        """
        return await self._list(request, request.match_info["principalId"])

    async def create_of_principal(self, request: web.Request) -> web.StreamResponse:
        """Create a token for an agent or service that the caller owns.

        A user's agent acts on the user's behalf, which the audit log records. Scopes and expiry of a token cannot
        exceed those of the token that creates it.
        """
        return await self._create(request, request.match_info["principalId"])

    async def revoke_of_principal(self, request: web.Request) -> web.StreamResponse:
        """Revoke a token of a principal.

        The caller must own the principal, or have `members:write`; only owners can revoke tokens of owners.
        Everything that was created with the token is revoked with it.
        """
        return await self._revoke(request, request.match_info["principalId"])

    async def _list(self, request: web.Request, principal_id: str) -> web.StreamResponse:
        caller = authorization_context(request)
        async with self.context.database.read() as connection:
            holder = await get_visible_member(connection, caller, principal_id)
            binding = f"tokens of {holder.id} in {caller.org_id}".encode()
            page = parse_page_request(request, self.context.cursors, binding)
            found = await store.list_tokens(connection, caller.org_id, holder.id, page.after, page.limit + 1)
        return json_response(page_body(found, page, token_body, lambda one: one.id, self.context.cursors, binding))

    async def _create(self, request: web.Request, principal_id: str) -> web.StreamResponse:
        caller = authorization_context(request)
        async with self.context.database.read() as connection:
            holder = await get_visible_member(connection, caller, principal_id)
        store.require_can_issue(caller, holder)  # 404 and 403 come before 400
        body = await self.context.read_body(request, NewToken)
        days = body.expires_in_days
        expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
        async with self.context.write_transaction(request) as (connection, caller):
            holder = await get_visible_member(connection, caller, principal_id)
            issued = await store.issue_token(connection, caller, holder, body.name, body.scopes, expires_at)
            found = await store.find_token(connection, caller.org_id, holder.id, issued.id)
            if found is None:
                raise LookupError(f"the new token {issued.id} was not found")
            token = token_body(found)
            data = {
                "holder": holder.id,
                "name": body.name,
                "scopes": token.scopes or [],
                "expiresAt": token.expires_at or "",
            }
            await record(connection, caller, "token.create", issued.id, data, request_id(request))
        return json_response(MadeToken(**msgspec.structs.asdict(token), token=issued.secret), status=201)

    async def _revoke(self, request: web.Request, principal_id: str) -> web.StreamResponse:
        token_id = request.match_info["tokenId"]
        if TOKEN_ID.fullmatch(token_id) is None:  # a path may hold characters that no database column accepts
            raise NotFound
        async with self.context.write_transaction(request) as (connection, caller):
            holder = await get_visible_member(connection, caller, principal_id)
            token = await store.find_token(connection, caller.org_id, holder.id, token_id)
            if token is None:
                raise NotFound
            _require_revoker(caller, holder)
            if token.revoked_at is None:
                revoked = await organization_repository.revoke_token(connection, caller.org_id, token_id)
                data = {"holder": holder.id} | _revoked_counts(revoked)
                await record(connection, caller, "token.revoke", token_id, data, request_id(request))
        self.context.guards.invalidate_bearers(caller.org_id)
        return web.Response(status=204)


def token_body(token: store.StoredToken) -> Token:
    """The API representation."""
    return Token(
        id=token.id,
        principal_id=token.principal_id,
        name=token.name,
        hint=token.hint,
        scopes=None if token.scopes is None else list(token.scopes),
        on_behalf_of_principal_id=token.subject_id,
        act_chain=list(token.chain),
        created_at=format_time(token.created_at),
        expires_at=_time_or_none(token.expires_at),
        last_used_at=_time_or_none(token.last_used_at),
        revoked_at=_time_or_none(token.revoked_at),
    )


def _require_revoker(caller: AuthorizationContext, holder: StoredMember) -> None:
    if caller.principal_id in (holder.id, holder.owner_id):
        return
    if holder.role is Role.OWNER and caller.role is not Role.OWNER:
        raise Forbidden("Only owners can revoke tokens of an owner.")
    if Scope.MEMBERS_WRITE not in caller.scopes:
        raise Forbidden(f"Revoking tokens of other principals requires the scope {Scope.MEMBERS_WRITE}.")


def _revoked_counts(revoked: RevokedCounts | None) -> dict[str, int]:
    """The non-zero counts, as audit data."""
    return {} if revoked is None else {name: count for name, count in revoked._asdict().items() if count > 0}


def _time_or_none(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)
