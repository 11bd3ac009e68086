"""The operations of a directory: users, groups, discovery, and unsupported operations. Their handlers are imported
later (`control.identity.scim.routes`), so the operations are described here for the API's document.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiohttp import web

from chassis.http.access import Handler
from chassis.http.route import Body, Content, Operation, Parameter, ResponseSpec, Tag
from control.identity.scim.messages import DEFAULT_COUNT, ERROR_SPEC, MAX_COUNT, PATCH_SCHEMA, SCIM_TYPE

if TYPE_CHECKING:
    from control.identity.scim.protocol.handlers import ScimHandlers

TAG: Final = Tag(
    "scim",
    "Provisioning by an organization's directory: SCIM 2.0 (RFC 7643, RFC 7644). The schemas are under `/Schemas`.",
)


RESOURCE: Final[Content] = {SCIM_TYPE: dict[str, Any]}
ID: Final = Parameter("id", "path", str, "Id of the resource.")
PROJECTION_PARAMETERS: Final = (
    Parameter("attributes", "query", str, "Names of the attributes to return, separated by commas."),
    Parameter("excludedAttributes", "query", str, "Names of the attributes not to return, separated by commas."),
)
LIST_PARAMETERS: Final = (
    Parameter("filter", "query", str, "A filter (RFC 7644 3.4.2.2).", example='userName eq "ada@example.com"'),
    Parameter("sortBy", "query", str, "The attribute to sort by. By default, the order of creation."),
    Parameter("sortOrder", "query", str, "`ascending` or `descending`.", default="ascending"),
    Parameter("startIndex", "query", int, "Number of the first resource of the page, counted from 1.", default=1),
    Parameter("count", "query", int, f"Resources per page, at most {MAX_COUNT}.", default=DEFAULT_COUNT),
    Parameter(
        "cursor",
        "query",
        str,
        "`nextCursor` of the previous page (RFC 9865). Empty: the first page. Not together with `startIndex`.",
    ),
    *PROJECTION_PARAMETERS,
)
IF_MATCH: Final = Parameter("If-Match", "header", str, "The version to change, from `meta.version`.")
IF_NONE_MATCH: Final = Parameter(
    "If-None-Match", "header", str, "A version that the client has. The response is 304 if this version is current."
)
NOT_MODIFIED: Final = ResponseSpec(
    "The client has the current version.", status=304, headers={"ETag": "The version, from `meta.version`."}
)
BODY: Final = Body(RESOURCE)


def operation(
    id_: str,
    description: str,
    response: str,
    *,
    status: int = 200,
    parameters: tuple[Parameter, ...] = (),
    body: Body | None = None,
    error_statuses: tuple[int, ...] = (),
    more: tuple[ResponseSpec, ...] = (),
) -> Operation:
    """A SCIM operation. The first line of `description` is its summary."""
    content: Content = {} if status == web.HTTPNoContent.status_code else RESOURCE
    return Operation(
        id_,
        TAG,
        (ResponseSpec(response, content, status), *more),
        parameters,
        body=body,
        error_statuses=error_statuses,
        error_spec=ERROR_SPEC,
        description=description,
    )


def _patch(operation: dict[str, Any]) -> Body:
    return Body(RESOURCE, example={"schemas": [PATCH_SCHEMA], "Operations": [operation]})


class ScimRoute(NamedTuple):
    """A route below an organization's SCIM endpoint. `handler` selects its handler after the later import."""

    method: str
    path: str
    handler: Callable[["ScimHandlers"], Handler]
    operation: Operation | None = None


_TYPE_ID: Final = Parameter("name", "path", str, "Name of the resource type.")
_SCHEMA_ID: Final = Parameter("uri", "path", str, "URI of the schema.")
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Paths that begin with none of the known ones. A known path with a method that it does not have is answered with 405.
_ELSEWHERE: Final = "/{rest:(?!(?:Users|Groups|ServiceProviderConfig|Schemas|ResourceTypes|Me|Bulk)(?:/|$)).*}"

ROUTES: Final = (
    ScimRoute(
        "GET",
        "/Users",
        lambda one: one.users.list,
        operation(
            "listScimUsers",
            """List users.

Filters compare `id`, `externalId`, `userName`, `displayName`, `name.familyName`, `name.givenName`, `active`,
`emails`, `groups` and the times in `meta`. `sortBy` accepts single-valued attributes, and `emails`.
""",
            "A page.",
            parameters=LIST_PARAMETERS,
        ),
    ),
    ScimRoute(
        "POST",
        "/Users/.search",
        lambda one: one.users.list,
        operation("searchScimUsers", "List users by a search request (RFC 7644 3.4.3).", "A page.", body=BODY),
    ),
    ScimRoute(
        "POST",
        "/Users",
        lambda one: one.users.create,
        operation(
            "createScimUser",
            """Create a user.

If the user is active and a member of the organization has the user's address, the directory manages this member from
now on. If there is no such member, an active user gets a new account, which logs in by single sign-on. The user's
address is the primary address in `emails`, otherwise the first address in `emails`, otherwise `userName`. A user
without an address has no account. The user's groups decide the role. 409 `uniqueness` if another user has the same
`userName` or address.
""",
            "The user.",
            status=201,
            parameters=PROJECTION_PARAMETERS,
            body=Body(RESOURCE, example={"userName": "ada@example.com", "emails": [{"value": "ada@example.com"}]}),
            error_statuses=(409,),
        ),
    ),
    ScimRoute(
        "GET",
        "/Users/{id}",
        lambda one: one.users.show,
        operation(
            "showScimUser",
            "Show a user.",
            "The user.",
            parameters=(ID, IF_NONE_MATCH, *PROJECTION_PARAMETERS),
            more=(NOT_MODIFIED,),
        ),
    ),
    ScimRoute(
        "PUT",
        "/Users/{id}",
        lambda one: one.users.replace,
        operation(
            "replaceScimUser",
            """Replace a user.

If `active` is omitted, it is not changed. 409 if `active` becomes false for an owner or the last administrator.
""",
            "The user.",
            parameters=(ID, IF_MATCH, *PROJECTION_PARAMETERS),
            body=BODY,
            error_statuses=(409, 412),
        ),
    ),
    ScimRoute(
        "PATCH",
        "/Users/{id}",
        lambda one: one.users.change,
        operation(
            "changeScimUser",
            """Change a user (RFC 7644 3.5.2).

Setting `active` to false ends the membership: sessions, refresh tokens and personal access tokens are revoked. The
agents and services of the user are transferred to the successor in `/scim-settings`. Without a successor, they are
retired. Setting `active` to true restores only the membership. 409 for an owner, and for the last administrator.
""",
            "The user.",
            parameters=(ID, IF_MATCH, *PROJECTION_PARAMETERS),
            body=_patch({"op": "replace", "path": "active", "value": False}),
            error_statuses=(409, 412),
        ),
    ),
    ScimRoute(
        "DELETE",
        "/Users/{id}",
        lambda one: one.users.remove,
        operation(
            "deleteScimUser",
            """Delete a user.

The membership ends, as when `active` is set to false. An account that is confined to the organization is closed. 409
for an owner, and for the last administrator.
""",
            "The user was deleted.",
            status=204,
            parameters=(ID, IF_MATCH),
            error_statuses=(409, 412),
        ),
    ),
    ScimRoute(
        "GET",
        "/Groups",
        lambda one: one.groups.list,
        operation(
            "listScimGroups",
            """List groups.

Filters compare `id`, `externalId`, `displayName`, `members` and the times in `meta`. `sortBy` accepts
single-valued attributes. If groups have many members, a page has fewer groups than `count`, unless
`excludedAttributes=members` omits the members.
""",
            "A page.",
            parameters=LIST_PARAMETERS,
        ),
    ),
    ScimRoute(
        "POST",
        "/Groups/.search",
        lambda one: one.groups.list,
        operation("searchScimGroups", "List groups by a search request (RFC 7644 3.4.3).", "A page.", body=BODY),
    ),
    ScimRoute(
        "POST",
        "/Groups",
        lambda one: one.groups.create,
        operation(
            "createScimGroup",
            """Create a group.

`roleMapping` of the SSO connection maps the `displayName` or the `externalId` of the group to a role, which the
members of the group get. Members must be users: a group in a group is answered with 400.
""",
            "The group.",
            status=201,
            parameters=PROJECTION_PARAMETERS,
            body=Body(RESOURCE, example={"displayName": "platform-team", "members": []}),
            error_statuses=(409,),
        ),
    ),
    ScimRoute(
        "GET",
        "/Groups/{id}",
        lambda one: one.groups.show,
        operation(
            "showScimGroup",
            "Show a group.",
            "The group.",
            parameters=(ID, IF_NONE_MATCH, *PROJECTION_PARAMETERS),
            more=(NOT_MODIFIED,),
        ),
    ),
    ScimRoute(
        "PUT",
        "/Groups/{id}",
        lambda one: one.groups.replace,
        operation(
            "replaceScimGroup",
            "Replace a group and its members.",
            "The group.",
            parameters=(ID, IF_MATCH, *PROJECTION_PARAMETERS),
            body=BODY,
            error_statuses=(409, 412),
        ),
    ),
    ScimRoute(
        "PATCH",
        "/Groups/{id}",
        lambda one: one.groups.change,
        operation(
            "changeScimGroup",
            """Change a group (RFC 7644 3.5.2).

The roles of added and removed members follow from their groups, and are changed before the response.
""",
            "The group.",
            parameters=(ID, IF_MATCH, *PROJECTION_PARAMETERS),
            body=_patch({"op": "add", "path": "members", "value": [{"value": "scu_01jq3v5d0n8k2m4p6r8t0w2y4z"}]}),
            error_statuses=(409, 412),
        ),
    ),
    ScimRoute(
        "DELETE",
        "/Groups/{id}",
        lambda one: one.groups.remove,
        operation(
            "deleteScimGroup",
            "Delete a group. The members of the group stay users. They get the role of their other groups.",
            "The group was deleted.",
            status=204,
            parameters=(ID, IF_MATCH),
            error_statuses=(412,),
        ),
    ),
    ScimRoute(
        "GET",
        "/ServiceProviderConfig",
        lambda one: one.discovery.config,
        operation("showScimConfig", "Show the supported features.", "The supported features."),
    ),
    ScimRoute(
        "GET",
        "/Schemas",
        lambda one: one.discovery.schemas,
        operation(
            "listScimSchemas", "List the schemas of users, groups, and of the enterprise extension.", "All schemas."
        ),
    ),
    ScimRoute(
        "GET",
        "/Schemas/{uri}",
        lambda one: one.discovery.schema,
        operation(
            "showScimSchema",
            "Show a schema.",
            "The schema.",
            parameters=(_SCHEMA_ID,),
        ),
    ),
    ScimRoute(
        "GET",
        "/ResourceTypes",
        lambda one: one.discovery.resource_types,
        operation("listScimResourceTypes", "List the resource types: users and groups.", "All resource types."),
    ),
    ScimRoute(
        "GET",
        "/ResourceTypes/{name}",
        lambda one: one.discovery.resource_type,
        operation(
            "showScimResourceType",
            "Show a resource type.",
            "The resource type.",
            parameters=(_TYPE_ID,),
        ),
    ),
    *(ScimRoute(method, "/Me", lambda one: one.discovery.me) for method in _METHODS),
    ScimRoute("POST", "/Bulk", lambda one: one.discovery.bulk),
    ScimRoute("GET", "", lambda one: one.discovery.search_all),
    ScimRoute("POST", "/.search", lambda one: one.discovery.search_all),
    *(ScimRoute(method, _ELSEWHERE, lambda one: one.discovery.unknown_path) for method in _METHODS),
)
