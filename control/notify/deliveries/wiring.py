"""Builds the parts of deliveries from the settings."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from chassis.db.database import Database
from chassis.http.web import CleanupContext
from control.notify.deliveries.platforms.transports import Transports
from control.notify.deliveries.sender import DeliveryMetrics, Sender
from control.notify.deliveries.worker import Worker
from control.outbound.egress import Egress
from control.secrets.secret_box import SecretBox
from control.settings import ControlSettings


@dataclass(frozen=True, slots=True)
class DeliveryParts:
    """The immediate sender, and the background tasks that have to run in the process, in this order."""

    sender: Sender
    resources: list[CleanupContext]


def build_deliveries(
    settings: ControlSettings,
    database: Database,
    secret_box: SecretBox,
    mail_egress: Egress,
    registry: CollectorRegistry | None,
) -> DeliveryParts:
    """Starts nothing. The caller starts `database` before the resources and closes it after them. `mail_egress` is for
    the mail server.
    """
    egress = Egress(settings.egress_policy)
    transports = Transports(
        egress, mail_egress, settings.mail_server(), settings.chat_a_api.rstrip("/"), settings.pager_url
    )
    sender = Sender(database, secret_box, transports, DeliveryMetrics(registry))
    return DeliveryParts(
        sender, [egress.running, Worker(sender, retention_days=settings.delivery_retention_days).running]
    )
