"""The first audit events of an organization that a command creates."""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import access_tokens
from control.identity.members import member_store
from control.identity.organizations import organization_store, project_key_store
from control.identity.organizations.bootstrap import Bootstrap


async def record_bootstrap(connection: AsyncConnection, bootstrap: Bootstrap) -> None:
    """Record the creation of everything in the organization, in the transaction that creates it.

    Raises LookupError if the transaction has no such organization.
    """
    from control.audit.record import COMMAND_REQUEST_ID, Actor, record

    organization = await organization_store.find_organization(connection, bootstrap.org_slug)
    if organization is None:
        raise LookupError(f"the transaction has no organization {bootstrap.org_slug}")
    org_id = organization.id

    async def add_event(action: str, object_id: str, **data: object) -> None:
        await record(connection, Actor(org_id), action, object_id, data, COMMAND_REQUEST_ID)

    await add_event("organization.create", org_id, slug=bootstrap.org_slug, monthlyItems=organization.monthly_items)
    for owner in await member_store.list_members(connection, org_id, "", 1):
        await add_event("principal.create", owner.id, kind=owner.kind.value, name=owner.name, role=owner.role.value)
        found = sa.select(access_tokens.c.id, access_tokens.c.name).where(access_tokens.c.principal_id == owner.id)
        for token in await connection.execute(found):
            await add_event("token.create", token.id, holder=owner.id, name=token.name, scopes=[], expiresAt="")
    await add_event("project.create", bootstrap.project_id, slug=bootstrap.project_slug)
    for key in await project_key_store.list_project_keys(connection, int(bootstrap.project_id), None, 1):
        await add_event("key.create", key.id, name=key.name, projectId=bootstrap.project_id)
