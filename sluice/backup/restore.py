"""Restores a backup into an empty data directory.

read_manifest      refuses a directory that is not a complete backup, before any file is written
_check_release     refuses a backup of a newer release
_copy              copies every file into a directory that no start uses, and compares its SHA-256
prepare            data that was erased after the backup must not be visible again: its tombstones are put into the
                   copied relational database before the data is available (docs/adr/023-backup.md)
_publish           one rename. If the target is a mount point, several renames, during which a mark refuses starts
"""

import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from chassis.clickhouse import migrations as clickhouse_schema
from chassis.db import migrations as relational_schema
from chassis.errors import StartupError
from sluice import data_dir
from sluice.backup.manifest import (
    FileEntry,
    Manifest,
    NotABackup,
    Progress,
    Record,
    copy_file,
    hash_file,
    in_threads,
    read_manifest,
    remove_tree,
    sync_directory,
    sync_tree,
    write_record,
)
from sluice.backup.target import find_backups

STAGING: Final = ".restore-"
_DIRECTORY_MODE: Final = 0o700
_IGNORED: Final = frozenset({"lost+found"})  # a file system of its own has it


class RestoreFailed(StartupError):
    """Nothing was restored; the message is one sentence for the operator."""


class Damaged(RestoreFailed):
    """A file of the backup differs from its entry in the manifest."""


class Restored(NamedTuple):
    """A backup that was restored or verified."""

    directory: Path
    manifest: Manifest


def _nothing(_staging: Path) -> None:
    """For a restore without further steps."""


def find_backup(source: Path) -> Path:
    """The newest backup in a directory of backups, or `source` itself. Raises NotABackup."""
    if not source.is_dir():
        raise NotABackup(f"There is no backup at {source}: it is not a directory.")
    return next(iter(find_backups(source)), source)


def verify(source: Path) -> Restored:
    """Read every file of a backup. Raises NotABackup, Damaged."""
    directory = find_backup(source)
    manifest = _read_manifest(directory)
    hashed = in_threads(lambda entry: (entry, _hash(directory, entry)), manifest.files)
    _compare_all(directory, manifest, "Verified", hashed)
    return Restored(directory, manifest)


def _read_manifest(directory: Path) -> Manifest:
    """The manifest of a backup; none of its directories may be a symbolic link. Raises NotABackup."""
    manifest = read_manifest(directory)
    parents = {parent for entry in manifest.files for parent in PurePosixPath(entry.path).parents}
    linked = sorted(str(parent) for parent in parents if (directory / parent).is_symlink() and parent.parts)
    if linked:
        raise NotABackup(f"{directory} is not a backup: {linked[0]} is a symbolic link.")
    return manifest


def restore(source: Path, target: Path, prepare: Callable[[Path], None] = _nothing) -> Restored:
    """Restore a backup into `target`, which is empty or does not exist; it is on disk when this returns. `prepare` gets
    the directory with all files before it is published. Raises NotABackup, RestoreFailed, and the errors of `prepare`;
    then `target` is unchanged.
    """
    directory = find_backup(source)
    manifest = _read_manifest(directory)
    _check_release(directory, manifest)
    target = target.resolve()  # replace the directory that a symbolic link names, not the link
    if target.is_relative_to(directory.resolve()):
        raise RestoreFailed(f"--to {target} is inside the backup {directory}; choose a directory outside.", exit_code=2)
    _require_empty(target)
    try:
        staging = _create_staging(target)
    except OSError as error:
        raise RestoreFailed(f"Nothing was restored: {error}.") from error
    try:
        _copy(directory, manifest, staging)
        write_record(staging, _as_last_backup(directory, manifest))
        prepare(staging)
        sync_tree(staging)
        _publish(staging, target)
    except OSError as error:
        raise RestoreFailed(f"Nothing was restored: {error}.") from error
    finally:
        with suppress(OSError):
            remove_tree(staging)
            _unmark_unused(target)
    return Restored(directory, manifest)


def _as_last_backup(directory: Path, manifest: Manifest) -> Record:
    """The restored backup, recorded as the last backup of the new directory, so that its age is monitored from the
    start."""
    return Record(
        directory=str(directory),
        moment=manifest.moment,
        completed=manifest.moment,
        completed_s=manifest.moment_ns / 10**9,
        files=len(manifest.files),
        linked_files=0,
        bytes=manifest.nbytes,
        copied_bytes=0,
        held_s=manifest.held_s,
        seconds=0.0,
    )


def _check_release(directory: Path, manifest: Manifest) -> None:
    newest = clickhouse_schema.migrations()[-1].version
    schemas = manifest.clickhouse_schema, manifest.database_revision
    if schemas[0] < clickhouse_schema.LAST_UNRELEASED or schemas[1] < relational_schema.LAST_UNRELEASED:
        raise RestoreFailed(
            f"The backup {directory} was made by a build before the first release, with the schemas {schemas[0]} and "
            f"{schemas[1]}. Restore the backup with the last of these builds (commit cb9c19bf), start that build once, "
            "then start this release."
        )
    if manifest.clickhouse_schema > newest or not relational_schema.is_known(manifest.database_revision):
        raise RestoreFailed(
            f"The backup {directory} was made by release {manifest.release}, whose schemas this release does not know; "
            "restore it with that release or a later one."
        )


def _require_empty(target: Path) -> None:
    try:
        found = {path.name for path in target.iterdir()} - _IGNORED
    except FileNotFoundError:
        return
    except OSError as error:
        raise RestoreFailed(f"The directory {target} cannot be used: {error.strerror}.") from error
    if data_dir.MARK in found and any(name.startswith(STAGING) for name in found):
        raise RestoreFailed(
            f"A restore into the directory {target} is running or was interrupted; if no restore is running, remove "
            f"its contents ({', '.join(sorted(found))}) and restore again.",
            exit_code=2,
        )
    if found:
        raise RestoreFailed(
            f"The directory {target} is not empty; a backup is restored into an empty or new directory.", exit_code=2
        )


def _create_staging(target: Path) -> Path:
    """A directory on the same file system as `target`: beside it, or inside it if `target` cannot be replaced."""
    parent = target.parent if _is_replaceable(target) else target
    parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    if parent == target:  # from now on, because a start meanwhile, or after a kill, would create an empty installation
        data_dir.mark_unfinished_restore(target)
    staging = parent / f"{STAGING}{secrets.token_hex(8)}"
    staging.mkdir(mode=_DIRECTORY_MODE)
    return staging


def _unmark_unused(target: Path) -> None:
    """Remove the mark from a directory into which nothing was moved."""
    if target.is_dir() and {path.name for path in target.iterdir()} - _IGNORED == {data_dir.MARK}:
        (target / data_dir.MARK).unlink()


def _is_replaceable(target: Path) -> bool:
    """Whether a rename can replace the directory: it is not a mount point, and its parent is writable."""
    if not target.exists():
        return True
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    escaped = str(target.resolve()).replace("\\", "\\134").replace(" ", "\\040")
    # Also mount points on the same device.
    is_mount = target.is_mount() or any(line.split(" ")[4] == escaped for line in mounts)
    return not is_mount and os.access(target.parent, os.W_OK | os.X_OK)


def _copy(directory: Path, manifest: Manifest, staging: Path) -> None:
    for path in [*(entry.path for entry in manifest.files), *(link.path for link in manifest.links)]:
        (staging / path).parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)

    def copy(entry: FileEntry) -> tuple[FileEntry, tuple[int, str]]:
        try:
            return entry, copy_file(directory / entry.path, staging / entry.path)
        except FileNotFoundError as error:
            raise Damaged(f"The backup {directory} is damaged: {entry.path} is missing.") from error

    _compare_all(directory, manifest, "Restored", in_threads(copy, manifest.files))
    for link in manifest.links:
        (staging / link.path).symlink_to(link.target)


def _hash(directory: Path, entry: FileEntry) -> tuple[int, str]:
    try:
        return hash_file(directory / entry.path)
    except OSError as error:
        raise Damaged(f"The backup {directory} is damaged: {entry.path} cannot be read: {error.strerror}.") from error


def _compare_all(
    directory: Path, manifest: Manifest, verb: str, read: Iterable[tuple[FileEntry, tuple[int, str]]]
) -> None:
    """Compare size and SHA-256 of each file that was read with its entry. Raises Damaged."""
    progress = Progress(verb)
    for done, (entry, found) in enumerate(read, 1):
        if found != (entry.size, entry.sha256):
            raise Damaged(f"The backup {directory} is damaged: {entry.path} differs from the manifest.")
        progress(done, len(manifest.files))


def _publish(staging: Path, target: Path) -> None:
    if staging.parent != target:
        staging.rename(target)  # replaces an empty directory
        sync_directory(target.parent)
        return
    for path in sorted(staging.iterdir()):
        path.rename(target / path.name)
    sync_directory(target)
    data_dir.mark_stopped(target)
