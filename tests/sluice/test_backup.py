"""`sluice backup` and `sluice restore`, as an operator runs them."""

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chassis.errors import StartupError
from sluice import data_dir
from sluice.backup import restore
from sluice.backup.manifest import (
    CHECKSUM,
    KEY_FILES,
    MANIFEST,
    LinkEntry,
    NotABackup,
    Progress,
    read_manifest,
    write_manifest,
)
from sluice.backup.restore import Damaged, RestoreFailed
from tests.sluice.conftest import Start, Up, clean_environment, refusal, sluice


def backed_up(data: Path, target: Path, *options: str) -> dict[str, Any]:
    done = sluice("backup", "--to", target, "--json", "--data", data, *options)
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def restored(backup: Path | str, data: Path) -> None:
    done = sluice("restore", "--from", backup, "--to", data)
    assert (done.returncode, done.stderr) == (0, "")


def spans_of(up: Up) -> list[Any]:
    status, spans = up.get("/orgs/default/projects/default/explore/spans", up.credentials()["accessToken"])
    assert status == 200
    found: list[Any] = spans["data"]
    return found


def metric(up: Up, name: str) -> float:
    with urllib.request.urlopen(f"{up.url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat(follow_symlinks=False).st_mode)


@pytest.fixture(scope="session")
def made_once(migrated_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a migrated directory, to copy."""
    target = tmp_path_factory.mktemp("backups")
    return Path(backed_up(migrated_data, target)["directory"])


@pytest.fixture
def backup(made_once: Path, tmp_path: Path) -> Path:
    """One of the test's own."""
    return Path(shutil.copytree(made_once, tmp_path / "backups" / made_once.name))


def test_a_backup_of_a_running_service_is_restored_and_reads_the_same(
    start: Start, tmp_path: Path, migrated: Path
) -> None:
    up, target = start(), tmp_path / "backups"
    assert sluice("send", "--data", up.data).returncode == 0
    spans = spans_of(up)
    assert metric(up, "sluice_backup_last_success_timestamp_seconds") == 0
    done = sluice("backup", "--to", target, "--data", up.data)
    assert (done.returncode, done.stderr) == (0, "")
    (made,) = [path for path in target.iterdir() if path.is_dir()]
    manifest = read_manifest(made)
    assert f"Backup   {made}\n" in done.stdout
    assert f"Moment   {manifest.moment}: " in done.stdout
    assert f"{manifest.nbytes:,} bytes in {len(manifest.files):,} files\n" in done.stdout
    assert f"waited for {manifest.held_s * 1000:.0f} ms\n" in done.stdout

    modes = {(path.is_dir(), mode(path)) for path in made.rglob("*")}
    assert (modes, mode(made), mode(target)) == ({(True, 0o700), (False, 0o600)}, 0o700, 0o700)
    on_disk = {str(path.relative_to(made)) for path in made.rglob("*") if not path.is_dir()}
    assert on_disk == {entry.path for entry in manifest.files} | {MANIFEST, CHECKSUM}
    assert set(KEY_FILES) <= on_disk
    assert not any(name.endswith(("lock", ".sock", ".tmp", "state.json")) for name in on_disk)

    record = json.loads((up.data / "backup.json").read_text())
    assert metric(up, "sluice_backup_last_success_timestamp_seconds") == pytest.approx(record["completed_s"], abs=0.01)
    assert metric(up, "sluice_backup_insert_hold_seconds") == pytest.approx(record["held_s"], abs=1e-6)
    assert metric(up, "sluice_backup_failures_total") == 0
    assert f"last one: {manifest.moment}" in sluice("doctor", "--data", up.data).stdout
    assert (mode(up.data / "backup.json"), mode(up.data / "backup.sock")) == (0o600, 0o600)

    assert up.stop() == 0
    assert not (up.data / "backup.sock").exists()
    restored(target, tmp_path / "other")
    again = start(data=tmp_path / "other")
    assert metric(again, "sluice_backup_last_success_timestamp_seconds") == pytest.approx(
        manifest.moment_ns / 10**9, abs=0.01
    )
    assert again.credentials() == up.credentials()
    assert spans_of(again) == spans
    assert sluice("send", "--data", again.data).returncode == 0
    assert len(spans_of(again)) == 6


@pytest.mark.long
def test_a_backup_of_a_killed_service_needs_none(start: Start, tmp_path: Path) -> None:
    up = start()
    assert sluice("send", "--data", up.data).returncode == 0
    assert up.stop(signal.SIGKILL) == -signal.SIGKILL
    first = backed_up(up.data, tmp_path / "backups")
    assert not list(up.data.glob("clickhouse/shadow/sluice*"))
    assert not list(up.data.glob("**/backup.tmp"))
    restored(first["directory"], tmp_path / "other")
    assert len(spans_of(start(data=tmp_path / "other"))) == 3
    again = start()  # the one that was copied is as it was, and knows of it
    assert len(spans_of(again)) == 3
    assert metric(again, "sluice_backup_last_success_timestamp_seconds") == pytest.approx(
        first["completed_s"], abs=0.01
    )


def test_the_next_backup_links_what_is_as_it_was_and_stands_alone(migrated: Path, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    (migrated / "journal").mkdir(exist_ok=True)
    (migrated / "journal" / "id").write_text("0123456789abcdef\n")
    one = backed_up(migrated, target)
    first = Path(one["directory"])
    (target / ".partial-20261123T000000.000000Z").mkdir()  # of one that was killed
    spoiled = next(entry.path for entry in read_manifest(first).files if entry.path.endswith("checksums.txt"))
    (first / spoiled).write_bytes(b"short")
    another = backed_up(migrated, target)
    second = Path(another["directory"])
    assert (one["linked_files"], one["copied_bytes"]) == (0, one["bytes"])
    shared = {
        entry.path
        for entry in read_manifest(second).files
        if (first / entry.path).exists() and (first / entry.path).samefile(second / entry.path)
    }
    assert len(shared) == another["linked_files"]
    # Of parts that no merge has replaced meanwhile.
    parts = {one.path for one in read_manifest(second).files if "/all_" in one.path and (first / one.path).exists()}
    assert len(parts) > 5
    assert parts - shared == {spoiled}
    assert sorted(path.name for path in target.iterdir()) == [first.name, second.name, "lock"]
    with pytest.raises(Damaged, match=spoiled):
        restore.verify(first)
    shutil.rmtree(first)
    assert restore.verify(target).directory == second
    restored(target, tmp_path / "other")
    assert "nothing to do" in sluice("migrate", "--data", tmp_path / "other").stdout
    assert (tmp_path / "other" / "journal" / "id").read_text() == "0123456789abcdef\n"


WITH_A_START = """
import shutil, sys
from pathlib import Path
from sluice import data_dir, main
from sluice.cli import backup

copy_snapshot, (data, target, removed) = backup.copy_snapshot, sys.argv[1:]

def copy(*arguments):
    with data_dir.locked(Path(data), exclusive=True), data_dir.in_use(Path(data)):
        for links in removed.split():
            shutil.rmtree(Path(data, links))
    return copy_snapshot(*arguments)

backup.copy_snapshot = copy
sys.exit(main.main(["backup", "--to", target, "--data", data]))
"""


@pytest.mark.parametrize("removed", ["", "clickhouse/shadow/sluice_backup journal/backup.tmp backup.tmp"])
def test_a_service_may_start_while_a_stopped_one_is_copied(migrated: Path, tmp_path: Path, removed: str) -> None:
    """It does not wait for the copy, and removes the links: there is a backup with all of them, or none."""
    target = tmp_path / "backups"
    code = [sys.executable, "-c", WITH_A_START, str(migrated), str(target), removed]
    done = subprocess.run(code, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == (1 if removed else 0), done.stderr
    assert not list(migrated.rglob("backup.tmp"))
    assert not list(migrated.glob("clickhouse/shadow/sluice*"))
    if removed:
        assert "a service was started in the data directory" in done.stderr
        assert [path.name for path in target.iterdir()] == ["lock"]
    else:
        assert restore.verify(target).manifest.files


def test_without_keys_it_has_no_secret_and_says_so(start: Start, migrated: Path, tmp_path: Path) -> None:
    for name in KEY_FILES:
        (migrated / name).write_text("secret")
    with_keys, without = backed_up(migrated, tmp_path / "a"), backed_up(migrated, tmp_path / "b", "--without-keys")
    for record, expected in ((with_keys, set(KEY_FILES)), (without, set())):
        assert {name for name in KEY_FILES if (Path(record["directory"]) / name).exists()} == expected
    done = sluice("restore", "--from", tmp_path / "b", "--to", tmp_path / "other")
    assert "put sealing.keys, signing.key and cursor.key into the data directory" in done.stdout


def test_progress_is_for_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Progress("Copied")(3, 3)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress("Copied")
    for done in range(1, 4):
        progress(done, 3)
    assert capsys.readouterr().err == "\rCopied 1 of 3 files\rCopied 3 of 3 files\n"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda backup: (backup / CHECKSUM).unlink(), "is not a complete backup: it has no manifest.sha256."),
        (lambda backup: (backup / MANIFEST).unlink(), "is not a complete backup: it has no manifest.json."),
        (lambda backup: flip(backup / MANIFEST), "is damaged: its checksum differs."),
        (lambda backup: flip(backup / "sluice.db"), "sluice.db differs from the manifest."),
        (lambda backup: (backup / "sluice.db").write_bytes(b""), "sluice.db differs from the manifest."),
        (lambda backup: (backup / "sluice.db").unlink(), "sluice.db is missing."),
    ],
)
def test_a_damaged_backup_restores_nothing(
    backup: Path, tmp_path: Path, damage: Callable[[Path], object], sentence: str
) -> None:
    damage(backup)
    with pytest.raises((NotABackup, Damaged)) as refused:
        restore.restore(backup.parent, tmp_path / "other")
    assert sentence in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backups"]


def test_a_manifest_names_no_files_elsewhere_and_no_schema_of_another_release(backup: Path, tmp_path: Path) -> None:
    manifest = read_manifest(backup)
    first = manifest.files[0]

    def refused(**changes: Any) -> str:
        for name in (MANIFEST, CHECKSUM):
            (backup / name).unlink()
        write_manifest(backup, msgspec.structs.replace(manifest, **changes))
        with pytest.raises((NotABackup, RestoreFailed)) as error:
            restore.restore(backup, tmp_path / "other")
        return str(error.value)

    for path in ("../outside", "/etc/passwd", "a/../../b", "", ".", "a//b", "a\0b"):
        assert "has invalid paths" in refused(files=[msgspec.structs.replace(first, path=path)])
    assert "has invalid paths" in refused(files=[first, first])
    for target in ("../../../outside", "/etc"):
        assert "has invalid paths" in refused(links=[LinkEntry("clickhouse/metadata/x", target)])
    through = [LinkEntry("d/one", "../e"), LinkEntry("two", "d/one/../../outside")]  # another link: leads out of it
    assert "has invalid paths" in refused(links=through)
    assert "has invalid entries" in refused(files=[msgspec.structs.replace(first, sha256="0")])
    assert "is not valid" in refused(moment_ns="soon")
    assert "has the format 2, written by 9.0" in refused(format=2, release="9.0")
    assert "made by release 9.0, whose schemas" in refused(clickhouse_schema=9999, release="9.0")
    assert "made by release 9.0, whose schemas" in refused(database_revision="9999", release="9.0")
    assert "with the schemas 5 and 0022. Restore the backup with the last of these" in refused(
        clickhouse_schema=5, database_revision="0022"
    )
    assert "with the schemas 6 and 0021. Restore the backup with the last of these" in refused(
        clickhouse_schema=6, database_revision="0021"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backups"]


def test_a_link_in_a_backup_is_not_followed(backup: Path, tmp_path: Path) -> None:
    """Whoever may write there must not have files of others restored."""
    (backup / "sluice.db").rename(tmp_path / "elsewhere")
    (backup / "sluice.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RestoreFailed):
        restore.restore(backup, tmp_path / "other")
    (backup / "clickhouse").rename(tmp_path / "tables")
    (backup / "clickhouse").symlink_to(tmp_path / "tables")
    with pytest.raises(NotABackup, match="clickhouse is a symbolic link"):
        restore.restore(backup, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_restore_needs_an_empty_directory(backup: Path, migrated: Path, tmp_path: Path) -> None:
    before = sorted(migrated.rglob("*"))
    assert "is not empty" in refusal(sluice("restore", "--from", backup, "--data", migrated), 2)
    assert sorted(migrated.rglob("*")) == before
    (tmp_path / "empty").mkdir()
    restore.restore(backup, tmp_path / "empty")
    with pytest.raises(RestoreFailed, match="is not empty"):
        restore.restore(backup, tmp_path / "empty")
    with pytest.raises(NotABackup, match="There is no backup at"):
        restore.restore(tmp_path / "nowhere", tmp_path / "x")
    with pytest.raises(NotABackup, match="is not a complete backup"):
        restore.restore(tmp_path, tmp_path / "x")


def test_a_link_to_a_directory_is_followed(backup: Path, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    for name in ("volume", "later"):
        (tmp_path / f"to-{name}").symlink_to(tmp_path / name)
        restore.restore(backup, tmp_path / f"to-{name}")
        assert (tmp_path / f"to-{name}").is_symlink()
        assert (tmp_path / name / "sluice.db").is_file()


def test_nothing_is_restored_into_a_backup(backup: Path) -> None:
    done = sluice("restore", "--from", backup, "--to", backup / "data")
    assert "is inside the backup" in refusal(done, 2)
    assert not (backup / "data").exists()


def test_where_the_directory_cannot_be_replaced_it_is_filled(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount point; until all is there a start is refused."""
    monkeypatch.setattr(restore, "_is_replaceable", lambda _target: False)
    target, half = tmp_path / "mounted", tmp_path / "half"
    (target / "lost+found").mkdir(parents=True)
    restore.restore(backup, target)
    data_dir.check(target)
    assert {path.name for path in target.iterdir()} >= {"lost+found", "clickhouse", "sluice.db"}
    half.mkdir()
    monkeypatch.setattr("sluice.data_dir.mark_stopped", lambda _directory: None)  # killed before its last step
    restore.restore(backup, half)
    assert "was interrupted" in refusal(sluice("migrate", "--data", half), 1)


def test_where_a_restore_into_a_mount_point_is_running_or_was_killed_nothing_starts(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would begin an empty installation."""
    monkeypatch.setattr(restore, "_is_replaceable", lambda _target: False)
    monkeypatch.setattr(restore, "remove_tree", lambda _staging: None)  # killed
    target = tmp_path / "mounted"
    target.mkdir()

    def full(*_arguments: object) -> None:
        with pytest.raises(StartupError, match="is running or was interrupted"):
            data_dir.check(target)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(restore, "_copy", full)
        with pytest.raises(RestoreFailed, match="No space left"):
            restore.restore(backup, target)
        assert "was interrupted" in refusal(sluice("migrate", "--data", target), 1)
        with pytest.raises(RestoreFailed, match=r"remove its contents \(\.restore-\w+, lock, state.json\)"):
            restore.restore(backup, target)
        shutil.rmtree(target)
        target.mkdir()
        patch.setattr(restore, "remove_tree", shutil.rmtree)
        with pytest.raises(RestoreFailed, match="No space left"):
            restore.restore(backup, target)
    assert list(target.iterdir()) == []  # as it was
    restore.restore(backup, target)
    data_dir.check(target)


def test_what_cannot_be_backed_up_is_one_sentence(migrated: Path, tmp_path: Path) -> None:
    def refused(data: Path, code: int, target: Path, **settings: str) -> str:
        return refusal(sluice("backup", "--to", target, "--data", data, **settings), code)

    target = tmp_path / "backups"
    server = {"SLUICE_CLICKHOUSE_URL": "http://127.0.0.1:1"}
    assert "the settings name a ClickHouse server" in refused(migrated, 2, target, **server)
    server = {"SLUICE_DATABASE_URL": "postgresql://127.0.0.1:1/x"}
    assert "the settings name a PostgreSQL server" in refused(migrated, 2, target, **server)
    assert "is inside" in refused(migrated, 2, migrated / "backups")
    assert "There is nothing to back up" in refused(tmp_path / "nowhere", 1, target)
    assert not (tmp_path / "nowhere").exists()
    with data_dir.locked(migrated, exclusive=True):
        assert "takes no backups: the process is starting or stopping" in refused(migrated, 1, target)
