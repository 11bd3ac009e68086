"""`/scim/v2/{orgSlug}/Users`: list, search, create, read, replace, change, delete."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import web
from scim2_models import Context, PatchOp
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import DirectoryIdentity
from chassis.errors import NotFound
from chassis.http.access import directory_identity
from control.identity.directory import user_store as store
from control.identity.scim.messages import PATCH_SCHEMA, InvalidValue
from control.identity.scim.protocol import provisioning
from control.identity.scim.protocol.library import TOLERANT, ScimUser, translated
from control.identity.scim.protocol.listing import (
    MAX_DOCUMENTS_LENGTH,
    fitting,
    page_response,
    read_list_request,
    select_page,
)
from control.identity.scim.protocol.patch import operations_of, require_affordable, require_no_paths
from control.identity.scim.protocol.resources import (
    Projection,
    ScimEndpoint,
    checked_text,
    count_values,
    is_known,
    not_modified,
    require_match,
    resource_id,
    resource_response,
    user_resource,
    without_read_only,
)
from control.identity.sso.mapping import clean_name
from proto.identity import EMAIL_PATTERN, MAX_EMAIL_LENGTH, normalize_email

READ_ONLY: Final = ("id", "meta", "groups")
MAX_EMAILS: Final = 50
MAX_VALUES: Final = 1_000  # attributes and values of lists; the library takes up to 50 us to read one
MAX_DOCUMENT_BYTES: Final = 65_536
_EMAIL: Final = re.compile(EMAIL_PATTERN)


@dataclass(frozen=True, slots=True)
class Users:
    """Handlers of users, and their dependencies."""

    endpoint: ScimEndpoint

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List users, also by a search request (RFC 7644 3.4.3)."""
        wanted = await read_list_request(request, ScimUser, self.endpoint.context)
        identity = directory_identity(request)
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
        last_id = users[-1].id if users and len(found) > len(users) else None
        return page_response(wanted, resources, total, last_id, self.endpoint.context.cursors)

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a user."""
        projection = Projection.of_query(ScimUser, request.query)
        resource = parse_user(await self.endpoint.read_object(request), Context.RESOURCE_CREATION_REQUEST)
        if resource.active is None:
            resource.active = True
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            provisioned = await provisioning.create(
                connection, provisioning.call_of(request, identity), describe(resource)
            )
            response = await self._response(connection, identity, provisioned.user, projection, 201)
        self.endpoint.notify(identity, changed=provisioned.access_changed)
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
        resource = parse_user(await self.endpoint.read_object(request), Context.RESOURCE_REPLACEMENT_REQUEST)
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            before = await _load(connection, request, identity)
            require_match(request, before.version)
            if resource.active is None:
                resource.active = before.active
            provisioned = await provisioning.change(
                connection, provisioning.call_of(request, identity), before, describe(resource)
            )
            response = await self._response(connection, identity, provisioned.user, projection)
        self.endpoint.notify(identity, changed=provisioned.access_changed)
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
            provisioned = await provisioning.change(
                connection, provisioning.call_of(request, identity), before, describe(resource)
            )
            response = await self._response(connection, identity, provisioned.user, projection)
        self.endpoint.notify(identity, changed=provisioned.access_changed)
        return response

    async def remove(self, request: web.Request) -> web.StreamResponse:
        """Delete a user."""
        async with self.endpoint.guard.write_transaction(request) as (connection, identity):
            user = await _load(connection, request, identity)
            require_match(request, user.version)
            changed = await provisioning.remove(connection, provisioning.call_of(request, identity), user)
        self.endpoint.notify(identity, changed=changed)
        return web.Response(status=204)

    async def _response(
        self,
        connection: AsyncConnection,
        identity: DirectoryIdentity,
        user: store.ProvisionedUser,
        projection: Projection,
        status: int = 200,
    ) -> web.Response:
        groups: list[store.GroupOfUser] = []
        if status != web.HTTPCreated.status_code:
            groups = (await store.list_groups_of(connection, [user.id]))[user.id]
        resource = user_resource(user, groups, self.endpoint.urls, identity.org_slug)
        location = self.endpoint.urls.user(identity.org_slug, user.id)
        return resource_response(projection.apply(resource), user.version, location, status)


async def _load(
    connection: AsyncConnection, request: web.Request, identity: DirectoryIdentity
) -> store.ProvisionedUser:
    """The user of the path. Raises NotFound."""
    user = await store.find(connection, identity.org_id, resource_id(request))
    if user is None:
        raise NotFound
    return user


def patched_user(document: Mapping[str, Any], patch: PatchOp[ScimUser]) -> ScimUser:
    """The user of a document after the operations of a PATCH. Raises ScimError."""
    with translated(), TOLERANT:
        resource = ScimUser.model_validate(document)
        patch.patch(resource)
    return resource


def parse_user(body: dict[str, Any], context: Context) -> ScimUser:
    """The user in the body of a request. Raises ScimError."""
    require_few_values(body)
    require_no_paths(body)
    with translated(), TOLERANT:
        return ScimUser.model_validate(without_read_only(body, READ_ONLY), scim_ctx=context)


def describe(resource: ScimUser) -> provisioning.UserDescription:
    """The data to store of a user. Raises InvalidValue for data that cannot be stored."""
    require_few_values(dict(resource))
    document = resource.model_copy(update={"id": None, "meta": None, "groups": None, "password": None}).model_dump(
        scim_ctx=Context.DEFAULT
    )
    if len(msgspec.json.encode(document)) > MAX_DOCUMENT_BYTES:
        raise InvalidValue(f"A user can have at most {MAX_DOCUMENT_BYTES} bytes of JSON.")
    user_name = checked_text(resource.user_name, "userName")
    if user_name is None or not user_name.strip():
        raise InvalidValue("userName must not be empty.")
    name = resource.name
    emails = resource.emails or []
    if len(emails) > MAX_EMAILS:
        raise InvalidValue(f"A user can have at most {MAX_EMAILS} emails.")
    values = {
        "user_name": store.fold(user_name),
        "external_id": checked_text(resource.external_id, "externalId"),
        "active": resource.is_active,
        "display_name": _folded(resource.display_name, "displayName"),
        "family_name": None if name is None else _folded(name.family_name, "name.familyName"),
        "given_name": None if name is None else _folded(name.given_name, "name.givenName"),
        "document": document,
    }
    compared = [
        store.ProvisionedEmail(
            _folded(email.value, "emails.value"),
            _folded(None if email.type is None else str(email.type), "emails.type"),
            email.primary,
        )
        for email in emails
    ]
    return provisioning.UserDescription(values, compared, _account_email(resource), _account_name(resource, user_name))


def require_few_values(resource: Mapping[str, Any]) -> None:
    """Raises InvalidValue for a user that would occupy the process too long."""
    if count_values(resource) > MAX_VALUES:
        raise InvalidValue(f"A user can have at most {MAX_VALUES} values.")


def _account_email(resource: ScimUser) -> str | None:
    """The primary address, otherwise the first one, otherwise the `userName`. Only addresses that are valid for an
    account count.
    """
    emails = sorted(resource.emails or [], key=lambda each: not each.primary)
    for text in (*(each.value for each in emails), resource.user_name):
        if text is not None and len(text) <= MAX_EMAIL_LENGTH and _EMAIL.fullmatch(text) is not None:
            return normalize_email(text)
    return None


def _account_name(resource: ScimUser, user_name: str) -> str:
    name = resource.name
    parts = [] if name is None else [name.given_name, name.family_name]
    for text in (
        resource.display_name,
        None if name is None else name.formatted,
        " ".join(part for part in parts if part),
        user_name,
    ):
        if text and (cleaned := clean_name(text)):
            return cleaned
    return "(no name)"


def _folded(text: str | None, path: str) -> str | None:
    checked = checked_text(text, path)
    return None if checked is None else store.fold(checked)
