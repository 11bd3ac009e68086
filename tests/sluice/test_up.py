"""`sluice up`, from an empty directory to a trace that can be read."""

import json
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sluice import __version__

from .conftest import (
    DEADLINE_S,
    ROOT,
    Start,
    clean_environment,
    command,
    refusal,
    secrets_of,
    sluice,
)

KEYS = ["baseUrl", "orgSlug", "projectSlug", "projectId", "legacyKey", "dsn", "accessToken"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_first_start_ends_with_something_to_use_and_send_shows_it(start: Start) -> None:
    up = start()
    made = up.credentials()
    assert list(made) == KEYS
    assert made["baseUrl"] == up.url
    assert made["dsn"] == f"http://{made['legacyKey']}@{up.url.removeprefix('http://')}/{made['projectId']}"
    assert (mode(up.data), mode(up.data / "bootstrap.json")) == (0o700, 0o600)

    sent = sluice("send", "--data", up.data)
    assert (sent.returncode, sent.stderr) == (0, "")
    path = r"(/orgs/default/projects/default/explore/traces/\w{32}/waterfall)"
    address = re.search(f"^{re.escape(up.url)}{path}$", sent.stdout, re.MULTILINE)
    assert address is not None
    status, waterfall = up.get(address[1], made["accessToken"])
    assert status == 200
    assert [(row["name"], row["depth"], row["statusCode"]) for row in waterfall["rows"]] == [
        ("POST /orders", 0, "ERROR"),
        ("SELECT carts", 1, "UNSET"),
        ("POST /charges", 1, "ERROR"),
    ]
    explore = address[1].partition("/traces/")[0]
    status, spans = up.get(f"{explore}/spans?traceId={waterfall['traceId']}", made["accessToken"])
    assert (status, len(spans["data"])) == (200, 3)
    status, logs = up.get(address[1].replace("waterfall", "logs"), made["accessToken"])
    assert (status, [log["body"] for log in logs["data"]]) == (200, ["charging the card failed"])

    assert up.stop() == 0
    shown = "".join(up.said) + up.log.read_text(encoding="utf-8") + sent.stdout
    assert [secret for secret in secrets_of(made) if secret in shown] == []


def test_the_first_line_waits_for_no_library(tmp_path: Path) -> None:
    """In a process of its own, in which importing one of them is the end."""
    for name in ("aiohttp", "alembic", "chdb", "clickhouse_connect", "prometheus_client", "sqlalchemy", "structlog"):
        (tmp_path / f"{name}.py").write_text("import os\nos._exit(7)\n", encoding="utf-8")
    done = subprocess.run(
        command("up", "--data", tmp_path / "data", "--port", "0"),
        env=clean_environment(PYTHONPATH=f"{tmp_path}:{ROOT}"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    said = f"Sluice {__version__} is starting, with its data in {tmp_path}/data.\n  Loading libraries ...\n"
    assert (done.returncode, done.stdout, done.stderr) == (7, said, "")


def test_each_step_of_a_start_is_said_when_it_begins(start: Start) -> None:
    first = start()
    assert first.said[:-1] == [
        f"Sluice {__version__} is starting, with its data in {first.data}.\n",
        "  Loading libraries ...\n",
        "  Opening the database ...\n",
        "  Applying 1 migration to the database ...\n",
        "  Loading services ...\n",
        "  Opening the embedded ClickHouse ...\n",
        "  Applying 1 migration to ClickHouse ...\n",
    ]
    assert first.said[-1].startswith(f"Sluice listens on {first.url}")
    expected = [line for line in first.said[:-1] if "Applying" not in line]
    assert first.stop() == 0
    later = start()
    assert later.said[:-1] == expected


def test_the_example_it_prints_sends_a_trace_and_opens_it(start: Start, migrated: Path) -> None:
    up = start()
    lines = []
    if up.process.stdout is None:
        raise RuntimeError("standard output is piped")
    while "Any OpenTelemetry SDK" not in (line := up.process.stdout.readline()):
        assert line, "it ended"
        lines.append(line)
    script = "".join(line for line in lines[lines.index("The same with curl alone:\n") + 1 :])
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env=clean_environment(),
    )
    assert (done.returncode, done.stderr) == (0, "")
    accepted, opened = done.stdout.strip().split("\n")
    assert accepted == "{}"
    assert [row["name"] for row in json.loads(opened)["rows"]] == ["first span"]


def test_a_later_start_leaves_the_credentials_alone_and_keeps_the_data(start: Start) -> None:
    up = start()
    before = (up.data / "bootstrap.json").read_bytes()
    assert sluice("send", "--data", up.data).returncode == 0
    assert up.stop() == 0
    again = start()
    assert (again.data / "bootstrap.json").read_bytes() == before
    made = again.credentials()
    status, spans = again.get("/orgs/default/projects/default/explore/spans", made["accessToken"])
    assert (status, len(spans["data"])) == (200, 3)
    assert sluice("send", "--data", again.data).returncode == 0  # on another port than the file says


@pytest.mark.parametrize("mode", ["journal", "store", "memory"])
def test_readiness_names_both_stores_and_needs_clickhouse_where_exports_do(
    start: Start, mode: str, migrated: Path
) -> None:
    status, ready = start(SLUICE_DURABILITY=mode).get("/readyz")
    assert status == 200
    seen = {probe["name"]: (probe["ok"], probe["required"]) for probe in ready["dependencies"]}
    journal = {"journal": (True, True)} if mode == "journal" else {}
    assert seen == {"database": (True, True), "clickhouse": (True, mode == "store"), **journal}


def test_nothing_else_is_listened_on(start: Start, migrated: Path) -> None:
    up = start()
    inodes = {
        match[1]
        for link in Path(f"/proc/{up.process.pid}/fd").iterdir()
        if (match := re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()) if link.is_symlink() else ""))
    }
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{up.process.pid}/net/{table}").read_text(encoding="utf-8").splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and columns[9] in inodes:
                listening.append(int(columns[1].rpartition(":")[2], 16))
    assert listening == [int(up.url.rpartition(":")[2])]


def test_a_second_process_on_the_same_directory_is_refused(start: Start, migrated: Path) -> None:
    up = start()
    for arguments in (("up", "--port", "0"), ("migrate",), ("control", "--port", "0")):
        sentence = refusal(sluice(*arguments, "--data", up.data), 1)
        assert sentence == (
            f"The data directory {up.data} is in use by another sluice process; "
            "stop that process, or choose another directory with --data."
        )
    assert up.get("/livez")[0] == 200


def test_a_second_process_on_the_same_port_is_refused(start: Start, tmp_path: Path, migrated: Path) -> None:
    port = start().url.rpartition(":")[2]
    sentence = refusal(sluice("up", "--data", tmp_path / "other", "--port", port), 1)
    assert sentence.startswith(f"Port {port} on 127.0.0.1 is in use. ")


def test_a_killed_process_leaves_the_directory_usable(start: Start, migrated: Path) -> None:
    assert start().stop(signal.SIGKILL) == -signal.SIGKILL
    assert start().get("/readyz")[0] == 200


def test_a_port_in_use_is_one_sentence_and_touches_no_store(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = sluice("up", "--data", tmp_path / "data", "--port", str(port))
    sentence = f"Port {port} on 127.0.0.1 is in use. Stop the other program or choose another port with --port."
    assert refusal(done, 1) == sentence
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["lock"]


def test_a_data_directory_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("", encoding="utf-8")
    sentence = refusal(sluice("up", "--data", tmp_path / "data", "--port", "0"), 1)
    assert sentence == f"The data directory {tmp_path}/data is a file; choose another with --data."


def test_a_data_directory_that_cannot_be_written_is_one_sentence() -> None:
    done = sluice("up", "--data", "/proc/sluice", "--port", "0")  # where not even root may
    assert refusal(done, 1).startswith("The data directory /proc/sluice cannot be created: ")


@pytest.mark.parametrize(
    ("settings", "code", "sentence"),
    [
        ({"SLUICE_CLICKHOUSE_URL": "http://127.0.0.1:1"}, 1, "ClickHouse"),
        ({"SLUICE_CLICKHOUSE_URL": "http://nowhere.invalid:8123"}, 1, "ClickHouse"),
        ({"SLUICE_CLICKHOUSE_URL": "ftp://h"}, 2, "SLUICE_CLICKHOUSE_URL must start with"),
        ({"SLUICE_CLICKHOUSE_URL": "chdb://relative"}, 2, "absolute path"),
        ({"SLUICE_DATABASE_URL": "sqlite:////proc/sluice.db"}, 1, "/proc/sluice.db"),
        ({"SLUICE_PROT": "1"}, 2, "Unknown setting: SLUICE_PROT."),
        ({"SLUICE_GATEWAY_NONSENSE": "1"}, 2, "Unknown setting: SLUICE_GATEWAY_NONSENSE."),
        ({"SLUICE_CONFIG": "/nowhere.toml"}, 2, "The settings file /nowhere.toml cannot be read"),
    ],
)
def test_a_wrong_setting_is_one_sentence(tmp_path: Path, settings: dict[str, str], code: int, sentence: str) -> None:
    done = sluice("up", "--data", tmp_path / "data", "--port", "0", **settings)
    assert sentence in refusal(done, code)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "of a newer release. Run that release or a later one"),
        ("DROP TABLE alembic_version", "sluice migrate"),
    ],
)
def test_control_refuses_another_schema(change: str, sentence: str, migrated: Path) -> None:
    sqlite(migrated / "sluice.db", change)
    assert sentence in refusal(sluice("control", "--data", migrated, "--port", "0"), 1)


def test_up_rejects_a_newer_clickhouse_schema(migrated: Path) -> None:
    change = "INSERT INTO sluice_schema (version, name) VALUES (9999, 'later')"
    code = """
import clickhouse_connect, sys
client = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
client.command(sys.argv[2])
client.close()
"""
    python(code, str(migrated / "clickhouse"), change)
    sentence = refusal(sluice("up", "--data", migrated, "--port", "0"), 1)
    assert "9999" in sentence
    assert "supports at most" in sentence


@pytest.mark.parametrize("name", ["gateway", "query"])
def test_a_service_on_clickhouse_alone_needs_a_server(tmp_path: Path, name: str) -> None:
    sentence = refusal(sluice(name, "--data", tmp_path / "data", "--port", "0"), 2)
    assert sentence.startswith(f"`sluice {name}` alone needs a ClickHouse server")


def test_control_alone_needs_no_clickhouse(start: Start, migrated: Path) -> None:
    made = json.loads(sluice("init", "--data", migrated, "--org", "acme", "--json").stdout)
    token = json.loads(Path(made["file"]).read_text(encoding="utf-8"))["accessToken"]
    control = start("control", SLUICE_CLICKHOUSE_URL="http://127.0.0.1:1")
    assert control.get("/readyz")[1]["dependencies"] == [
        {"name": "database", "ok": True, "error": None, "required": True},
        {"name": "clickhouse", "ok": False, "error": "does not respond", "required": False},
    ]
    status, projects = control.get("/orgs/acme/projects", token)
    assert (status, [project["slug"] for project in projects["data"]]) == (200, ["default"])
    assert control.get("/v1/traces")[0] == 404
    assert control.stop() == 0


def sqlite(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


def python(code: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, timeout=DEADLINE_S, cwd=ROOT)


def test_the_health_port_is_another_one(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
    done = sluice("up", "--data", tmp_path / "data", "--port", port, "--health-port", port)
    assert (done.returncode, done.stderr) == (2, "sluice: --health-port and --port must differ.\n")
