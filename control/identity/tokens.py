"""`/orgs/{orgSlug}/tokens`, and `/orgs/{orgSlug}/principals/{principalId}/tokens`: list, create, revoke."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import Forbidden, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, PageOf, declared_routes, route
from chassis.http.web import Route
from control.http.context import HandlerContext, path_id
from control.http.field_types import Name, Timestamp
from control.identity import organization_repository
from control.identity import token_repository as store
from control.identity.member_repository import StoredMember
from control.identity.principals import TAG, get_visible_member
from control.identity.token_repository import StoredToken
from control.identity.token_revocation import RevokedCounts
from control.routing.arguments import Transaction, control_arguments
from control.routing.resource import PageReader, ids, shown_as
from proto.identity import Role, Scope

MAX_DAYS: Final = 3_650
PATH: Final = "/orgs/{orgSlug}/tokens"
OF_PRINCIPAL: Final = "/orgs/{orgSlug}/principals/{principalId}/tokens"
NEW: Final = {"name": "CI", "scopes": ["approvals:read", "approvals:write"], "expiresInDays": 90}
_WRITE: Final = bearer(Scope.TOKENS_WRITE)


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The token to create. Without `scopes`: all scopes of the creating token; without `expiresInDays`: no expiry."""

    name: Name
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=len(Scope))] | None = None
    expires_in_days: Annotated[int, Meta(ge=1, le=MAX_DAYS)] | None = None


class Token(msgspec.Struct, frozen=True, rename="camel"):
    """A personal access token, without its secret. `scopes` null: all scopes of its holder's roles."""

    id: Annotated[str, Meta(pattern=f"^{ids('tok')}$")]
    principal_id: Annotated[str, Meta(pattern=f"^{ids('prn')}$")]
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


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """Handlers of access tokens, and their dependencies. Without a principal in the path they act on the caller's."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        own = {StoredMember: Argument(self._holder)}
        return declared_routes(self, TAG, control_arguments(self.context, own))

    @route("GET", PATH, _WRITE)
    async def list_tokens(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Token]:
        """List the caller's tokens, newest first, including revoked and expired ones."""
        return await self._list(caller, caller.principal_id, page)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example=NEW)
    async def create_token(self, holder: StoredMember, body: NewToken, transaction: Transaction) -> MadeToken:
        """Create a token for the caller.

        Its scopes and expiry cannot exceed those of the token that creates it. The secret is returned only in this
        response.
        """
        return await _create(transaction, holder.id, body)

    @route("DELETE", PATH + "/{tokenId}", _WRITE)
    async def revoke_token(self, token_id: str, transaction: Transaction) -> None:
        """Revoke one of the caller's tokens.

        Revokes all tokens derived from it, directly or indirectly, and open invitations created with any of them. They
        stop working in this process at once; in others at once with Redis, else within five seconds. Repeating the
        request gets the same response.
        """
        await self._revoke(transaction, transaction.caller.principal_id, token_id)

    @route("GET", OF_PRINCIPAL, _WRITE)
    async def list_tokens_of_principal(
        self, principal_id: str, caller: AuthorizationContext, page: PageReader
    ) -> PageOf[Token]:
        """List the tokens of a principal.

        The caller must own the principal, or have the scope `members:read`.
        """
        return await self._list(caller, principal_id, page)

    @route("POST", OF_PRINCIPAL, _WRITE, status=201, errors=(409,), example=NEW)
    async def create_token_of_principal(
        self, holder: StoredMember, body: NewToken, transaction: Transaction
    ) -> MadeToken:
        """Create a token for an agent or service that the caller owns.

        A user's agent acts on the user's behalf, which the audit log records. Scopes and expiry of a token cannot
        exceed those of the token that creates it.
        """
        return await _create(transaction, holder.id, body)

    @route("DELETE", OF_PRINCIPAL + "/{tokenId}", _WRITE)
    async def revoke_token_of_principal(self, principal_id: str, token_id: str, transaction: Transaction) -> None:
        """Revoke a token of a principal.

        The caller must own the principal, or have `members:write`; only owners can revoke tokens of owners.
        Everything that was created with the token is revoked with it.
        """
        await self._revoke(transaction, principal_id, token_id)

    async def _holder(self, request: web.Request, _stack: AsyncExitStack) -> StoredMember:
        """Of a token to create, before the body is read. Raises NotFound, Forbidden."""
        caller = authorization_context(request)
        is_own = "principalId" not in request.match_info
        principal_id = caller.principal_id if is_own else path_id(request, "principalId")
        async with self.context.database.read() as connection:
            holder = await get_visible_member(connection, caller, principal_id)
        store.require_can_issue(caller, holder)
        return holder

    async def _list(self, caller: AuthorizationContext, principal_id: str, page: PageReader) -> PageOf[Token]:
        async with self.context.database.read() as connection:
            holder = await get_visible_member(connection, caller, principal_id)

        async def fetch(connection: AsyncConnection, before: str | None, limit: int) -> Sequence[StoredToken]:
            return await store.list_tokens(connection, caller.org_id, holder.id, before, limit)

        return await page.read(("tokens", caller.org_id, holder.id), fetch, _shown)

    async def _revoke(self, transaction: Transaction, principal_id: str, token_id: str) -> None:
        connection, caller = transaction.connection, transaction.caller
        holder = await get_visible_member(connection, caller, principal_id)
        token = await store.find_token(connection, caller.org_id, holder.id, token_id)
        if token is None:
            raise NotFound
        _require_revoker(caller, holder)
        if token.revoked_at is None:
            revoked = await organization_repository.revoke_token(connection, caller.org_id, token_id)
            await transaction.record("token.revoke", token_id, {"holder": holder.id, **_revoked_counts(revoked)})
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)


async def _create(transaction: Transaction, holder_id: str, body: NewToken) -> MadeToken:
    connection, caller, days = transaction.connection, transaction.caller, body.expires_in_days
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    holder = await get_visible_member(connection, caller, holder_id)
    issued = await store.issue_token(connection, caller, holder, body.name, body.scopes, expires_at)
    found = await store.find_token(connection, caller.org_id, holder.id, issued.id)
    if found is None:
        raise LookupError(f"the new token {issued.id} was not found")
    token = _shown(found)
    data = {
        "holder": holder.id,
        "name": body.name,
        "scopes": token.scopes or [],
        "expiresAt": token.expires_at or "",
    }
    await transaction.record("token.create", issued.id, data)
    return MadeToken(**msgspec.structs.asdict(token), token=issued.secret)


def _shown(token: StoredToken) -> Token:
    scopes = None if token.scopes is None else list(token.scopes)
    return shown_as(
        Token, token, scopes=scopes, on_behalf_of_principal_id=token.subject_id, act_chain=list(token.chain)
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
