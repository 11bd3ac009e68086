"""`sluice backup`: backs up the embedded stores. `sluice up` may be running, or not.

The running process takes a snapshot, for which inserts wait a moment, and keeps it while this command copies it. If no
process runs, this command opens the stores itself.

`sluice restore`: restores a backup into an empty data directory; `--check` only verifies it.

The tombstones of data that was erased after the backup (`--erasures`) are added to the directory before it is
available.
"""

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
import structlog

from chassis.clickhouse import ClickHouse
from chassis.db import migrations
from chassis.db.database import Database
from chassis.erasures.export import ExportedErasure
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from sluice import data_dir, extras, process
from sluice.app_builder import open_clickhouse
from sluice.backup.client import connected
from sluice.backup.manifest import DATABASE, BackupFailed, Record, Snapshot, write_record
from sluice.backup.restore import Restored, restore, verify
from sluice.backup.server import SnapshotTaker, failures_of_stores, require_embedded
from sluice.backup.target import Copied, copy_snapshot, listed, locked_target
from sluice.cli.erasures import apply_erasures, read_export
from sluice.cli.journal import journal_directory
from sluice.settings_sources import SettingsSources

STARTED: Final = (
    "No backup was made: a service was started in the data directory {} meanwhile and removed the snapshot; run the "
    "command again."
)

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def run_backup(arguments: argparse.Namespace) -> int:
    """Make a backup and print a summary; the exit code. Raises BackupFailed."""
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
        print(msgspec.json.format(msgspec.json.encode(completed)).decode())
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
        # Without the lock, so that a service need not wait for the copy. A service that starts removes the links.
        try:
            completed = _completed(copy_snapshot(snapshot, listing, target), started)
        except FileNotFoundError as error:
            raise BackupFailed(STARTED.format(settings.data_dir)) from error
    _note(settings, completed)
    return completed


def _back_up_served(settings: ChassisSettings, target: Path, started: float, *, keys: bool) -> Record:
    """Back up with the help of the process that has locked the directory."""
    with connected(settings.data_dir) as connection:
        snapshot = connection.begin(target)
        try:
            with listed(snapshot, keys=keys) as listing:
                connection.confirm()  # so the list is complete
                copied = copy_snapshot(snapshot, listing, target)
        except FileNotFoundError:
            connection.confirm()  # raises the reason why the snapshot was removed
            raise
        completed = _completed(copied, started)
        try:
            connection.done(completed)
        except BackupFailed:  # the process has ended, but the backup is complete
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
    """A snapshot taker for stores that accept no requests, so no insert has to wait."""
    from gateway.ingest.snapshots import IngestSnapshots
    from gateway.inserts.blocks import Gate

    ingest = IngestSnapshots(journal_directory(sources), None, [], Gate(), Gate(), _store_nothing, time.time_ns, log)
    return SnapshotTaker(settings, clickhouse, ingest)


def _remove_links(sources: SettingsSources, settings: ChassisSettings) -> None:
    """Remove the links, unless a service has started and removed them. Remaining links only take space."""
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
        log.warning("the time of the backup cannot be recorded", error=str(error))


def _require_owner(directory: Path) -> None:
    """Refuse to run as another user than the service: the service could not use files that this command creates."""
    owner = directory.stat().st_uid
    if owner != os.geteuid():
        raise BackupFailed(
            f"The data directory {directory} belongs to the user with the id {owner}. Run this command as this user. "
            "While `sluice up` runs, you can also run this command as root."
        )


def _require_outside(target: Path, settings: ChassisSettings, sources: SettingsSources) -> None:
    """Refuse a target inside the directories that are copied: the backup would be lost together with them."""
    for directory in (settings.data_dir, journal_directory(sources)):
        if target.resolve().is_relative_to(directory.resolve()):
            raise StartupError(f"--to {target} is inside {directory}; choose a directory outside.", exit_code=2)


def _print(completed: Record) -> None:
    linked = f", of which {completed.linked_files:,} are linked to an earlier backup" if completed.linked_files else ""
    print(f"Backup   {completed.directory}")
    print(f"Moment   {completed.moment}: the backup has every item that was acknowledged before this moment, once")
    print(f"Content  {completed.bytes:,} bytes in {completed.files:,} files{linked}")
    print(f"Copied   {completed.copied_bytes:,} bytes in {completed.seconds:.1f} s")
    print(f"Inserts  waited for {completed.held_s * 1000:.0f} ms")


async def _store_nothing() -> None:
    """No rows wait in memory."""


class RestoreResult(msgspec.Struct, frozen=True, rename="camel"):
    """The output of `--json`. `data` is the restored directory; None after `--check`."""

    backup: str
    data: str | None
    moment: str
    release: str
    files: int
    bytes: int
    keys: bool
    erasures: int | None = None  # applied; None without --erasures


def run_restore(arguments: argparse.Namespace) -> int:
    """Restore or verify a backup and print a summary; the exit code. Raises NotABackup, RestoreFailed."""
    sources = SettingsSources.from_arguments(arguments)
    settings = sources.chassis_settings()
    source = Path(arguments.source).absolute()
    target = None if arguments.check else Path(arguments.to).absolute() if arguments.to else settings.data_dir
    exported = None if arguments.erasures is None else read_export(Path(arguments.erasures))
    applied = list[ExportedErasure]()
    if target is None:
        restored = verify(source)
    elif exported is None:
        restored = restore(source, target)
    else:
        process.log_to_stderr(settings)
        restored = restore(source, target, partial(_erase, exported, applied))
    count = None if target is None or exported is None else len(applied)
    if arguments.json:
        print(msgspec.json.encode(_result(restored, target, count)).decode())
        return 0
    manifest = restored.manifest
    verb = "Verified" if target is None else "Restored"
    print(f"{verb} {restored.directory}: {manifest.nbytes:,} bytes in {len(manifest.files):,} files.")
    print(
        f"The backup has the items that were acknowledged before {manifest.moment}, and was made by release "
        f"{manifest.release}."
    )
    if not manifest.keys:
        print(
            "The backup has no keys: put sealing.keys, signing.key and cursor.key into the data directory before the "
            "start."
        )
    if target is not None:
        if count is None:
            print(
                "If data was erased after this time, the restored directory has this data again. To erase the data, do "
                "these steps before you start Sluice. If this release is not the release of the backup, run "
                f"`sluice migrate`. Then run `sluice erasures apply FILE --data {target}` with the latest export of "
                "erasures."
            )
        else:
            print(f"Erasures applied: {count}. Gateways execute them after the start.")
        print(f"Start Sluice with `sluice up --data {target}`.")
        for name, used, expected in (
            ("SLUICE_DATABASE_URL", settings.database_url, ""),
            ("SLUICE_CLICKHOUSE_URL", settings.clickhouse_url, ""),
            ("SLUICE_GATEWAY_JOURNAL_DIR", str(journal_directory(sources)), str(settings.data_dir / "journal")),
        ):
            if used != expected:
                print(f"{name} is set: unset this variable, or move the restored files to the place that it names.")
    return 0


def _erase(exported: Sequence[ExportedErasure], applied: list[ExportedErasure], staging: Path) -> None:
    """Put the tombstones into the relational database of a restored directory, after its migration."""
    url = f"sqlite:///{quote(str(staging / DATABASE))}"
    migrations.migrate(url)

    async def apply() -> None:
        async with process.started(Database(url)) as database:
            results = await apply_erasures(database, exported)
        applied.extend(erasure for erasure, result in results if result == "applied")

    process.run(apply())
    descriptor = os.open(staging / DATABASE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _result(restored: Restored, target: Path | None, erasures: int | None) -> RestoreResult:
    manifest = restored.manifest
    return RestoreResult(
        backup=str(restored.directory),
        data=None if target is None else str(target),
        moment=manifest.moment,
        release=manifest.release,
        files=len(manifest.files),
        bytes=manifest.nbytes,
        keys=manifest.keys,
        erasures=erasures,
    )
