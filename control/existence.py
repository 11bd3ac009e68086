"""What is not there is told before what is not allowed, of everything that the caller may read.

Who may not read a kind of thing is told of the scope that he lacks, whether the thing is there or not.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from aiohttp import web

from chassis.auth.model import AuthenticatedCredential
from chassis.auth.tables import invitations, memberships, project_keys, projects
from chassis.db.database import Database
from chassis.errors import NotFound
from chassis.http.access import BearerAuth
from chassis.http.web import Route
from control.approvals.tables import approval_requests
from control.channels.delivery_tables import deliveries
from control.channels.tables import notification_channels
from control.policies.tables import approval_policies
from proto.identity import Scope

_ID_PARAMETER: Final = re.compile(r"\{(\w+Id)\}")


class _Resource(NamedTuple):
    id_prefix: str  # of ids
    read_scope: Scope  # who has it sees everything of this kind
    column: sa.Column[str]
    where: sa.ColumnElement[bool]  # by the organization, and the project of the path


_ORG_ID: Final[sa.BindParameter[Any]] = sa.bindparam("org_id")
_PROJECT_ID: Final = sa.select(projects.c.id).where(
    projects.c.org_id == _ORG_ID, projects.c.slug == sa.bindparam("project_slug")
)
_LIVE_CHANNEL: Final = (
    (notification_channels.c.org_id == _ORG_ID)
    & notification_channels.c.deleted_at.is_(None)
    & (notification_channels.c.project_id.is_(None) | notification_channels.c.project_id.in_(_PROJECT_ID))
)
_RESOURCES: Final[Mapping[str, _Resource]] = MappingProxyType(
    {
        "keyId": _Resource("key", Scope.KEYS_READ, project_keys.c.id, project_keys.c.project_id.in_(_PROJECT_ID)),
        "principalId": _Resource(
            "prn", Scope.MEMBERS_READ, memberships.c.principal_id, memberships.c.org_id == _ORG_ID
        ),
        "invitationId": _Resource("inv", Scope.MEMBERS_READ, invitations.c.id, invitations.c.org_id == _ORG_ID),
        "policyId": _Resource(
            "pol", Scope.POLICIES_READ, approval_policies.c.id, approval_policies.c.org_id == _ORG_ID
        ),
        "requestId": _Resource(
            "apr", Scope.APPROVALS_READ, approval_requests.c.id, approval_requests.c.org_id == _ORG_ID
        ),
        "channelId": _Resource("chn", Scope.CHANNELS_READ, notification_channels.c.id, _LIVE_CHANNEL),
        "deliveryId": _Resource("dlv", Scope.CHANNELS_READ, deliveries.c.id, deliveries.c.org_id == _ORG_ID),
    }
)


def with_existence_checks(database: Database, routes: Iterable[Route]) -> list[Route]:
    """The routes, those to one thing with the check that it is there."""
    return [_with_existence_check(database, route) for route in routes]


def _with_existence_check(database: Database, route: Route) -> Route:
    name = next((name for name in _ID_PARAMETER.findall(route.path) if name in _RESOURCES), None)
    if name is None or not isinstance(route.access, BearerAuth):
        return route
    return replace(
        route, access=replace(route.access, existence_check=_ExistenceCheck(database, name, _RESOURCES[name]))
    )


@dataclass(frozen=True, slots=True)
class _ExistenceCheck:
    """Of the thing that the variable `name` of a path names."""

    database: Database
    path_parameter: str
    resource: _Resource

    async def __call__(self, request: web.Request, caller: AuthenticatedCredential) -> None:
        """Raises NotFound."""
        if self.resource.read_scope not in caller.scopes:
            return
        wanted = request.match_info[self.path_parameter]
        if re.fullmatch(self.resource.id_prefix + "_[0-9a-z]{26}", wanted) is None:
            raise NotFound  # a path may hold what no database column takes
        found = sa.select(self.resource.column).where(self.resource.where, self.resource.column == wanted)
        place = {"org_id": caller.org_id, "project_slug": request.match_info.get("projectSlug", "")}
        async with self.database.read() as connection:
            if await connection.scalar(found, place) is None:
                raise NotFound
