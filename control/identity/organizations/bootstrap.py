"""Provisions the first organization, project, project key and access token of an empty database."""

from collections.abc import Awaitable, Callable

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from control.identity.organizations import organization_store, project_key_store
from proto.identity import PrincipalKind, Role, format_dsn


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The objects that the first start creates, including secrets. Encoded as JSON, it is the content of
    `bootstrap.json`.
    """

    base_url: str
    org_slug: str
    project_slug: str
    project_id: str
    legacy_key: str
    dsn: str
    access_token: str

    def __repr__(self) -> str:  # three of the fields are secrets
        return f"Bootstrap(org_slug={self.org_slug!r}, project_slug={self.project_slug!r})"


async def bootstrap(
    database: Database,
    base_url: str,
    deliver: Callable[[Bootstrap], None] = lambda _created: None,
    record: Callable[[AsyncConnection, Bootstrap], Awaitable[None]] | None = None,
    *,
    org_slug: str = "default",
    project_slug: str = "default",
) -> Bootstrap | None:
    """Provision everything in one transaction. Returns None and changes nothing if an organization exists already.

    `record` adds to the same transaction. `deliver` is called before the commit. If it raises, everything is rolled
    back, so no secret is created and then lost.
    """
    async with database.write() as connection:
        if await organization_store.has_any_organization(connection):
            return None
        created = await provision(connection, base_url, org_slug, project_slug)
        if record is not None:
            await record(connection, created)
        deliver(created)
    return created


async def provision(
    connection: AsyncConnection, base_url: str, org_slug: str, project_slug: str, monthly_items: int = 0
) -> Bootstrap:
    """Create an organization with an owner and the owner's token, and a project with its key. Raises SlugTaken."""
    organization = await organization_store.create_organization(
        connection, org_slug, org_slug.capitalize(), monthly_items
    )
    owner = await organization_store.create_principal(connection, PrincipalKind.USER, "Owner")
    await organization_store.add_membership(connection, organization.id, owner.id, Role.OWNER)
    token = await organization_store.create_token(connection, organization.id, owner.id, "First start")
    project = await organization_store.create_project(
        connection, organization.id, project_slug, project_slug.capitalize()
    )
    key = await project_key_store.create_project_key(connection, organization.id, project.id, "First start", owner.id)
    return Bootstrap(
        base_url=base_url,
        org_slug=organization.slug,
        project_slug=project.slug,
        project_id=str(project.id),
        legacy_key=key.secret,
        dsn=format_dsn(base_url, key.secret, project.id),
        access_token=token.secret,
    )
