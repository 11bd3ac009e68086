"""The resources that paths of control name by ids. Each declared `Resource` is beside its handlers."""

from typing import Final

from chassis.auth.tables import memberships
from chassis.issues import issues
from control.approvals.policies.api import POLICIES
from control.approvals.proofs.tables import proof_bundles, proof_issuer_keys
from control.approvals.tables import approval_requests
from control.code.changes import CHANGES
from control.code.issue_links.api import LINKS
from control.code.source_maps.api import MAPS
from control.export.tables import warehouse_sinks
from control.governance.erasures.api import ERASURES
from control.governance.tenants.project_keys import KEYS
from control.identity.members.invitations import INVITATIONS
from control.identity.members.tokens import TOKENS
from control.identity.scim.tokens import SCIM_TOKENS
from control.identity.sso.domains import DOMAINS
from control.identity.sso.identities import IDENTITIES
from control.inbound.chat.links import LINKS as CHAT_LINKS
from control.inbound.integrations.tables import integrations
from control.inbound.webhooks.event_history import EVENTS
from control.issues.releases.tables import releases
from control.notify.channels.api import CHANNELS
from control.notify.deliveries.api import DELIVERIES
from control.routing.resource import Identified, ids, in_organization, in_project
from control.saved_views import VIEWS
from proto.identity import Scope
from proto.proofs.primitives import IDENTIFIER_PATTERN

RESOURCES: Final[tuple[Identified, ...]] = (
    TOKENS,
    Identified("principalId", ids("prn"), Scope.MEMBERS_READ, memberships.c.principal_id, in_organization(memberships)),
    INVITATIONS,
    Identified(
        "requestId", ids("apr"), Scope.APPROVALS_READ, approval_requests.c.id, in_organization(approval_requests)
    ),
    DOMAINS,
    IDENTITIES,
    SCIM_TOKENS,
    Identified("issueId", ids("iss"), Scope.ISSUES_READ, issues.c.id, in_project(issues)),
    LINKS,
    CHANGES,
    Identified("releaseId", ids("rel"), Scope.RELEASES_READ, releases.c.id, in_organization(releases)),
    CHAT_LINKS,
    ERASURES,
    Identified("integrationId", ids("int"), Scope.INTEGRATIONS_READ, integrations.c.id, in_organization(integrations)),
    Identified("sinkId", ids("snk"), Scope.SINKS_READ, warehouse_sinks.c.id, in_organization(warehouse_sinks)),
    MAPS,
    Identified(
        "issuerKeyId", ids("pik"), Scope.PROOFS_READ, proof_issuer_keys.c.id, in_organization(proof_issuer_keys)
    ),
    EVENTS,
    KEYS,
    POLICIES,
    CHANNELS,
    VIEWS,
    Identified("bundleId", IDENTIFIER_PATTERN, Scope.PROOFS_READ, proof_bundles.c.bundle_id, in_project(proof_bundles)),
    DELIVERIES,
)
