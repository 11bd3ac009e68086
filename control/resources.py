"""What paths name by ids. A resource with a declaration of its own (`Resource`) has it beside its handlers."""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import access_tokens, invitations, memberships
from chassis.issues.tables import issues
from control.approvals.policies.api import POLICIES
from control.approvals.proofs.tables import proof_bundles, proof_issuer_keys
from control.approvals.tables import approval_requests
from control.code.changes.api import CHANGES
from control.code.issue_links.api import LINKS
from control.code.source_maps.api import MAPS
from control.export.tables import warehouse_sinks
from control.governance.erasures.api import ERASURES
from control.governance.tenants.project_keys import KEYS
from control.identity.chat_links.tables import chat_links
from control.identity.directory.tables import scim_tokens
from control.identity.sso.tables import sso_domains, sso_identities
from control.inbound.integrations.tables import inbound_deliveries, integrations
from control.issues.releases.tables import releases
from control.notify.channels.api import CHANNELS
from control.notify.deliveries.api import DELIVERIES
from control.routing.resource import Identified, ids, in_organization, in_project
from control.saved_views import VIEWS
from proto.identity import Scope
from proto.proofs.primitives import IDENTIFIER_PATTERN

RESOURCES: Final[tuple[Identified, ...]] = (
    Identified(
        "tokenId",
        ids("tok"),
        Scope.TOKENS_WRITE,
        access_tokens.c.id,
        (in_organization(access_tokens))
        & (access_tokens.c.principal_id == sa.bindparam("principalId")),  # without one in the path, the caller
    ),
    Identified("principalId", ids("prn"), Scope.MEMBERS_READ, memberships.c.principal_id, in_organization(memberships)),
    Identified("invitationId", ids("inv"), Scope.MEMBERS_READ, invitations.c.id, in_organization(invitations)),
    Identified(
        "requestId", ids("apr"), Scope.APPROVALS_READ, approval_requests.c.id, in_organization(approval_requests)
    ),
    Identified("domainId", ids("dom"), Scope.SSO_READ, sso_domains.c.id, in_organization(sso_domains)),
    Identified("identityId", ids("ssi"), Scope.SSO_READ, sso_identities.c.id, in_organization(sso_identities)),
    Identified("scimTokenId", ids("sct"), Scope.SSO_READ, scim_tokens.c.id, in_organization(scim_tokens)),
    Identified("issueId", ids("iss"), Scope.ISSUES_READ, issues.c.id, in_project(issues)),
    LINKS,
    CHANGES,
    Identified("releaseId", ids("rel"), Scope.RELEASES_READ, releases.c.id, in_organization(releases)),
    Identified("chatLinkId", ids("chl"), Scope.MEMBERS_READ, chat_links.c.id, in_organization(chat_links)),
    ERASURES,
    Identified("integrationId", ids("int"), Scope.INTEGRATIONS_READ, integrations.c.id, in_organization(integrations)),
    Identified("sinkId", ids("snk"), Scope.SINKS_READ, warehouse_sinks.c.id, in_organization(warehouse_sinks)),
    MAPS,
    Identified(
        "issuerKeyId", ids("pik"), Scope.PROOFS_READ, proof_issuer_keys.c.id, in_organization(proof_issuer_keys)
    ),
    Identified(
        "inboundDeliveryId",
        ids("ind"),
        Scope.INTEGRATIONS_READ,
        inbound_deliveries.c.id,
        inbound_deliveries.c.integration_id == sa.bindparam("integrationId"),
    ),
    KEYS,
    POLICIES,
    CHANNELS,
    VIEWS,
    Identified("bundleId", IDENTIFIER_PATTERN, Scope.PROOFS_READ, proof_bundles.c.bundle_id, in_project(proof_bundles)),
    DELIVERIES,
)
