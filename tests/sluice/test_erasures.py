"""`sluice erase` and `sluice erasures`, and the shell lines of docs/deletion.md, which run as they are printed."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from chassis.erasures import leases, repository
from chassis.erasures.export import decode_line
from control.audit.record import Actor
from control.governance.erasures import deletion
from control.identity.organizations import organization_store
from sluice.main import main

from .conftest import ROOT, Start, clean_environment, command, refusal, sluice

T = TypeVar("T")


def lines() -> str:
    """Everything that the page has indented."""
    text = (ROOT / "docs/deletion.md").read_text(encoding="utf-8")
    return "\n".join(line[4:] for line in text.split("\n") if line.startswith("    "))


def in_database(data: Path, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """In a write transaction."""

    async def run() -> T:
        database = Database(f"sqlite:///{data / 'sluice.db'}")
        await database.start()
        try:
            async with database.write() as connection:
                return await work(connection)
        finally:
            await database.close()

    return asyncio.run(run())


@pytest.fixture
def acme(migrated: Path) -> Path:
    """The data directory of an organization with a project."""
    assert sluice("init", "--org", "acme", "--project", "web", "--data", migrated).returncode == 0
    return migrated


def erase(data: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return sluice("erase", "--org", "acme", "--project", "web", *arguments, "--data", data)


def test_an_erasure_is_requested_shown_and_exported(acme: Path) -> None:
    done = erase(
        acme, "--where", "user.email:mallory@example.com (-level:debug or has:tag)", "--to", "2026-11-20T00:00:00Z"
    )
    assert done.returncode == 0, done.stderr
    found = re.match(r"(ers_[0-9a-z]{26}): a gateway erases the rows; `sluice erasures show ers_", done.stdout)
    assert found is not None, done.stdout
    counted = json.loads(erase(acme, "--from", "now-1h", "--dry-run", "--json").stdout)
    assert (counted["kind"], counted["dryRun"], counted["requestedByPrincipalId"]) == ("filter", True, None)
    assert counted["to"] == counted["requestedAt"].replace("Z", "000000Z"), "without --to nothing later is erased"

    listed = sluice("erasures", "list", "--data", acme).stdout.splitlines()
    assert [line.split("  ")[0] for line in listed] == [counted["id"], found[1]]
    assert listed[1].split("  ", 2)[2].startswith("PENDING  filter of project ")
    shown = json.loads(sluice("erasures", "show", found[1], "--json", "--data", acme).stdout)
    assert (shown["state"], shown["filterCount"], shown["to"]) == ("PENDING", 2, "2026-11-20T00:00:00.000000000Z")
    assert (shown["orgId"][:4], shown["waitsFor"]) == ("org_", [])

    [line] = sluice("erasures", "export", "--data", acme).stdout.splitlines()  # without the dry run
    exported = decode_line(line.encode())
    assert exported.filters == [
        {"key": "user.email", "op": "eq", "value": "mallory@example.com"},
        {"any": [{"key": "level", "op": "neq", "value": "debug"}, {"key": "tag", "op": "exists", "value": None}]},
    ]
    assert exported.to_ns == 1_795_132_800_000_000_000


def test_a_failed_erasure_begins_again(acme: Path) -> None:
    erasure_id = json.loads(erase(acme, "--where", "a:b", "--json").stdout)["id"]
    assert refusal(sluice("erasures", "retry", erasure_id, "--data", acme), 1) == (
        f"There is no failed erasure {erasure_id}."
    )

    async def fail(connection: AsyncConnection) -> None:
        await repository.register_journal(connection, "gateway-1/0", datetime(2026, 1, 1, tzinfo=UTC))
        lease = await leases.claim(connection, "gateway-1", datetime.now(UTC))
        assert lease is not None
        assert await leases.report_progress(connection, lease, {"spans": 7}, datetime.now(UTC))
        assert await leases.fail(connection, lease, "The filters cannot be compiled.")

    in_database(acme, fail)
    shown = sluice("erasures", "show", erasure_id, "--data", acme).stdout.splitlines()
    assert shown[1:] == [
        "  spans: 7 rows",
        "  waits for the journals: gateway-1/0",
        "  The filters cannot be compiled.",
    ]
    doctor = sluice("doctor", "--json", "--data", acme)
    findings = {finding["name"]: finding for finding in json.loads(doctor.stdout)}
    assert not findings["erasures"]["ok"]
    assert findings["erasures"]["detail"].startswith("An erasure has failed (open: 0, failed: 1, the oldest since 20")
    assert sluice("erasures", "retry", erasure_id, "--data", acme).stdout == (
        f"{erasure_id} is queued again; `sluice erasures show {erasure_id}` shows its progress.\n"
    )
    [open_one] = sluice("erasures", "list", "--open", "--data", acme).stdout.splitlines()
    assert open_one.startswith(f"{erasure_id}  ")
    assert sluice("erasures", "retry", "--completed-since", "2026-01-01T00:00:00Z", "--data", acme).stdout == (
        "0 completed erasures are queued again; `sluice erasures list --open` shows their progress.\n"
    )
    for nothing in ([], ["--completed-since", "yesterday"], [erasure_id, "--completed-since", "now-1d"]):
        refusal(sluice("erasures", "retry", *nothing, "--data", acme), 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "One of --where, --from and --to is required."),
        (("--where", ""), "--where: Must have a filter."),
        (("--where", "durationMs:>x"), "--where[0].value: Must be a number."),
        (("--where", "[{}]"), "--where[0].key: Is required."),
        (("--from", "then"), "--from: Must be a time:"),
        (
            ("--from", "now", "--to", "now-1h"),
            "--from: Must be before the end of the range, or before the current time if the range has no end.",
        ),
    ],
)
def test_what_cannot_be_erased_is_refused(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["erase", "--project", "web", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"sluice: {message}")


def test_what_is_unknown_is_refused(acme: Path) -> None:
    for options, message in (
        (("--org", "none"), "There is no organization none."),
        (("--project", "none"), "The organization acme has no project none."),
    ):
        assert refusal(erase(acme, "--to", "now", *options), 1) == message
    assert refusal(sluice("erasures", "show", "ers_x", "--data", acme), 1) == "There is no erasure ers_x."


def test_the_page_can_be_followed(start: Start, tmp_path: Path, migrated: Path) -> None:
    settings = {"SLUICE_DATA": str(migrated)}
    sluice("init", "--out", str(migrated / "bootstrap.json"), **settings)
    up = start("control", data=migrated)
    ours = f'set -euo pipefail\nsluice() {{ {shlex.join(command())} "$@"; }}\n'
    script = ours + re.sub(r"http://127\.0\.0\.1:4318", up.url, lines())
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    exported = [decode_line(line) for line in (tmp_path / "erasures.jsonl").read_bytes().splitlines()]
    assert {one.kind.value for one in exported} == {"organization", "project"}  # no filter outlives its project
    chain = sluice("audit", "verify", "--json", **settings)
    assert (chain.returncode, json.loads(chain.stdout)["broken"]) == (0, None)
    org_id = json.loads(chain.stdout)["org"]
    assert sluice("audit", "verify", "--org", org_id, **settings).returncode == 0
    taken = refusal(sluice("init", "--org", "default", "--out", str(tmp_path / "x.json"), **settings), 1)
    assert taken == "A deleted organization had the slug default. The slug cannot be used again."


def test_erasures_are_applied_to_a_restored_backup(acme: Path, tmp_path: Path) -> None:
    assert sluice("init", "--org", "other", "--project", "shop", "--data", acme).returncode == 0
    backup = tmp_path / "backup"
    shutil.copytree(acme, backup)
    assert erase(acme, "--where", "user.id:4711").returncode == 0

    async def delete(connection: AsyncConnection) -> None:
        other = await organization_store.find_organization(connection, "other")
        assert other is not None
        await deletion.delete_organization(connection, Actor(other.id), "other", "r", datetime.now(UTC))

    in_database(acme, delete)
    exported = tmp_path / "erasures.jsonl"
    exported.write_text(sluice("erasures", "export", "--data", acme).stdout)
    applied = sluice("erasures", "apply", str(exported), "--data", backup)
    assert applied.returncode == 0, applied.stderr
    assert [line.rpartition("  ")[2] for line in applied.stdout.splitlines()] == [
        "filter: applied",
        "organization: applied",
        "project: nothing to erase",  # with its organization
    ]
    again = sluice("erasures", "apply", str(exported), "--data", backup).stdout
    assert "applied" not in again
    kinds = [line.split()[3].rstrip(",") for line in sluice("erasures", "list", "--data", backup).stdout.splitlines()]
    assert sorted(kinds) == ["filter", "organization", "project"]
    exported.write_text("{}\n")
    assert "cannot be read" in refusal(sluice("erasures", "apply", str(exported), "--data", backup), 1)


def test_a_restore_applies_erasures_before_anybody_sees_the_data(acme: Path, tmp_path: Path) -> None:
    backups, exported, other = tmp_path / "backups", tmp_path / "erasures.jsonl", tmp_path / "other"
    assert sluice("backup", "--to", backups, "--data", acme).returncode == 0
    assert erase(acme, "--where", "user.id:4711").returncode == 0
    exported.write_text(sluice("erasures", "export", "--data", acme).stdout)

    from_backup = ("restore", "--from", backups, "--to")
    reminded = sluice(*from_backup, tmp_path / "reminded").stdout
    assert f"`sluice erasures apply FILE --data {tmp_path / 'reminded'}`" in reminded
    done = sluice(*from_backup, other, "--erasures", exported)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Erasures applied: 1." in done.stdout
    assert "erasures apply" not in done.stdout
    assert not list(other.glob("sluice.db-*"))
    assert "PENDING  filter of project" in sluice("erasures", "list", "--data", other).stdout
    said = sluice(*from_backup, tmp_path / "json", "--erasures", exported, "--json").stdout
    assert json.loads(said)["erasures"] == 1

    exported.write_text("{}\n")
    assert "cannot be read" in refusal(sluice(*from_backup, tmp_path / "refused", "--erasures", exported), 1)
    assert not (tmp_path / "refused").exists()
    assert not list(tmp_path.glob(".restore-*"))


def test_a_lost_journal_is_removed(acme: Path) -> None:
    async def register(connection: AsyncConnection) -> None:
        await repository.register_journal(connection, "0f/1", datetime(2026, 1, 1, tzinfo=UTC))

    in_database(acme, register)
    assert sluice("erasures", "journals", "--data", acme).stdout == "0f/1  last seen 2026-01-01T00:00:00.000Z\n"
    removed = sluice("erasures", "journals", "--remove", "0f/1", "--data", acme)
    assert removed.stdout == "Erasures no longer wait for 0f/1.\n"
    assert refusal(sluice("erasures", "journals", "--remove", "0f/1", "--data", acme), 1) == "There is no journal 0f/1."
