"""The control service: its routes over the relational store."""

from chassis.cursor import cursor_signer
from chassis.identity.checks import Checks
from chassis.settings import ChassisSettings
from chassis.web import Service
from control.audit.events import Audit
from control.keys import Keys
from control.policies.policies import Policies
from control.projects import Projects
from control.settings import ControlSettings


def service(settings: ControlSettings, chassis: ChassisSettings, checks: Checks) -> Service:
    """Routes and what readiness depends on; `checks` is started and closed by whoever made it.

    Raises StartupError when the cursor key in the data directory cannot be used.
    """
    cursors = cursor_signer(settings.cursor_key, chassis.data_dir / "cursor.key")
    projects = Projects(checks, cursors, settings.max_body_bytes, chassis.body_timeout_s)
    keys = Keys(checks, cursors, chassis.base_url, settings.max_body_bytes, chassis.body_timeout_s)
    policies = Policies(checks.database, cursors, settings.max_body_bytes, chassis.body_timeout_s)
    audit = Audit(checks.database, cursors)
    routes = [*projects.routes(), *keys.routes(), *policies.routes(), *audit.routes()]
    return Service(name="control", routes=routes, readiness=[checks.database])
