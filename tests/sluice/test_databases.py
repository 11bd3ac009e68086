"""The sub-commands over either relational store: a new one, one in use, one that is away, several processes at once."""

import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.databases import REVISIONS
from tests.postgresql import PASSWORD, PostgreSQL
from tests.selection import scaled

from .conftest import Start, refusal, sluice


def all_at_once(count: int, *arguments: str | Path, **settings: str) -> list[subprocess.CompletedProcess[str]]:
    """The same sub-command in several processes; the output of each."""
    with ThreadPoolExecutor(count) as pool:
        started = [
            pool.submit(sluice, *arguments, "--data", f"{settings['SLUICE_DATA']}-{number}", **settings)
            for number in range(count)
        ]
        return [one.result() for one in started]


def lines_of(done: Sequence[subprocess.CompletedProcess[str]]) -> list[str]:
    return sorted(line for one in done for line in one.stdout.splitlines() if line.startswith("relational"))


@pytest.mark.both_stores
def test_migrate_and_init_and_doctor_work_on_either(database_url: str, tmp_path: Path) -> None:
    settings = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_DATABASE_URL": database_url}
    assert "Run `sluice migrate`" in refusal(sluice("init", **settings), 1)
    assert sluice("migrate", **settings).stdout.startswith(f"relational: applied {', '.join(REVISIONS)}\n")
    assert sluice("migrate", **settings).stdout == "relational: nothing to do\nClickHouse: nothing to do\n"
    made = sluice("init", "--org", "acme", "--json", **settings)
    assert (made.returncode, json.loads(made.stdout)["orgSlug"]) == (0, "acme")
    assert refusal(sluice("init", "--org", "acme", **settings), 1) == "The slug acme is already taken."
    found = {line["name"]: line for line in json.loads(sluice("doctor", "--json", **settings).stdout)}
    assert found["database"]["ok"]
    version = "PostgreSQL 1" if database_url.startswith("postgresql") else "SQLite 3."
    assert f": {version}" in found["database"]["detail"]
    assert found["database"]["detail"].endswith(f", schema {REVISIONS[-1]}")


@pytest.mark.sized
@pytest.mark.both_stores
def test_several_processes_may_migrate_and_then_init_at_once(database_url: str, tmp_path: Path) -> None:
    settings = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_DATABASE_URL": database_url}
    count = scaled(2, 3)
    migrated = all_at_once(count, "migrate", **settings)
    assert [one.returncode for one in migrated] == [0] * count, [one.stderr for one in migrated]
    others = ["relational: nothing to do"] * (count - 1)
    assert lines_of(migrated) == [f"relational: applied {', '.join(REVISIONS)}", *others]
    made = all_at_once(count, "init", "--org", "acme", **settings)
    assert sorted(one.returncode for one in made) == [0, *[1] * (count - 1)]
    assert {one.stderr for one in made if one.returncode} == {"sluice: The slug acme is already taken.\n"}


def test_up_serves_over_either_and_a_second_start_creates_nothing(database_url: str, start: Start) -> None:
    up = start(SLUICE_DATABASE_URL=database_url)
    first = up.credentials()
    assert up.get("/orgs/default/projects", first["accessToken"])[0] == 200
    assert up.get("/readyz")[0] == 200
    assert up.stop() == 0
    again = start(data=up.data, SLUICE_DATABASE_URL=database_url)
    assert again.credentials() == first
    status, page = again.get("/orgs/default/projects", first["accessToken"])
    assert (status, [one["slug"] for one in page["data"]]) == (200, ["default"])


@pytest.mark.parametrize("name", ["up", "doctor"])
def test_an_unavailable_or_rejecting_server_is_one_sentence_without_the_password(
    postgresql: PostgreSQL, tmp_path: Path, name: str
) -> None:
    data = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_PORT": "0"}
    away = f"postgresql://sluice:{PASSWORD.encode().hex()}@127.0.0.1:1/sluice"
    for url, reason in (
        (away, "Connection refused"),
        (postgresql.url("postgres", "wr:o@ng"), "password authentication failed"),
    ):
        done = sluice(name, SLUICE_DATABASE_URL=url, **data)
        assert done.returncode == 1
        told = next(line for line in (done.stdout + done.stderr).splitlines() if "cannot be used" in line)
        assert reason in told
        assert ":***@" in told
        for secret in (PASSWORD, PASSWORD.encode().hex(), "wr:o@ng", "wr%3Ao%40ng"):
            assert secret not in done.stdout + done.stderr


def test_config_knows_the_server_and_hides_its_password(postgresql: PostgreSQL) -> None:
    done = sluice("config", SLUICE_DATABASE_URL=postgresql.url("sluice"))
    assert "SLUICE_DATABASE_URL = ********\n" in done.stdout
    assert "postgresql://user:password@host:port/name" in done.stdout
    refused = refusal(sluice("config", SLUICE_DATABASE_URL="mysql://user:hush@host/x"), 2)
    assert refused == "SLUICE_DATABASE_URL must start with sqlite:// or postgresql://."
