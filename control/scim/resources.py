"""Resources as responses: what is stored, with `id`, `meta`, and what the directory cannot write.

A resource is written as a mapping. The library's model is built only where a request names the attributes that it
wants, for a page of hundreds of users would take half a second.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar
from urllib.parse import quote

from aiohttp import web
from multidict import MultiMapping
from scim2_models import Context
from scim2_models.messages.response_parameters import ResponseParameters

from chassis.db.database import format_time
from control.directory.group_repository import ProvisionedGroup
from control.directory.user_repository import GroupOfUser, ProvisionedUser
from control.scim.errors import InvalidValue, VersionMismatch, translated
from control.scim.models import TOLERANT, Group, ScimResource, User

T = TypeVar("T")

MAX_ATTRIBUTES_LENGTH: Final = 4_096  # characters of `attributes` or `excludedAttributes`
USER_SCHEMA: Final = str(User.__schema__)
GROUP_SCHEMA: Final = str(Group.__schema__)
_PROJECTION: Final = ("attributes", "excludedAttributes")
_MODEL_COST: Final = 100  # of the library's model of a resource, in members
_THREAD_COST: Final = 2_000
_RELATED: Final[Mapping[type[ScimResource], str]] = MappingProxyType({User: "groups", Group: "members"})


@dataclass(frozen=True, slots=True)
class ScimUrls:
    """Addresses of resources, for `meta.location` and `$ref`. `public_url`: that of the API."""

    public_url: str

    def base(self, org_slug: str) -> str:
        """The organization's SCIM endpoint."""
        return f"{self.public_url}/scim/v2/{quote(org_slug)}"

    def user(self, org_slug: str, user_id: str) -> str:
        """A user's."""
        return f"{self.base(org_slug)}/Users/{user_id}"

    def group(self, org_slug: str, group_id: str) -> str:
        """A group's."""
        return f"{self.base(org_slug)}/Groups/{group_id}"


@dataclass(frozen=True, slots=True)
class Projection:
    """Which attributes of a resource a response has (RFC 7644 3.9). `parameters` None: all."""

    model: type[ScimResource]
    parameters: "ResponseParameters[Any] | None" = None

    @classmethod
    def of_query(cls, model: type[ScimResource], query: MultiMapping[str]) -> "Projection":
        """As a query names them. Raises ScimError."""
        return cls.of_values(model, {name: query[name] for name in _PROJECTION if query.get(name)})

    @classmethod
    def of_values(cls, model: type[ScimResource], values: Mapping[str, Any]) -> "Projection":
        """As a search request names them. Raises ScimError."""
        named = {name: values[name] for name in _PROJECTION if values.get(name)}
        if not named:
            return cls(model)
        for value in named.values():
            if sum(map(len, [value] if isinstance(value, str) else map(str, value))) > MAX_ATTRIBUTES_LENGTH:
                raise InvalidValue(f"At most {MAX_ATTRIBUTES_LENGTH} characters can name attributes.")
        with translated():
            return cls(model, ResponseParameters[model].model_validate(named))  # type: ignore[valid-type]

    def excludes(self, name: str) -> bool:
        """Whether a response surely lacks this attribute, so that it need not be read."""
        if self.parameters is None:
            return False
        if self.parameters.attributes:
            return all(_top(path) not in (name.lower(), "") for path in self.parameters.attributes)
        return any(str(path).lower() == name.lower() for path in self.parameters.excluded_attributes or ())

    def cost(self, resources: int) -> int:
        """Of applying it to so many, as `rendered` counts."""
        return resources if self.parameters is None else _MODEL_COST * resources

    def apply(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        """The attributes of the resource that the response has. Of its members, or groups, which may be many and all
        have the same sub-attributes, the library is shown one.
        """
        if self.parameters is None:
            return resource
        name = _RELATED[self.model]
        related: Sequence[Mapping[str, Any]] = resource.get(name, ())
        with translated(), TOLERANT:
            model = self.model.model_validate({**resource, name: related[:1]} if related else resource)
            found: dict[str, Any] = model.model_dump(
                scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=self.parameters
            )
        if related and name in found:
            kept = tuple(found[name][0])
            found[name] = [{key: each[key] for key in kept} for each in related]
        return found


async def rendered(render: Callable[[], T], cost: int) -> T:
    """What `render` returns; a thread calls it if it writes many resources, members and groups (`cost`), which takes
    seconds, and the event loop has others to serve.
    """
    return render() if cost <= _THREAD_COST else await asyncio.to_thread(render)


def user_resource(
    user: ProvisionedUser, groups: Sequence[GroupOfUser], urls: ScimUrls, org_slug: str
) -> dict[str, Any]:
    """A user as a response has it."""
    resource = {"schemas": [USER_SCHEMA], **user.document, "id": user.id}
    if groups:
        url = urls.group(org_slug, "")
        resource["groups"] = [
            {
                "value": group.id,
                "$ref": f"{url}{group.id}",
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
    """A group as a response has it. `member_ids` None: it has no `members`."""
    resource: dict[str, Any] = {"schemas": [GROUP_SCHEMA], "id": group.id, "displayName": group.display_name}
    if group.external_id is not None:
        resource["externalId"] = group.external_id
    url = urls.user(org_slug, "")
    members = [{"value": one, "$ref": f"{url}{one}", "type": "User"} for one in sorted(member_ids or ())]
    if members:
        resource["members"] = members
    resource["meta"] = _meta("Group", group, urls.group(org_slug, group.id))
    return resource


def etag(version: int) -> str:
    """The ETag of a version: weak, because a response may have only some attributes (RFC 7644 3.14)."""
    return f'W/"{version}"'


def require_match(request: web.Request, version: int) -> None:
    """Raises VersionMismatch if the request is for another version."""
    wanted = request.headers.get("If-Match")
    if wanted is not None and not _names(wanted, version):
        raise VersionMismatch


def is_known(request: web.Request, version: int) -> bool:
    """Whether the client has this version already: 304."""
    known = request.headers.get("If-None-Match")
    return known is not None and _names(known, version)


def _names(header: str, version: int) -> bool:
    """Whether a list of entity tags has that of the version; compared weakly (RFC 9110 8.8.3.2)."""
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
    """The name of the attribute that a path begins with, without its schema; "" for a schema as a whole."""
    text = str(path).lower()
    for schema in (USER_SCHEMA, GROUP_SCHEMA):
        if text == schema.lower():
            return ""
        text = text.removeprefix(f"{schema.lower()}:")
    return text.partition(".")[0]


def without_read_only(resource: Mapping[str, Any], read_only: Sequence[str]) -> dict[str, Any]:
    """A request without what the client may name and not decide (RFC 7644 3.3: it is ignored)."""
    return {name: value for name, value in resource.items() if name.lower() not in read_only}
