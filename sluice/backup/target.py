"""Copies a snapshot into a directory of backups.

    DIR/20261123T040102.123456Z/    a complete backup, named by its moment; needs no other backup
    DIR/.partial-20261123T.../      a backup that is being written, or was given up; the next backup removes it
    DIR/lock                        locked (flock) by the command that writes

A file that is unchanged since the last complete backup becomes a hard link to it. So a backup needs space only for new
files, and can be removed without harm to other backups.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from sluice.backup.manifest import (
    KEY_FILES,
    BackupFailed,
    FileEntry,
    LinkEntry,
    Manifest,
    NotABackup,
    Progress,
    Snapshot,
    copy_file,
    in_threads,
    read_manifest,
    remove_tree,
    sync_directory,
    sync_tree,
    write_manifest,
)

LOCK: Final = "lock"
PARTIAL: Final = ".partial-"
_NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z")
_DIRECTORY_MODE: Final = 0o700


class Copied(NamedTuple):
    """A backup that was written."""

    directory: Path
    manifest: Manifest
    linked_files: int
    copied_bytes: int


class _Source(NamedTuple):
    """A file of a snapshot: its path in the backup, its location, and how many of its bytes belong to the snapshot
    (None: all)."""

    path: str
    file: Path
    length: int | None


class Listing(NamedTuple):
    """The files and symbolic links of a snapshot, by path; `keys`: whether it has the key files."""

    sources: Sequence[_Source]
    links: Sequence[LinkEntry]
    keys: bool


class _Result(NamedTuple):
    entry: FileEntry
    linked: bool


class _Base(NamedTuple):
    """The backup that unchanged files are linked to."""

    directory: Path
    files: Mapping[str, FileEntry]


@contextmanager
def locked_target(target: Path) -> Iterator[None]:
    """Create the directory of backups, mode 0700, and lock it while the block runs. Raises BackupFailed, OSError."""
    target.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    descriptor = os.open(target / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupFailed(f"Another backup into {target} is in progress; try again when it has ended.") from error
        yield
    finally:
        os.close(descriptor)


def copy_snapshot(snapshot: Snapshot, listing: Listing, target: Path) -> Copied:
    """Copy the files in `listing` into a new directory of `target`, which is locked. The copy is on disk when this
    returns, and is removed after an exception. Raises OSError; FileNotFoundError if the snapshot was removed.
    """
    moment = datetime.fromtimestamp(snapshot.moment_ns // 10**9, UTC)
    micros = snapshot.moment_ns // 1_000 % 10**6
    name = f"{moment:%Y%m%dT%H%M%S}.{micros:06d}Z"
    for leftover in target.glob(f"{PARTIAL}*"):
        remove_tree(leftover)
    base = _last_backup(target)
    partial, directory = target / f"{PARTIAL}{name}", target / name
    try:
        partial.mkdir(mode=_DIRECTORY_MODE)
        sources = listing.sources
        progress = Progress("Copied")
        results: list[_Result] = []
        for result in in_threads(lambda source: _copy(source, partial, base), _with_parents(sources, partial)):
            results.append(result)
            progress(len(results), len(sources))
        manifest = Manifest(
            release=snapshot.release,
            moment=f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06d}Z",
            moment_ns=snapshot.moment_ns,
            held_s=snapshot.held_s,
            durability=snapshot.durability,
            engine=snapshot.engine,
            clickhouse_schema=snapshot.clickhouse_schema,
            database_revision=snapshot.database_revision,
            keys=listing.keys,
            files=[result.entry for result in results],
            links=listing.links,
        )
        sync_tree(partial)
        write_manifest(partial, manifest)
        sync_directory(partial)
        partial.rename(directory)
    except BaseException:
        with suppress(OSError):  # the next backup removes it, and no restore accepts it
            remove_tree(partial)
        raise
    sync_directory(target)
    copied = [result.entry.size for result in results if not result.linked]
    return Copied(directory, manifest, len(results) - len(copied), sum(copied))


@contextmanager
def listed(snapshot: Snapshot, *, keys: bool) -> Iterator[Listing]:
    """The files of a snapshot, while the block runs. Files are found through the directories that are opened now, so
    that if the snapshot is removed, the files of the next snapshot, which have the same names, are not found. The list
    is complete if the snapshot still exists afterwards. Raises OSError.
    """
    with ExitStack() as stack:
        roots = []
        for tree in snapshot.trees:
            descriptor = os.open(tree.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            roots.append(Path(f"/proc/self/fd/{descriptor}"))
        yield _list(snapshot, roots, keys=keys)


def find_backups(target: Path) -> list[Path]:
    """The backups in a directory by their names, newest first; none if the directory does not exist. Their manifests
    show whether they are complete.
    """
    if not target.is_dir():
        return []
    return sorted((path for path in target.iterdir() if _NAME.fullmatch(path.name)), reverse=True)


def _last_backup(target: Path) -> _Base | None:
    for directory in find_backups(target):
        try:
            manifest = read_manifest(directory)
        except NotABackup:
            continue
        return _Base(directory, {entry.path: entry for entry in manifest.files})
    return None


def _list(snapshot: Snapshot, roots: Sequence[Path], *, keys: bool) -> Listing:
    """Files and symbolic links of a snapshot, by path."""
    sources, links = [], []
    for tree, root in zip(snapshot.trees, roots, strict=True):
        for path in _walk(root):
            name = f"{tree.prefix}/{path.relative_to(root)}".lstrip("/")
            if path.is_symlink():
                links.append(LinkEntry(name, str(path.readlink())))
            elif keys or name not in KEY_FILES:
                sources.append(_Source(name, path, snapshot.lengths.get(name)))
    return Listing(sorted(sources), sorted(links, key=lambda link: link.path), keys)


def _walk(root: Path) -> Iterator[Path]:
    """All files and links below a directory, without directories. Raises OSError if it changes meanwhile."""
    for directory, _, files in os.walk(root, onerror=_raise):
        for entry in os.scandir(directory):
            if entry.is_symlink() or entry.name in files:
                yield Path(entry.path)


def _raise(error: OSError) -> None:
    raise error


def _with_parents(sources: Sequence[_Source], partial: Path) -> Iterator[_Source]:
    """The sources, each after its directory was created."""
    created = {partial}
    for source in sources:
        directory = (partial / source.path).parent
        for parent in (*reversed(directory.parents), directory):
            if parent not in created and parent.is_relative_to(partial):
                parent.mkdir(mode=_DIRECTORY_MODE)
                created.add(parent)
        yield source


def _copy(source: _Source, partial: Path, base: _Base | None) -> _Result:
    status = source.file.stat(follow_symlinks=False)
    size = status.st_size if source.length is None else min(source.length, status.st_size)
    known = None if base is None else base.files.get(source.path)
    if base is not None and known is not None:
        same = (known.size, known.inode, known.mtime_ns) == (size, status.st_ino, status.st_mtime_ns)
        if same and _link(base.directory / source.path, partial / source.path, size):
            return _Result(known, linked=True)
    copied, digest = copy_file(source.file, partial / source.path, source.length)
    return _Result(FileEntry(source.path, copied, digest, status.st_ino, status.st_mtime_ns), linked=False)


def _link(existing: Path, new: Path, size: int) -> bool:
    """Link a file of the last backup, if it has the size in its manifest; returns whether it was linked."""
    try:
        if existing.stat(follow_symlinks=False).st_size != size:
            return False
        os.link(existing, new, follow_symlinks=False)
    except OSError:  # the file was removed, or the file system allows no hard links, or no more of this file
        return False
    return True
