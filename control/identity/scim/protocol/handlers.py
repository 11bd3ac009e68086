"""All handlers of a directory's requests, and the handlers of discovery, which describe the service to a directory.

Discovery has `/ServiceProviderConfig`, `/Schemas` and `/ResourceTypes` (RFC 7644 4). It also answers unsupported
requests: `/Me`, `/Bulk`, a search of all resource types, and every other path below the endpoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from aiohttp import web
from scim2_models import Context, Resource, ResourceType, Schema

from chassis.errors import Forbidden, NotFound
from chassis.http.access import directory_identity
from control.http.context import HandlerContext
from control.identity.scim.messages import DEFAULT_COUNT, MAX_COUNT, ScimError, ScimUrls, scim_response
from control.identity.scim.protocol.groups import Groups
from control.identity.scim.protocol.library import EnterpriseUser, Group, ScimUser
from control.identity.scim.protocol.listing import LIST_SCHEMA
from control.identity.scim.protocol.resources import ScimEndpoint
from control.identity.scim.protocol.users import Users
from control.identity.scim.tokens import DirectoryGuard
from proto.errors import ErrorCode

CONFIG_SCHEMA: Final = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"


@dataclass(frozen=True, slots=True)
class Discovery:
    """Handlers of discovery, and their dependencies."""

    endpoint: ScimEndpoint

    async def config(self, request: web.Request) -> web.StreamResponse:
        """Show the supported features."""
        base = self.endpoint.urls.base(directory_identity(request).org_slug)
        return scim_response(_config(f"{base}/ServiceProviderConfig"))

    async def schemas(self, request: web.Request) -> web.StreamResponse:
        """List the schemas of users, groups, and of the enterprise extension."""
        _refuse_filter(request)
        return scim_response(_list([self._located(request, "Schemas", each) for each in _schemas().values()]))

    async def schema(self, request: web.Request) -> web.StreamResponse:
        """Show a schema."""
        found = _schemas().get(request.match_info["uri"].lower())
        if found is None:
            raise NotFound
        return scim_response(self._located(request, "Schemas", found))

    async def resource_types(self, request: web.Request) -> web.StreamResponse:
        """List the resource types: users and groups."""
        _refuse_filter(request)
        return scim_response(_list([self._located(request, "ResourceTypes", each) for each in _types().values()]))

    async def resource_type(self, request: web.Request) -> web.StreamResponse:
        """Show a resource type."""
        found = _types().get(request.match_info["name"])
        if found is None:
            raise NotFound
        return scim_response(self._located(request, "ResourceTypes", found))

    async def me(self, _request: web.Request) -> web.StreamResponse:
        """Raises 501, because `/Me` would refer to an authenticated user, and there is none (RFC 7644 3.11)."""
        raise ScimError(
            "/Me is not supported. A SCIM token belongs to a directory, not to a user.", code=ErrorCode.NOT_IMPLEMENTED
        )

    async def bulk(self, _request: web.Request) -> web.StreamResponse:
        """Raises 501, as `/ServiceProviderConfig` announces."""
        raise ScimError("Bulk requests are not supported.", code=ErrorCode.NOT_IMPLEMENTED)

    async def search_all(self, _request: web.Request) -> web.StreamResponse:
        """Raises 501, because a search covers one resource type."""
        raise ScimError(
            "Searching users and groups in one request is not supported. Search /Users or /Groups.",
            code=ErrorCode.NOT_IMPLEMENTED,
        )

    async def unknown_path(self, _request: web.Request) -> web.StreamResponse:
        """Raises 404."""
        raise NotFound

    def _located(self, request: web.Request, path: str, resource: Mapping[str, Any]) -> dict[str, Any]:
        base = self.endpoint.urls.base(directory_identity(request).org_slug)
        kind = path.removesuffix("s")
        return {**resource, "meta": {"resourceType": kind, "location": f"{base}/{path}/{resource['id']}"}}


def _refuse_filter(request: web.Request) -> None:
    """Raises Forbidden for a filter, so that a client does not take the full list for a filtered one (RFC 7644 4)."""
    if "filter" in request.query:
        raise Forbidden("Schemas and resource types cannot be filtered.")


def _config(location: str) -> dict[str, Any]:
    return {
        "schemas": [CONFIG_SCHEMA],
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MAX_COUNT},
        "changePassword": {"supported": False},
        "sort": {"supported": True},
        "etag": {"supported": True},
        "pagination": {
            "cursor": True,
            "index": True,
            "defaultPaginationMethod": "index",
            "defaultPageSize": DEFAULT_COUNT,
            "maxPageSize": MAX_COUNT,
        },
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken",
                "name": "SCIM token",
                "description": "A token of the organization's directory: Authorization: Bearer scim_...",
                "specUri": "https://www.rfc-editor.org/rfc/rfc6750",
                "primary": True,
            }
        ],
        "meta": {"resourceType": "ServiceProviderConfig", "location": location},
    }


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    """The schemas by id in lower case. The library describes them from its models."""
    models: Mapping[str, Any] = {"User": ScimUser, "Group": Group, "EnterpriseUser": EnterpriseUser}
    return {
        str(model.__schema__).lower(): {**_dumped(model.to_schema()), "name": name} for name, model in models.items()
    }


@cache
def _types() -> dict[str, dict[str, Any]]:
    """The resource types by name."""
    schema = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
    user = {
        "schemas": [schema],
        "id": "User",
        "name": "User",
        "endpoint": "/Users",
        "description": "A person",
        "schema": str(ScimUser.__schema__),
        "schemaExtensions": [{"schema": str(EnterpriseUser.__schema__), "required": False}],
    }
    group = {
        "schemas": [schema],
        "id": "Group",
        "name": "Group",
        "endpoint": "/Groups",
        "description": "A group of people",
        "schema": str(Group.__schema__),
    }
    return {"User": user, "Group": group}


def _dumped(resource: "Resource[Any] | Schema | ResourceType") -> dict[str, Any]:
    found: dict[str, Any] = resource.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE)
    return found


def _list(resources: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schemas": [LIST_SCHEMA],
        "totalResults": len(resources),
        "startIndex": 1,
        "itemsPerPage": len(resources),
        "Resources": resources,
    }


@dataclass(frozen=True, slots=True)
class ScimHandlers:
    """All handlers of SCIM."""

    users: Users
    groups: Groups
    discovery: Discovery


def build_handlers(context: HandlerContext, guard: DirectoryGuard, urls: ScimUrls) -> ScimHandlers:
    """The handlers with these dependencies."""
    endpoint = ScimEndpoint(context, guard, urls)
    return ScimHandlers(Users(endpoint), Groups(endpoint), Discovery(endpoint))
