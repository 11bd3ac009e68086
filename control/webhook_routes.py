"""Builds all routes of inbound webhooks and the background tasks that they need."""

from prometheus_client import CollectorRegistry

from chassis.http.web import CleanupContext, Route
from control.billing.payments import Payments
from control.http.context import HandlerContext
from control.secrets.secret_box import SecretBox
from control.settings import ControlSettings
from control.webhooks.endpoint import IntegrationReceiver
from control.webhooks.hooks import Hooks
from control.webhooks.inbox import Inbox
from control.webhooks.metrics import WebhookMetrics
from control.webhooks.receiver import WebhookReceiver


def build_webhook_routes(
    context: HandlerContext,
    settings: ControlSettings,
    secret_box: SecretBox,
    registry: CollectorRegistry | None,
) -> tuple[list[Route], list[CleanupContext]]:
    """Routes and background tasks."""
    receiver = WebhookReceiver(WebhookMetrics(registry), settings.webhook_max_body_bytes, context.body_timeout_s)
    hooks, inbox = Hooks(context.database, secret_box), Inbox(context.database)
    _integrations = IntegrationReceiver(receiver, hooks, inbox, secret_box)
    secrets = [secret.encode() for secret in settings.payments_secrets]
    payments = Payments(context, receiver, secrets, settings.payment_plans)
    return payments.routes(), [inbox.running]
