"""The control service: its routes over the relational store."""

from prometheus_client import CollectorRegistry

from chassis.cursor import cursor_signer
from chassis.identity.checks import Checks
from chassis.identity.tables import metadata
from chassis.ringkeeper import RingKeeper
from chassis.sealing import KeyFile, Sealer, configured_keys
from chassis.settings import ChassisSettings
from chassis.web import Service
from control.approvals.expiry import Expiry
from control.approvals.requests import ApprovalRequests
from control.approvals.telling import Links
from control.audit.events import Audit
from control.channels.channels import Channels
from control.deliveries.assembly import assemble
from control.deliveries.deliveries import Deliveries
from control.desk import Desk
from control.identity.routes import assemble as assemble_identity
from control.keys import Keys
from control.organizations import Organizations
from control.policies.policies import Policies
from control.projects import Projects
from control.settings import ControlSettings
from control.sight import sighted


def service(
    settings: ControlSettings, chassis: ChassisSettings, checks: Checks, metrics: CollectorRegistry | None = None
) -> Service:
    """Routes, what runs beside them and what readiness depends on; `checks` is started and closed by whoever made it.

    Raises StartupError when the cursor key, the signing key or the key ring in the data directory cannot be used.
    """
    cursors = cursor_signer(settings.cursor_key, chassis.data_dir / "cursor.key")
    sealing = configured_keys(settings.sealing_keys, chassis.data_dir / "sealing.keys")
    sealer = Sealer(sealing)
    telling = assemble(settings, checks.database, sealer, metrics)
    desk = Desk(checks, cursors, settings.max_body_bytes, chassis.body_timeout_s)
    projects, keys = Projects(desk), Keys(desk, chassis.base_url, chassis.otlp_rate)
    links = Links(chassis.base_url, settings.page_url.rstrip("/"))
    approvals = ApprovalRequests(desk, telling.sender, links)
    policies, audit = Policies(desk), Audit(desk)
    channels, deliveries = Channels(desk, sealer, telling.sender, settings.channel_rules), Deliveries(desk)
    routes, beside = assemble_identity(desk, sealer, chassis.data_dir)
    routes += [*Organizations(desk).routes(), *projects.routes(), *keys.routes()]
    routes += [*approvals.routes(), *policies.routes(), *channels.routes(), *deliveries.routes(), *audit.routes()]
    keeper = [RingKeeper(sealing, checks.database, metadata).running] if isinstance(sealing, KeyFile) else []
    resources = [*beside, *keeper, *telling.resources, Expiry(checks.database, links).running]
    return Service(
        name="control", routes=sighted(checks.database, routes), resources=resources, readiness=[checks.database]
    )
