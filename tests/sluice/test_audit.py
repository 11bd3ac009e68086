"""`sluice audit verify`, over either relational store and over an export."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from chassis.db.database import Database, migration_engine
from chassis.db.migrations import migrate
from control.audit import record as audit_log
from control.audit.record import Actor, record
from control.identity.organizations import organization_store

from .conftest import refusal, sluice


async def fill(url: str, events: int) -> list[bytes]:
    """Two organizations, one with so many events; its export."""
    database = Database(url)
    await database.start()
    try:
        async with database.write() as connection:
            acme = await organization_store.create_organization(connection, "acme", "Acme")
            globex = await organization_store.create_organization(connection, "globex", "Globex")
            await record(connection, Actor(globex.id), "test.it", "x", {}, "r")
            for number in range(events):
                await record(connection, Actor(acme.id), "test.it", f"obj_{number}", {"n": number}, "r")
        chunks = [chunk async for chunk in audit_log.iter_chunks(database, acme.id)]
        return [msgspec.json.encode(event) + b"\n" for chunk in chunks for event in chunk]
    finally:
        await database.close()


def test_intact_chains_and_a_broken_one(database_url: str, tmp_path: Path) -> None:
    migrate(database_url)
    lines = asyncio.run(fill(database_url, 3))
    settings = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_DATABASE_URL": database_url}
    last = f"3:{json.loads(lines[-1])['hash']}"
    done = sluice("audit", "verify", **settings)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"acme: 3 events verified; keep for --noted: {last}")
    assert done.stdout.splitlines()[1].startswith("globex: 1 events verified; keep for --noted: 1:")
    done = sluice("audit", "verify", "--org", "acme", "--noted", last, "--json", **settings)
    assert (done.returncode, json.loads(done.stdout)) == (
        0,
        {"org": "acme", "events": 3, "seq": 3, "hash": last[2:], "broken": None, "at": None},
    )
    done = sluice("audit", "verify", "--org", "acme", "--noted", f"9:{last[2:]}", **settings)
    assert (done.returncode, done.stdout) == (1, "acme: BROKEN at event 4 (cut), after 3 events read\n")
    engine = migration_engine(database_url)
    with engine.begin() as connection:
        of_table = "" if connection.dialect.name == "sqlite" else " ON audit_events"
        connection.execute(sa.text(f"DROP TRIGGER audit_events_no_update{of_table}"))
        connection.execute(sa.text("UPDATE audit_events SET data = '{}' WHERE seq = 2"))
    engine.dispose()
    done = sluice("audit", "verify", **settings)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        1,
        "acme: BROKEN at event 2 (altered), after 3 events read",
    )
    done = sluice("audit", "verify", "--json", **settings)
    assert [json.loads(line)["broken"] for line in done.stdout.splitlines()] == ["altered", None]


def test_an_export_is_checked_without_a_database(migrated_file: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'copy.db'}"
    (tmp_path / "copy.db").write_bytes(migrated_file.read_bytes())
    lines = asyncio.run(fill(url, 4))
    file = tmp_path / "audit.ndjson"
    file.write_bytes(b"".join(lines))
    org, last = json.loads(lines[-1])["orgId"], f"4:{json.loads(lines[-1])['hash']}"
    done = sluice("audit", "verify", "--file", file)
    assert (done.returncode, done.stdout) == (0, f"{org}: 4 events verified; keep for --noted: {last}\n")
    file.write_bytes(b"".join([lines[0], *lines[2:]]))
    done = sluice("audit", "verify", "--file", file)
    assert (done.returncode, done.stdout) == (1, f"{org}: BROKEN at event 3 (missing), after 3 events read\n")
    file.write_bytes(b"".join(lines[:2]))
    assert sluice("audit", "verify", "--file", file, "--noted", last).returncode == 1
    file.write_text("no export\n")
    assert refusal(sluice("audit", "verify", "--file", file), 1).startswith(
        f"The file {file} cannot be verified as an audit export"
    )
    assert refusal(sluice("audit", "verify", "--file", tmp_path / "none"), 1).endswith("No such file or directory.")


def test_what_is_not_there_is_named(tmp_path: Path, migrated_file: Path) -> None:
    settings = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_DATABASE_URL": f"sqlite:///{migrated_file}"}
    done = sluice("audit", "verify", "--org", "globex", **settings)
    assert refusal(done, 1) == "There is no organization globex."
    done = sluice("audit", "verify", "--noted", "1:" + "0" * 64, **settings)
    assert refusal(done, 2) == "--noted requires --org or --file."


@pytest.mark.parametrize("noted", ["1", "0:" + "0" * 64, "1:" + "0" * 63, "x:" + "0" * 64, "1:" + "G" * 64])
def test_an_invalid_noted_event_is_usage_and_2(noted: str) -> None:
    done = sluice("audit", "verify", "--noted", noted)
    assert (done.returncode, done.stderr.startswith("usage: sluice audit")) == (2, True)
