"""The control service: its routes over the relational database."""

from prometheus_client import CollectorRegistry

from chassis.auth.guards import AuthGuards
from chassis.auth.tables import metadata
from chassis.clickhouse import ClickHouse
from chassis.db.database import Database
from chassis.http.cursor import load_cursor_signer
from chassis.http.web import CleanupContext, Service
from chassis.runtime.health import OptionalDependency
from chassis.runtime.memory import trim_task
from chassis.runtime.settings import ChassisSettings
from chassis.source_maps.resolver import SourceMaps
from control.approvals.notifications import ExpiryTask, LinkBuilder
from control.approvals.policies.api import Policies
from control.approvals.proofs.bundles import build_proof_routes
from control.approvals.requests import ApprovalRequests
from control.approvals.views import ApprovalViews
from control.code.changes import Changes
from control.code.issue_links.api import IssueLinks
from control.code.proposals.api import Proposals
from control.code.releases.api import Releases
from control.code.source_maps.api import SourceMapHandlers
from control.code.suspects.api import Suspects
from control.export.handlers import build_warehouse_routes
from control.governance.audit_events import Audit
from control.governance.billing.api import OrganizationSubscription, Payments
from control.governance.erasures.api import CheckFilters, Erasures
from control.governance.erasures.housekeeping import ErasureHousekeeping
from control.governance.erasures.purge import Purger
from control.governance.tenants.api import Organizations, Projects
from control.governance.tenants.project_keys import Keys
from control.http.context import HandlerContext
from control.http.page_links import PageLinks
from control.identity.mail import AccountMailer, AccountMailMetrics
from control.identity.routes import build_identity_routes, load_session_issuer
from control.identity.scim.options import update_roles
from control.identity.scim.routes import build_scim_routes
from control.identity.sso.domains import DnsResolver, TxtResolver
from control.identity.sso.routes import build_sso_routes
from control.inbound.routes import build_webhook_routes
from control.inbound.webhooks.receiver import WebhookMetrics, WebhookReceiver
from control.issues.counting.follower import IssueFollower, IssueMetrics
from control.issues.counting.project_state import IssueUrls
from control.issues.counting.task import IssueHousekeeping
from control.issues.handlers import IssueHandlers
from control.notify.channels.api import Channels
from control.notify.deliveries.api import ChannelTests, Deliveries
from control.notify.deliveries.platforms.transports import Transports
from control.notify.deliveries.sender import DeliveryMetrics, Sender
from control.notify.deliveries.worker import Worker
from control.outbound.egress import Egress
from control.resources import RESOURCES
from control.routing.resource import with_existence_checks
from control.saved_views import SavedViews
from control.secrets.keyring import KeyringWatcher
from control.secrets.secret_box import KeyFile, SecretBox, load_key_source
from control.settings import ControlSettings


def service(
    settings: ControlSettings,
    chassis: ChassisSettings,
    guards: AuthGuards,
    metrics: CollectorRegistry | None = None,
    check_filters: CheckFilters | None = None,
    provider_egress: Egress | None = None,
    resolver: TxtResolver | None = None,
    clickhouse: ClickHouse | None = None,
    source_maps: SourceMaps | None = None,
) -> Service:
    """The service's routes, background tasks and readiness checks. The caller starts and closes `guards`.
    `check_filters` checks filters of explore, if explore is installed. `provider_egress` and `resolver` replace the
    ones from the settings. Only control uses `clickhouse`. The caller starts and closes it. Without it, errors get no
    issues. `source_maps`, which the caller runs, resolve the stack traces of issues.

    Raises StartupError when the cursor key, the signing key or the key ring in the data directory cannot be used.
    """
    cursors = load_cursor_signer(settings.cursor_key, chassis.data_dir / "cursor.key")
    key_source = load_key_source(settings.sealing_keys, chassis.data_dir / "sealing.keys")
    secret_box = SecretBox(key_source)
    mail_egress = Egress(settings.mail_policy, allow_local_names=True)
    sender, delivery_contexts = _build_sender(settings, guards.database, secret_box, mail_egress, metrics)
    context = HandlerContext(guards, cursors, settings.max_body_bytes, chassis.body_timeout_s)
    pages = PageLinks(settings.page_url.rstrip("/"), chassis.public_url.rstrip("/"))
    links = LinkBuilder(chassis.base_url, pages, settings.chat_platforms)
    mailer = AccountMailer(settings.mail_server(), mail_egress, chassis.base_url, pages, AccountMailMetrics(metrics))
    issuer = load_session_issuer(context, chassis.data_dir)
    routes, identity_contexts = build_identity_routes(context, secret_box, issuer, mailer)
    sso_routes, sso_contexts = build_sso_routes(
        context,
        secret_box,
        issuer,
        provider_egress or Egress(settings.provider_policy),
        resolver or DnsResolver(settings.sso_nameservers),
        chassis.base_url,
        chassis.failed_sso_rate,
        metrics,
        update_roles,
    )
    receiver = WebhookReceiver(WebhookMetrics(metrics), settings.webhook_max_body_bytes, chassis.body_timeout_s)
    webhook_routes, webhook_contexts = build_webhook_routes(
        context, settings, secret_box, receiver, links, chassis.base_url, metrics
    )
    warehouse_routes, warehouse_contexts = build_warehouse_routes(
        context, secret_box, settings.egress_policy, settings.warehouse_interval_s, clickhouse, metrics
    )
    payments = Payments(context, receiver, [one.encode() for one in settings.payments_secrets], settings.payment_plans)
    routes += [*sso_routes, *build_scim_routes(context, chassis.base_url), *webhook_routes, *payments.routes()]
    routes += [*OrganizationSubscription(context).routes(), *warehouse_routes]
    handlers = (
        Organizations(context),
        Projects(context, chassis.retention_days),
        Keys(context, chassis.base_url, chassis.otlp_rate),
        Erasures(context, check_filters),
        ApprovalViews(context),
        ApprovalRequests(context, sender, links),
        Policies(context),
        IssueHandlers(context),
        Channels(context, secret_box, settings.channel_rules),
        Suspects(context, clickhouse, source_maps),
        SavedViews(context),
        Releases(context),
        Changes(context),
        Proposals(context),
        IssueLinks(context),
        SourceMapHandlers(context, settings.source_map_max_bytes, chassis.body_min_rate),
    )
    routes += [route for each in handlers for route in each.routes()]
    routes += build_proof_routes(context, settings.proof_max_bytes, chassis.body_min_rate)
    routes += [*ChannelTests(context, sender).routes(), *Deliveries(context).routes(), *Audit(context).routes()]
    keyring_contexts = (
        [KeyringWatcher(key_source, guards.database, metadata).running] if isinstance(key_source, KeyFile) else []
    )
    resources = [
        trim_task,
        *identity_contexts,
        *sso_contexts,
        *keyring_contexts,
        *delivery_contexts,
        ExpiryTask(guards.database, links).running,
        Purger(guards.database).running,
        *webhook_contexts,
        *warehouse_contexts,
        *_issue_contexts(settings, guards, clickhouse, IssueUrls(chassis.base_url, pages), metrics, source_maps),
        ErasureHousekeeping(guards.database, metrics, filter_days=settings.erasure_filter_days).running,
    ]
    return Service(
        name="control",
        routes=with_existence_checks(guards.database, routes, RESOURCES),
        cleanup_contexts=resources,
        readiness=[guards.database, *([] if clickhouse is None else [OptionalDependency(clickhouse)])],
    )


def _build_sender(
    settings: ControlSettings,
    database: Database,
    secret_box: SecretBox,
    mail_egress: Egress,
    metrics: CollectorRegistry | None,
) -> tuple[Sender, list[CleanupContext]]:
    """The immediate sender, and the background tasks that have to run in the process, in this order. Starts nothing:
    the caller starts `database` before the tasks and closes it after them. `mail_egress` is for the mail server.
    """
    egress = Egress(settings.egress_policy)
    transports = Transports(
        egress, mail_egress, settings.mail_server(), settings.chat_a_api.rstrip("/"), settings.pager_url
    )
    sender = Sender(database, secret_box, transports, DeliveryMetrics(metrics))
    return sender, [egress.running, Worker(sender, retention_days=settings.delivery_retention_days).running]


def _issue_contexts(
    settings: ControlSettings,
    guards: AuthGuards,
    clickhouse: ClickHouse | None,
    links: IssueUrls,
    metrics: CollectorRegistry | None,
    source_maps: SourceMaps | None,
) -> list[CleanupContext]:
    """The background tasks of issues."""
    housekeeping = IssueHousekeeping(guards.database, clickhouse, links, retention_days=settings.issue_retention_days)
    if clickhouse is None:
        return [housekeeping.running]
    follower = IssueFollower(guards.database, clickhouse, links, IssueMetrics(metrics), source_maps=source_maps)
    return [follower.running, housekeeping.running]
