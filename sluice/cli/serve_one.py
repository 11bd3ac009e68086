"""`sluice gateway`, `query`, `control` and `web`: run one service in a process, for separate deployment.

They check schemas, but do not migrate them: run `sluice migrate` once before the processes start. An unavailable store
does not prevent a start: processes can start in any order, and become ready when their stores are available.
"""

import argparse
from functools import partial
from typing import Final

import msgspec
import structlog

from chassis.db import migrations
from chassis.errors import StartupError
from chassis.http.serve import bind, bind_health, serve
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from sluice import data_dir, extras, grpc_port, process, supervisor
from sluice.app_builder import PAGE, compose_app
from sluice.settings_sources import SettingsSources

log = structlog.get_logger(__name__)

_CLICKHOUSE_SERVICES: Final = ("gateway", "query")


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped; the exit code."""
    name: str = arguments.command
    sources = SettingsSources.from_arguments(arguments)
    settings = sources.chassis_settings()
    if name != "gateway":
        settings = msgspec.structs.replace(settings, grpc_port=None)
    if name in _CLICKHOUSE_SERVICES and settings.uses_embedded_clickhouse:
        raise StartupError(
            f"`sluice {name}` alone needs a ClickHouse server, because the embedded ClickHouse (chdb:) allows only one "
            "process: set SLUICE_CLICKHOUSE_URL to an http(s) URL, or use `sluice up`.",
            exit_code=2,
        )
    if name != PAGE:
        extras.require(name, extras.of_services((name,), settings))
    process.log_to_stderr(settings)
    if arguments.share_port:
        return supervisor.run_worker((name,), sources, settings, arguments.share_port)
    with data_dir.locked(settings.data_dir, exclusive=False):
        listener = bind(settings.host, settings.port, reuse_port=arguments.workers > 1)
        settings = process.with_bound_port(settings, listener)
        with grpc_port.reserved(settings, reuse_port=arguments.workers > 1, required=True) as settings:
            if name != PAGE:
                _check_database(settings)
            if arguments.workers > 1:
                return supervisor.supervise(arguments, settings, listener, partial(_announce, name, settings))
            # Bind first, so that an error of a port is reported as one sentence.
            process.run(_serve(name, sources, settings, listener, bind_health(settings)))
    return 0


def _check_database(settings: ChassisSettings) -> None:
    """Refuse to start with a relational schema of another release or with rejected credentials. An unavailable database
    does not prevent the start: the service is not ready until it is available, and serves requests that do not need it.
    """
    try:
        migrations.check(settings.effective_database_url)
    except migrations.DatabaseUnreachable as error:
        log.warning("database unavailable, starting without it", detail=str(error))


async def _serve(
    name: str,
    sources: SettingsSources,
    settings: ChassisSettings,
    listener: supervisor.Listener,
    health: list[supervisor.Listener],
) -> None:
    telemetry = Telemetry(name)
    app = compose_app((name,), sources, settings, telemetry)
    await serve(app, listener, settings, telemetry, partial(_announce, name, settings), extra_listeners=health)


def _announce(name: str, settings: ChassisSettings) -> None:
    grpc = "" if settings.grpc_address is None else f" and takes OTLP/gRPC on {settings.grpc_address}"
    print(f"Sluice {name} listens on {settings.base_url}{grpc}.", flush=True)
