"""Builds all routes of inbound webhooks, of what they need to be set up, and their background tasks."""

from prometheus_client import CollectorRegistry

from chassis.http.web import CleanupContext, Route
from control.approvals.notifications import LinkBuilder
from control.governance.billing.api import OrganizationSubscription, Payments
from control.http.context import HandlerContext
from control.inbound.chat.routes import build_chat_routes
from control.inbound.integrations.api import Integrations
from control.inbound.webhooks.deliveries import InboundDeliveries
from control.inbound.webhooks.endpoint import IntegrationReceiver
from control.inbound.webhooks.forges.handlers import ScmWebhooks
from control.inbound.webhooks.forges.sources import SCM_SOURCES
from control.inbound.webhooks.hooks import Hooks
from control.inbound.webhooks.housekeeping import WebhookHousekeeping
from control.inbound.webhooks.inbox import Inbox
from control.inbound.webhooks.metrics import WebhookMetrics
from control.inbound.webhooks.receiver import WebhookReceiver
from control.inbound.webhooks.trackers.sources import TRACKER_SOURCES
from control.inbound.webhooks.trackers.webhooks import IntegrationWebhooks
from control.secrets.secret_box import SecretBox
from control.settings import ControlSettings


def build_webhook_routes(
    context: HandlerContext,
    settings: ControlSettings,
    secret_box: SecretBox,
    links: LinkBuilder,
    base_url: str,
    registry: CollectorRegistry | None,
) -> tuple[list[Route], list[CleanupContext]]:
    """Routes and background tasks. `base_url`: where platforms reach this service."""
    receiver = WebhookReceiver(WebhookMetrics(registry), settings.webhook_max_body_bytes, context.body_timeout_s)
    hooks, inbox = Hooks(context.database, secret_box), Inbox(context.database)
    integrations = IntegrationReceiver(receiver, hooks, inbox, secret_box)
    sources = {**SCM_SOURCES, **TRACKER_SOURCES}
    payments_secrets = [secret.encode() for secret in settings.payments_secrets]
    chat_routes, chat_contexts = build_chat_routes(context, settings, secret_box, receiver, links, registry)
    routes = [
        *Integrations(context, secret_box, base_url, hooks.forget).routes(),
        *InboundDeliveries(context, secret_box, integrations, hooks, sources).routes(),
        *ScmWebhooks(receiver, integrations, hooks).routes(),
        *IntegrationWebhooks(receiver, integrations, hooks).routes(),
        *chat_routes,
        *Payments(context, receiver, payments_secrets, settings.payment_plans).routes(),
        *OrganizationSubscription(context).routes(),
    ]
    return routes, [inbox.running, *chat_contexts, WebhookHousekeeping(context.database).running]
