"""The relational store while its PostgreSQL server dies, falls silent, is full, or is not what it should be."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from urllib.parse import quote

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from structlog.testing import capture_logs

from chassis.auth.tables import organizations
from chassis.db import postgresql as driver
from chassis.db.database import RECOVERED_AFTER_S, Database, DatabaseUnavailable, DatabaseUnusable
from chassis.db.migrations import check, migrate
from control.identity.organizations import organization_store
from tests.accepting import accepting
from tests.databases import REVISIONS
from tests.postgresql import PASSWORD, PostgreSQL, running

pytestmark = pytest.mark.both_stores

DEADLINE_S = 30.0  # for anything that must happen; never a measure of speed
_SMALL = {"max_connections": "8", "superuser_reserved_connections": "0", "deadlock_timeout": "20ms"}


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    """A server that these tests may mistreat."""
    with running(tmp_path_factory.mktemp("fragile"), settings=_SMALL) as server:
        yield server


@pytest.fixture(scope="module")
def template(fragile: PostgreSQL) -> str:
    """A migrated database to copy: a copy takes a tenth of migrating another one."""
    url = fragile.new_database()
    migrate(url)
    return url


@pytest.fixture
def url(fragile: PostgreSQL, template: str) -> Iterator[str]:
    url = fragile.new_database(template)
    yield url
    fragile.drop_database(url)


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    async with started(url) as database:
        yield database


@asynccontextmanager
async def started(url: str, pool_size: int = 3, max_wait_s: float = 2.0) -> AsyncIterator[Database]:
    database = Database(url, pool_size=pool_size, max_wait_s=max_wait_s)
    await database.start()
    try:
        yield database
    finally:
        await database.close()


async def make(database: Database, slug: str) -> None:
    async with database.write() as connection:
        await organization_store.create_organization(connection, slug, slug.title())


async def slugs(database: Database) -> list[str]:
    async with database.read() as connection:
        return list((await connection.scalars(sa.select(organizations.c.slug).order_by(organizations.c.slug))).all())


async def refused(database: Database) -> None:
    """Readers and writers together, more than there are connections: each is told no, and none waits for ever."""
    uses = [database.probe(), make(database, "never"), *(slugs(database) for _ in range(6))]
    async with asyncio.timeout(DEADLINE_S):
        outcomes = await asyncio.gather(*uses, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [DatabaseUnavailable] * len(uses)


async def well_again(database: Database) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await database.probe()
            except DatabaseUnavailable:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("at_commit", [False, True], ids=["in it", "before its commit"])
async def test_a_server_that_dies_in_a_transaction_is_an_outage_and_nothing_is_half_done(
    fragile: PostgreSQL, database: Database, *, at_commit: bool
) -> None:
    async def write() -> None:
        async with database.write() as connection:
            await organization_store.create_organization(connection, "half", "Half")
            fragile.kill()
            if not at_commit:
                await organization_store.create_organization(connection, "other", "Other")

    await make(database, "before")
    with pytest.raises(DatabaseUnavailable):
        await write()
    if not at_commit:
        await refused(database)
    fragile.start()
    await well_again(database)
    await make(database, "after")
    assert await slugs(database) == ["after", "before"]


async def test_a_restart_between_two_requests_goes_unseen(fragile: PostgreSQL, database: Database) -> None:
    await asyncio.gather(*(slugs(database) for _ in range(3)))
    fragile.stop()
    fragile.start()
    assert await asyncio.gather(*(slugs(database) for _ in range(6))) == [[]] * 6
    await make(database, "acme")


async def test_an_outage_is_logged_once_and_its_end_once(
    fragile: PostgreSQL, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs() as lines:
        fragile.stop()
        await refused(database)
        await refused(database)
        fragile.start()
        await well_again(database)
        async with asyncio.timeout(DEADLINE_S):
            while lines[-1]["event"] != "database recovered":
                await asyncio.sleep(RECOVERED_AFTER_S / 10)
                await slugs(database)
        await slugs(database)
    assert [line["event"] for line in lines] == ["database unavailable", "database recovered"]
    assert "\n" not in lines[0]["reason"]


async def test_a_server_that_falls_silent_is_an_outage(fragile: PostgreSQL, url: str) -> None:
    async with started(url, max_wait_s=0.5) as database:
        await asyncio.gather(*(slugs(database) for _ in range(3)))
        fragile.pause()
        try:
            await refused(database)
            await refused(database)
        finally:
            fragile.resume()
        await well_again(database)
        await make(database, "after")
        assert await slugs(database) == ["after"]


@pytest.mark.parametrize("at_commit", [False, True], ids=["in it", "at its commit"])
async def test_a_server_that_falls_silent_in_a_transaction_is_an_outage(
    fragile: PostgreSQL, url: str, *, at_commit: bool
) -> None:
    """A commit without an answer may have happened."""

    async def write(database: Database) -> None:
        async with database.write() as connection:
            await organization_store.create_organization(connection, "half", "Half")
            fragile.pause()
            if not at_commit:
                await organization_store.create_organization(connection, "other", "Other")

    async with started(url, max_wait_s=0.5) as database:
        try:
            async with asyncio.timeout(DEADLINE_S):
                with pytest.raises(DatabaseUnavailable):
                    await write(database)
        finally:
            fragile.resume()
        await well_again(database)
        assert await slugs(database) in ([], ["half"] if at_commit else [])


async def test_whoever_gives_up_on_a_silent_server_is_let_go_at_once(fragile: PostgreSQL, url: str) -> None:
    async with started(url, pool_size=2, max_wait_s=DEADLINE_S * 10) as database:
        entered = asyncio.Event()

        async def ask() -> None:
            async with database.write() as connection:
                await connection.scalar(sa.select(organizations.c.id))
                entered.set()
                await connection.execute(sa.text("SELECT pg_sleep(0.5)"))

        asking = asyncio.ensure_future(ask())
        await entered.wait()
        await asyncio.sleep(0)
        fragile.pause()
        try:
            asking.cancel()
            done, _ = await asyncio.wait([asking], timeout=DEADLINE_S)
            assert done == {asking}
            assert asking.cancelled()
        finally:
            fragile.resume()
        await make(database, "after")


async def test_the_cancelled_leave_the_server_at_once(fragile: PostgreSQL, url: str) -> None:
    """Whatever they were at: connecting, beginning, waiting for an answer."""

    async def ask(database: Database) -> None:
        async with database.read() as connection:
            await connection.execute(sa.text("SELECT pg_sleep(3600)"))

    async with started(url, max_wait_s=DEADLINE_S * 10) as database:
        for pause_s in (number * step_s for step_s in (0.0, 0.002, 0.01) for number in range(10)):
            asking = [asyncio.ensure_future(ask(database)) for _ in range(4)]
            await asyncio.sleep(pause_s)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            # One that finds the server still full of the round before is refused before it can be cancelled.
            ends = [task.cancelled() or type(task.exception()) for task in asking]
            assert set(ends) <= {True, DatabaseUnavailable}
        await alone(fragile)
        assert await slugs(database) == []


async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """A server that takes what it is sent and says nothing."""
    await reader.read()


async def test_an_address_that_accepts_and_never_answers_is_an_outage(url: str) -> None:
    async with accepting(silent) as port:
        async with started(f"postgresql://u:p@127.0.0.1:{port}/x", max_wait_s=0.5) as database:
            await refused(database)
        with pytest.raises(DatabaseUnusable, match=r"cannot be used: .*timeout expired"):
            await asyncio.to_thread(check, f"postgresql://u:p@127.0.0.1:{port}/x")


async def test_of_several_hosts_a_silent_one_does_not_keep_from_the_next(fragile: PostgreSQL, url: str) -> None:
    async with accepting(silent) as port:
        several = url.replace(f"127.0.0.1:{fragile.port}", "")
        several += f"?host=127.0.0.1:{port}&host=127.0.0.1:{fragile.port}"
        async with started(several, max_wait_s=10.0) as database:
            assert await slugs(database) == []


async def test_a_server_without_a_free_slot_is_an_outage_until_there_is_one(fragile: PostgreSQL, url: str) -> None:
    async with started(url, max_wait_s=0.5) as database:
        with ExitStack() as taken:
            while True:
                try:
                    taken.callback(fragile.connect().close)
                except psycopg.OperationalError:
                    break
            await refused(database)
        await well_again(database)
        await make(database, "acme")


async def test_connections_that_an_administrator_ends_are_replaced_unseen(fragile: PostgreSQL, url: str) -> None:
    async with started(url) as database:
        await asyncio.gather(*(slugs(database) for _ in range(3)))
        with fragile.connect() as direct:
            direct.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'")
        assert await asyncio.gather(*(slugs(database) for _ in range(6))) == [[]] * 6


async def test_a_writer_that_falls_silent_loses_its_turn(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "IDLE_TIMEOUT_S", 0.2)

    async def write(silent: Database, other: Database) -> None:
        async with silent.write() as connection:
            await organization_store.create_organization(connection, "silent", "Silent")
            await make(other, "other")

    async with started(url) as silent, started(url, max_wait_s=DEADLINE_S) as other:
        with pytest.raises(DatabaseUnavailable):
            await write(silent, other)
        assert await slugs(other) == ["other"]


async def test_a_statement_that_takes_too_long_is_ended_by_the_server_too(fragile: PostgreSQL, url: str) -> None:
    async with started(url, max_wait_s=0.2) as database:
        with pytest.raises(DatabaseUnavailable):
            async with database.read() as connection:
                await connection.execute(sa.text("SELECT pg_sleep(3600)"))
        await well_again(database)
        await alone(fragile)


async def alone(server: PostgreSQL) -> None:
    """No client but this one keeps the server busy: at work, or half connected."""
    others = (
        "SELECT query FROM pg_stat_activity WHERE backend_type = 'client backend'"
        " AND state IN ('active', 'starting') AND pid <> pg_backend_pid()"
    )

    def busy() -> bool:
        try:
            with server.connect() as direct:
                return bool(direct.execute(others).fetchall())
        except psycopg.OperationalError:  # no slot for us either
            return True

    async with asyncio.timeout(DEADLINE_S):
        while busy():
            await asyncio.sleep(0.02)


async def test_a_deadlock_with_a_stranger_is_an_outage_not_a_fault_of_ours(
    fragile: PostgreSQL, url: str, database: Database
) -> None:
    async def write(stranger: psycopg.Connection) -> None:
        async with database.write() as connection:
            await connection.execute(rename, {"slug": "one"})
            crossing = asyncio.to_thread(stranger.execute, "UPDATE organizations SET name = 'y' WHERE slug = 'one'")
            waiting.append(asyncio.ensure_future(crossing))
            await connection.execute(rename, {"slug": "two"})

    waiting: list[asyncio.Future[object]] = []
    await make(database, "one")
    await make(database, "two")
    rename = sa.text("UPDATE organizations SET name = 'x' WHERE slug = :slug")
    with fragile.connect(url.rpartition("/")[2]) as stranger:
        stranger.execute("SET deadlock_timeout = '1h'")
        stranger.execute("BEGIN")
        stranger.execute("UPDATE organizations SET name = 'y' WHERE slug = 'two'")
        with pytest.raises(DatabaseUnavailable):
            await write(stranger)
        await asyncio.gather(*waiting)
        stranger.execute("ROLLBACK")
    assert await slugs(database) == ["one", "two"]


async def test_a_migration_beside_a_running_process_does_not_break_its_statements(
    fragile: PostgreSQL, url: str
) -> None:
    async with started(url, pool_size=1) as database:
        whole = sa.text("SELECT * FROM organizations")

        async def columns() -> int:
            async with database.read() as connection:
                return len((await connection.execute(whole)).keys())

        before = [await columns() for _ in range(10)]
        with fragile.connect(url.rpartition("/")[2]) as direct:
            direct.execute("ALTER TABLE organizations ADD COLUMN added text")
        assert await columns() == before[-1] + 1


async def test_limits_are_set_on_the_server_and_reads_are_one_snapshot(database: Database) -> None:
    names = (
        *("statement_timeout", "idle_in_transaction_session_timeout", "application_name", "client_encoding"),
        *("transaction_isolation", "transaction_read_only"),
    )

    async def shown(connection: object) -> list[object]:
        return [await connection.scalar(sa.text(f"SHOW {name}")) for name in names]  # type: ignore[attr-defined]

    async with database.read() as connection:
        assert await shown(connection) == ["2s", "10s", "sluice", "UTF8", "repeatable read", "off"]
    async with database.write() as connection:
        assert await shown(connection) == ["2s", "10s", "sluice", "UTF8", "read committed", "off"]


async def test_options_of_the_url_reach_the_server(url: str) -> None:
    asked = f"{url}?application_name=mine&options=-c%20work_mem%3D123kB"
    async with started(asked) as database, database.read() as connection:
        assert await connection.scalar(sa.text("SHOW application_name")) == "mine"
        assert await connection.scalar(sa.text("SHOW work_mem")) == "123kB"


UNMET_OPTIONS = {
    "sslmode=require": "server does not support SSL, but SSL was required",
    "sslmode=nonsense": "invalid sslmode value",
    "nonsense=1": "invalid connection option",
    "target_session_attrs=standby": "server is not in hot standby mode",
}


async def test_options_of_tls_and_roles_are_kept_to(url: str) -> None:
    for option, sentence in UNMET_OPTIONS.items():
        with pytest.raises(DatabaseUnusable, match=sentence) as caught:
            check(f"{url}?{option}")
        assert "\n" not in str(caught.value)


async def test_no_password_is_told_to_anyone(fragile: PostgreSQL, url: str) -> None:
    name, wrong = url.rpartition("/")[2], PASSWORD + "wrong"
    refusing = [
        fragile.url(name, wrong),
        url.replace(str(fragile.port), "1"),
        f"{url}?sslmode=require",
        fragile.url("missing"),
        f"postgresql://127.0.0.1:{fragile.port}/{name}?user=postgres&password={quote(wrong, safe='')}",
    ]
    told = []
    for refused_url in refusing:
        with pytest.raises(DatabaseUnusable) as caught:
            check(refused_url)
        told.append(str(caught.value))
        with capture_logs() as lines:
            async with started(refused_url, max_wait_s=5.0) as database:
                with pytest.raises(DatabaseUnavailable) as unavailable:
                    await database.probe()
        told += [str(lines), str(unavailable.value), repr(unavailable.value.__cause__)]
    secrets = {PASSWORD, wrong, quote(PASSWORD, safe=""), quote(wrong, safe="")}
    assert [text for text in told for secret in secrets if secret in text] == []
    assert "password authentication failed" in told[0]


async def test_a_database_of_another_encoding_is_refused(fragile: PostgreSQL) -> None:
    with fragile.connect() as direct:
        direct.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'")
    for use in (check, migrate):
        with pytest.raises(DatabaseUnusable, match=r"has the encoding LATIN1.*must be UTF8"):
            use(fragile.url("latin"))
    fragile.drop_database(fragile.url("latin"))


async def test_a_database_that_takes_no_writes_is_refused_at_start_and_an_outage_later(
    fragile: PostgreSQL, url: str
) -> None:
    name = sql.Identifier(url.rpartition("/")[2])
    with fragile.connect() as direct:
        direct.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    for use in (check, migrate):
        with pytest.raises(DatabaseUnusable, match="is read-only"):
            use(url)
    async with started(url) as database:
        assert await slugs(database) == []
        with pytest.raises(DatabaseUnavailable):
            await make(database, "acme")


def test_every_text_column_compares_by_code_point(fragile: PostgreSQL, url: str) -> None:
    with fragile.connect(url.rpartition("/")[2]) as direct:
        other = direct.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND data_type LIKE 'char%' AND collation_name IS DISTINCT FROM 'C'"
            " AND table_name <> 'alembic_version'"
        ).fetchall()
    assert other == []


@pytest.mark.parametrize("version", [16])
async def test_an_older_server_does_as_well(tmp_path_factory: pytest.TempPathFactory, version: int) -> None:
    with running(tmp_path_factory.mktemp("older"), version) as server:
        url = server.new_database()
        assert migrate(url) == REVISIONS
        assert check(url) == REVISIONS[-1]
        async with started(url) as database:
            await make(database, "acme")
            assert await slugs(database) == ["acme"]
