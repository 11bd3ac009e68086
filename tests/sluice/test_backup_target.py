"""Copies of snapshots into a directory of backups, where something fails."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.backup import restore, target
from sluice.backup.manifest import BackupFailed, Snapshot, Tree, copy_file, read_manifest
from sluice.backup.target import Copied, copy_snapshot, find_backups, listed, locked_target


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Some files, one of which is being written."""
    tree = tmp_path / "snapshot"
    for number in range(20):
        path = tree / "parts" / str(number % 3) / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number * 1_000)
    (tree / "names").mkdir()
    (tree / "names" / "one").symlink_to("../parts/1")
    (tree / "segment").write_bytes(b"synced, and not yet synced")
    return tree


def copied(
    tree: Path, directory: Path, moment_ns: int = 1_795_406_462_123_456_789, **options: Callable[[], None]
) -> Copied:
    snapshot = Snapshot(
        moment_ns=moment_ns,
        held_s=0.002,
        durability="journal",
        release="0.1.0",
        engine="26.9",
        clickhouse_schema=1,
        database_revision="0001",
        trees=[Tree("", str(tree))],
        lengths={"segment": 6},
    )
    with locked_target(directory), listed(snapshot, keys=True) as listing:
        options.get("confirm", lambda: None)()
        return copy_snapshot(snapshot, listing, directory)


def test_it_has_every_file_as_far_as_it_counts(tree: Path, tmp_path: Path) -> None:
    made = copied(tree, tmp_path / "backups")
    assert made.directory.name == "20261123T040102.123456Z"
    assert (made.manifest.moment, made.linked_files) == ("2026-11-23T04:01:02.123456Z", 0)
    assert read_manifest(made.directory) == made.manifest
    assert (made.directory / "segment").read_bytes() == b"synced"
    assert [(link.path, link.target) for link in made.manifest.links] == [("names/one", "../parts/1")]
    assert len(made.manifest.files) == 21
    assert restore.verify(tmp_path / "backups").manifest == made.manifest


@pytest.mark.parametrize("nth", [1, 7, 21])
def test_a_full_disk_leaves_nothing(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    calls, original = list[Path](), copy_file

    def full(source: Path, new: Path, length: int | None = None) -> tuple[int, str]:
        calls.append(source)
        if len(calls) >= nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(source, new, length)

    with monkeypatch.context() as patch:
        patch.setattr(target, "copy_file", full)
        with pytest.raises(OSError, match="No space left"):
            copied(tree, tmp_path / "backups")
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["lock"]
    copied(tree, tmp_path / "backups")


def test_a_snapshot_that_was_removed_makes_no_backup(tree: Path, tmp_path: Path) -> None:
    def gone() -> None:
        raise BackupFailed("gone")

    with pytest.raises(BackupFailed, match="gone"):
        copied(tree, tmp_path / "backups", confirm=gone)
    with pytest.raises(FileNotFoundError):  # while it is copied
        copied(tree, tmp_path / "backups", confirm=(tree / "parts" / "1" / "7.bin").unlink)
    with pytest.raises(FileNotFoundError):
        copied(tmp_path / "nowhere", tmp_path / "backups")
    assert find_backups(tmp_path / "backups") == []


def test_a_snapshot_that_took_the_place_of_another_is_not_mixed_with_it(tree: Path, tmp_path: Path) -> None:
    """The command was stopped for so long that the service gave its snapshot up, and took one for somebody else."""

    def replaced() -> None:
        (tmp_path / "next").mkdir()
        for path in sorted(tree.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                (tmp_path / "next" / path.relative_to(tree)).mkdir()
            elif path.is_file():
                (tmp_path / "next" / path.relative_to(tree)).write_bytes(b"of another moment")
        shutil.rmtree(tree)
        (tmp_path / "next").rename(tree)

    with pytest.raises(FileNotFoundError):
        copied(tree, tmp_path / "backups", confirm=replaced)
    assert find_backups(tmp_path / "backups") == []


def test_without_hard_links_every_backup_is_a_copy(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    first = copied(tree, tmp_path / "backups")
    (tree / "parts" / "1" / "7.bin").write_bytes(b"changed")
    linked = copied(tree, tmp_path / "backups", first.manifest.moment_ns + 10**9)
    assert (linked.linked_files, linked.copied_bytes) == (20, len(b"changed"))
    monkeypatch.setattr(os, "link", refused)
    second = copied(tree, tmp_path / "backups", first.manifest.moment_ns + 2 * 10**9)
    assert second.linked_files == 0
    assert restore.verify(second.directory).manifest == second.manifest
    assert restore.find_backup(tmp_path / "backups") == second.directory


def test_one_command_at_a_time_writes_there(tree: Path, tmp_path: Path) -> None:
    with locked_target(tmp_path / "backups"), pytest.raises(BackupFailed, match="is in progress"):
        copied(tree, tmp_path / "backups")
