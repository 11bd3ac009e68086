"""The parts of deliveries, put together from the settings."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from chassis.egress import Egress
from chassis.relational import Database
from chassis.sealing import Sealer
from chassis.web import Resource
from control.deliveries.kinds.send import Ways
from control.deliveries.sending import DeliveryMetrics, Sender
from control.deliveries.worker import Worker
from control.settings import ControlSettings


@dataclass(frozen=True, slots=True)
class Assembly:
    """What sends at once, and what has to run in the process, in this order."""

    sender: Sender
    resources: list[Resource]


def assemble(
    settings: ControlSettings, database: Database, sealer: Sealer, registry: CollectorRegistry | None
) -> Assembly:
    """Nothing is started. `database` is started and closed by whoever made it, around the resources."""
    egress, mail_egress = Egress(settings.egress_policy), Egress(settings.mail_policy, local=True)
    ways = Ways(egress, mail_egress, settings.mail_server(), settings.chat_a_api.rstrip("/"), settings.pager_url)
    sender = Sender(database, sealer, ways, DeliveryMetrics(registry))
    return Assembly(sender, [egress.running, Worker(sender, keep_days=settings.delivery_retention_days).running])
