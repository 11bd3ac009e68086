"""The audit of an organization that a command has founded."""

from sqlalchemy.ext.asyncio import AsyncConnection

from control.identity import member_repository, organization_repository, project_key_repository, token_repository
from control.identity.bootstrap import Bootstrap


async def record_bootstrap(connection: AsyncConnection, made: Bootstrap) -> None:
    """Its first events, in the transaction in which it was made: whatever is in it is new."""
    from control.audit.record import COMMAND_REQUEST_ID, Actor, record

    organization = await organization_repository.find_organization(connection, made.org_slug)
    if organization is None:
        raise LookupError(f"{made.org_slug} was made a moment ago")
    org_id = organization.id

    async def add_event(action: str, object_id: str, **data: object) -> None:
        await record(connection, Actor(org_id), action, object_id, data, COMMAND_REQUEST_ID)

    await add_event("organization.create", org_id, slug=made.org_slug, monthlyItems=organization.monthly_items)
    for owner in await member_repository.list_members(connection, org_id, "", 1):
        await add_event("principal.create", owner.id, kind=owner.kind.value, name=owner.name, role=owner.role.value)
        for token in await token_repository.list_tokens(connection, org_id, owner.id, None, 1):
            await add_event("token.create", token.id, holder=owner.id, name=token.name, scopes=[], expiresAt="")
    await add_event("project.create", made.project_id, slug=made.project_slug)
    for key in await project_key_repository.list_project_keys(connection, int(made.project_id), None, 1):
        await add_event("key.create", key.id, name=key.name, projectId=made.project_id)
