"""`sluice repair`: rebuilds trace index, attribute keys and errors of some days from spans and logs.

Use it after parts of a table were lost and spans and logs were restored. Counts of rejected and refused items
(`ingest_outcomes`) cannot be rebuilt, because they are stored nowhere else.
"""

import argparse
import math
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from chassis.clickhouse import migrations
from chassis.db.database import Database
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from chassis.source_maps.resolver import SourceMaps
from gateway.journal import inspection
from gateway.repair.days import DayStillWritten, Repair, TableChange
from gateway.repair.derivation import QUIET_S
from gateway.settings import GatewaySettings
from sluice import data_dir, process
from sluice.app_builder import open_clickhouse
from sluice.cli import journal as sluice_journal
from sluice.settings_sources import SettingsSources

_ANSWER_S: Final = 3_600.0  # for one chunk of a day
_MAPS_S: Final = 600.0  # for resolving the stack traces of one chunk
_LINE: Final = "{:<10}  {:<17}  {:>12}  {:>12}  {:>14}  {:>14}"


def run(arguments: argparse.Namespace) -> int:
    """Repair and print the changes; 1 if a day could not be repaired. Raises StartupError for invalid days or a data
    directory in use.
    """
    sources = SettingsSources.from_arguments(arguments)
    settings, keys_per_day = sources.chassis_settings(), sources.load(GatewaySettings).keys_per_day
    days = list(_days(arguments.first, arguments.last))
    process.log_to_stderr(settings)
    with data_dir.locked(settings.data_dir, exclusive=settings.uses_embedded_clickhouse):
        _reject_unfinished_batches(sluice_journal.journal_directory(sources))
        mark = data_dir.in_use(settings.data_dir) if settings.uses_embedded_clickhouse else nullcontext()
        with mark:
            return process.run(_repair(settings, days, keys_per_day, replace=not arguments.dry_run))


def _reject_unfinished_batches(directory: Path) -> None:
    """Raises StartupError if a killed process left an unfinished batch: its derived rows would be inserted later, and
    duplicate rows that the repair inserts.
    """
    if directory.is_dir() and any(facts.batches and not facts.taken for facts in inspection.inspect(directory)):
        raise StartupError(
            f"The journal at {directory} has partially stored batches. Start the gateway, wait until it has stored "
            "these batches, and stop the gateway. Then run the repair again."
        )


async def _repair(settings: ChassisSettings, days: list[date], keys_per_day: int, *, replace: bool) -> int:
    opened = process.started(open_clickhouse(settings, timeout_s=_ANSWER_S))
    async with opened as clickhouse, process.started(Database.from_settings(settings)) as database:
        await migrations.check(clickhouse)
        quiet_s = 0 if settings.uses_embedded_clickhouse else QUIET_S
        source_maps = SourceMaps(database, timeout_s=_MAPS_S, burst_s=math.inf)
        repair = Repair(
            clickhouse, replace=replace, quiet_s=quiet_s, keys_per_day=keys_per_day, source_maps=source_maps
        )
        await repair.check_engines()
        await source_maps.refresh()
        await repair.drop_leftovers()
        return await _repair_days(repair, days, replace=replace)


async def _repair_days(repair: Repair, days: list[date], *, replace: bool) -> int:
    failed = 0
    print(_LINE.format("day", "table", "rows before", "rows after", "total before", "total after"))
    for day in days:
        try:
            changes = await repair.repair_day(day)
        except DayStillWritten as error:
            print(error)
            failed += 1
            continue
        for change in changes:
            print(_format_change(change), flush=True)
        if not changes:
            print(f"{day}  no spans and no logs: unchanged")
    if not replace:
        print("Nothing was changed (--dry-run).")
    print("Counts of rejected and refused items (ingest_outcomes) cannot be rebuilt and are unchanged.")
    return 1 if failed else 0


def _format_change(change: TableChange) -> str:
    """One line. The totals count items (trace index), spans (attribute keys) or errors: merges do not change them."""
    rows, totals = (change.rows_before, change.rows_after), (change.total_before, change.total_after)
    return _LINE.format(str(change.day), change.table, *rows, *totals)


def _days(first: date, last: date) -> Iterator[date]:
    if first > last:
        raise StartupError(f"--from {first} is later than --to {last}.", exit_code=2)
    while first <= last:
        yield first
        first += timedelta(days=1)
