"""`/auth/user`, `/auth/organizations`, `/auth/password`: the caller's own account."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.errors import Forbidden
from chassis.http.access import session
from chassis.http.declaration import declared_routes, route
from chassis.http.web import Route
from control.http.context import HandlerContext
from control.http.field_types import Name, Slug
from control.identity import member_repository, session_repository, user_repository
from control.identity.account_audit import record_change
from control.identity.login import MAX_ORGANIZATIONS, TAG
from control.identity.login_throttle import LoginThrottle, ReauthenticationFailed
from control.identity.passwords import Passwords
from control.identity.schemas import AvatarUrl, Locale, NewPassword, PasswordInput, ThemeName
from control.identity.session_issuer import SessionUser, user_body
from control.identity.user_repository import User
from control.routing.arguments import SessionTransaction, begin_session, control_arguments
from proto.identity import Role


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to the account; omitted fields stay as they are."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    locale: Locale | msgspec.UnsetType = msgspec.UNSET
    theme: ThemeName | msgspec.UnsetType = msgspec.UNSET
    avatar_url: AvatarUrl | msgspec.UnsetType | None = msgspec.UNSET


class PasswordChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The current password, if there is one, and the new one."""

    password: NewPassword
    current: PasswordInput | None = None


class OwnOrganization(msgspec.Struct, frozen=True, rename="camel"):
    """An organization that the user is a member of. `current`: the one that this session is in."""

    id: str
    slug: Slug
    name: Name
    role: Role
    current: bool


class OwnOrganizations(msgspec.Struct, frozen=True):
    """Organizations that the user may log in to, by slug."""

    data: Annotated[list[OwnOrganization], Meta(max_length=MAX_ORGANIZATIONS)]


@dataclass(frozen=True, slots=True)
class Accounts:
    """Handlers of the caller's own account, and their dependencies."""

    context: HandlerContext
    throttle: LoginThrottle
    passwords: Passwords

    def routes(self) -> list[Route]:
        """Every route of the account."""
        return declared_routes(self, TAG, control_arguments(self.context))

    @route("GET", "/auth/user", session())
    async def show_user(self, caller: AuthenticatedCredential, connection: AsyncConnection) -> SessionUser:
        """Show the account."""
        return user_body(await user_repository.get_user(connection, caller.principal_id))

    @route("PATCH", "/auth/user", session(), example={"theme": "dark"})
    async def change_user(self, body: UserChange, transaction: SessionTransaction) -> SessionUser:
        """Change the account.

        403 in a session of single sign-on, if the account is a member of other organizations, too.
        """
        changes = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
        connection, caller = transaction.connection, transaction.caller
        await _require_own(connection, caller)
        await user_repository.change_user(
            connection, caller.principal_id, name=changes.pop("name", None), values=changes
        )
        user = await user_repository.get_user(connection, caller.principal_id)
        data = {"name": user.name, "locale": user.locale, "theme": user.theme}
        await record_change(transaction, "user.update", data)
        return user_body(user)

    @route("GET", "/auth/organizations", session())
    async def list_own_organizations(
        self, caller: AuthenticatedCredential, connection: AsyncConnection
    ) -> OwnOrganizations:
        """List the user's organizations.

        A session is in one of them; `/auth/switch` goes on in another, `/auth/login` with `orgSlug` starts a session
        there. A session of single sign-on sees only its own.
        """
        found = await member_repository.list_organizations(connection, caller.principal_id, MAX_ORGANIZATIONS)
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

        A user who has none yet and has logged in with a one-time code sets it without `current`. All other sessions of
        the account end, in every organization.
        """
        async with self.context.database.read() as connection:
            user = await user_repository.get_user(connection, caller.principal_id)
        async with self.throttle.account(request, caller):
            if not await self._confirms(caller, user, body.current):
                raise ReauthenticationFailed("The password is not valid.")
        hashed = await self.passwords.hash(body.password, salted_like=user.password_hash)
        async with begin_session(self.context, request) as transaction:
            connection, current = transaction.connection, transaction.caller.token_id
            if await user_repository.reload_if_unchanged(connection, user) is None:
                raise ReauthenticationFailed("The password is not valid.")
            await user_repository.set_password(connection, user.id, hashed)
            await session_repository.end_all(connection, user.id, datetime.now(UTC), except_session_id=current)
            await record_change(transaction, "user.password", {})
        self.context.guards.invalidate_sessions(caller.principal_id)

    async def _confirms(self, caller: AuthenticatedCredential, user: User, current: str | None) -> bool:
        """Whether the current password is right. An account without one that no identity provider vouches for has a
        session only by a code of the operator.
        """
        if current is None:
            return user.password_hash is None and not caller.is_federated
        return await self.passwords.matches(user.password_hash, current)


async def _require_own(connection: AsyncConnection, caller: AuthenticatedCredential) -> None:
    """Raises Forbidden for an account that other organizations see, too, in a session that the provider of one of them
    has vouched for.
    """
    if caller.is_federated and len(await member_repository.list_organizations(connection, caller.principal_id, 2)) > 1:
        raise Forbidden("The account is a member of other organizations, too; log in with its password to change it.")
