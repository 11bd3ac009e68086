"""`sluice gateway`, `sluice query`, `sluice control`: one service in a process, for independent deployment.

Schemas are checked, not migrated: that is `sluice migrate`, once, before several processes start. A store that is away
keeps nothing from starting: processes come up in any order, and are ready when what they need is there.
"""

import argparse
from functools import partial
from typing import Final

import structlog

from chassis.db import migrations
from chassis.errors import StartupError
from chassis.http.serve import bind, bind_health, serve
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from sluice import data_dir, extras, process, supervisor
from sluice.app_builder import compose_app
from sluice.settings_sources import SettingsSources

log = structlog.get_logger(__name__)

_CLICKHOUSE_SERVICES: Final = ("gateway", "query")


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped; the exit code."""
    name: str = arguments.command
    options = SettingsSources.from_arguments(arguments)
    settings = options.chassis_settings()
    if name in _CLICKHOUSE_SERVICES and settings.uses_embedded_clickhouse:
        raise StartupError(
            f"`sluice {name}` alone needs a ClickHouse server, for the embedded one (chdb:) allows one process: "
            "set SLUICE_CLICKHOUSE_URL to an http(s) URL, or use `sluice up`.",
            exit_code=2,
        )
    extras.require(name, extras.of_services((name,), settings))
    process.log_to_stderr(settings)
    if arguments.share_port:
        return supervisor.run_worker((name,), options, settings, arguments.share_port)
    with data_dir.locked(settings.data_dir, exclusive=False):
        listener = bind(settings.host, settings.port, reuse_port=arguments.workers > 1)
        settings = process.with_bound_port(settings, listener)
        _check_database(settings)
        if arguments.workers > 1:
            return supervisor.supervise(arguments, settings, listener, partial(_announce, name, settings))
        # Bound before anything is started: what is wrong with a port is one sentence.
        process.run(_serve(name, options, settings, listener, bind_health(settings)))
    return 0


def _check_database(settings: ChassisSettings) -> None:
    """Refuse to start over a relational store of another release, or one that refuses us. One that is away is no
    reason: the service is not ready until it is back, and answers what it can.
    """
    try:
        migrations.check(settings.effective_database_url)
    except migrations.DatabaseUnreachable as error:
        log.warning("database is away, starting without it", detail=str(error))


async def _serve(
    name: str,
    options: SettingsSources,
    settings: ChassisSettings,
    listener: supervisor.Listener,
    health: list[supervisor.Listener],
) -> None:
    telemetry = Telemetry(name)
    app = compose_app((name,), options, settings, telemetry)
    announce = partial(_announce, name, settings)
    await serve(app, listener, settings, telemetry, announce, extra_listeners=health)


def _announce(name: str, settings: ChassisSettings) -> None:
    print(f"Sluice {name} listens on {settings.base_url}.", flush=True)
