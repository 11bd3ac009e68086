"""`/auth/user`, `/auth/organizations`, `/auth/password`, `/auth/whoami`: the caller's own account. Its changes are
recorded in the audit log of every organization that the user is a member of.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.auth.tables import memberships, organizations, principals, users
from chassis.errors import Forbidden
from chassis.http.access import any_credential, session
from chassis.http.declaration import route
from control.audit.record import Actor, record
from control.http.field_types import Name, Slug
from control.identity.bodies import AUTH, AvatarUrl, Locale, NewPassword, PasswordInput, ThemeName
from control.identity.login.authentication import MAX_ORGANIZATIONS, Authenticator
from control.identity.login.credentials import SessionUser, user_body
from control.identity.login.throttle import ReauthenticationFailed
from control.identity.members import member_store
from control.identity.organizations import organization_store
from control.identity.users import session_store, user_store
from control.routing.arguments import Handlers, SessionTransaction, begin_session
from proto.identity import PrincipalKind, Role, Scope

MAX_PROJECTS: Final = 1_000


def session_actor(caller: AuthenticatedCredential, org_id: str) -> Actor:
    """The audit actor of a session. Only the organization that the session is in gets the session's id."""
    return Actor(
        org_id, caller.principal_id, caller.kind, token_id=caller.token_id if org_id == caller.org_id else None
    )


async def record_in_all_orgs(
    connection: AsyncConnection,
    user_id: str,
    actor_for: Callable[[str], Actor],
    action: str,
    data: Mapping[str, object],
    request_id: str,
) -> None:
    """Record an event about a user in every organization that the user is a member of. `actor_for` gets each
    organization's id.
    """
    statement = (
        sa.select(memberships.c.org_id)
        .join_from(memberships, organizations, organizations.c.id == memberships.c.org_id)
        .where(memberships.c.principal_id == user_id, organizations.c.deleted_at.is_(None))
        .order_by(memberships.c.org_id)
    )
    for org_id in (await connection.scalars(statement)).all():
        await record(connection, actor_for(org_id), action, user_id, data, request_id)


async def record_change(transaction: SessionTransaction, action: str, data: Mapping[str, object]) -> None:
    """Record a change that the caller made to the own account, in every organization that the caller is a member of."""
    caller = transaction.caller
    by = partial(session_actor, caller)
    await record_in_all_orgs(transaction.connection, caller.principal_id, by, action, data, transaction.request_id)


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to the account. Omitted fields are not changed."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    locale: Locale | msgspec.UnsetType = msgspec.UNSET
    theme: ThemeName | msgspec.UnsetType = msgspec.UNSET
    avatar_url: AvatarUrl | msgspec.UnsetType | None = msgspec.UNSET


class PasswordChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The current password, if the account has one, and the new password."""

    password: NewPassword
    current: PasswordInput | None = None


class Named(msgspec.Struct, frozen=True, rename="camel"):
    """An organization, or a project."""

    id: str
    slug: Slug
    name: Name


class OwnOrganization(Named, frozen=True):
    """An organization that the user is a member of. `current`: whether this session is in the organization."""

    role: Role
    current: bool


class OwnOrganizations(msgspec.Struct, frozen=True):
    """Organizations that the user may log in to, sorted by slug."""

    data: Annotated[list[OwnOrganization], Meta(max_length=MAX_ORGANIZATIONS)]


class WhoamiPrincipal(msgspec.Struct, frozen=True, rename="camel"):
    """The caller. `email` is absent while the second factor of the session is pending."""

    id: str
    kind: PrincipalKind
    name: Name
    email: str | UnsetType | None = UNSET


class WhoamiOrganization(Named, frozen=True):
    """The organization of the credential."""


class WhoamiProject(Named, frozen=True):
    """A project that the caller may see."""


class Whoami(msgspec.Struct, frozen=True, rename="camel"):
    """The caller, and the permissions of the credential. A session whose second factor is pending (`mfaPending`) has
    only `principal`, `session` and `mfaPending`. `POST /auth/totp/verify` accepts the code.
    """

    principal: WhoamiPrincipal
    session: Annotated[bool, Meta(description="Whether the credential is a session.")]
    mfa_pending: Annotated[bool, Meta(description="Whether the second factor of the session is pending.")]
    role: Annotated[Role | None, Meta(description="Null if the caller is no longer a member of the organization.")] | (
        UnsetType
    ) = UNSET
    scopes: Annotated[list[Scope], Meta(description="Scopes of the credential.", max_length=200)] | UnsetType = UNSET
    organization: WhoamiOrganization | UnsetType = UNSET
    projects: (
        Annotated[list[WhoamiProject], Meta(description="Sorted by slug.", max_length=MAX_PROJECTS)] | UnsetType
    ) = UNSET
    password_set: (
        Annotated[bool | None, Meta(description="Whether the user has a password. Null for other principals.")]
        | UnsetType
    ) = UNSET


@dataclass(frozen=True, slots=True)
class Accounts(Handlers):
    """Handlers of the caller's own account, and their dependencies."""

    TAG: ClassVar = AUTH
    authenticator: Authenticator

    @route("GET", "/auth/user", session())
    async def show_user(self, caller: AuthenticatedCredential, connection: AsyncConnection) -> SessionUser:
        """Show the account."""
        return user_body(await user_store.get_user(connection, caller.principal_id))

    @route("PATCH", "/auth/user", session(), example={"theme": "dark"})
    async def change_user(self, body: UserChange, transaction: SessionTransaction) -> SessionUser:
        """Change the account.

        403 in a single sign-on session, if the account is also a member of other organizations.
        """
        changes = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
        connection, caller = transaction.connection, transaction.caller
        await _require_own(connection, caller)
        await user_store.change_user(connection, caller.principal_id, name=changes.pop("name", None), values=changes)
        user = await user_store.get_user(connection, caller.principal_id)
        data = {"name": user.name, "locale": user.locale, "theme": user.theme}
        await record_change(transaction, "user.update", data)
        return user_body(user)

    @route("GET", "/auth/organizations", session())
    async def list_own_organizations(
        self, caller: AuthenticatedCredential, connection: AsyncConnection
    ) -> OwnOrganizations:
        """List the user's organizations.

        A session is in one of them. `/auth/switch` continues it in another organization, and `/auth/login` with
        `orgSlug` starts a new session there. A single sign-on session sees only its own organization.
        """
        found = await member_store.list_organizations(connection, caller.principal_id, MAX_ORGANIZATIONS)
        items = [
            OwnOrganization(org.id, org.slug, org.name, role, current=org.id == caller.org_id)
            for org, role in found
            if org.id == caller.org_id or not caller.is_federated
        ]
        return OwnOrganizations(items)

    @route("POST", "/auth/password", session())
    async def change_password(
        self, body: PasswordChange, caller: AuthenticatedCredential, request: web.Request
    ) -> None:
        """Change the password.

        `current` is omitted by a user who has no password yet and has logged in with a one-time code. All other
        sessions of the account end, in every organization.
        """
        user = await self.authenticator.load_user(caller)
        async with self.authenticator.throttle.account(request, caller):
            if not await self._confirms(caller, user, body.current):
                raise ReauthenticationFailed("The password is not valid.")
        hashed = await self.authenticator.passwords.hash(body.password, salted_like=user.password_hash)
        async with begin_session(self.context, request) as transaction:
            connection, current = transaction.connection, transaction.caller.token_id
            if await user_store.reload_if_unchanged(connection, user) is None:
                raise ReauthenticationFailed("The password is not valid.")
            await user_store.set_password(connection, user.id, hashed)
            await session_store.end_all(connection, user.id, datetime.now(UTC), except_session_id=current)
            await record_change(transaction, "user.password", {})
        self.context.guards.invalidate_sessions(caller.principal_id)

    @route("GET", "/auth/whoami", any_credential(), errors=(401,))
    async def whoami(self, caller: AuthenticatedCredential, connection: AsyncConnection) -> Whoami:
        """Show the caller, the organization and the permissions of the credential.

        A session whose second factor is pending gets the user's own name, and nothing about the organization.
        """
        return await _describe(connection, caller)

    async def _confirms(self, caller: AuthenticatedCredential, user: user_store.User, current: str | None) -> bool:
        """Whether the current password is right. It may be missing if the account has no password and the session is
        not a single sign-on session: then the session began with a one-time code of the operator.
        """
        if current is None:
            return user.password_hash is None and not caller.is_federated
        return await self.authenticator.passwords.matches(user.password_hash, current)


async def _require_own(connection: AsyncConnection, caller: AuthenticatedCredential) -> None:
    """Raises Forbidden for a single sign-on session of an account that is also a member of other organizations."""
    if caller.is_federated and len(await member_store.list_organizations(connection, caller.principal_id, 2)) > 1:
        raise Forbidden(
            "The account is also a member of other organizations. Log in with its password to change the account."
        )


_NAMES: Final = (
    sa.select(
        principals.c.name,
        users.c.email,
        users.c.password_hash.is_not(None).label("password_set"),
        organizations.c.slug,
        organizations.c.name.label("org_name"),
    )
    .select_from(principals)
    .outerjoin(users, users.c.principal_id == principals.c.id)
    .join(organizations, organizations.c.id == sa.bindparam("org_id"))
    .where(principals.c.id == sa.bindparam("principal_id"))
)


async def _describe(connection: AsyncConnection, caller: AuthenticatedCredential) -> Whoami:
    named = (await connection.execute(_NAMES, {"org_id": caller.org_id, "principal_id": caller.principal_id})).one()
    if caller.mfa_pending:
        principal = WhoamiPrincipal(caller.principal_id, caller.kind, named.name)
        return Whoami(principal, session=True, mfa_pending=True)
    is_member = caller.role is not None
    projects = await organization_store.list_projects(connection, caller.org_id, "", MAX_PROJECTS) if is_member else []
    return Whoami(
        principal=WhoamiPrincipal(caller.principal_id, caller.kind, named.name, named.email),
        role=caller.role,
        scopes=sorted(caller.scopes) if is_member else [],
        organization=WhoamiOrganization(caller.org_id, named.slug, named.org_name),
        projects=[WhoamiProject(str(one.id), one.slug, one.name) for one in projects],
        session=caller.is_session,
        mfa_pending=False,
        password_set=bool(named.password_set) if caller.kind is PrincipalKind.USER else None,
    )
