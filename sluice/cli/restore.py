"""`sluice restore`: restores a backup into an empty data directory; `--check` only verifies it."""

import argparse
import sys
from pathlib import Path

import msgspec

from sluice.backup.restore import Restored, restore, verify
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


def run(arguments: argparse.Namespace) -> int:
    """Restore or verify, and print what it was; the exit code. Raises NotABackup, RestoreFailed."""
    sources = SettingsSources.from_arguments(arguments)
    settings = sources.chassis_settings()
    source = Path(arguments.source).absolute()
    target = None if arguments.check else Path(arguments.to).absolute() if arguments.to else settings.data_dir
    restored = verify(source) if target is None else restore(source, target)
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(_result(restored, target)).decode() + "\n")
        return 0
    manifest = restored.manifest
    verb = "Verified" if target is None else "Restored"
    print(f"{verb} {restored.directory}: {manifest.nbytes:,} bytes in {len(manifest.files):,} files.")
    print(f"It has what was acknowledged before {manifest.moment}, and was made by release {manifest.release}.")
    if not manifest.keys:
        print("It has no keys: put sealing.keys, signing.key and cursor.key into the data directory before the start.")
    if target is not None:
        print(f"Start it with `sluice up --data {target}`.")
        for name, used, expected in (
            ("SLUICE_DATABASE_URL", settings.database_url, ""),
            ("SLUICE_CLICKHOUSE_URL", settings.clickhouse_url, ""),
            ("SLUICE_GATEWAY_JOURNAL_DIR", str(journal_directory(sources)), str(settings.data_dir / "journal")),
        ):
            if used != expected:
                print(f"{name} is set: unset it, or move what was restored there.")
    return 0


def _result(restored: Restored, target: Path | None) -> RestoreResult:
    manifest = restored.manifest
    return RestoreResult(
        backup=str(restored.directory),
        data=None if target is None else str(target),
        moment=manifest.moment,
        release=manifest.release,
        files=len(manifest.files),
        bytes=manifest.nbytes,
        keys=manifest.keys,
    )
