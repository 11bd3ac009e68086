"""Resources as responses: stored data with `id`, `meta`, and attributes that the directory cannot write. Also has the
shared code of the handlers of users and groups.

A resource is a mapping. The library's model is built only for a request that names attributes, because a page of
hundreds of users would take half a second.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from unicodedata import category

from aiohttp import web
from multidict import MultiMapping
from scim2_models import Context
from scim2_models.messages.response_parameters import ResponseParameters
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import DirectoryIdentity
from chassis.db.database import format_time
from chassis.errors import NotFound
from chassis.http.access import directory_identity
from control.http.context import HandlerContext
from control.identity.directory.group_store import ProvisionedGroup
from control.identity.directory.tables import MAX_TEXT_LENGTH
from control.identity.directory.user_store import GroupOfUser, ProvisionedUser
from control.identity.scim.messages import (
    InvalidValue,
    ScimError,
    ScimUrls,
    decode_object,
    read_scim_bytes,
    scim_response,
)
from control.identity.scim.protocol.library import TOLERANT, Group, ScimResource, ScimUser, translated
from control.identity.scim.tokens import DirectoryGuard
from proto.errors import ErrorCode

MAX_ATTRIBUTES_LENGTH: Final = 4_096  # characters of `attributes` or `excludedAttributes`
USER_SCHEMA: Final = str(ScimUser.__schema__)
GROUP_SCHEMA: Final = str(Group.__schema__)
_PROJECTION: Final = ("attributes", "excludedAttributes")
_UNSTORABLE: Final = ("Cc", "Cs")  # Unicode categories: control characters, surrogates
_ID: Final = re.compile(r"sc[ug]_[0-9a-z]{26}")
LoadResource = Callable[[AsyncConnection, web.Request, DirectoryIdentity], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Projection:
    """The attributes of a resource that a response has (RFC 7644 3.9). `parameters` None: all."""

    model: type[ScimResource]
    parameters: "ResponseParameters[Any] | None" = None

    @classmethod
    def of_query(cls, model: type[ScimResource], query: MultiMapping[str]) -> "Projection":
        """The projection of a query string. Raises ScimError."""
        return cls.of_values(model, {name: query[name] for name in _PROJECTION if query.get(name)})

    @classmethod
    def of_values(cls, model: type[ScimResource], values: Mapping[str, Any]) -> "Projection":
        """The projection of a search request. Raises ScimError."""
        named = {name: values[name] for name in _PROJECTION if values.get(name)}
        if not named:
            return cls(model)
        if len(named) > 1:
            raise InvalidValue("A request can have attributes or excludedAttributes, not both.")
        for value in named.values():
            paths = value if isinstance(value, list) else [value]
            if sum(len(str(path)) for path in paths) > MAX_ATTRIBUTES_LENGTH:
                raise InvalidValue(
                    f"attributes and excludedAttributes can have at most {MAX_ATTRIBUTES_LENGTH} characters."
                )
        with translated():
            return cls(model, ResponseParameters[model].model_validate(named))  # type: ignore[valid-type]

    def excludes(self, name: str) -> bool:
        """Whether a response certainly lacks this attribute, so that it need not be read."""
        if self.parameters is None:
            return False
        if self.parameters.attributes:
            return all(_top(path) not in (name.lower(), "") for path in self.parameters.attributes)
        return any(str(path).lower() == name.lower() for path in self.parameters.excluded_attributes or ())

    def apply(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        """The attributes of the resource that the response has."""
        if self.parameters is None:
            return resource
        wanted = {name: value for name, value in resource.items() if not self._can_skip(name, value)}
        members = wanted.get("members", [])
        if members:  # there may be many members with the same attributes, so one stands for all
            wanted["members"] = members[:1]
        with translated(), TOLERANT:
            model = self.model.model_validate(wanted)
            found: dict[str, Any] = model.model_dump(
                scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=self.parameters
            )
        if "meta" in found:  # the library writes times in another form
            found["meta"] = {name: resource["meta"][name] for name in found["meta"]}
        if found.get("members"):
            found["members"] = [{name: each[name] for name in found["members"][0]} for each in members]
        return found

    def _can_skip(self, name: str, value: Any) -> bool:
        """Whether the library can skip an attribute that the response lacks, because it reads lists slowly."""
        return isinstance(value, list) and name != "schemas" and self.excludes(name)

    async def apply_to_page(self, resources: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Apply the projection to each resource. Other tasks run in between, because the library is slow."""
        found = []
        for resource in resources:
            found.append(self.apply(resource))
            if self.parameters is not None:
                await asyncio.sleep(0)
        return found


def user_resource(
    user: ProvisionedUser, groups: Sequence[GroupOfUser], urls: ScimUrls, org_slug: str
) -> dict[str, Any]:
    """A user in the form of a response."""
    resource = {"schemas": [USER_SCHEMA], **user.document, "id": user.id}
    if groups:
        resource["groups"] = [
            {
                "value": group.id,
                "$ref": urls.group(org_slug, group.id),
                "display": group.display_name,
                "type": "direct",
            }
            for group in groups
        ]
    resource["meta"] = _meta("User", user, urls.user(org_slug, user.id))
    return resource


def group_resource(
    group: ProvisionedGroup, member_ids: Iterable[str] | None, urls: ScimUrls, org_slug: str
) -> dict[str, Any]:
    """A group in the form of a response. `member_ids` None: without `members`."""
    resource: dict[str, Any] = {"schemas": [GROUP_SCHEMA], "id": group.id, "displayName": group.display_name}
    if group.external_id is not None:
        resource["externalId"] = group.external_id
    members = [{"value": one, "$ref": urls.user(org_slug, one), "type": "User"} for one in sorted(member_ids or ())]
    if members:
        resource["members"] = members
    resource["meta"] = _meta("Group", group, urls.group(org_slug, group.id))
    return resource


@dataclass(frozen=True, slots=True)
class ScimEndpoint:
    """The dependencies of the handlers."""

    context: HandlerContext
    guard: DirectoryGuard
    urls: ScimUrls

    async def read_object(self, request: web.Request) -> dict[str, Any]:
        """The JSON object of the body. Raises UnsupportedMediaType, PayloadTooLarge, ServiceUnavailable, ScimError."""
        return decode_object(await read_scim_bytes(request, self.context))

    async def require_existing(self, request: web.Request, load: LoadResource) -> None:
        """Raises NotFound before the body is read. `load` reads the resource of the path, and raises NotFound."""
        async with self.context.database.read() as connection:
            await load(connection, request, directory_identity(request))

    def notify(self, identity: DirectoryIdentity, *, changed: bool) -> None:
        """If the access of a member has changed, make the guards reload all credentials of the organization."""
        if changed:
            self.context.guards.invalidate_bearers(identity.org_id)


def resource_id(request: web.Request) -> str:
    """The id in the path. Raises NotFound for a malformed id, which a database column might not accept."""
    text = request.match_info["id"]
    if _ID.fullmatch(text) is None:
        raise NotFound
    return text


def resource_response(resource: Mapping[str, Any], version: int, location: str, status: int = 200) -> web.Response:
    """A response with one resource."""
    return scim_response(resource, status, {"ETag": etag(version), "Location": location})


def not_modified(version: int) -> web.Response:
    """The 304 response, for a client that has this version."""
    return web.Response(status=304, headers={"ETag": etag(version)})


def etag(version: int) -> str:
    """The ETag of a version: weak, because a response may have only some attributes (RFC 7644 3.14)."""
    return f'W/"{version}"'


def require_match(request: web.Request, version: int) -> None:
    """Raises ScimError, 412, if the request names another version."""
    wanted = request.headers.get("If-Match")
    if wanted is not None and not _names(wanted, version):
        message = "The resource does not have the version in If-Match. Read the resource again."
        raise ScimError(message, code=ErrorCode.PRECONDITION_FAILED)


def is_known(request: web.Request, version: int) -> bool:
    """Whether the client already has this version, so that the response is 304."""
    known = request.headers.get("If-None-Match")
    return known is not None and _names(known, version)


def _names(header: str, version: int) -> bool:
    """Whether a list of entity tags has the tag of the version, compared weakly (RFC 9110 8.8.3.2)."""
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return "*" in tags or f'"{version}"' in tags


def _meta(kind: str, stored: ProvisionedUser | ProvisionedGroup, location: str) -> dict[str, str]:
    return {
        "resourceType": kind,
        "created": format_time(stored.created_at),
        "lastModified": format_time(stored.updated_at),
        "location": location,
        "version": etag(stored.version),
    }


def _top(path: Any) -> str:
    """The attribute name at the beginning of a path, without its schema. Empty for a schema as a whole."""
    text = str(path).lower()
    for schema in (USER_SCHEMA, GROUP_SCHEMA):
        if text == schema.lower():
            return ""
        text = text.removeprefix(f"{schema.lower()}:")
    return text.partition(".")[0].partition("[")[0]


def without_read_only(resource: Mapping[str, Any], read_only: Sequence[str]) -> dict[str, Any]:
    """A resource of a request without its read-only attributes, which are ignored (RFC 7644 3.3)."""
    return {name: value for name, value in resource.items() if name.lower() not in read_only}


def count_values(resource: Mapping[str, Any]) -> int:
    """The number of values in the resource's lists, and of attributes in it and in its complex attributes."""
    count, left = 0, [resource]
    while left:
        for value in left.pop().values():
            count += len(value) if isinstance(value, list | Mapping) else 1
            if isinstance(value, Mapping):
                left.append(value)
    return count


def checked_text(text: str | None, path: str) -> str | None:
    """The text, if filters can compare it. Raises InvalidValue."""
    if text is None:
        return None
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidValue(f"{path} can have at most {MAX_TEXT_LENGTH} characters.")
    if any(category(character) in _UNSTORABLE for character in text):
        raise InvalidValue(f"{path} must not contain control characters or unpaired surrogates.")
    return text
