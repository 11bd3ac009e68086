"""`sluice migrate`: migrates the relational and ClickHouse schemas to this release; idempotent."""

import argparse
from contextlib import nullcontext

from chassis.clickhouse import migrations as schema
from chassis.db import migrations
from chassis.runtime.settings import ChassisSettings
from sluice import data_dir, extras, process
from sluice.app_builder import open_clickhouse
from sluice.settings_sources import SettingsSources


def run(arguments: argparse.Namespace) -> int:
    """Migrate and print the applied migrations; the exit code."""
    settings = SettingsSources.from_arguments(arguments).chassis_settings()
    extras.require("migrate", extras.of_stores(settings))
    process.log_to_stderr(settings)
    with data_dir.locked(settings.data_dir, exclusive=settings.uses_embedded_clickhouse):
        mark = data_dir.in_use(settings.data_dir) if settings.uses_embedded_clickhouse else nullcontext()
        with mark:
            _print_applied("relational", migrations.migrate(settings.effective_database_url))
            _print_applied("ClickHouse", process.run(_migrate_clickhouse(settings)))
    return 0


async def _migrate_clickhouse(settings: ChassisSettings) -> list[str]:
    async with process.started(open_clickhouse(settings)) as clickhouse:
        return await schema.migrate(clickhouse, retention_days=settings.retention_days)


def _print_applied(store: str, applied: list[str]) -> None:
    print(f"{store}: {'applied ' + ', '.join(applied) if applied else 'nothing to do'}")
