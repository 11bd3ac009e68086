"""The gateway over the embedded engine as a process of its own, which counts the parts of its tables while it serves.

Settings come from the environment, as for `sluice`. The first line of standard output is JSON with the port and the
keys of the projects; a line on standard input begins the measurement, the next one ends it and is answered with JSON.
"""

import argparse
import asyncio
import json
import resource
import sys
from collections import Counter
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse import migrations as schema
from chassis.db import migrations
from chassis.db.database import Database
from chassis.http.serve import bind, listening
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from control.identity.organizations import organization_store, project_key_store
from sluice import process
from sluice.app_builder import compose_app, open_clickhouse
from sluice.settings_sources import SettingsSources

SAMPLE_S: Final = 0.5
_PARTS: Final = """
SELECT table, partition, count() FROM system.parts WHERE active AND database = currentDatabase() GROUP BY ALL
"""
_MERGES: Final = "SELECT count() FROM system.merges"
_MERGED: Final = "SELECT value FROM system.events WHERE event = 'Merge'"


class Watch:
    """Parts of the tables over time, and what the process took, from its making until it is read."""

    def __init__(self, clickhouse: ClickHouse, telemetry: Telemetry) -> None:
        self._clickhouse = clickhouse
        self._telemetry = telemetry
        self._most: dict[str, int] = {}  # active parts of one partition, by table
        self._merges = 0
        self._merged = 0
        self._inserts: Counter[str] = Counter()
        self._cpu_s = 0.0
        self._sampling: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Start to count."""
        self._inserts = self._inserted()
        self._merged = await self._number(_MERGED)
        self._cpu_s = _cpu_s()
        self._sampling = asyncio.get_running_loop().create_task(self._sample())

    async def read(self) -> dict[str, Any]:
        """What was counted since the beginning."""
        cpu_s = _cpu_s() - self._cpu_s
        if self._sampling is not None:
            self._sampling.cancel()
        inserts = self._inserted() - self._inserts
        return {
            "inserts": inserts,
            "most": self._most,
            "merges_at_once": self._merges,
            "merges": await self._number(_MERGED) - self._merged,
            "cpu_s": cpu_s,
        }

    async def _sample(self) -> None:
        while True:
            for table, _, parts in await self._clickhouse.query(_PARTS, {}, limits=QueryLimits()):
                self._most[str(table)] = max(self._most.get(str(table), 0), int(str(parts)))
            self._merges = max(self._merges, await self._number(_MERGES))
            await asyncio.sleep(SAMPLE_S)

    async def _number(self, sql: str) -> int:
        rows = await self._clickhouse.query(sql, {}, limits=QueryLimits())
        return int(str(rows[0][0])) if rows else 0

    def _inserted(self) -> Counter[str]:
        """Inserts by table; each makes one part, for a block is of one day."""
        inserts: Counter[str] = Counter()
        for family in text_string_to_metric_families(self._telemetry.exposition().decode()):
            for sample in family.samples:
                if sample.name == "sluice_gateway_insert_rows_count":
                    inserts[sample.labels["table"]] = int(sample.value)
        return inserts


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def serve(options: SettingsSources, settings: ChassisSettings, projects: int) -> None:
    """Serve until standard input ends."""
    keys = await _keys(settings, projects)
    telemetry = Telemetry("parts")
    clickhouse = open_clickhouse(settings)
    await clickhouse.start()
    await schema.migrate(clickhouse, retention_days=settings.retention_days)
    app = compose_app(("gateway",), options, settings, telemetry)
    listener = bind("127.0.0.1", 0)
    async with listening(app, listener, settings, telemetry):
        watch = Watch(clickhouse, telemetry)
        _say({"port": listener.getsockname()[1], "keys": keys})
        await _line()
        await watch.begin()
        await _line()
        _say(await watch.read())
        await _line()
    await clickhouse.close()


async def _keys(settings: ChassisSettings, projects: int) -> list[str]:
    migrations.migrate(settings.effective_database_url)
    database = Database(settings.effective_database_url)
    await database.start()
    keys = []
    async with database.write() as connection:
        organization = await organization_store.create_organization(connection, "shop", "Shop")
        for number in range(projects):
            project = await organization_store.create_project(
                connection, organization.id, f"p{number}", f"P{number}", []
            )
            keys.append(
                (await project_key_store.create_project_key(connection, organization.id, project.id, "load")).secret
            )
    await database.close()
    return keys


async def _line() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def _say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    """The process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--projects", type=int, required=True)
    parser.add_argument("--config", default=None)
    arguments = parser.parse_args()
    options = SettingsSources.from_arguments(arguments)
    settings = options.chassis_settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    process.log_to_stderr(settings)
    process.run(serve(options, settings, arguments.projects))


if __name__ == "__main__":
    main()
