"""The relational store on real databases: schema, transactions, concurrency, outages."""

import asyncio
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Barrier

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError
from sqlalchemy.schema import CreateTable

import control.app  # noqa: F401  # what is imported is in `metadata`: all tables
from chassis.auth.tables import metadata, organizations, projects
from chassis.db.database import (
    Database,
    DatabaseUnavailable,
    DatabaseUnusable,
    UtcTime,
    format_time,
    migration_engine,
    one_line,
    redacted_url,
    text,
    to_milliseconds,
)
from chassis.db.migrations import DatabaseSchemaTooNew, DatabaseSchemaTooOld, check, migrate
from chassis.db.migrations.baseline import statements
from control.identity.organizations import organization_store, project_key_store
from control.identity.organizations.bootstrap import bootstrap
from tests.databases import REVISIONS

pytestmark = pytest.mark.both_stores
ROOT = Path(__file__).parents[3]


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    database = Database(migrated_url, max_wait_s=5.0)
    await database.start()
    yield database
    await database.close()


def test_migrations_are_explicit_idempotent_and_checked(database_url: str) -> None:
    with pytest.raises(DatabaseSchemaTooOld, match=r"(does not exist|has no schema) yet.*\. Run `sluice migrate`"):
        check(database_url)
    assert migrate(database_url) == REVISIONS
    assert migrate(database_url) == []
    assert check(database_url) == REVISIONS[-1]


def test_a_file_is_made_by_migrating_alone_and_private(tmp_path: Path) -> None:
    file = tmp_path / "sluice.db"
    with pytest.raises(DatabaseSchemaTooOld, match=r"does not exist yet\. Run `sluice migrate`"):
        check(f"sqlite:///{file}")
    assert not file.exists()
    file.touch()
    too_old = rf"has no schema yet, but this release requires {REVISIONS[-1]}\. Run `sluice migrate`"
    with pytest.raises(DatabaseSchemaTooOld, match=too_old):
        check(f"sqlite:///{file}")
    file.unlink()
    migrate(f"sqlite:///{file}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    missing = r"and its directory do not exist\. If .*, create it\. Then run `sluice migrate`"
    with pytest.raises(DatabaseSchemaTooOld, match=missing):
        check(f"sqlite:///{tmp_path / 'nope' / 'x.db'}")


def test_the_migrations_make_the_tables_that_the_code_uses(migrated_url: str) -> None:
    engine = migration_engine(migrated_url)
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        inspector = sa.inspect(connection)
        made = {check["name"] for table in metadata.tables for check in inspector.get_check_constraints(table)}
    engine.dispose()
    checks = {name for table in metadata.tables.values() for name in map(str, names_of_checks(table))}
    assert made == checks >= {"ck_principals_kind", "ck_principals_owner", "ck_memberships_role"}


def names_of_checks(table: sa.Table) -> list[object]:
    return [constraint.name for constraint in table.constraints if isinstance(constraint, sa.CheckConstraint)]


POSTGRESQL: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped


@pytest.mark.parametrize("dialect", [sqlite.dialect(), POSTGRESQL])
def test_every_table_can_be_made_on_both_engines(dialect: sa.Dialect) -> None:
    for table in metadata.sorted_tables:
        assert str(CreateTable(table).compile(dialect=dialect)).strip().startswith("CREATE TABLE")


def test_a_schema_of_a_later_release_is_left_alone(migrated_url: str) -> None:
    engine = migration_engine(migrated_url)

    def stamp(revision: str) -> None:
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})

    stamp("9999")
    for function in (check, migrate):
        with pytest.raises(DatabaseSchemaTooNew, match="has the schema 9999 of a newer release"):
            function(migrated_url)
    stamp(REVISIONS[-1])
    engine.dispose()


@pytest.mark.both_stores
def test_only_the_last_schema_before_the_first_release_is_taken_over(database_url: str) -> None:
    engine = migration_engine(database_url)

    def change(*changes: str) -> None:
        with engine.begin() as connection:
            for statement in changes:
                connection.exec_driver_sql(statement)

    change(*statements(engine.dialect.name))
    change("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)")
    change("INSERT INTO alembic_version VALUES ('0021')", "CREATE TABLE of_another_program (id INTEGER)")
    with pytest.raises(
        DatabaseUnusable, match=r"has the schema 0021\. This release can migrate only .* Start the last build before"
    ):
        migrate(database_url)
    change("UPDATE alembic_version SET version_num = '0022'", "ALTER TABLE releases ADD COLUMN odd INTEGER")
    with pytest.raises(DatabaseUnusable, match=r"its table releases has a column odd\. This release can migrate"):
        migrate(database_url)

    change("ALTER TABLE releases DROP COLUMN odd")
    with pytest.raises(DatabaseSchemaTooOld, match=rf"has the older schema 0022, but .* requires {REVISIONS[-1]}"):
        check(database_url)
    assert migrate(database_url) == REVISIONS[1:]
    assert check(database_url) == REVISIONS[-1]
    engine.dispose()


@pytest.mark.both_stores
def test_several_may_migrate_at_once(database_url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        applied = list(threads.map(lambda _: migrate(database_url), range(4)))
    assert sorted(applied) == [[], [], [], REVISIONS]


def test_several_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    """SQLite waits for no lock where two of them enter write-ahead logging."""
    many = 8
    for number in range(20):
        url, barrier = f"sqlite:///{tmp_path}/{number}.db", Barrier(many)

        def connect(_: int, url: str = url, barrier: Barrier = barrier) -> None:
            engine = migration_engine(url, 60.0)
            barrier.wait()
            with engine.connect():
                pass
            engine.dispose()

        with ThreadPoolExecutor(many) as threads:
            list(threads.map(connect, range(many)))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing/sluice.db", "cannot be opened for writing: No such file or directory"),
        (".", "cannot be opened for writing: Is a directory"),
        ("garbage.db", "cannot be used: file is not a database"),
    ],
)
def test_a_file_that_will_not_do_is_named_in_one_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "garbage.db").write_bytes(b"no database" * 1_000)
    with pytest.raises(DatabaseUnusable, match=sentence) as caught:
        migrate(f"sqlite:///{tmp_path / name}")
    assert "\n" not in str(caught.value)


def test_urls_of_no_store_are_refused() -> None:
    for url in ("sqlite://", "sqlite:///:memory:", "mysql://h/x", "nonsense", "", "sqlite:///"):
        for use in (Database, migrate, check):
            with pytest.raises(DatabaseUnusable, match="The database URL must"):
                use(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://user:hush@host:5432/name", "postgresql://user:***@host:5432/name"),
        ("postgresql://user:hu%40sh%2F@host/name", "postgresql://user:***@host/name"),
        ("postgresql://user:hu/sh#?@host/name", "postgresql://user:***@host/name"),
        ("postgresql:///name?user=u&password=hush&host=h", "postgresql:///name"),
        ("sqlite:////srv/sluice.db", "sqlite:////srv/sluice.db"),
    ],
)
def test_a_password_is_not_shown(url: str, expected: str) -> None:
    assert redacted_url(url) == expected


def test_a_password_that_would_pass_for_a_host_is_refused_and_not_shown() -> None:
    for use in (Database, migrate, check, redacted_url):
        with pytest.raises(DatabaseUnusable, match="as %40") as caught:
            use("postgresql://user:hu@sh@host/name")
        assert "hu" not in str(caught.value).partition("URL")[2]


def test_migrating_needs_nothing_but_the_package(database_url: str, tmp_path: Path) -> None:
    script = f"from chassis.db.migrations import check, migrate; u = {database_url!r}; migrate(u); print(check(u))"
    done = subprocess.run(
        [sys.executable, "-O", "-c", script],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{REVISIONS[-1]}\n"


@pytest.mark.parametrize("migrated_url", ["sqlite"], indirect=True)
async def test_connections_to_a_file_are_set_up_for_safety(database: Database) -> None:
    async with database.read() as connection:
        pragmas = {
            name: (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "secure_delete")
        }
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5_000,
        "secure_delete": 1,
    }


async def slugs(database: Database) -> set[str]:
    async with database.read() as connection:
        return set((await connection.scalars(sa.select(organizations.c.slug))).all())


async def test_a_block_that_raises_writes_nothing(database: Database) -> None:
    async def fail_after_writing() -> None:
        async with database.write() as connection:
            await organization_store.create_organization(connection, "acme", "Acme")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail_after_writing()
    assert await slugs(database) == set()
    async with database.write() as connection:
        await organization_store.create_organization(connection, "acme", "Acme")
    assert await slugs(database) == {"acme"}


async def test_a_cancelled_block_writes_nothing_and_frees_the_turn(database: Database) -> None:
    entered = asyncio.Event()

    async def hang() -> None:
        async with database.write() as connection:
            await organization_store.create_organization(connection, "acme", "Acme")
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(hang())
    await entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with database.write() as connection:
        await organization_store.create_organization(connection, "globex", "Globex")
    assert await slugs(database) == {"globex"}


async def test_many_writers_that_read_before_they_write_lose_no_update(database: Database) -> None:
    async with database.write() as connection:
        await organization_store.create_organization(connection, "acme", "0")

    async def increment() -> None:
        async with database.write() as connection:
            current = await connection.scalar(sa.select(organizations.c.name))
            await connection.execute(organizations.update().values(name=str(int(current or 0) + 1)))

    async def look() -> str | None:
        async with database.read() as connection:
            found: str | None = await connection.scalar(sa.select(organizations.c.name))
            return found

    await asyncio.gather(*(increment() for _ in range(60)), *(look() for _ in range(60)))
    assert await look() == "60"


async def test_writers_of_two_processes_wait_for_each_other(database: Database, migrated_url: str) -> None:
    second = Database(migrated_url, max_wait_s=5.0)
    await second.start()

    async def create(where: Database, number: int) -> None:
        async with where.write() as connection:
            taken = await connection.scalar(sa.select(sa.func.count()).select_from(organizations))
            await organization_store.create_organization(connection, f"o{taken}", str(number))

    await asyncio.gather(*(create(where, number) for number in range(20) for where in (database, second)))
    assert await slugs(database) == {f"o{number}" for number in range(40)}
    await second.close()


async def test_a_reader_sees_one_snapshot_and_does_not_wait_for_a_writer(database: Database) -> None:
    count = sa.select(sa.func.count()).select_from(organizations)
    async with database.read() as reader:
        assert await reader.scalar(count) == 0
        async with database.write() as writer:
            await organization_store.create_organization(writer, "acme", "Acme")
        assert await reader.scalar(count) == 0
    async with database.read() as reader:
        assert await reader.scalar(count) == 1


async def test_a_slug_goes_to_exactly_one_of_many(database: Database) -> None:
    async def create() -> bool:
        try:
            async with database.write() as connection:
                await organization_store.create_organization(connection, "acme", "Acme")
        except organization_store.SlugTaken:
            return False
        return True

    assert sum(await asyncio.gather(*(create() for _ in range(20)))) == 1


async def test_constraints_hold_and_come_through_as_they_are(database: Database) -> None:
    with pytest.raises(IntegrityError):
        async with database.write() as connection:
            await project_key_store.create_project_key(connection, "org_none", 1, "orphan")
    with pytest.raises((OperationalError, ProgrammingError), match="nothing"):
        async with database.read() as connection:
            await connection.execute(sa.text("SELECT * FROM nothing"))


def test_an_error_of_several_lines_is_one() -> None:
    refused = 'to server at "db", port 5432 failed: Connection refused\n\tIs the server running there?\n'
    assert one_line(refused) == 'to server at "db", port 5432 failed: Connection refused. Is the server running there?'
    assert (
        one_line("server closed the connection\n\tbefore or while\n\n")
        == "server closed the connection before or while"
    )
    assert (one_line("one:\nTwo."), one_line("\n")) == ("one: Two.", "")


async def test_a_turn_held_elsewhere_is_an_outage_not_a_fault_of_ours(migrated_url: str) -> None:
    database = Database(migrated_url, max_wait_s=1.0)
    await database.start()
    engine = migration_engine(migrated_url)
    with engine.begin():
        with pytest.raises(DatabaseUnavailable):
            async with database.write():
                pass
        await database.probe()
    engine.dispose()
    async with database.write() as connection:
        await organization_store.create_organization(connection, "acme", "Acme")
    await database.close()


async def test_waiting_for_a_turn_or_a_connection_has_an_end(migrated_url: str) -> None:
    database = Database(migrated_url, pool_size=1, max_wait_s=1.0)
    await database.start()
    async with database.write():
        with pytest.raises(DatabaseUnavailable):
            async with database.write():
                pass
        with pytest.raises(DatabaseUnavailable):
            async with database.read():
                pass
    await database.probe()
    await database.close()


async def test_a_store_that_is_closed_says_so_and_comes_back(migrated_url: str) -> None:
    database = Database(migrated_url)
    with pytest.raises(DatabaseUnavailable):
        await database.probe()
    await database.start()
    await database.probe()
    await database.close()
    with pytest.raises(DatabaseUnavailable) as caught:
        await database.probe()
    assert caught.value.status == 503
    await database.start()
    await database.probe()
    await database.close()
    await database.close()


async def test_closing_waits_for_what_is_under_way_and_refuses_the_rest(database: Database) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        async with database.write() as connection:
            entered.set()
            await leave.wait()
            await organization_store.create_organization(connection, "acme", "Acme")

    writing = asyncio.ensure_future(write())
    await entered.wait()
    closing_ = asyncio.ensure_future(database.close())
    await asyncio.sleep(0)
    with pytest.raises(DatabaseUnavailable):
        await database.probe()
    assert not closing_.done()
    leave.set()
    await asyncio.gather(writing, closing_)
    await database.start()
    assert await slugs(database) == {"acme"}


async def test_closing_does_not_wait_for_ever(migrated_url: str) -> None:
    database = Database(migrated_url, max_wait_s=0.2)
    await database.start()
    async with database.read() as connection:
        await database.close()
        assert await connection.scalar(sa.text("SELECT 1")) == 1
    with pytest.raises(DatabaseUnavailable):
        await database.probe()


async def test_the_probe_of_a_store_without_schema_fails(database_url: str) -> None:
    database = Database(database_url)
    await database.start()
    with pytest.raises((OperationalError, ProgrammingError), match="alembic_version"):
        await database.probe()
    await database.close()


@given(
    st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001  # the zone is drawn
    st.integers(-14 * 60, 14 * 60),
)
def test_times_read_back_in_utc_to_the_millisecond(naive: datetime, offset: int) -> None:
    time = naive.replace(tzinfo=timezone(timedelta(minutes=offset)))
    kind, dialect = UtcTime(), sqlite.dialect()
    try:
        expected = to_milliseconds(time)
    except OverflowError:
        return
    stored = kind.process_bind_param(time, dialect)
    assert stored == format_time(time)
    assert len(stored) == 24
    assert kind.process_result_value(stored, dialect) == expected
    assert kind.process_result_value(expected, POSTGRESQL) == expected
    later = kind.process_bind_param(expected + timedelta(milliseconds=1), dialect)
    assert stored < later


def test_a_time_without_its_zone_is_not_stored() -> None:
    with pytest.raises(ValueError, match="zone"):
        UtcTime().process_bind_param(datetime(2026, 1, 1), sqlite.dialect())  # noqa: DTZ001  # the fault under test
    assert UtcTime().process_bind_param(None, sqlite.dialect()) is None
    assert format_time(datetime(2026, 11, 20, 15, 17, 3, 123_999, UTC)) == "2026-11-20T15:17:03.123Z"


async def test_values_come_back_as_they_went_in(database: Database) -> None:
    kinds = sa.Table(
        "kinds",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", UtcTime),
        sa.Column("flag", sa.Boolean),
        sa.Column("raw", sa.LargeBinary),
        sa.Column("document", projects.c.sensitive_words.type),
        sa.Column("letters", text(8)),
    )
    time = datetime(1969, 12, 31, 23, 59, 59, 999_999, timezone(timedelta(hours=-3, minutes=-30)))
    document = {"b": [1, 2.5, -(2**53), None, True, "é𝔘"], "a": {}}
    rows = [
        (2**63 - 1, time, True, bytes(range(256)), document, "é𝔘"),
        (-(2**63), datetime(9999, 12, 31, tzinfo=UTC), False, b"", [], ""),
        (0, None, None, None, None, None),
    ]
    async with database.write() as connection:
        await connection.run_sync(kinds.create)
        await connection.execute(kinds.insert(), [dict(zip(kinds.c.keys(), row, strict=True)) for row in rows])
    async with database.read() as connection:
        found = [tuple(row) for row in await connection.execute(sa.select(kinds).order_by(kinds.c.id.desc()))]
        ordered = sa.select(kinds.c.id).where(kinds.c.at < sa.bindparam("bound", time, UtcTime)).order_by(kinds.c.at)
        assert (await connection.scalars(ordered, {"bound": time + timedelta(milliseconds=1)})).all() == [2**63 - 1]
    assert found == [(2**63 - 1, to_milliseconds(time), *rows[0][2:]), rows[2], rows[1]]
    assert [type(value) for value in found[0]] == [int, datetime, bool, bytes, dict, str]


async def test_first_starts_of_several_processes_make_one_organization(database: Database, migrated_url: str) -> None:
    others = [Database(migrated_url, max_wait_s=10.0) for _ in range(3)]
    await asyncio.gather(*(other.start() for other in others))
    made = await asyncio.gather(*(bootstrap(where, "http://h") for where in [database, *others] for _ in range(3)))
    assert sum(one is not None for one in made) == 1
    assert await slugs(database) == {"default"}
    await asyncio.gather(*(other.close() for other in others))
