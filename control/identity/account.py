"""`/auth/user`, `/auth/organizations`, `/auth/password`: the caller's own account."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.errors import Forbidden
from chassis.http.access import authenticated_credential, session
from chassis.http.operation import Body, Operation, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.http.context import HandlerContext
from control.http.field_types import Name, Slug
from control.identity import member_repository, session_repository, user_repository
from control.identity.account_audit import record_in_all_orgs, session_actor
from control.identity.login import MAX_ORGANIZATIONS, TAG
from control.identity.login_throttle import LoginThrottle, ReauthenticationFailed
from control.identity.passwords import Passwords
from control.identity.schemas import AvatarUrl, Locale, NewPassword, PasswordInput, ThemeName
from control.identity.session_issuer import SessionUser, user_body
from control.identity.user_repository import User
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


SHOW: Final = Operation("showUser", TAG, (ResponseSpec("The account.", json_content(SessionUser)),))
CHANGE: Final = Operation(
    "changeUser",
    TAG,
    (ResponseSpec("The updated account.", json_content(SessionUser)),),
    body=Body(json_content(UserChange), example={"theme": "dark"}),
)
LIST_ORGANIZATIONS: Final = Operation(
    "listOwnOrganizations", TAG, (ResponseSpec("The organizations.", json_content(OwnOrganizations)),)
)
CHANGE_PASSWORD: Final = Operation(
    "changePassword",
    TAG,
    (ResponseSpec("The password was changed.", status=204),),
    body=Body(json_content(PasswordChange)),
)


@dataclass(frozen=True, slots=True)
class Accounts:
    """Handlers of the caller's own account, and their dependencies."""

    context: HandlerContext
    throttle: LoginThrottle
    passwords: Passwords

    def routes(self) -> list[Route]:
        """Every route of the account; all need a session."""
        return [
            Route("GET", "/auth/user", self.show, session(), operation=SHOW),
            Route("PATCH", "/auth/user", self.change, session(), operation=CHANGE),
            Route("GET", "/auth/organizations", self.list_organizations, session(), operation=LIST_ORGANIZATIONS),
            Route("POST", "/auth/password", self.change_password, session(), operation=CHANGE_PASSWORD),
        ]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show the account."""
        async with self.context.database.read() as connection:
            user = await user_repository.get_user(connection, authenticated_credential(request).principal_id)
        return json_response(user_body(user))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change the account.

        403 in a session of single sign-on, if the account is a member of other organizations, too.
        """
        body = await self.context.read_body(request, UserChange)
        changes = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
        async with self.context.session_transaction(request) as (connection, caller):
            await _require_own(connection, caller)
            await user_repository.change_user(
                connection, caller.principal_id, name=changes.pop("name", None), values=changes
            )
            user = await user_repository.get_user(connection, caller.principal_id)
            data = {"name": user.name, "locale": user.locale, "theme": user.theme}
            by = partial(session_actor, caller)
            await record_in_all_orgs(connection, user.id, by, "user.update", data, request_id(request))
        return json_response(user_body(user))

    async def list_organizations(self, request: web.Request) -> web.StreamResponse:
        """List the user's organizations.

        A session is in one of them; `/auth/switch` goes on in another, `/auth/login` with `orgSlug` starts a session
        there. A session of single sign-on sees only its own.
        """
        caller = authenticated_credential(request)
        async with self.context.database.read() as connection:
            found = await member_repository.list_organizations(connection, caller.principal_id, MAX_ORGANIZATIONS)
        items = [
            OwnOrganization(org.id, org.slug, org.name, role, current=org.id == caller.org_id)
            for org, role in found
            if org.id == caller.org_id or not caller.is_federated
        ]
        return json_response(OwnOrganizations(items))

    async def change_password(self, request: web.Request) -> web.StreamResponse:
        """Change the password.

        A user who has none yet and has logged in with a one-time code sets it without `current`. All other sessions of
        the account end, in every organization.
        """
        body = await self.context.read_body(request, PasswordChange)
        caller = authenticated_credential(request)
        async with self.context.database.read() as connection:
            user = await user_repository.get_user(connection, caller.principal_id)
        async with self.throttle.account(request, caller):
            if not await self._confirms(caller, user, body.current):
                raise ReauthenticationFailed("The password is not valid.")
        hashed = await self.passwords.hash(body.password, salted_like=user.password_hash)
        async with self.context.session_transaction(request) as (connection, caller):
            if await user_repository.reload_if_unchanged(connection, user) is None:
                raise ReauthenticationFailed("The password is not valid.")
            await user_repository.set_password(connection, user.id, hashed)
            await session_repository.end_all(connection, user.id, datetime.now(UTC), except_session_id=caller.token_id)
            by = partial(session_actor, caller)
            await record_in_all_orgs(connection, user.id, by, "user.password", {}, request_id(request))
        self.context.guards.invalidate_sessions(caller.principal_id)
        return web.Response(status=204)

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
