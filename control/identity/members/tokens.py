"""Personal access tokens: who may issue tokens for whom, and on whose behalf the tokens act.

A principal issues tokens for itself, and for agents and services that it owns. A token never has more scopes or a later
expiry than the token that it was issued with, and is revoked together with that token. A token that a user issues for
its agent acts on the user's behalf (RFC 8693). Every action of the agent with the token records this, and so do tokens
that the agent issues with it. A token for a service acts for the service alone, unless its issuer already acts on
behalf of a principal.

Every function runs in the caller's transaction.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import access_tokens, delegations
from chassis.errors import Conflict, Forbidden
from chassis.http.access import bearer
from chassis.http.declaration import Arguments, PageOf, route
from control.http.field_types import Name, Timestamp
from control.identity.members.api import Principals, get_visible_member, member_argument
from control.identity.members.member_store import StoredMember
from control.identity.organizations import organization_store
from control.identity.organizations.revocation import issuing_token
from control.routing.arguments import Handlers, Transaction, control_arguments
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from proto.identity import MAX_ACT_CHAIN, PrincipalKind, Role, Scope

MAX_TOKENS: Final = 100  # valid tokens of one principal in one organization


MAX_DAYS: Final = 3_650
PATH: Final = "/orgs/{orgSlug}/tokens"
OF_PRINCIPAL: Final = "/orgs/{orgSlug}/principals/{principalId}/tokens"
NEW: Final = {"name": "CI", "scopes": ["approvals:read", "approvals:write"], "expiresInDays": 90}
_WRITE: Final = bearer(Scope.TOKENS_WRITE)


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The token to create. Without `scopes`: all scopes of the creating token. Without `expiresInDays`: no expiry."""

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
    """A new token. Only this response has its secret."""

    token: Annotated[str, Meta(description="The secret, for `Authorization: Bearer`. Returned only in this response.")]


def _shown(row: sa.Row[Any], _caller: AuthorizationContext) -> Token:
    return shown_as(Token, row, on_behalf_of_principal_id=row.subject_id, act_chain=row.chain or [])


# Of the principal in the path, or of the caller if the path names no principal.
TOKENS: Final = Resource(
    "tokenId",
    ids("tok"),
    Scope.TOKENS_WRITE,
    access_tokens.c.id,
    in_organization(access_tokens) & (access_tokens.c.principal_id == sa.bindparam("principalId")),
    sa.select(access_tokens, delegations.c.subject_id, delegations.c.chain).outerjoin_from(
        access_tokens, delegations, delegations.c.token_id == access_tokens.c.id
    ),
    _shown,
)


class AccessTokens(Handlers):
    """Handlers of access tokens, and their dependencies. If the path names no principal, they act on the caller's
    tokens.
    """

    TAG: ClassVar = Principals.TAG

    def arguments(self) -> Arguments:
        own = {StoredMember: member_argument(self.context, _find_holder)}
        return control_arguments(self.context, own)

    @route("GET", PATH, _WRITE)
    async def list_tokens(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Token]:
        """List the caller's tokens, newest first, including revoked and expired ones."""
        return await page.of(TOKENS, caller)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example=NEW)
    async def create_token(self, holder: StoredMember, body: NewToken, transaction: Transaction) -> MadeToken:
        """Create a token for the caller.

        The scopes and the expiry cannot exceed the scopes and the expiry of the token that creates it. The secret is
        returned only in this response.
        """
        return await _create(transaction, holder.id, body)

    @route("DELETE", PATH + "/{tokenId}", _WRITE)
    async def revoke_token(self, token_id: str, transaction: Transaction) -> None:
        """Revoke one of the caller's tokens.

        Revokes all tokens derived from it, directly or indirectly, and open invitations created with any of them. The
        tokens stop working in this process at once. In other processes they stop working at once with Redis, otherwise
        within five seconds. A repeated request gets the same response.
        """
        await self._revoke(transaction, transaction.caller.principal_id, token_id)

    @route("GET", OF_PRINCIPAL, _WRITE)
    async def list_tokens_of_principal(
        self, principal_id: str, caller: AuthorizationContext, page: PageReader
    ) -> PageOf[Token]:
        """List the tokens of a principal.

        The caller must own the principal, or have the scope `members:read`.
        """
        async with self.context.database.read() as connection:
            await get_visible_member(connection, caller, principal_id)
        return await page.of(TOKENS, caller)

    @route("POST", OF_PRINCIPAL, _WRITE, status=201, errors=(409,), example=NEW)
    async def create_token_of_principal(
        self, holder: StoredMember, body: NewToken, transaction: Transaction
    ) -> MadeToken:
        """Create a token for an agent or service that the caller owns.

        A user's agent acts on the user's behalf, which the audit log records. The scopes and the expiry cannot exceed
        the scopes and the expiry of the token that creates it.
        """
        return await _create(transaction, holder.id, body)

    @route("DELETE", OF_PRINCIPAL + "/{tokenId}", _WRITE)
    async def revoke_token_of_principal(self, principal_id: str, token_id: str, transaction: Transaction) -> None:
        """Revoke a token of a principal.

        The caller must own the principal, or have `members:write`. Only owners can revoke tokens of owners.
        Everything that was created with the token is revoked with it.
        """
        await self._revoke(transaction, principal_id, token_id)

    async def _revoke(self, transaction: Transaction, principal_id: str, token_id: str) -> None:
        connection, caller = transaction.connection, transaction.caller
        holder = await get_visible_member(connection, caller, principal_id)
        token = await _show(connection, caller, holder, token_id)
        _require_revoker(caller, holder)
        if token.revoked_at is None:
            revoked = await organization_store.revoke_token(connection, caller.org_id, token_id)
            counts = {} if revoked is None else {name: count for name, count in revoked._asdict().items() if count > 0}
            await transaction.record("token.revoke", token_id, {"holder": holder.id, **counts})
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)


async def _create(transaction: Transaction, holder_id: str, body: NewToken) -> MadeToken:
    connection, caller, days = transaction.connection, transaction.caller, body.expires_in_days
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    holder = await _find_holder(connection, caller, holder_id)
    issued = await _issue(connection, caller, holder, body.name, body.scopes, expires_at)
    token = await _show(connection, caller, holder, issued.id)
    data = {
        "holder": holder.id,
        "name": body.name,
        "scopes": token.scopes or [],
        "expiresAt": token.expires_at or "",
    }
    await transaction.record("token.create", issued.id, data)
    return MadeToken(**msgspec.structs.asdict(token), token=issued.secret)


async def _show(
    connection: AsyncConnection, caller: AuthorizationContext, holder: StoredMember, token_id: str
) -> Token:
    of_holder = in_organization(access_tokens) & (access_tokens.c.principal_id == holder.id)
    return await TOKENS.show(connection, caller, token_id, of_holder)


async def _issue(
    connection: AsyncConnection,
    by: AuthorizationContext,
    holder: StoredMember,
    name: str,
    scopes: Iterable[Scope] | None,
    expires_at: datetime | None,
) -> organization_store.IssuedToken:
    """Issue a token for `holder`, for whom `by` may issue tokens. Raises Forbidden for scopes that `by` lacks. Raises
    Conflict beyond MAX_TOKENS, and for an actor chain longer than MAX_ACT_CHAIN.
    """
    delegation = _delegation_for(by, holder)
    own = await issuing_token(connection, by)
    granted = _granted_scopes(by, scopes, unrestricted=own is None or own.scopes is None)
    if own is not None and own.expires_at is not None:
        expires_at = own.expires_at if expires_at is None else min(expires_at, own.expires_at)
    await _check_token_limit(connection, by.org_id, holder.id)
    token = await organization_store.create_token(
        connection,
        by.org_id,
        holder.id,
        name,
        scopes=granted,
        expires_at=expires_at,
        minted_with=None if own is None else own.id,
    )
    if delegation is not None:
        row = {"token_id": token.id, "org_id": by.org_id, "created_at": organization_store.now()}
        subject_id, chain = delegation
        await connection.execute(delegations.insert().values(row | {"subject_id": subject_id, "chain": list(chain)}))
    return token


async def _find_holder(connection: AsyncConnection, caller: AuthorizationContext, principal_id: str) -> StoredMember:
    """A member for whom the caller may issue tokens: the caller, or a principal that it owns. Raises NotFound,
    Forbidden.
    """
    holder = await get_visible_member(connection, caller, principal_id)
    if caller.principal_id not in (holder.id, holder.owner_id):
        raise Forbidden("You can create tokens only for yourself and for agents and services that you own.")
    return holder


def _delegation_for(by: AuthorizationContext, holder: StoredMember) -> tuple[str, tuple[str, ...]] | None:
    """The subject on whose behalf a token acts that `by` issues for `holder`, and its actors: the holder first, the
    direct actor for the subject last. None if the token acts for the holder alone. Raises Conflict beyond
    MAX_ACT_CHAIN.
    """
    if by.on_behalf_of is not None:
        chain = by.act_chain if holder.id == by.principal_id else (holder.id, *by.act_chain)
        if len(chain) > MAX_ACT_CHAIN:
            raise Conflict(f"A delegation chain can have at most {MAX_ACT_CHAIN} principals.")
        return by.on_behalf_of, chain
    if holder.kind is PrincipalKind.AGENT and holder.id != by.principal_id:
        return by.principal_id, (holder.id,)
    return None


def _granted_scopes(
    by: AuthorizationContext, scopes: Iterable[Scope] | None, *, unrestricted: bool
) -> frozenset[Scope] | None:
    if scopes is None:
        return None if unrestricted else by.scopes
    requested = frozenset(scopes)
    missing = sorted(requested - by.scopes)
    if missing:
        raise Forbidden(f"A token cannot have scopes that your credential lacks: {', '.join(missing)}.")
    return requested


async def _check_token_limit(connection: AsyncConnection, org_id: str, principal_id: str) -> None:
    unexpired = access_tokens.c.expires_at.is_(None) | (access_tokens.c.expires_at > organization_store.now())
    valid = access_tokens.c.revoked_at.is_(None) & unexpired
    of_principal = (access_tokens.c.org_id == org_id) & (access_tokens.c.principal_id == principal_id)
    if (await connection.scalar(sa.select(sa.func.count()).where(of_principal, valid)) or 0) >= MAX_TOKENS:
        raise Conflict(f"A principal can have at most {MAX_TOKENS} valid tokens. Revoke some first.")


def _require_revoker(caller: AuthorizationContext, holder: StoredMember) -> None:
    if caller.principal_id in (holder.id, holder.owner_id):
        return
    if holder.role is Role.OWNER and caller.role is not Role.OWNER:
        raise Forbidden("Only owners can revoke tokens of an owner.")
    if Scope.MEMBERS_WRITE not in caller.scopes:
        raise Forbidden(f"Revoking tokens of other principals requires the scope {Scope.MEMBERS_WRITE}.")
