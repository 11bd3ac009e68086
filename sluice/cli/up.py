"""`sluice up`: runs all services in one process, and creates everything that they need. The steps of `run`:

settings         read and checked                           -> otherwise one sentence, exit 2
packages         of all services installed                  -> otherwise one sentence, exit 1
data directory   private, writable, locked exclusively      -> otherwise one sentence, exit 1
first line       prints that Sluice is starting, before the libraries are imported, which takes a second or more
services         `sluice.all_services` opens the stores and serves; each slow step prints a line when it begins
"""

import argparse

from chassis.errors import StartupError
from chassis.runtime.settings_loader import SERVICES
from sluice import __version__, data_dir, extras
from sluice.settings_sources import SettingsSources


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped; the exit code."""
    sources = SettingsSources.from_arguments(arguments)
    settings = sources.chassis_settings()
    if arguments.workers > 1 and settings.uses_embedded_clickhouse:
        raise StartupError(
            "--workers above 1 needs a ClickHouse server, because the embedded ClickHouse (chdb:) allows only one "
            "process: set SLUICE_CLICKHOUSE_URL to an http(s) URL.",
            exit_code=2,
        )
    extras.require("up", extras.of_services(SERVICES, settings))
    if arguments.share_port:
        from sluice import all_services

        return all_services.run_worker(sources, settings, arguments.share_port)
    with data_dir.locked(settings.data_dir, exclusive=True) as lock:
        print(f"Sluice {__version__} is starting, with its data in {settings.data_dir}.", flush=True)
        _say("Loading libraries")
        # Imported only now, because a first start on a busy machine can take more than ten seconds.
        from sluice import all_services

        return all_services.run(arguments, sources, settings, lock, _say)


def _say(step: str) -> None:
    """Print a line for a step that begins, to the same output as the address."""
    print(f"  {step} ...", flush=True)
