"""`sluice gateway`, `sluice query`, `sluice control`: one service in a process, for independent deployment.

Schemas are checked, not migrated: that is `sluice migrate`, once, before several processes start.
"""

import argparse
from functools import partial
from typing import Final

from chassis import migrations
from chassis.errors import StartupError
from chassis.serve import bind, serve
from chassis.settings import ChassisSettings
from chassis.telemetry import Telemetry
from sluice import data, process, workers
from sluice.options import Options
from sluice.services import assemble

_ON_CLICKHOUSE: Final = ("gateway", "query")


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped; the exit code."""
    name: str = arguments.command
    options = Options.of(arguments)
    settings = options.chassis()
    if name in _ON_CLICKHOUSE and settings.embedded:
        raise StartupError(
            f"`sluice {name}` alone needs a ClickHouse server, for the embedded one (chdb:) allows one process: "
            "set SLUICE_CLICKHOUSE_URL to an http(s) URL, or use `sluice up`.",
            exit_code=2,
        )
    process.log_to_stderr(settings)
    if arguments.share_port:
        return workers.work((name,), options, settings)
    with data.held(settings.data_dir, alone=False):
        listener = bind(settings.host, settings.port, share=arguments.workers > 1)
        settings = process.with_bound_port(settings, listener)
        migrations.check(settings.database)
        if arguments.workers > 1:
            return workers.supervise(arguments, listener, partial(_announce, name, settings))
        process.run(_serve(name, options, settings, listener))
    return 0


async def _serve(name: str, options: Options, settings: ChassisSettings, listener: workers.Listener) -> None:
    telemetry = Telemetry(name)
    app = assemble((name,), options, settings, telemetry)
    await serve(app, listener, settings, telemetry, partial(_announce, name, settings))


def _announce(name: str, settings: ChassisSettings) -> None:
    print(f"Sluice {name} listens on {settings.base_url}.", flush=True)
