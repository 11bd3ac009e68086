"""`/scim/v2/{orgSlug}/Users`: list, search, create, read, replace, change, delete."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from scim2_models import Context, PatchOp
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import DirectoryIdentity
from chassis.errors import NotFound
from chassis.http.access import directory_identity
from control.identity.directory import user_store as store
from control.identity.directory.user_store import GroupOfUser, ProvisionedUser
from control.identity.scim import provisioning
from control.identity.scim.endpoint import (
    ScimEndpoint,
    call_of,
    not_modified,
    resource_id,
    resource_response,
)
from control.identity.scim.library_errors import translated
from control.identity.scim.listing import (
    MAX_DOCUMENTS_LENGTH,
    ListRequest,
    Page,
    fitting,
    next_cursor,
    parse_query,
    parse_search,
    select_page,
)
from control.identity.scim.media_type import read_scim_bytes, scim_response
from control.identity.scim.models import TOLERANT, ScimUser
from control.identity.scim.patch import PATCH_SCHEMA, operations_of, require_affordable, require_no_paths
from control.identity.scim.resources import (
    Projection,
    count_values,
    is_known,
    require_match,
    user_resource,
    without_read_only,
)

READ_ONLY: Final = ("id", "meta", "groups")


@dataclass(frozen=True, slots=True)
class Users:
    """Handlers of users, and their dependencies."""

    endpoint: ScimEndpoint

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List users."""
        org_id = directory_identity(request).org_id
        return await self._page(request, parse_query(ScimUser, org_id, request.query, self.endpoint.context.cursors))

    async def search(self, request: web.Request) -> web.StreamResponse:
        """List users, as a search request asks for them (RFC 7644 3.4.3)."""
        raw = await read_scim_bytes(request, self.endpoint.context)
        org_id = directory_identity(request).org_id
        return await self._page(request, parse_search(ScimUser, org_id, raw, self.endpoint.context.cursors))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a user."""
        projection = Projection.of_query(ScimUser, request.query)
        resource = parse_user(await self.endpoint.read_object(request), Context.RESOURCE_CREATION_REQUEST)
        if resource.active is None:
            resource.active = True
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            provisioned = await provisioning.create(connection, call_of(request, identity), resource)
            response = await self._response(connection, identity, provisioned.user, projection, 201)
        self._notify(identity, changed=provisioned.access_changed)
        return response

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a user."""
        identity = directory_identity(request)
        async with self.endpoint.context.database.read() as connection:
            user = await _load(connection, request, identity)
            projection = Projection.of_query(ScimUser, request.query)
            if is_known(request, user.version):
                return not_modified(user.version)
            return await self._response(connection, identity, user, projection)

    async def replace(self, request: web.Request) -> web.StreamResponse:
        """Replace a user."""
        await self.endpoint.require_existing(request, _load)
        projection = Projection.of_query(ScimUser, request.query)
        body = await self.endpoint.read_object(request)
        resource = parse_user(body, Context.RESOURCE_REPLACEMENT_REQUEST)
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            before = await _load(connection, request, identity)
            require_match(request, before.version)
            if resource.active is None:
                resource.active = before.active
            provisioned = await provisioning.change(connection, call_of(request, identity), before, resource)
            response = await self._response(connection, identity, provisioned.user, projection)
        self._notify(identity, changed=provisioned.access_changed)
        return response

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a user (RFC 7644 3.5.2)."""
        await self.endpoint.require_existing(request, _load)
        projection = Projection.of_query(ScimUser, request.query)
        operations = operations_of(await self.endpoint.read_object(request), READ_ONLY)
        require_affordable(operations, 0)
        with translated(), TOLERANT:
            patch = PatchOp[ScimUser].model_validate(
                {"schemas": [PATCH_SCHEMA], "Operations": operations}, scim_ctx=Context.RESOURCE_PATCH_REQUEST
            )
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            before = await _load(connection, request, identity)
            require_match(request, before.version)
            require_affordable(operations, count_values(before.document))
            resource = patched_user(before.document, patch)
            provisioned = await provisioning.change(connection, call_of(request, identity), before, resource)
            response = await self._response(connection, identity, provisioned.user, projection)
        self._notify(identity, changed=provisioned.access_changed)
        return response

    async def remove(self, request: web.Request) -> web.StreamResponse:
        """Delete a user."""
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            user = await _load(connection, request, identity)
            require_match(request, user.version)
            changed = await provisioning.remove(connection, call_of(request, identity), user)
        self._notify(identity, changed=changed)
        return web.Response(status=204)

    async def _page(self, request: web.Request, wanted: ListRequest) -> web.StreamResponse:
        identity, cursors = directory_identity(request), self.endpoint.context.cursors
        async with self.endpoint.context.database.read() as connection:
            statement = await select_page(connection, identity.org_id, wanted)
            found = await store.list_ids(connection, statement) if wanted.count else []
            total = wanted.total(len(found))
            if total is None:
                total = await store.count(connection, identity.org_id, wanted.condition)
            sizes = await store.document_sizes(connection, found[: wanted.count])
            page_ids = found[: fitting([sizes[one] for one in found[: wanted.count]], MAX_DOCUMENTS_LENGTH)]
            users, groups = await store.list_users(connection, page_ids), {}
            if not wanted.projection.excludes("groups"):
                if len(users) > 1:
                    counts = await store.count_groups_of(connection, [user.id for user in users])
                    users = users[: fitting([counts[user.id] for user in users])]
                groups = await store.list_groups_of(connection, [user.id for user in users])
        resources = await wanted.projection.apply_to_page(
            user_resource(user, groups.get(user.id, ()), self.endpoint.urls, identity.org_slug) for user in users
        )
        by_cursor = wanted.cursor is not None
        has_more = by_cursor and len(found) > len(users)
        following = next_cursor(wanted, users[-1].id, total, cursors) if has_more else None
        page = Page(resources, total, None if by_cursor else wanted.offset + 1, following)
        return scim_response(page.body())

    async def _response(
        self,
        connection: AsyncConnection,
        identity: DirectoryIdentity,
        user: ProvisionedUser,
        projection: Projection,
        status: int = 200,
    ) -> web.Response:
        groups: list[GroupOfUser] = []
        if status != web.HTTPCreated.status_code:
            groups = (await store.list_groups_of(connection, [user.id]))[user.id]
        resource = user_resource(user, groups, self.endpoint.urls, identity.org_slug)
        location = self.endpoint.urls.user(identity.org_slug, user.id)
        return resource_response(projection.apply(resource), user.version, location, status)

    def _notify(self, identity: DirectoryIdentity, *, changed: bool) -> None:
        """Only where somebody's access has changed: the guards load every credential of the organization again."""
        if changed:
            self.endpoint.context.guards.invalidate_bearers(identity.org_id)


async def _load(connection: AsyncConnection, request: web.Request, identity: DirectoryIdentity) -> ProvisionedUser:
    """The user of the path. Raises NotFound."""
    user = await store.find(connection, identity.org_id, resource_id(request))
    if user is None:
        raise NotFound
    return user


def patched_user(document: Mapping[str, Any], patch: PatchOp[ScimUser]) -> ScimUser:
    """The user of a document after the operations. Raises ScimError."""
    with translated(), TOLERANT:
        resource = ScimUser.model_validate(document)
        patch.patch(resource)
    return resource


def parse_user(body: dict[str, Any], context: Context) -> ScimUser:
    """The user in the body of a request. Raises ScimError."""
    provisioning.require_few_values(body)
    require_no_paths(body)
    with translated(), TOLERANT:
        return ScimUser.model_validate(without_read_only(body, READ_ONLY), scim_ctx=context)
