"""`/auth/user`, `/auth/organizations`, `/auth/password`: one's own account."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.access import grant, session
from chassis.identity import members, sessions, users
from chassis.operation import Answer, Body, Operation, json_content
from chassis.web import Route, json_response, request_id
from control.desk import Desk
from control.identity.attempts import Attempts, NotConfirmed
from control.identity.issuing import SessionUser, user_body
from control.identity.login import MAX_ORGANIZATIONS, TAG
from control.identity.passwords import Passwords
from control.identity.shapes import AvatarUrl, GivenPassword, Locale, NewPassword, ThemeName
from control.identity.telling import actor, tell_everywhere
from control.names import Name, Slug
from proto.identity import Role


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What changes of one's account; what is not given stays."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    locale: Locale | msgspec.UnsetType = msgspec.UNSET
    theme: ThemeName | msgspec.UnsetType = msgspec.UNSET
    avatar_url: AvatarUrl | msgspec.UnsetType | None = msgspec.UNSET


class PasswordChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The password in use, and the one to come."""

    current: GivenPassword
    password: NewPassword


class OwnOrganization(msgspec.Struct, frozen=True, rename="camel"):
    """An organization that one is a member of. `current`: that this session is in."""

    id: str
    slug: Slug
    name: Name
    role: Role
    current: bool


class OwnOrganizations(msgspec.Struct, frozen=True):
    """Organizations that one may log in to, by slug."""

    data: Annotated[list[OwnOrganization], Meta(max_length=MAX_ORGANIZATIONS)]


SHOW: Final = Operation("showUser", TAG, (Answer("The account.", json_content(SessionUser)),))
CHANGE: Final = Operation(
    "changeUser",
    TAG,
    (Answer("The account as it is now.", json_content(SessionUser)),),
    body=Body(json_content(UserChange), example={"theme": "dark"}),
)
ORGANIZATIONS: Final = Operation(
    "listOwnOrganizations", TAG, (Answer("The organizations.", json_content(OwnOrganizations)),)
)
PASSWORD: Final = Operation(
    "changePassword", TAG, (Answer("It is changed.", status=204),), body=Body(json_content(PasswordChange))
)


@dataclass(frozen=True, slots=True)
class Accounts:
    """The handlers, with what they need."""

    desk: Desk
    attempts: Attempts
    passwords: Passwords

    def routes(self) -> list[Route]:
        """Every route of this resource, for sessions."""
        return [
            Route("GET", "/auth/user", self.show, session(), operation=SHOW),
            Route("PATCH", "/auth/user", self.change, session(), operation=CHANGE),
            Route("GET", "/auth/organizations", self.organizations, session(), operation=ORGANIZATIONS),
            Route("POST", "/auth/password", self.password, session(), operation=PASSWORD),
        ]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show one's account."""
        async with self.desk.database.read() as connection:
            user = await users.existing_user(connection, grant(request).principal_id)
        return json_response(user_body(user))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change one's account."""
        body = await self.desk.read(request, UserChange)
        given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
        async with self.desk.change_own(request) as (connection, caller):
            await users.change_user(connection, caller.principal_id, name=given.pop("name", None), values=given)
            user = await users.existing_user(connection, caller.principal_id)
            told = {"name": user.name, "locale": user.locale, "theme": user.theme}
            by = partial(actor, caller)
            await tell_everywhere(connection, user.id, by, "user.update", told, request_id(request))
        return json_response(user_body(user))

    async def organizations(self, request: web.Request) -> web.StreamResponse:
        """List the organizations that one is in.

        A session is in one of them; `/auth/login` with `orgSlug` starts one in another.
        """
        caller = grant(request)
        async with self.desk.database.read() as connection:
            found = await members.list_organizations(connection, caller.principal_id, MAX_ORGANIZATIONS)
        shown = [
            OwnOrganization(org.id, org.slug, org.name, role, current=org.id == caller.org_id) for org, role in found
        ]
        return json_response(OwnOrganizations(shown))

    async def password(self, request: web.Request) -> web.StreamResponse:
        """Change one's password.

        Every other session of the account ends by it, in whatever organization.
        """
        body = await self.desk.read(request, PasswordChange)
        caller = grant(request)
        async with self.desk.database.read() as connection:
            user = await users.existing_user(connection, caller.principal_id)
        async with self.attempts.at(request, user.email):
            if not await self.passwords.matches(user.password_hash, body.current):
                raise NotConfirmed("The password is not valid.")
        hashed = await self.passwords.hash(body.password)
        async with self.desk.change_own(request) as (connection, caller):
            if await users.still(connection, user) is None:
                raise NotConfirmed("The password is not valid.")
            await users.set_password(connection, user.id, hashed)
            await sessions.end_all(connection, user.id, datetime.now(UTC), but=caller.token_id)
            by = partial(actor, caller)
            await tell_everywhere(connection, user.id, by, "user.password", {}, request_id(request))
        self.desk.checks.forget_sessions(caller.principal_id)
        return web.Response(status=204)
