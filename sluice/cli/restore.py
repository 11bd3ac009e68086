"""`sluice restore`: restores a backup into an empty data directory; `--check` only verifies it.

Tombstones of what was erased after the backup (`--erasures`) are in the directory before it is visible.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

import msgspec

from chassis.db import migrations
from chassis.db.database import Database
from chassis.erasures.export import ExportedErasure
from sluice import process
from sluice.backup.manifest import DATABASE
from sluice.backup.restore import Restored, restore, verify
from sluice.cli.erasures import apply_erasures, read_export
from sluice.cli.journal import journal_directory
from sluice.settings_sources import SettingsSources


class RestoreResult(msgspec.Struct, frozen=True, rename="camel"):
    """What `--json` prints. `data` is the restored directory; None after `--check`."""

    backup: str
    data: str | None
    moment: str
    release: str
    files: int
    bytes: int
    keys: bool
    erasures: int | None = None  # applied; None without --erasures


def run(arguments: argparse.Namespace) -> int:
    """Restore or verify, and print what it was; the exit code. Raises NotABackup, RestoreFailed."""
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
        sys.stdout.write(msgspec.json.encode(_result(restored, target, count)).decode() + "\n")
        return 0
    manifest = restored.manifest
    verb = "Verified" if target is None else "Restored"
    print(f"{verb} {restored.directory}: {manifest.nbytes:,} bytes in {len(manifest.files):,} files.")
    print(f"It has what was acknowledged before {manifest.moment}, and was made by release {manifest.release}.")
    if not manifest.keys:
        print("It has no keys: put sealing.keys, signing.key and cursor.key into the data directory before the start.")
    if target is not None:
        if count is None:
            print(
                "What was erased after that is in it again: before the start, apply the latest export with "
                f"`sluice erasures apply FILE --data {target}` (after `sluice migrate`, if the release differs)."
            )
        else:
            print(f"Erasures applied: {count}. Gateways execute them after the start.")
        print(f"Start it with `sluice up --data {target}`.")
        for name, used, expected in (
            ("SLUICE_DATABASE_URL", settings.database_url, ""),
            ("SLUICE_CLICKHOUSE_URL", settings.clickhouse_url, ""),
            ("SLUICE_GATEWAY_JOURNAL_DIR", str(journal_directory(sources)), str(settings.data_dir / "journal")),
        ):
            if used != expected:
                print(f"{name} is set: unset it, or move what was restored there.")
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
