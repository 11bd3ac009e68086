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

from chassis.access import Bearer
from chassis.errors import NotFound
from chassis.identity.model import Grant
from chassis.identity.tables import invitations, memberships, project_keys, projects
from chassis.relational import Database
from chassis.web import Route
from control.approvals.tables import approval_requests
from control.channels.tables import notification_channels
from control.deliveries.tables import deliveries
from control.policies.tables import approval_policies
from proto.identity import Scope

_ID: Final = re.compile(r"\{(\w+Id)\}")


class _Kind(NamedTuple):
    prefix: str  # of ids
    read: Scope  # who has it sees everything of this kind
    column: sa.Column[str]
    where: sa.ColumnElement[bool]  # by the organization, and the project of the path


_ORG: Final[sa.BindParameter[Any]] = sa.bindparam("org_id")
_OF_PROJECT: Final = sa.select(projects.c.id).where(
    projects.c.org_id == _ORG, projects.c.slug == sa.bindparam("project_slug")
)
_LIVE_CHANNEL: Final = (
    (notification_channels.c.org_id == _ORG)
    & notification_channels.c.deleted_at.is_(None)
    & (notification_channels.c.project_id.is_(None) | notification_channels.c.project_id.in_(_OF_PROJECT))
)
_KINDS: Final[Mapping[str, _Kind]] = MappingProxyType(
    {
        "keyId": _Kind("key", Scope.KEYS_READ, project_keys.c.id, project_keys.c.project_id.in_(_OF_PROJECT)),
        "principalId": _Kind("prn", Scope.MEMBERS_READ, memberships.c.principal_id, memberships.c.org_id == _ORG),
        "invitationId": _Kind("inv", Scope.MEMBERS_READ, invitations.c.id, invitations.c.org_id == _ORG),
        "policyId": _Kind("pol", Scope.POLICIES_READ, approval_policies.c.id, approval_policies.c.org_id == _ORG),
        "requestId": _Kind("apr", Scope.APPROVALS_READ, approval_requests.c.id, approval_requests.c.org_id == _ORG),
        "channelId": _Kind("chn", Scope.CHANNELS_READ, notification_channels.c.id, _LIVE_CHANNEL),
        "deliveryId": _Kind("dlv", Scope.CHANNELS_READ, deliveries.c.id, deliveries.c.org_id == _ORG),
    }
)


def sighted(database: Database, routes: Iterable[Route]) -> list[Route]:
    """The routes, those to one thing with the check that it is there."""
    return [_sighted(database, route) for route in routes]


def _sighted(database: Database, route: Route) -> Route:
    name = next((name for name in _ID.findall(route.path) if name in _KINDS), None)
    if name is None or not isinstance(route.access, Bearer):
        return route
    return replace(route, access=replace(route.access, sight=_Sight(database, name, _KINDS[name])))


@dataclass(frozen=True, slots=True)
class _Sight:
    """Of the thing that the variable `name` of a path names."""

    database: Database
    name: str
    kind: _Kind

    async def __call__(self, request: web.Request, caller: Grant) -> None:
        """Raises NotFound."""
        if self.kind.read not in caller.scopes:
            return
        wanted = request.match_info[self.name]
        if re.fullmatch(self.kind.prefix + "_[0-9a-z]{26}", wanted) is None:
            raise NotFound  # a path may hold what no database column takes
        found = sa.select(self.kind.column).where(self.kind.where, self.kind.column == wanted)
        place = {"org_id": caller.org_id, "project_slug": request.match_info.get("projectSlug", "")}
        async with self.database.read() as connection:
            if await connection.scalar(found, place) is None:
                raise NotFound
