"""A copy of a data directory in use is refused at the start; any other directory starts."""

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest

from chassis.errors import StartupError
from sluice import data_dir
from sluice.data_dir import CopyOfDirectoryInUse, in_use, record_files
from tests.sluice.conftest import Start, refusal, sluice


def made(directory: Path) -> Path:
    directory.mkdir()
    for name in ("lock", "sluice.db"):
        (directory / name).write_text(name)
    return directory


def copied_in_use(directory: Path, target: Path) -> Path:
    with in_use(directory):
        shutil.copytree(directory, target, symlinks=True)
    return target


def test_a_copy_of_one_in_use_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    copy = copied_in_use(made(tmp_path / "a"), tmp_path / "b")
    with pytest.raises(CopyOfDirectoryInUse, match="--accept-copy"), in_use(copy):
        pytest.fail("it was used")
    with in_use(copy, accept_copy=True):
        pass
    with in_use(copy):
        pass


def test_a_copy_by_hard_links_is_refused_and_the_original_is_not(tmp_path: Path) -> None:
    """As by `cp -al` or rsnapshot: its files are the same, and its directories are not."""
    original = made(tmp_path / "a")
    (original / "clickhouse").mkdir()
    with in_use(original):
        shutil.copytree(original, tmp_path / "b", copy_function=os.link)
        mark = (original / data_dir.MARK).read_bytes()
    with pytest.raises(CopyOfDirectoryInUse), in_use(tmp_path / "b"):
        pytest.fail("it was used")
    (original / data_dir.MARK).write_bytes(mark)  # as a kill leaves it
    with in_use(original):
        pass


def test_a_copy_of_one_that_was_stopped_is_used(tmp_path: Path) -> None:
    directory = made(tmp_path / "a")
    with in_use(directory):
        pass
    with in_use(Path(shutil.copytree(directory, tmp_path / "b"))):
        pass
    with pytest.raises(KeyError), in_use(directory):  # an error is an orderly end, too
        raise KeyError
    with in_use(Path(shutil.copytree(directory, tmp_path / "c"))):
        pass


def crashed(directory: Path) -> Path:
    """As a kill leaves it."""
    with in_use(directory):
        record_files(directory)
        mark = (directory / data_dir.MARK).read_bytes()
    (directory / data_dir.MARK).write_bytes(mark)
    return directory


def test_one_that_crashed_is_used_where_it_is_and_where_it_was_moved_to(tmp_path: Path) -> None:
    with in_use(crashed(made(tmp_path / "a"))):
        pass
    crashed(tmp_path / "a").rename(tmp_path / "moved")
    with in_use(tmp_path / "moved"):
        pass


def test_permissions_and_labels_that_are_set_again_make_no_copy(tmp_path: Path) -> None:
    directory = crashed(made(tmp_path / "a"))
    for path in directory.iterdir():
        path.chmod(0o640)
    with in_use(directory):
        pass


def test_inode_numbers_of_a_mount_s_own_make_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on file systems in user space: nothing else about the files has changed."""
    directory, original = crashed(made(tmp_path / "a")), data_dir._status

    def renumbered(path: Path) -> os.stat_result | None:
        status = original(path)
        return None if status is None else os.stat_result([status[0], status[1] + 7, *status[2:]], _times(status))

    monkeypatch.setattr(data_dir, "_status", renumbered)
    with in_use(directory):
        pass


def _times(status: os.stat_result) -> dict[str, int]:
    return {name: getattr(status, name) for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")}


def test_a_copy_that_got_one_of_the_inode_numbers_is_a_copy(tmp_path: Path) -> None:
    copy = copied_in_use(made(tmp_path / "a"), tmp_path / "b")
    for name in ("lock", "sluice.db"):
        (copy / name).unlink()
        (copy / name).hardlink_to(tmp_path / "a" / name)
    with pytest.raises(CopyOfDirectoryInUse), in_use(copy):
        pytest.fail("it was used")


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"state": "asleep"}'])
def test_a_directory_without_a_readable_mark_is_used(tmp_path: Path, content: bytes | None) -> None:
    directory = made(tmp_path / "a")
    if content is not None:
        (directory / data_dir.MARK).write_bytes(content)
    with in_use(directory):
        pass


def test_a_full_disk_prevents_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    directory = crashed(made(tmp_path / "a"))
    with monkeypatch.context() as patch:
        patch.setattr(data_dir, "_write", full)
        patch.setattr(data_dir, "_write_origin", full)
        with in_use(directory):
            pass
    with in_use(directory):  # the mark is that of the crash, and the place the same
        pass


def test_an_interrupted_restore_is_refused(tmp_path: Path) -> None:
    data_dir.mark_unfinished_restore(made(tmp_path / "a"))
    with pytest.raises(StartupError, match="was interrupted"), in_use(tmp_path / "a", accept_copy=True):
        pytest.fail("it was used")


def test_a_command_refuses_a_copy_of_one_in_use_and_says_what_to_do(migrated: Path, tmp_path: Path) -> None:
    sentence = refusal(sluice("migrate", "--data", copied_in_use(migrated, tmp_path / "b")), 1)
    assert sentence.startswith(f"The data directory {tmp_path}/b is a copy of a directory that was in use, so ")
    assert "`sluice up --accept-copy`" in sentence
    assert sluice("migrate", "--data", migrated).returncode == 0


@pytest.mark.long
def test_a_service_refuses_a_copy_of_one_that_runs_until_it_is_accepted(start: Start, tmp_path: Path) -> None:
    up = start()
    copy = tmp_path / "copy"
    shutil.copytree(up.data, copy, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
    sentence = refusal(sluice("up", "--data", copy, "--port", "0"), 1)
    assert sentence.startswith(f"The data directory {copy} is a copy of a directory that was in use, so ")
    assert "is a copy of a directory that was in use" in refusal(sluice("migrate", "--data", copy), 1)
    assert up.stop(signal.SIGKILL) == -signal.SIGKILL
    up.data.rename(tmp_path / "moved")
    assert start(data=tmp_path / "moved").stop() == 0
    accepted = start("up", "--accept-copy", data=copy)
    assert accepted.get("/readyz")[0] == 200
    assert accepted.stop() == 0
    assert start(data=copy).get("/readyz")[0] == 200
