"""Existence checks: a missing resource gets 404 before a missing scope gets 403.

They apply only to callers with the read scope of the kind of resource. Other callers get 403 for the missing scope,
whether the resource exists or not.
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
from chassis.changes.tables import change_events
from chassis.db.database import Database
from chassis.erasures.tables import erasures
from chassis.errors import NotFound
from chassis.http.access import BearerAuth
from chassis.http.web import Route
from chassis.issues.tables import issues
from chassis.source_maps.tables import source_maps
from control.approvals.tables import approval_requests
from control.channels.delivery_tables import deliveries
from control.channels.tables import notification_channels
from control.chat_links.tables import chat_links
from control.directory.tables import scim_tokens
from control.integrations.tables import inbound_deliveries, integrations
from control.issues.tables import issue_links
from control.policies.tables import approval_policies
from control.proofs.tables import proof_issuer_keys
from control.releases.tables import releases
from control.saved_views.tables import saved_views
from control.sso.tables import sso_domains, sso_identities
from control.warehouse.tables import warehouse_sinks
from proto.identity import Scope

_ID_PARAMETER: Final = re.compile(r"\{(\w+Id)\}")


class _Resource(NamedTuple):
    id_prefix: str  # of the resource's ids, without the underscore
    read_scope: Scope  # a caller with it may see every resource of this kind
    column: sa.Column[str]
    where: sa.ColumnElement[bool]  # restricts to the organization, and to the project in the path


_ORG_ID: Final[sa.BindParameter[Any]] = sa.bindparam("org_id")
_PROJECT_ID: Final = sa.select(projects.c.id).where(
    projects.c.org_id == _ORG_ID, projects.c.slug == sa.bindparam("project_slug"), projects.c.deleted_at.is_(None)
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
        "domainId": _Resource("dom", Scope.SSO_READ, sso_domains.c.id, sso_domains.c.org_id == _ORG_ID),
        "identityId": _Resource("ssi", Scope.SSO_READ, sso_identities.c.id, sso_identities.c.org_id == _ORG_ID),
        "scimTokenId": _Resource("sct", Scope.SSO_READ, scim_tokens.c.id, scim_tokens.c.org_id == _ORG_ID),
        "issueId": _Resource("iss", Scope.ISSUES_READ, issues.c.id, issues.c.project_id.in_(_PROJECT_ID)),
        "linkId": _Resource("lnk", Scope.ISSUES_READ, issue_links.c.id, issue_links.c.project_id.in_(_PROJECT_ID)),
        "changeId": _Resource("chg", Scope.RELEASES_READ, change_events.c.id, change_events.c.org_id == _ORG_ID),
        "releaseId": _Resource("rel", Scope.RELEASES_READ, releases.c.id, releases.c.org_id == _ORG_ID),
        "chatLinkId": _Resource("chl", Scope.MEMBERS_READ, chat_links.c.id, chat_links.c.org_id == _ORG_ID),
        "erasureId": _Resource("ers", Scope.AUDIT_READ, erasures.c.id, erasures.c.org_id == _ORG_ID),
        "integrationId": _Resource("int", Scope.INTEGRATIONS_READ, integrations.c.id, integrations.c.org_id == _ORG_ID),
        "sinkId": _Resource("snk", Scope.SINKS_READ, warehouse_sinks.c.id, warehouse_sinks.c.org_id == _ORG_ID),
        "sourceMapId": _Resource(
            "smp", Scope.RELEASES_READ, source_maps.c.id, source_maps.c.project_id.in_(_PROJECT_ID)
        ),
        "issuerKeyId": _Resource(
            "pik", Scope.PROOFS_READ, proof_issuer_keys.c.id, proof_issuer_keys.c.org_id == _ORG_ID
        ),
        "inboundDeliveryId": _Resource(
            "ind", Scope.INTEGRATIONS_READ, inbound_deliveries.c.id, inbound_deliveries.c.org_id == _ORG_ID
        ),
        "viewId": _Resource(
            "viw",
            Scope.EXPLORE_READ,
            saved_views.c.id,
            saved_views.c.project_id.in_(_PROJECT_ID) & saved_views.c.shared,
        ),
        "deliveryId": _Resource("dlv", Scope.CHANNELS_READ, deliveries.c.id, deliveries.c.org_id == _ORG_ID),
    }
)


def with_existence_checks(database: Database, routes: Iterable[Route]) -> list[Route]:
    """The routes; bearer routes whose path names a resource get an existence check."""
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
    """Checks that the resource named by the variable `path_parameter` of the path exists."""

    database: Database
    path_parameter: str
    resource: _Resource

    async def __call__(self, request: web.Request, caller: AuthenticatedCredential) -> None:
        """Raises NotFound for a malformed id and for a missing resource, if the caller has the read scope."""
        if self.resource.read_scope not in caller.scopes:
            return
        resource_id = request.match_info[self.path_parameter]
        if re.fullmatch(self.resource.id_prefix + "_[0-9a-z]{26}", resource_id) is None:
            raise NotFound  # a path may hold characters that no database column accepts
        found = sa.select(self.resource.column).where(self.resource.where, self.resource.column == resource_id)
        parameters = {"org_id": caller.org_id, "project_slug": request.match_info.get("projectSlug", "")}
        async with self.database.read() as connection:
            if await connection.scalar(found, parameters) is None:
                raise NotFound
