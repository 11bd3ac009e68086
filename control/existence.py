"""Existence checks: a missing resource gets 404 before a missing scope gets 403, and before a wrong body or query gets
400, 413 or 415.

They apply only to callers with the read scope of the kind of resource. Other callers get the same response whether the
resource exists or not.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from aiohttp import web

from chassis.auth.model import AuthenticatedCredential
from chassis.auth.tables import access_tokens, invitations, memberships, project_keys, projects
from chassis.changes.tables import change_events
from chassis.db.database import Database
from chassis.erasures.tables import erasures
from chassis.errors import NotFound
from chassis.http.access import BearerAuth
from chassis.http.web import Route
from chassis.issues.tables import issues
from control.approvals.tables import approval_requests
from control.channels.delivery_tables import deliveries
from control.channels.tables import notification_channels
from control.chat_links.tables import chat_links
from control.directory.tables import scim_tokens
from control.integrations.tables import inbound_deliveries, integrations
from control.issues.tables import issue_links
from control.policies.tables import approval_policies
from control.proofs.tables import proof_bundles, proof_issuer_keys
from control.releases.tables import releases
from control.saved_views.tables import saved_views
from control.sso.tables import sso_domains, sso_identities
from control.warehouse.tables import warehouse_sinks
from proto.identity import Scope
from proto.proofs.primitives import IDENTIFIER_PATTERN

_ID_PARAMETER: Final = re.compile(r"\{(\w+Id)\}")


class _Resource(NamedTuple):
    id_prefix: str  # of the resource's ids, without the underscore; empty: they are chosen by people
    read_scope: Scope  # a caller with it may see every resource of this kind
    column: sa.Column[str]
    where: sa.ColumnElement[bool]  # restricts to what is above it in the path, and to what the caller may see

    @property
    def id_pattern(self) -> str:
        """Of an id that the column can hold."""
        return self.id_prefix + "_[0-9a-z]{26}" if self.id_prefix else IDENTIFIER_PATTERN


_ORG_ID: Final[sa.BindParameter[Any]] = sa.bindparam("org_id")
_CALLER_ID: Final[sa.BindParameter[Any]] = sa.bindparam("caller_id")
_PROJECT_ID: Final = sa.select(projects.c.id).where(
    projects.c.org_id == _ORG_ID, projects.c.slug == sa.bindparam("projectSlug"), projects.c.deleted_at.is_(None)
)
_LIVE_CHANNEL: Final = (
    (notification_channels.c.org_id == _ORG_ID)
    & notification_channels.c.deleted_at.is_(None)
    & (notification_channels.c.project_id.is_(None) | notification_channels.c.project_id.in_(_PROJECT_ID))
)
_RESOURCES: Final[Mapping[str, _Resource]] = MappingProxyType(
    {
        "tokenId": _Resource(
            "tok",
            Scope.TOKENS_WRITE,
            access_tokens.c.id,
            (access_tokens.c.org_id == _ORG_ID)
            & (access_tokens.c.principal_id == sa.bindparam("principalId")),  # without one in the path, the caller
        ),
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
        "linkId": _Resource(
            "lnk", Scope.ISSUES_READ, issue_links.c.id, issue_links.c.issue_id == sa.bindparam("issueId")
        ),
        "changeId": _Resource("chg", Scope.RELEASES_READ, change_events.c.id, change_events.c.org_id == _ORG_ID),
        "releaseId": _Resource("rel", Scope.RELEASES_READ, releases.c.id, releases.c.org_id == _ORG_ID),
        "chatLinkId": _Resource("chl", Scope.MEMBERS_READ, chat_links.c.id, chat_links.c.org_id == _ORG_ID),
        "erasureId": _Resource("ers", Scope.AUDIT_READ, erasures.c.id, erasures.c.org_id == _ORG_ID),
        "integrationId": _Resource("int", Scope.INTEGRATIONS_READ, integrations.c.id, integrations.c.org_id == _ORG_ID),
        "sinkId": _Resource("snk", Scope.SINKS_READ, warehouse_sinks.c.id, warehouse_sinks.c.org_id == _ORG_ID),
        "issuerKeyId": _Resource(
            "pik", Scope.PROOFS_READ, proof_issuer_keys.c.id, proof_issuer_keys.c.org_id == _ORG_ID
        ),
        "inboundDeliveryId": _Resource(
            "ind",
            Scope.INTEGRATIONS_READ,
            inbound_deliveries.c.id,
            inbound_deliveries.c.integration_id == sa.bindparam("integrationId"),
        ),
        "viewId": _Resource(
            "viw",
            Scope.EXPLORE_READ,
            saved_views.c.id,
            saved_views.c.project_id.in_(_PROJECT_ID)
            & (saved_views.c.shared | (saved_views.c.created_by == _CALLER_ID)),
        ),
        "bundleId": _Resource(
            "", Scope.PROOFS_READ, proof_bundles.c.bundle_id, proof_bundles.c.project_id.in_(_PROJECT_ID)
        ),
        "deliveryId": _Resource("dlv", Scope.CHANNELS_READ, deliveries.c.id, deliveries.c.org_id == _ORG_ID),
    }
)


def with_existence_checks(database: Database, routes: Iterable[Route]) -> list[Route]:
    """The routes; bearer routes whose path names a resource get an existence check."""
    return [_with_existence_check(database, route) for route in routes]


def _with_existence_check(database: Database, route: Route) -> Route:
    names = tuple(name for name in _ID_PARAMETER.findall(route.path) if name in _RESOURCES)
    if not names or not isinstance(route.access, BearerAuth):
        return route
    return replace(route, access=replace(route.access, existence_check=_ExistenceCheck(database, names)))


@dataclass(frozen=True, slots=True)
class _ExistenceCheck:
    """Checks that the resources named by these variables of the path exist."""

    database: Database
    path_parameters: tuple[str, ...]

    async def __call__(self, request: web.Request, caller: AuthenticatedCredential) -> None:
        """Raises NotFound for a malformed id and for a missing resource, if the caller has the read scope."""
        path = request.match_info
        values = {"org_id": caller.org_id, "caller_id": caller.principal_id, "principalId": caller.principal_id, **path}
        async with self.database.read() as connection:
            for name in self.path_parameters:
                resource = _RESOURCES[name]
                if resource.read_scope not in caller.scopes:
                    return
                if re.fullmatch(resource.id_pattern, path[name]) is None:
                    raise NotFound  # a path may hold characters that no database column accepts
                found = sa.select(resource.column).where(resource.where, resource.column == path[name])
                if await connection.scalar(found.limit(1), values) is None:
                    raise NotFound
