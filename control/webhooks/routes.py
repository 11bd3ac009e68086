"""Builds all routes of inbound webhooks and the background tasks that they need."""

from prometheus_client import CollectorRegistry

from chassis.http.web import CleanupContext, Route
from control.billing.payments import Payments
from control.http.context import HandlerContext
from control.integrations.deliveries import InboundDeliveries
from control.integrations.housekeeping import WebhookHousekeeping
from control.integrations.integrations import Integrations
from control.secrets.secret_box import SecretBox
from control.settings import ControlSettings
from control.webhooks.endpoint import IntegrationReceiver
from control.webhooks.hooks import Hooks
from control.webhooks.inbox import Inbox
from control.webhooks.metrics import WebhookMetrics
from control.webhooks.receiver import WebhookReceiver
from control.webhooks.scm.handlers import ScmWebhooks
from control.webhooks.scm.sources import SCM_SOURCES
from control.webhooks.trackers.sources import TRACKER_SOURCES
from control.webhooks.trackers.webhooks import IntegrationWebhooks


def build_webhook_routes(
    context: HandlerContext,
    settings: ControlSettings,
    secret_box: SecretBox,
    base_url: str,
    registry: CollectorRegistry | None,
) -> tuple[list[Route], list[CleanupContext]]:
    """Routes and background tasks. `base_url`: where platforms reach this service."""
    receiver = WebhookReceiver(WebhookMetrics(registry), settings.webhook_max_body_bytes, context.body_timeout_s)
    hooks, inbox = Hooks(context.database, secret_box), Inbox(context.database)
    integrations = IntegrationReceiver(receiver, hooks, inbox, secret_box)
    routes = [
        *Integrations(context, secret_box, base_url, hooks).routes(),
        *InboundDeliveries(context, secret_box, integrations, hooks, {**SCM_SOURCES, **TRACKER_SOURCES}).routes(),
        *ScmWebhooks(receiver, integrations, hooks).routes(),
        *IntegrationWebhooks(receiver, integrations, hooks).routes(),
    ]
    payments_secrets = [secret.encode() for secret in settings.payments_secrets]
    routes += Payments(context, receiver, payments_secrets, settings.payment_plans).routes()
    return routes, [inbox.running, WebhookHousekeeping(context.database).running]
