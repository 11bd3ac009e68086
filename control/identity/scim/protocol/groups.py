"""`/scim/v2/{orgSlug}/Groups`: list, search, create, read, replace, change, delete."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from aiohttp import web
from scim2_models import Context, PatchOp
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import DirectoryIdentity
from chassis.auth.tables import new_id
from chassis.db.database import to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import directory_identity
from control.identity.directory import group_store as store
from control.identity.directory.group_store import ProvisionedGroup
from control.identity.scim.messages import PATCH_SCHEMA, InvalidValue, Refused
from control.identity.scim.protocol.library import TOLERANT, Group, translated
from control.identity.scim.protocol.listing import fitting, page_response, read_list_request, select_page
from control.identity.scim.protocol.members import MemberChange, change_members, member_ids, record_group, split
from control.identity.scim.protocol.patch import operations_of, require_affordable, require_no_paths
from control.identity.scim.protocol.provisioning import DirectoryCall, call_of
from control.identity.scim.protocol.resources import (
    Projection,
    ScimEndpoint,
    checked_text,
    group_resource,
    is_known,
    not_modified,
    require_match,
    resource_id,
    resource_response,
    without_read_only,
)

READ_ONLY: Final = ("id", "meta")
MAX_GROUPS: Final = 20_000  # per directory


@dataclass(frozen=True, slots=True)
class Groups:
    """Handlers of groups, and their dependencies."""

    endpoint: ScimEndpoint

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List groups, also by a search request (RFC 7644 3.4.3)."""
        wanted = await read_list_request(request, Group, self.endpoint.context)
        identity = directory_identity(request)
        async with self.endpoint.context.database.read() as connection:
            statement = await select_page(connection, identity.org_id, wanted)
            found = await store.list_groups(connection, statement) if wanted.count else []
            total = wanted.total(len(found))
            if total is None:
                total = await store.count(connection, identity.org_id, wanted.condition)
            groups, members = found[: wanted.count], dict[str, set[str]]()
            if not wanted.projection.excludes("members"):
                counts = await store.count_members(connection, [group.id for group in groups])
                groups = groups[: fitting([counts[group.id] for group in groups])]
                members = {group.id: await store.list_member_ids(connection, group.id) for group in groups}
        resources = await wanted.projection.apply_to_page(
            group_resource(group, members.get(group.id), self.endpoint.urls, identity.org_slug) for group in groups
        )
        last_id = groups[-1].id if groups and len(found) > len(groups) else None
        return page_response(wanted, resources, total, last_id, self.endpoint.context.cursors)

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a group."""
        projection = Projection.of_query(Group, request.query)
        body = without_read_only(await self.endpoint.read_object(request), READ_ONLY)
        described = _parse(body, Context.RESOURCE_CREATION_REQUEST)
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            call = call_of(request, identity)
            if await store.count(connection, call.org_id) >= MAX_GROUPS:
                raise Refused(f"A directory can have at most {MAX_GROUPS} groups.")
            now = to_milliseconds(call.now)
            group = ProvisionedGroup(
                new_id("scg"), call.org_id, described.display_name, described.external_id, 1, now, now
            )
            await store.insert(connection, group)
            await record_group(connection, call, "scim.group.create", group)
            change = MemberChange(added=described.members or set())
            group, changed = await change_members(connection, call, group, change)
            response = await self._response(connection, identity, group, projection, 201)
        self.endpoint.notify(identity, changed=changed)
        return response

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a group."""
        identity = directory_identity(request)
        async with self.endpoint.context.database.read() as connection:
            group = await _load(connection, request, identity)
            projection = Projection.of_query(Group, request.query)
            if is_known(request, group.version):
                return not_modified(group.version)
            return await self._response(connection, identity, group, projection)

    async def replace(self, request: web.Request) -> web.StreamResponse:
        """Replace a group, with its members."""
        await self.endpoint.require_existing(request, _load)
        projection = Projection.of_query(Group, request.query)
        body = without_read_only(await self.endpoint.read_object(request), READ_ONLY)
        described = _parse(body, Context.RESOURCE_REPLACEMENT_REQUEST)
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            group = await _load(connection, request, identity)
            require_match(request, group.version)
            change = MemberChange(replaced=described.members or set())
            group, changed = await _change(connection, call_of(request, identity), group, described, change)
            response = await self._response(connection, identity, group, projection)
        self.endpoint.notify(identity, changed=changed)
        return response

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a group (RFC 7644 3.5.2)."""
        await self.endpoint.require_existing(request, _load)
        projection = Projection.of_query(Group, request.query)
        operations = operations_of(await self.endpoint.read_object(request), READ_ONLY)
        parts = split(operations)
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            group = await _load(connection, request, identity)
            require_match(request, group.version)
            if parts is None:
                known = await store.list_member_ids(connection, group.id)
                described = patched_group(group_to_patch(group, known), operations)
                change = MemberChange(replaced=described.members or set())
            else:
                described = patched_group(group_to_patch(group, None), parts.others)
                change = parts.members
            group, changed = await _change(connection, call_of(request, identity), group, described, change)
            response = await self._response(connection, identity, group, projection)
        self.endpoint.notify(identity, changed=changed)
        return response

    async def remove(self, request: web.Request) -> web.StreamResponse:
        """Delete a group. Its members stay users, with the role of their other groups."""
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            group, call = await _load(connection, request, identity), call_of(request, identity)
            require_match(request, group.version)
            _, changed = await change_members(connection, call, group, MemberChange(replaced=set()))
            await store.delete(connection, group.id)
            await record_group(connection, call, "scim.group.delete", group)
        self.endpoint.notify(identity, changed=changed)
        return web.Response(status=204)

    async def _response(
        self,
        connection: AsyncConnection,
        identity: DirectoryIdentity,
        group: ProvisionedGroup,
        projection: Projection,
        status: int = 200,
    ) -> web.Response:
        members: Iterable[str] = ()
        if not projection.excludes("members"):
            members = await store.list_member_ids(connection, group.id)
        resource = group_resource(group, members, self.endpoint.urls, identity.org_slug)
        location = self.endpoint.urls.group(identity.org_slug, group.id)
        return resource_response(projection.apply(resource), group.version, location, status)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as the directory describes it. `members` None: the request does not mention members."""

    display_name: str
    external_id: str | None
    members: set[str] | None


async def _load(connection: AsyncConnection, request: web.Request, identity: DirectoryIdentity) -> ProvisionedGroup:
    """The group of the path. Raises NotFound."""
    group = await store.find(connection, identity.org_id, resource_id(request))
    if group is None:
        raise NotFound
    return group


async def _change(
    connection: AsyncConnection,
    call: DirectoryCall,
    before: ProvisionedGroup,
    described: GroupDescription,
    change: MemberChange,
) -> tuple[ProvisionedGroup, bool]:
    """Store the group as described. Returns it, and whether the access of a member has changed."""
    group = replace(before, display_name=described.display_name, external_id=described.external_id)
    renamed = group != before
    if renamed:
        group = await store.update(connection, group, to_milliseconds(call.now))
        await record_group(connection, call, "scim.group.update", group)
    return await change_members(connection, call, group, change, renamed=renamed)


def _parse(body: dict[str, Any], context: Context) -> GroupDescription:
    """The description in a body. Raises ScimError."""
    require_no_paths(body)
    members = next((value for name, value in body.items() if name.lower() == "members"), None)
    with translated(), TOLERANT:
        group = Group.model_validate(without_read_only(body, ("members",)), scim_ctx=context)
    return _describe(group, None if members is None else member_ids(members))


def group_to_patch(group: ProvisionedGroup, known: Iterable[str] | None) -> dict[str, Any]:
    """The group in the form that operations change. `known`: its members, if the operations concern members."""
    resource: dict[str, Any] = {"displayName": group.display_name, "externalId": group.external_id}
    if known is not None:
        resource["members"] = [{"value": one, "type": "User"} for one in sorted(known)]
    return resource


def patched_group(resource: Mapping[str, Any], operations: list[dict[str, Any]]) -> GroupDescription:
    """The group after the operations. Raises ScimError."""
    require_affordable(operations, len(resource.get("members", ())))
    with translated(), TOLERANT:
        patched = Group.model_validate(resource)
        if operations:
            patch = PatchOp[Group].model_validate(
                {"schemas": [PATCH_SCHEMA], "Operations": operations}, scim_ctx=Context.RESOURCE_PATCH_REQUEST
            )
            patch.patch(patched)
    members = [{"value": each.value, "type": each.type} for each in patched.members or ()]
    return _describe(patched, member_ids(members) if "members" in resource else None)


def _describe(group: Group, members: set[str] | None) -> GroupDescription:
    """The description of a group and its members. Raises InvalidValue."""
    name = checked_text(group.display_name, "displayName")
    if name is None or not name.strip():
        raise InvalidValue("displayName must not be empty.")
    return GroupDescription(name, checked_text(group.external_id, "externalId"), members)
