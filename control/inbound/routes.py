"""Builds the routes of webhooks and chats, their dependencies and their background tasks."""

from prometheus_client import CollectorRegistry
from yarl import URL

from chassis.http.declaration import declared_routes
from chassis.http.web import CleanupContext, Route
from control.approvals.notifications import LinkBuilder
from control.http.context import HandlerContext
from control.inbound.chat.actor import ChatActor
from control.inbound.chat.api import API_URL, TAG, ChatA, ChatB
from control.inbound.chat.links import ChatLinks
from control.inbound.chat.update_queue import ChatMetrics, ChatUpdater
from control.inbound.integrations.api import Integrations
from control.inbound.webhooks.api import IntegrationWebhooks
from control.inbound.webhooks.event_history import WebhookEvents
from control.inbound.webhooks.inbox import Inbox
from control.inbound.webhooks.receiver import WebhookEndpoints, WebhookReceiver
from control.inbound.webhooks.task import WebhookHousekeeping
from control.outbound.egress import Egress
from control.routing.arguments import control_arguments
from control.secrets.secret_box import SecretBox
from control.settings import ControlSettings


def build_chat_routes(
    context: HandlerContext,
    settings: ControlSettings,
    secret_box: SecretBox,
    receiver: WebhookReceiver,
    link_builder: LinkBuilder,
    registry: CollectorRegistry | None,
) -> tuple[list[Route], list[CleanupContext]]:
    """Build the routes and background tasks of chats. The tasks run in this order. There are none if no platform is
    configured.
    """
    egress = Egress(settings.egress_policy)
    updater = ChatUpdater(context.database, secret_box, egress, ChatMetrics(registry))
    actor = ChatActor(context.database, secret_box, link_builder, updater)
    api_host = URL(settings.chat_a_api).host
    chat_a = ChatA(
        receiver,
        actor,
        settings.chat_a_signing_secrets,
        settings.channel_rules,
        (api_host,) if api_host else (),
    )
    chat_b = ChatB(receiver, actor, settings.chat_b_public_key, API_URL)
    arguments = control_arguments(context)
    routes = [
        *ChatLinks(context, settings.chat_platforms).routes(),
        *declared_routes(chat_a, TAG, arguments),
        *declared_routes(chat_b, TAG, arguments),
    ]
    return routes, [egress.running, updater.running] if settings.chat_platforms else []


def build_webhook_routes(
    context: HandlerContext,
    settings: ControlSettings,
    secret_box: SecretBox,
    receiver: WebhookReceiver,
    links: LinkBuilder,
    base_url: str,
    registry: CollectorRegistry | None,
) -> tuple[list[Route], list[CleanupContext]]:
    """Build the routes and background tasks of webhooks. `base_url`: the URL at which platforms reach this service."""
    endpoints, inbox = WebhookEndpoints(context.database, secret_box), Inbox(context.database)
    chat_routes, chat_contexts = build_chat_routes(context, settings, secret_box, receiver, links, registry)
    routes = [
        *Integrations(context, secret_box, base_url, endpoints.forget).routes(),
        *WebhookEvents(context, secret_box, endpoints, inbox).routes(),
        *IntegrationWebhooks(receiver, endpoints, inbox, secret_box).routes(),
        *chat_routes,
    ]
    return routes, [inbox.running, *chat_contexts, WebhookHousekeeping(context.database).running]
