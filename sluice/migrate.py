"""`sluice migrate`: both schemas to this release, explicitly; a second run finds nothing to do."""

import argparse

from chassis import migrations, schema
from chassis.settings import ChassisSettings
from sluice import data, extras, process
from sluice.options import Options
from sluice.services import open_clickhouse


def run(arguments: argparse.Namespace) -> int:
    """Migrate and say what was applied; the exit code."""
    settings = Options.of(arguments).chassis()
    extras.require("migrate", extras.of_stores(settings))
    process.log_to_stderr(settings)
    with data.held(settings.data_dir, alone=settings.embedded):
        _say("relational", migrations.migrate(settings.database))
        _say("ClickHouse", process.run(_migrate_clickhouse(settings)))
    return 0


async def _migrate_clickhouse(settings: ChassisSettings) -> list[str]:
    clickhouse = open_clickhouse(settings)
    await clickhouse.start()
    try:
        return await schema.migrate(clickhouse, retention_days=settings.retention_days)
    finally:
        await clickhouse.close()


def _say(store: str, applied: list[str]) -> None:
    print(f"{store}: {'applied ' + ', '.join(applied) if applied else 'nothing to do'}")
