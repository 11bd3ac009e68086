"""Runs all services in one process, for `sluice up`, in a data directory that is already locked. The steps of `run`:

port             bound before any store is opened           -> otherwise one sentence, exit 1
gRPC port        bound before any store is opened           -> otherwise a warning with the port, and no OTLP/gRPC
mark             the directory was not copied while in use   -> otherwise one sentence, exit 1
schemas          both migrated to this release              -> otherwise one sentence, exit 1
first start      creates organization, project, key and token, and writes them to DATA/bootstrap.json, mode 0600
serve            gateway, query and control on one port

Importing this module takes a second, because it imports most libraries.
"""

import argparse
from collections.abc import Callable
from functools import partial

from chassis.clickhouse import ClickHouse
from chassis.clickhouse import migrations as schema
from chassis.db import migrations
from chassis.db.database import Database
from chassis.http.serve import bind, bind_health, serve
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from control.identity.organizations.bootstrap import bootstrap
from sluice import data_dir, first_run, grpc_port, process, supervisor
from sluice.app_builder import ALL_SERVICES, compose_app, open_clickhouse
from sluice.first_run import open_command, quickstart_text
from sluice.settings_sources import SettingsSources

Say = Callable[[str], None]  # prints the step of the start that begins


def run(
    arguments: argparse.Namespace,
    sources: SettingsSources,
    settings: ChassisSettings,
    lock: data_dir.DataDirLock,
    say: Say,
) -> int:
    """Serve until stopped; the exit code."""
    process.log_to_stderr(settings)
    several = arguments.workers > 1
    listener = bind(settings.host, settings.port, reuse_port=several)
    settings = process.with_bound_port(settings, listener)
    health = [] if several else bind_health(settings)  # with workers, the supervisor binds this port
    with (
        grpc_port.reserved(settings, reuse_port=several, required=False) as settings,
        data_dir.in_use(settings.data_dir, accept_copy=arguments.accept_copy),
    ):
        say("Opening the database")
        migrations.migrate(settings.effective_database_url, partial(_say_pending, say, "the database"))
        announce = partial(_announce, settings, lock)
        if several:
            process.run(_prepare(settings, say))
            say(f"Starting {arguments.workers} workers")
            return supervisor.supervise(arguments, settings, listener, announce)
        process.run(_serve(sources, settings, listener, health, announce, say))
    return 0


def run_worker(sources: SettingsSources, settings: ChassisSettings, share_port: str) -> int:
    """Run as one of several workers, until the supervisor stops it; the exit code."""
    process.log_to_stderr(settings)
    return supervisor.run_worker(ALL_SERVICES, sources, settings, share_port)


async def _serve(
    sources: SettingsSources,
    settings: ChassisSettings,
    listener: supervisor.Listener,
    health: list[supervisor.Listener],
    announce: Callable[[], None],
    say: Say,
) -> None:
    await _bootstrap(settings)
    telemetry = Telemetry("sluice")
    say("Loading services")
    app = compose_app(ALL_SERVICES, sources, settings, telemetry, after_open=partial(_migrate, settings, say))
    say(_opening(settings))
    await serve(app, listener, settings, telemetry, announce, extra_listeners=health)


async def _prepare(settings: ChassisSettings, say: Say) -> None:
    """Create the first organization and migrate ClickHouse in this process, before several workers serve."""
    await _bootstrap(settings)
    say(_opening(settings))
    async with process.started(open_clickhouse(settings)) as clickhouse:
        await _migrate(settings, say, clickhouse)


async def _migrate(settings: ChassisSettings, say: Say, clickhouse: ClickHouse) -> None:
    await schema.migrate(
        clickhouse, retention_days=settings.retention_days, on_pending=partial(_say_pending, say, "ClickHouse")
    )


def _opening(settings: ChassisSettings) -> str:
    return "Opening the embedded ClickHouse" if settings.uses_embedded_clickhouse else "Opening ClickHouse"


def _say_pending(say: Say, store: str, count: int) -> None:
    say(f"Applying {count} migration{'' if count == 1 else 's'} to {store}")


async def _bootstrap(settings: ChassisSettings) -> None:
    write = partial(first_run.write, settings.data_dir / first_run.FILE_NAME)
    async with process.started(Database.from_settings(settings)) as database:
        await bootstrap(database, settings.base_url, write, first_run.record_bootstrap)


def _announce(settings: ChassisSettings, lock: data_dir.DataDirLock) -> None:
    """Print the URL and the quick-start text, without secrets; write the URL to the lock file, and record the files
    that the start has created in the mark of the directory.
    """
    lock.write_url(settings.base_url)
    data_dir.record_files(settings.data_dir)
    grpc = "" if settings.grpc_address is None else f", takes OTLP/gRPC on {settings.grpc_address}"
    print(f"Sluice listens on {settings.base_url}{grpc} and keeps its data in {settings.data_dir}.")
    print(f"The page is at {settings.base_url}/ui/. To open it logged in:\n")
    print(f"    {open_command(settings)}\n", flush=True)
    file = settings.data_dir / first_run.FILE_NAME
    if file.exists():
        print(quickstart_text(settings, file), flush=True)
