"""The sub-commands that do one thing and end: migrate, init, config, doctor, send."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chassis.clickhouse.migrations import migrations
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import describe
from control.settings import ControlSettings
from gateway.journal.storage.files import Files
from gateway.journal.storage.quarantine import CorruptionStore
from gateway.journal.storage.segments import segment_name
from gateway.settings import GatewaySettings
from query.settings import QuerySettings
from sluice.cli.config import settings_classes
from sluice.cli.doctor import run_checks
from sluice.main import main
from sluice.settings_sources import SettingsSources
from tests.databases import REVISIONS

from .conftest import DEADLINE_S, ROOT, Start, clean_environment, command, refusal, secrets_of, sluice


def test_migrate_is_idempotent_on_both_schemas(tmp_path: Path) -> None:
    first = sluice("migrate", "--data", tmp_path / "data")
    assert (first.returncode, first.stderr) == (0, "")
    tables = ", ".join(migration.name for migration in migrations())
    assert first.stdout == f"relational: applied {', '.join(REVISIONS)}\nClickHouse: applied {tables}\n"
    second = sluice("migrate", "--data", tmp_path / "data")
    assert (second.returncode, second.stdout) == (0, "relational: nothing to do\nClickHouse: nothing to do\n")


@pytest.mark.parametrize(
    "name", ["a#b%41 dätä", *(pytest.param(name, marks=pytest.mark.long) for name in ("a#b", "a%41b", "a b", "dätä"))]
)
def test_migrate_keeps_to_a_data_directory_of_any_name(tmp_path: Path, name: str) -> None:
    done = sluice("migrate", "--data", tmp_path / name)
    assert (done.returncode, done.stderr) == (0, "")
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert {"clickhouse", "sluice.db"} <= {entry.name for entry in (tmp_path / name).iterdir()}
    assert (tmp_path / name / "clickhouse" / "store").is_dir()


def test_a_data_directory_that_the_embedded_engine_would_cut_short_is_refused(tmp_path: Path) -> None:
    sentence = refusal(sluice("migrate", "--data", tmp_path / "a?b"), 2)
    assert sentence.startswith("SLUICE_DATA, or the directory of SLUICE_CLICKHOUSE_URL, must not contain '?'")
    assert list(tmp_path.iterdir()) == []


def test_up_after_migrate_uses_the_existing_schemas(start: Start) -> None:
    up = start()
    assert up.stop() == 0
    done = sluice("migrate", "--data", up.data)
    assert (done.returncode, done.stdout) == (0, "relational: nothing to do\nClickHouse: nothing to do\n")


def test_init_creates_everything_and_writes_the_secrets_to_a_file(start: Start, migrated: Path) -> None:
    up = start()
    done = sluice("init", "--data", up.data, "--org", "acme", "--project", "shop", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    file = up.data / "init-acme-shop.json"
    made = json.loads(file.read_text(encoding="utf-8"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(shown) == ["baseUrl", "orgSlug", "projectSlug", "projectId", "file"]
    assert {name: shown[name] for name in ("orgSlug", "projectSlug", "projectId")} == {
        name: made[name] for name in ("orgSlug", "projectSlug", "projectId")
    }
    assert shown["file"] == str(file)
    assert [secret for secret in secrets_of(made) if secret in done.stdout] == []
    assert up.get("/orgs/acme/projects/shop/explore/spans", made["accessToken"])[0] == 200
    assert up.get("/orgs/default/projects/default/explore/spans", made["accessToken"])[0] == 404
    assert sluice("send", "--data", up.data, "--file", file).returncode == 0


def test_init_rejects_existing_names_and_invalid_slugs(tmp_path: Path, migrated: Path) -> None:
    assert "sluice migrate" in refusal(sluice("init", "--data", tmp_path / "empty"), 1)
    made = sluice("init", "--data", migrated, "--org", "acme", "--out", tmp_path / "acme.json")
    assert (made.returncode, (tmp_path / "acme.json").exists()) == (0, True)
    assert refusal(sluice("init", "--data", migrated, "--org", "acme"), 1) == "The slug acme is already taken."
    sentence = refusal(sluice("init", "--data", migrated, "--org", "other", "--out", tmp_path / "acme.json"), 1)
    assert sentence.startswith(f"{tmp_path}/acme.json exists")
    assert refusal(sluice("init", "--data", migrated, "--org", "Not A Slug"), 2).startswith(
        "--org must have 1 to 64 lowercase"
    )


def test_an_unwritable_file_creates_no_organization(migrated: Path) -> None:
    assert "cannot be written" in refusal(sluice("init", "--data", migrated, "--out", "/proc/x/credentials.json"), 1)
    assert sluice("init", "--data", migrated).returncode == 0


def test_config_prints_every_setting_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "sluice.toml").write_text('port = 4444\n[query]\ncursor_key = "hunter2"\n', encoding="utf-8")
    done = sluice(
        "config",
        "--json",
        "--data",
        tmp_path / "data",
        SLUICE_CONFIG=str(tmp_path / "sluice.toml"),
        SLUICE_METRICS_TOKEN="hunter2",
        SLUICE_CLICKHOUSE_URL="https://user:hunter2@host:8443/db",
        SLUICE_GATEWAY_MAX_ITEMS="7",
    )
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 0
    assert "hunter2" not in done.stdout
    assert set(rows) == {
        cls.prefix + name.upper()
        for cls in (ChassisSettings, GatewaySettings, QuerySettings, ControlSettings)
        for name in cls.__struct_fields__
    }
    assert rows["SLUICE_DATA"]["value"] == str(tmp_path / "data")
    assert rows["SLUICE_PORT"]["value"] == "4444"
    assert rows["SLUICE_GATEWAY_MAX_ITEMS"]["value"] == "7"
    assert rows["SLUICE_METRICS_TOKEN"]["value"] == "********"
    assert rows["SLUICE_QUERY_CURSOR_KEY"]["value"] == "********"
    assert all(row["doc"] for row in rows.values())
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "action",
    [("signers", "show"), ("signers", "withdraw"), ("journal", "inspect"), ("journal", "requeue"), ("audit", "verify")],
)
def test_every_action_takes_the_common_options_itself(
    action: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*action, "--help"])
    shown = capsys.readouterr().out
    assert "--data DIR" in shown
    assert "--config FILE" in shown


def test_an_empty_data_directory_on_the_command_line_counts_as_unset() -> None:
    unset = sluice("config")
    assert unset.returncode == 0, unset.stderr
    assert sluice("config", "--data", "").stdout == unset.stdout


def test_config_refuses_what_a_start_would_refuse(tmp_path: Path) -> None:
    assert "SLUICE_QUERY_NONSENSE" in refusal(sluice("config", SLUICE_QUERY_NONSENSE="1"), 2)


def test_the_documentation_has_the_settings_as_they_are() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert sluice("config", "--markdown").stdout == page, "sluice config --markdown > docs/settings.md"


def test_every_number_says_its_unit_and_what_zero_means_where_zero_is_allowed() -> None:
    for cls in settings_classes():
        for row in describe(cls()):
            number = row.default.replace(".", "", 1).isdigit()
            assert row.unit or not number or row.name.endswith("_PORT"), row.name
            assert row.zero or row.default not in {"", "0", "0.0"}, row.name


def test_doctor_reports_what_is_missing_before_the_first_start(tmp_path: Path) -> None:
    done = sluice("doctor", "--json", "--data", tmp_path / "data")
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 1
    assert (findings["data"]["ok"], findings["database"]["ok"], findings["clickhouse"]["ok"]) == (False, False, False)
    assert not (tmp_path / "data").exists()


def test_doctor_reports_a_running_sluice_as_ready(start: Start, migrated: Path) -> None:
    up = start()
    done = sluice("doctor", "--json", "--data", up.data)
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert list(findings) == [
        *("sluice", "packages", "decoder", "settings", "data", "database", "erasures", "clickhouse", "redis"),
        *("journal", "backup", "server"),
    ]
    assert findings["erasures"]["detail"] == "open: 0, failed: 0"
    assert findings["journal"]["detail"].startswith(f"{up.data}/journal: writable, journals: 1 (")
    assert findings["redis"]["detail"] == "not configured: each process enforces rate limits separately"
    assert findings["server"]["detail"] == f"{up.url}/readyz returned 200: ready"
    assert f"Python {sys.version.split()[0]}" in findings["sluice"]["detail"]
    assert {name for name, finding in findings.items() if not finding["ok"]} <= {"decoder"}


def test_doctor_opens_the_embedded_store_of_a_stopped_sluice(start: Start, migrated: Path) -> None:
    up = start()
    assert up.stop() == 0
    done = sluice("doctor", "--data", up.data)
    assert f"schema {migrations()[-1].version}" in next(
        line for line in done.stdout.splitlines() if " clickhouse " in line
    )
    assert f"schema {REVISIONS[-1]}" in next(line for line in done.stdout.splitlines() if " database " in line)


def test_doctor_names_a_store_that_does_not_respond(tmp_path: Path) -> None:
    done = sluice("doctor", "--data", tmp_path, SLUICE_CLICKHOUSE_URL="http://127.0.0.1:1")
    line = next(line for line in done.stdout.splitlines() if " clickhouse " in line)
    assert (done.returncode, done.stderr) == (1, "")
    assert line.startswith("BAD")
    assert "http://127.0.0.1:1" in line


@pytest.mark.parametrize(
    ("settings", "ok", "detail"),
    [
        ({}, True, "{data}/journal: writable, not created yet, free: "),
        (
            {"SLUICE_GATEWAY_JOURNAL_DIR": "{data}/elsewhere/j"},
            True,
            "{data}/elsewhere/j: writable, not created yet,",
        ),
        (
            {"SLUICE_GATEWAY_JOURNAL_DIR": "{data}/file/j"},
            False,
            "{data}/file/j: {data}/file is not a writable directory",
        ),
        (
            {"SLUICE_GATEWAY_JOURNAL_MIN_FREE_BYTES": str(2**62)},
            False,
            "MiB free; below 4,398,",
        ),
        ({"SLUICE_DURABILITY": "store"}, True, "not used: the durability is store"),
    ],
    ids=["default", "elsewhere", "no directory", "full", "store"],
)
def test_doctor_reports_whether_the_journal_exists_and_is_writable(
    tmp_path: Path, settings: dict[str, str], ok: bool, detail: str
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    stated = {name: value.format(data=tmp_path) for name, value in settings.items()}
    (found,) = (
        each
        for each in run_checks(SettingsSources({"SLUICE_DATA": str(tmp_path), **stated}, None, {}))
        if each.name == "journal"
    )
    assert (found.ok, detail.format(data=tmp_path) in found.detail) == (ok, True), found
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("uncertain", "detail"),
    [
        (False, "/journal: lost requests: 6 (`sluice journal inspect`); "),
        (True, "/journal: possibly lost requests: 6 (`sluice journal inspect`); "),
    ],
)
def test_doctor_counts_the_requests_that_the_journal_has_lost(tmp_path: Path, uncertain: bool, detail: str) -> None:
    journal = tmp_path / "journal"
    (journal / "0").mkdir(parents=True)
    damaged = CorruptionStore(Files(), journal / "damaged", time.time_ns)
    damaged.note_missing(journal / "0" / segment_name(3), ((3, 7), (9, 9)), is_uncertain=uncertain)
    checks = run_checks(SettingsSources({"SLUICE_DATA": str(tmp_path)}, None, {}))
    (found,) = (each for each in checks if each.name == "journal")
    assert (found.ok, detail in found.detail) == (False, True), found


def test_doctor_reports_invalid_settings_of_every_service(tmp_path: Path) -> None:
    settings = {"SLUICE_GATEWAY_MAX_ITEMS": "many", "SLUICE_QUERY_HANDLES": "many", "SLUICE_CONTROL_SMTP_URL": "none"}
    done = sluice("doctor", "--json", "--data", tmp_path, **settings)
    assert done.returncode == 1
    (found,) = (each for each in json.loads(done.stdout) if each["name"] == "settings")
    assert (found["ok"], [name for name in settings if name not in found["detail"]]) == (False, [])


@pytest.mark.parametrize("arguments", [("config",), ("config", "--json")])
def test_a_command_exits_silently_on_a_broken_pipe(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command(*arguments),
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        timeout=DEADLINE_S,
        env=clean_environment(),
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_send_without_credentials_or_server_is_one_sentence(tmp_path: Path) -> None:
    missing = refusal(sluice("send", "--data", tmp_path), 1)
    assert missing == f"{tmp_path}/bootstrap.json does not exist; `sluice up` writes it at its first start."
    (tmp_path / "bootstrap.json").write_text("{}", encoding="utf-8")
    assert "does not contain valid credentials" in refusal(sluice("send", "--data", tmp_path), 1)
    keys = ("orgSlug", "projectSlug", "projectId", "legacyKey", "dsn", "accessToken")
    known = {"baseUrl": "http://127.0.0.1:1", **dict.fromkeys(keys, "x")}
    (tmp_path / "bootstrap.json").write_text(json.dumps(known), encoding="utf-8")
    assert refusal(sluice("send", "--data", tmp_path), 1).startswith("No response from http://127.0.0.1:1 (")
    assert (
        refusal(sluice("send", "--data", tmp_path, "--url", "file:///etc"), 2) == "file:///etc is not an http(s) URL."
    )


def test_send_with_a_wrong_key_or_token_reports_the_rejection(start: Start, tmp_path: Path, migrated: Path) -> None:
    up = start()
    made = up.credentials()
    for name, value in (("legacyKey", "0" * 32), ("accessToken", "pat_wrong")):
        file = tmp_path / "wrong.json"
        file.write_text(json.dumps({**made, name: value}), encoding="utf-8")
        sentence = refusal(sluice("send", "--data", up.data, "--file", file), 1)
        assert "401" in sentence
        assert value not in sentence


@pytest.mark.parametrize(
    "arguments",
    [(), ("nonsense",), ("up", "--port", "http"), ("up", "--workers", "0"), ("config", "--json", "--markdown")],
)
def test_a_wrong_command_line_is_usage_and_2(arguments: tuple[str, ...]) -> None:
    done = sluice(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: sluice")


def test_help_names_every_sub_command() -> None:
    shown = sluice("--help").stdout
    services, at_the_machine = ("up", "gateway", "query", "control"), ("limits", "password", "owner", "signers")
    for name in (*services, *at_the_machine, "migrate", "init", "config", "doctor", "send"):
        assert f"\n    {name} " in shown
