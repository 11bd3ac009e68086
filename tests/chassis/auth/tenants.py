"""Two organizations with projects, keys and members, in a migrated store."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from chassis.db.database import Database
from control.identity.organizations import organization_store, project_key_store
from control.identity.organizations.organization_store import IssuedToken, StoredOrganization, StoredProject
from control.identity.organizations.project_key_store import IssuedProjectKey
from proto.identity import PrincipalKind, Role, Scope


@dataclass
class Clock:
    """A clock that moves when a test says so: seconds for caches, a date for expiry."""

    seconds: float = 1_000.0
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return self.started + timedelta(seconds=self.seconds - 1_000.0)


@dataclass(frozen=True)
class Tenant:
    """One organization, its project `web` with a key, and its owner's token."""

    organization: StoredOrganization
    project: StoredProject
    key: IssuedProjectKey
    owner_id: str
    token: IssuedToken


async def new_tenant(database: Database, slug: str, words: tuple[str, ...] = ()) -> Tenant:
    async with database.write() as connection:
        organization = await organization_store.create_organization(connection, slug, slug.title())
        owner = await organization_store.create_principal(connection, PrincipalKind.USER, "Owner")
        await organization_store.add_membership(connection, organization.id, owner.id, Role.OWNER)
        token = await organization_store.create_token(connection, organization.id, owner.id, "all")
        project = await organization_store.create_project(connection, organization.id, "web", "Web", words)
        key = await project_key_store.create_project_key(connection, organization.id, project.id, "first", owner.id)
    return Tenant(organization, project, key, owner.id, token)


async def new_member_token(
    database: Database, tenant: Tenant, role: Role, scopes: frozenset[Scope] | None = None
) -> tuple[str, str]:
    """Principal id and token secret of a further member."""
    async with database.write() as connection:
        member = await organization_store.create_principal(connection, PrincipalKind.USER, role.title())
        await organization_store.add_membership(connection, tenant.organization.id, member.id, role)
        token = await organization_store.create_token(connection, tenant.organization.id, member.id, "t", scopes=scopes)
    return member.id, token.secret
