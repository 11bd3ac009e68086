"""Builds all routes of single sign-on and the background tasks that they need."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from chassis.http.access import BearerAuth
from chassis.http.web import CleanupContext, Route
from control.http.context import HandlerContext
from control.identity.session_issuer import SessionIssuer
from control.outbound.egress import Egress
from control.secrets.secret_box import SecretBox
from control.sso.acs import AssertionConsumer
from control.sso.browser import check_org_slug
from control.sso.callback import Callback
from control.sso.complete_page import CompletionPage
from control.sso.completion import Completion, SsoMetrics
from control.sso.connections import ApplyRoles, Connections
from control.sso.dns import TxtResolver
from control.sso.domains import Domains
from control.sso.dry_run import ConnectionDryRuns
from control.sso.handoff import Handoffs
from control.sso.housekeeping import SsoHousekeeping
from control.sso.identities import Identities
from control.sso.links import Links
from control.sso.login_slots import LoginSlots
from control.sso.oidc.provider import Providers
from control.sso.settings import SettingsHandlers
from control.sso.start import Start
from control.sso.urls import SsoUrls


def build_sso_routes(
    context: HandlerContext,
    secret_box: SecretBox,
    issuer: SessionIssuer,
    egress: Egress,
    resolver: TxtResolver,
    public_url: str,
    unfinished_per_minute: int,
    registry: CollectorRegistry | None,
    apply_roles: ApplyRoles,
) -> tuple[list[Route], list[CleanupContext]]:
    """`egress` reaches providers, whose addresses tenants name; it starts before the requests and ends after them.
    `apply_roles` follows a change of the mapping.
    """
    urls, providers = SsoUrls(public_url), Providers(egress)
    completion = Completion(context, issuer, SsoMetrics(registry), public_url)
    routes = [
        *Connections(context, secret_box, apply_roles).routes(),
        *ConnectionDryRuns(context).routes(),
        *SettingsHandlers(context).routes(),
        *Domains(context, resolver).routes(),
        *Identities(context).routes(),
        *Links(context, urls).routes(),
        *Start(context, urls, providers, completion, unfinished_per_minute).routes(),
        *AssertionConsumer(context, secret_box, urls, completion).routes(),
        *Callback(context, secret_box, egress, urls, providers, completion, LoginSlots()).routes(),
        *Handoffs(context, issuer).routes(),
        *CompletionPage().routes(),
    ]
    housekeeping = SsoHousekeeping(context.database, registry)
    return [_with_path_check(route) for route in routes], [egress.running, housekeeping.running]


def _with_path_check(route: Route) -> Route:
    if not isinstance(route.access, BearerAuth):
        return route
    return replace(route, access=replace(route.access, path_check=check_org_slug))
