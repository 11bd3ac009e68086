"""`GET /auth/whoami`: who calls, where, and what for."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.auth.tables import organizations, principals, users
from chassis.http.access import any_credential
from chassis.http.declaration import declared_routes, route
from chassis.http.web import Route
from control.http.context import HandlerContext
from control.http.field_types import Name, Slug
from control.identity import organization_repository
from control.identity.login import TAG
from control.routing.arguments import control_arguments
from proto.identity import PrincipalKind, Role, Scope

MAX_PROJECTS: Final = 1_000


class WhoamiPrincipal(msgspec.Struct, frozen=True, rename="camel"):
    """The caller. `email` is absent while the session owes its second factor."""

    id: str
    kind: PrincipalKind
    name: Name
    email: str | UnsetType | None = UNSET


class WhoamiOrganization(msgspec.Struct, frozen=True, rename="camel"):
    """The organization of the credential."""

    id: str
    slug: Slug
    name: Name


class WhoamiProject(msgspec.Struct, frozen=True, rename="camel"):
    """A project that the caller may see."""

    id: str
    slug: Slug
    name: Name


class Whoami(msgspec.Struct, frozen=True, rename="camel"):
    """Who the caller is and what the credential permits. A session that owes its second factor (`mfaPending`) has only
    `principal`, `session` and `mfaPending`. `POST /auth/totp/verify` accepts the code.
    """

    principal: WhoamiPrincipal
    session: Annotated[bool, Meta(description="Whether the credential is a session.")]
    mfa_pending: Annotated[bool, Meta(description="Whether the session owes its second factor.")]
    role: Annotated[Role | None, Meta(description="Null: the caller is no member of the organization any more.")] | (
        UnsetType
    ) = UNSET
    scopes: Annotated[list[Scope], Meta(description="What the credential permits.", max_length=200)] | UnsetType = UNSET
    organization: WhoamiOrganization | UnsetType = UNSET
    projects: Annotated[list[WhoamiProject], Meta(description="By slug.", max_length=MAX_PROJECTS)] | UnsetType = UNSET
    password_set: (
        Annotated[bool | None, Meta(description="Whether the user has a password; null for others.")] | UnsetType
    ) = UNSET


@dataclass(frozen=True, slots=True)
class WhoamiHandler:
    """The handler, and its dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """The route of this resource."""
        return declared_routes(self, TAG, control_arguments(self.context))

    @route("GET", "/auth/whoami", any_credential(), errors=(401,))
    async def whoami(self, caller: AuthenticatedCredential, connection: AsyncConnection) -> Whoami:
        """Show who calls, in which organization, and what the credential permits.

        A session that owes its second factor gets the user's own name, and nothing of the organization.
        """
        return await _describe(connection, caller)


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
    asked = {"org_id": caller.org_id, "principal_id": caller.principal_id}
    named = (await connection.execute(_NAMES, asked)).one()
    if caller.mfa_pending:
        principal = WhoamiPrincipal(caller.principal_id, caller.kind, named.name)
        return Whoami(principal, session=True, mfa_pending=True)
    is_member = caller.role is not None
    projects = (
        await organization_repository.list_projects(connection, caller.org_id, "", MAX_PROJECTS) if is_member else []
    )
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
