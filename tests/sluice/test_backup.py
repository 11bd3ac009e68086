"""`sluice backup` and `sluice restore`, as an operator runs them."""

import json
import shutil
import signal
import socket
import stat
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.backup import protocol, restore
from sluice.backup.manifest import CHECKSUM, MANIFEST, read_manifest, write_manifest
from sluice.backup.snapshot import KEY_FILES
from tests.sluice.conftest import Start, Up, refusal, sluice, wait_until


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


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat(follow_symlinks=False).st_mode)


def test_a_backup_of_a_running_service_is_restored_and_reads_the_same(start: Start, tmp_path: Path) -> None:
    up = start()
    assert sluice("send", "--data", up.data).returncode == 0
    spans = spans_of(up)
    done = sluice("backup", "--to", tmp_path / "backups", "--data", up.data)
    assert (done.returncode, done.stderr) == (0, "")
    (backup,) = [path for path in (tmp_path / "backups").iterdir() if path.is_dir()]
    manifest = read_manifest(backup)
    assert f"Backup   {backup}\n" in done.stdout
    assert f"Moment   {manifest.moment}: " in done.stdout
    assert f"{manifest.nbytes:,} bytes in {len(manifest.files):,} files\n" in done.stdout

    modes = {(path.is_dir(), mode(path)) for path in backup.rglob("*")}
    assert (modes, mode(backup)) == ({(True, 0o700), (False, 0o600)}, 0o700)
    on_disk = {str(path.relative_to(backup)) for path in backup.rglob("*") if not path.is_dir()}
    assert on_disk == {entry.path for entry in manifest.files} | {MANIFEST, CHECKSUM}
    assert set(KEY_FILES) <= on_disk
    assert not any(name.endswith(("lock", ".sock", ".tmp")) for name in on_disk)

    assert up.stop() == 0
    restored(tmp_path / "backups", tmp_path / "other")
    again = start(data=tmp_path / "other")
    assert again.credentials() == up.credentials()
    assert spans_of(again) == spans
    assert sluice("send", "--data", again.data).returncode == 0
    assert len(spans_of(again)) == 6


def test_a_backup_of_a_stopped_directory_needs_no_service(start: Start, tmp_path: Path) -> None:
    up = start()
    assert sluice("send", "--data", up.data).returncode == 0
    assert up.stop(signal.SIGKILL) == -signal.SIGKILL
    record = backed_up(up.data, tmp_path / "backups")
    assert not list(up.data.glob("clickhouse/shadow/sluice*"))
    assert not list(up.data.glob("**/backup.tmp"))
    restored(record["directory"], tmp_path / "other")
    assert len(spans_of(start(data=tmp_path / "other"))) == 3
    assert len(spans_of(start())) == 3  # the one that was copied is as it was


def test_the_next_backup_links_what_it_has_in_common_and_stands_alone(start: Start, tmp_path: Path) -> None:
    up = start()
    assert sluice("send", "--data", up.data).returncode == 0
    assert up.stop() == 0
    first = backed_up(up.data, tmp_path / "backups")
    second = backed_up(up.data, tmp_path / "backups")
    assert (first["linked_files"], first["copied_bytes"]) == (0, first["bytes"])
    assert second["copied_bytes"] < first["copied_bytes"] / 2
    shared = [
        entry.path
        for entry in read_manifest(Path(second["directory"])).files
        if (Path(first["directory"]) / entry.path).exists()
        and (Path(first["directory"]) / entry.path).samefile(Path(second["directory"]) / entry.path)
    ]
    assert len(shared) == second["linked_files"] > 50
    shutil.rmtree(first["directory"])
    restored(second["directory"], tmp_path / "other")
    assert len(spans_of(start(data=tmp_path / "other"))) == 3


def test_a_file_of_the_last_backup_that_is_not_as_it_was_is_copied_again(migrated: Path, tmp_path: Path) -> None:
    first = Path(backed_up(migrated, tmp_path / "backups")["directory"])
    linked = next(entry for entry in read_manifest(first).files if entry.path.endswith("checksums.txt"))
    (first / linked.path).write_bytes(b"short")
    second = Path(backed_up(migrated, tmp_path / "backups")["directory"])
    assert not (first / linked.path).samefile(second / linked.path)
    assert sluice("restore", "--check", "--from", second).returncode == 0
    assert linked.path in refusal(sluice("restore", "--check", "--from", first), 1)


def test_metrics_doctor_and_the_data_directory_know_the_last_backup(start: Start, tmp_path: Path) -> None:
    up = start()

    def metric(name: str) -> float:
        text = urlopen_text(up, "/metrics")
        return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1])

    assert metric("sluice_backup_last_success_timestamp_seconds") == 0
    assert "none was made" in sluice("doctor", "--data", up.data).stdout
    record = backed_up(up.data, tmp_path / "backups")
    assert metric("sluice_backup_last_success_timestamp_seconds") == pytest.approx(record["completed_s"], abs=0.01)
    assert metric("sluice_backup_insert_hold_seconds") == pytest.approx(record["held_s"], abs=1e-6)
    assert metric("sluice_backup_failures_total") == 0
    assert f"last one: {record['moment']}" in sluice("doctor", "--data", up.data).stdout
    assert mode(up.data / "backup.json") == 0o600
    assert up.stop() == 0
    up = start(data=up.data)
    assert metric("sluice_backup_last_success_timestamp_seconds") == pytest.approx(record["completed_s"], abs=0.01)


def urlopen_text(up: Up, path: str) -> str:
    with urllib.request.urlopen(up.url + path, timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def test_without_keys_it_has_no_secret_and_says_so(start: Start, tmp_path: Path) -> None:
    up = start()
    record = backed_up(up.data, tmp_path / "backups", "--without-keys")
    assert not any((Path(record["directory"]) / name).exists() for name in KEY_FILES)
    done = sluice("restore", "--from", tmp_path / "backups", "--to", tmp_path / "other")
    assert "put sealing.keys, signing.key and cursor.key into the data directory" in done.stdout


Damage = Callable[[Path], object]


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
        (lambda backup: flip(backup / "sluice.db"), "sluice.db is not as its manifest says."),
        (lambda backup: (backup / "sluice.db").write_bytes(b""), "sluice.db is not as its manifest says."),
        (lambda backup: (backup / "sluice.db").unlink(), "sluice.db is missing."),
    ],
)
def test_a_damaged_backup_restores_nothing(migrated: Path, tmp_path: Path, damage: Damage, sentence: str) -> None:
    backup = Path(backed_up(migrated, tmp_path / "backups")["directory"])
    damage(backup)
    assert sentence in refusal(sluice("restore", "--from", backup, "--to", tmp_path / "other"), 1)
    assert not (tmp_path / "other").exists()
    assert list(tmp_path.glob(".restore-*")) == []


def test_a_manifest_cannot_name_files_elsewhere_nor_another_release_s_schema(migrated: Path, tmp_path: Path) -> None:
    backup = Path(backed_up(migrated, tmp_path / "backups")["directory"])
    manifest = read_manifest(backup)

    def rewritten(**changes: Any) -> str:
        for name in (MANIFEST, CHECKSUM):
            (backup / name).unlink()
        write_manifest(backup, msgspec.structs.replace(manifest, **changes))
        return refusal(sluice("restore", "--from", backup, "--to", tmp_path / "other"), 1)

    first = manifest.files[0]
    for path in ("../outside", "/etc/passwd", "a/../../b", "", "a//b"):
        assert "has invalid paths" in rewritten(files=[msgspec.structs.replace(first, path=path)])
    assert "has invalid paths" in rewritten(files=[first, first])
    assert "has invalid paths" in rewritten(links=[{"path": "clickhouse/metadata/x", "target": "../../../outside"}])
    assert "has the format 2, written by 9.0" in rewritten(format=2, release="9.0")
    assert "made by release 9.0, whose schemas" in rewritten(clickhouse_schema=9999, release="9.0")
    assert "made by release 9.0, whose schemas" in rewritten(database_revision="9999", release="9.0")
    assert not (tmp_path / "other").exists()


def test_a_restore_needs_an_empty_directory(migrated: Path, tmp_path: Path) -> None:
    backup = backed_up(migrated, tmp_path / "backups")["directory"]
    before = sorted(migrated.rglob("*"))
    assert "is not empty" in refusal(sluice("restore", "--from", backup, "--data", migrated), 2)
    assert sorted(migrated.rglob("*")) == before
    (tmp_path / "empty").mkdir()
    restored(backup, tmp_path / "empty")
    assert "is not empty" in refusal(sluice("restore", "--from", backup, "--to", tmp_path / "empty"), 2)
    assert "There is no backup at" in refusal(
        sluice("restore", "--from", tmp_path / "nowhere", "--to", tmp_path / "x"), 1
    )
    assert "is not a complete backup" in refusal(sluice("restore", "--from", tmp_path, "--to", tmp_path / "x"), 1)


def test_where_the_directory_cannot_be_replaced_it_is_filled(
    migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount point; until all is there a start is refused."""
    backup = Path(backed_up(migrated, tmp_path / "backups")["directory"])
    monkeypatch.setattr(restore, "_is_replaceable", lambda _target: False)
    target = tmp_path / "mounted"
    (target / "lost+found").mkdir(parents=True)
    restore.restore(backup, target)
    assert sluice("migrate", "--data", target).returncode == 0

    half = tmp_path / "half"
    half.mkdir()
    monkeypatch.setattr("sluice.data_marker.mark_stopped", lambda _directory: None)  # killed before its last step
    restore.restore(backup, half)
    assert "was interrupted" in refusal(sluice("migrate", "--data", half), 1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"SLUICE_CLICKHOUSE_URL": "http://127.0.0.1:1"}, "the settings name a ClickHouse server"),
        ({"SLUICE_DATABASE_URL": "postgresql://127.0.0.1:1/x"}, "the settings name a PostgreSQL server"),
    ],
)
def test_servers_have_a_procedure_of_their_own(tmp_path: Path, settings: dict[str, str], sentence: str) -> None:
    done = sluice("backup", "--to", tmp_path / "backups", "--data", tmp_path / "data", **settings)
    assert sentence in refusal(done, 2)


def test_a_target_inside_the_data_directory_is_refused(migrated: Path) -> None:
    assert "is inside" in refusal(sluice("backup", "--to", migrated / "backups", "--data", migrated), 2)


def test_nothing_to_back_up_is_one_sentence(tmp_path: Path) -> None:
    done = sluice("backup", "--to", tmp_path / "backups", "--data", tmp_path / "data")
    assert "There is nothing to back up" in refusal(done, 1)
    assert not (tmp_path / "data").exists()


def test_one_backup_at_a_time(start: Start, tmp_path: Path) -> None:
    up = start()
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(str(up.data / "backup.sock"))
        first.settimeout(30)
        first.sendall(protocol.encode(protocol.Begin("elsewhere")))
        lines = first.makefile("rb")
        assert isinstance(protocol.decode_reply(lines.readline()), protocol.Taken)
        assert (up.data / "backup.tmp" / "sluice.db").exists()
        assert "Another backup is in progress" in refusal(
            sluice("backup", "--to", tmp_path / "backups", "--data", up.data), 1
        )
        lines.close()
    wait_until(lambda: not (up.data / "backup.tmp").exists())
    backed_up(up.data, tmp_path / "backups")


@pytest.mark.parametrize("sent", [b"", b"\n", b"nonsense\n", b'{"type":"Alive"}\n', b"x" * 2**25])
def test_what_is_no_request_ends_the_connection_alone(start: Start, tmp_path: Path, sent: bytes) -> None:
    up = start()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(up.data / "backup.sock"))
        stranger.settimeout(30)
        try:
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has not read everything
    assert mode(up.data / "backup.sock") == 0o600
    backed_up(up.data, tmp_path / "backups")
    assert up.stop() == 0
    assert not (up.data / "backup.sock").exists()


def test_a_process_that_takes_no_backups_is_named(start: Start, tmp_path: Path) -> None:
    up = start()
    (up.data / "backup.sock").unlink()
    done = sluice("backup", "--to", tmp_path / "backups", "--data", up.data)
    assert "is in use by a process that takes no backups" in refusal(done, 1)
