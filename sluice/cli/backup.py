"""`sluice backup`: backs up the embedded stores, whether `sluice up` runs or not.

The process that runs takes a snapshot, for which inserts wait a moment, and keeps it while this command copies it. If
none runs, this command opens the stores itself.
"""

import argparse
import os
import sys
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import structlog

from chassis.clickhouse import ClickHouse
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from sluice import data_dir, extras, process
from sluice.app_builder import open_clickhouse
from sluice.backup.client import connected
from sluice.backup.manifest import BackupFailed, Record, Snapshot, write_record
from sluice.backup.server import SnapshotTaker, failures_of_stores, require_embedded
from sluice.backup.target import Copied, copy_snapshot, listed, locked_target
from sluice.cli.journal import journal_directory
from sluice.settings_sources import SettingsSources

STARTED: Final = (
    "No backup was made: a service has started in the data directory {} meanwhile, and has removed the snapshot; run "
    "the command again."
)

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def run(arguments: argparse.Namespace) -> int:
    """Make a backup and print what it has; the exit code. Raises BackupFailed."""
    sources = SettingsSources.from_arguments(arguments)
    settings = sources.chassis_settings()
    database = require_embedded(settings)
    extras.require("backup", extras.of_stores(settings))
    process.log_to_stderr(settings)
    target = Path(arguments.to).absolute()
    _require_outside(target, settings, sources)
    if not database.is_file():
        raise BackupFailed(f"There is nothing to back up in {settings.data_dir}: {database} does not exist.")
    completed = _backup(sources, settings, target, keys=not arguments.without_keys)
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(completed)).decode() + "\n")
    else:
        _print(completed)
    return 0


def _backup(sources: SettingsSources, settings: ChassisSettings, target: Path, *, keys: bool) -> Record:
    started = time.monotonic()
    with failures_of_stores(), locked_target(target), ExitStack() as stack:
        try:
            with data_dir.locked(settings.data_dir, exclusive=True):
                stack.callback(_remove_links, sources, settings)
                snapshot = _take_of_stopped(sources, settings)
                listing = stack.enter_context(listed(snapshot, keys=keys))
        except data_dir.DataDirInUse:
            return _back_up_served(settings, target, started, keys=keys)
        # Unlocked: a service must not wait for the copy to start. It removes the links then.
        try:
            completed = _completed(copy_snapshot(snapshot, listing, target), started)
        except FileNotFoundError as error:
            raise BackupFailed(STARTED.format(settings.data_dir)) from error
    _note(settings, completed)
    return completed


def _back_up_served(settings: ChassisSettings, target: Path, started: float, *, keys: bool) -> Record:
    """With the process that has locked the directory."""
    with connected(settings.data_dir) as connection:
        snapshot = connection.begin(target)
        try:
            with listed(snapshot, keys=keys) as listing:
                connection.confirm()  # what was listed is all there is
                copied = copy_snapshot(snapshot, listing, target)
        except FileNotFoundError:
            connection.confirm()  # raises why the snapshot was removed
            raise
        completed = _completed(copied, started)
        try:
            connection.done(completed)
        except BackupFailed:  # the process has ended: the backup is complete all the same
            _note(settings, completed)
    return completed


def _take_of_stopped(sources: SettingsSources, settings: ChassisSettings) -> Snapshot:
    """A snapshot of stores that no process has open, in a locked directory."""
    _require_owner(settings.data_dir)
    with data_dir.in_use(settings.data_dir):
        return process.run(_take(sources, settings))


async def _take(sources: SettingsSources, settings: ChassisSettings) -> Snapshot:
    with failures_of_stores():
        async with process.started(open_clickhouse(settings)) as clickhouse:
            return await _taker(sources, settings, clickhouse).take()


def _taker(sources: SettingsSources, settings: ChassisSettings, clickhouse: ClickHouse) -> SnapshotTaker:
    """Of stores that accept nothing, so nothing has to wait."""
    from gateway.ingest.snapshots import IngestSnapshots
    from gateway.inserts.blocks import Gate

    journals = journal_directory(sources)
    ingest = IngestSnapshots(journals, None, [], Gate(), Gate(), _store_nothing, time.time_ns, log)
    return SnapshotTaker(settings, clickhouse, ingest)


def _remove_links(sources: SettingsSources, settings: ChassisSettings) -> None:
    """Remove the links, unless a service has started, which has removed them. They take space, and nothing else."""
    with suppress(OSError, StartupError), data_dir.locked(settings.data_dir, exclusive=True):
        process.run(_taker(sources, settings, open_clickhouse(settings)).remove())


def _completed(copied: Copied, started: float) -> Record:
    now, manifest = time.time(), copied.manifest
    return Record(
        directory=str(copied.directory),
        moment=manifest.moment,
        completed=f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%SZ}",
        completed_s=round(now, 3),
        files=len(manifest.files),
        linked_files=copied.linked_files,
        bytes=manifest.nbytes,
        copied_bytes=copied.copied_bytes,
        held_s=manifest.held_s,
        seconds=round(time.monotonic() - started, 3),
    )


def _note(settings: ChassisSettings, completed: Record) -> None:
    try:
        write_record(settings.data_dir, completed)
    except OSError as error:
        log.warning("the time of the backup cannot be noted", error=str(error))


def _require_owner(directory: Path) -> None:
    """Files that another user creates there could not be used by the service."""
    owner = directory.stat().st_uid
    if owner != os.geteuid():
        raise BackupFailed(
            f"The data directory {directory} belongs to the user with the id {owner}: run this command as that user, "
            "or while `sluice up` runs."
        )


def _require_outside(target: Path, settings: ChassisSettings, sources: SettingsSources) -> None:
    """Refuse a target inside what is copied: it would be lost with it."""
    for directory in (settings.data_dir, journal_directory(sources)):
        if target.resolve().is_relative_to(directory.resolve()):
            raise StartupError(f"--to {target} is inside {directory}; choose a directory outside.", exit_code=2)


def _print(completed: Record) -> None:
    linked = f", of which {completed.linked_files:,} are linked to an earlier backup" if completed.linked_files else ""
    print(f"Backup   {completed.directory}")
    print(f"Moment   {completed.moment}: everything that was acknowledged before is in it, once")
    print(f"Content  {completed.bytes:,} bytes in {completed.files:,} files{linked}")
    print(f"Copied   {completed.copied_bytes:,} bytes in {completed.seconds:.1f} s")
    print(f"Inserts  waited for {completed.held_s * 1000:.0f} ms")


async def _store_nothing() -> None:
    """No rows wait in memory."""
