"""Migration 0006: accounts of before keep their organizations, credentials and second factors."""

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from argon2 import PasswordHasher

from chassis.auth.tables import invitations, recovery_codes, users
from chassis.db import migrations
from chassis.db.database import Database, UtcTime, migration_engine
from chassis.errors import Conflict
from control.identity import member_repository, organization_repository, user_repository
from control.settings import ControlSettings
from proto.identity import Role
from tests.control.conftest import serving
from tests.control.identity.conftest import PASSWORD
from tests.databases import REVISIONS

pytestmark = pytest.mark.both_stores

AT = "2026-11-20T15:17:03.123Z"
# Who is a member of what, in the order of joining.
MEMBERS = {"ada": ("o2", "o1"), "bob": ("o1",), "eve": (), "mia": ("o2",)}


@pytest.fixture
def earlier(database_url: str) -> str:
    """A database of the release before, with accounts in it; mia has verified her address, by hand."""
    with migrations._connect(database_url) as connection:
        config = migrations._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0005")
    engine = migration_engine(database_url)
    with engine.begin() as connection:
        _insert_accounts(connection)
    engine.dispose()
    return database_url


def _insert_accounts(connection: sa.Connection) -> None:
    def insert(table: str, **values: object) -> None:
        columns = ", ".join(values)
        statement = sa.text(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(f':{name}' for name in values)})")
        times = [sa.bindparam(name, type_=UtcTime) for name in values if name.endswith("_at")]
        connection.execute(statement.bindparams(*times), values)

    def at(second: int) -> object:
        return UtcTime().process_result_value(f"2026-11-20T15:17:{second:02}.000Z", connection.dialect)

    for org in ("o1", "o2"):
        insert("organizations", id=org, slug=f"org-{org}", name=org, monthly_items=0, created_at=at(0))
    hashed = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    for name, orgs in MEMBERS.items():
        insert("principals", id=name, kind="user", name=name, created_at=at(1))
        insert(
            "users", principal_id=name, email=f"{name}@example.org", email_verified=name == "mia", password_hash=hashed,
            totp_secret=b"sealed", totp_confirmed_at=None, totp_step=7, locale="en", theme="dark", avatar_url=None,
            created_at=at(2),
        )  # fmt: skip
        insert("recovery_codes", principal_id=name, hash=name.encode().ljust(32), used_at=at(3))
        for second, org in enumerate(orgs):
            insert("memberships", org_id=org, principal_id=name, role="MEMBER", created_at=at(4 + second))
    insert(
        "invitations", id="inv", org_id="o1", email="x@example.org", role="VIEWER", hash=b"h" * 32, created_by="ada",
        created_at=at(5), expires_at=at(6),
    )  # fmt: skip


def test_accounts_keep_their_rows_and_get_a_home(earlier: str) -> None:
    assert migrations.migrate(earlier) == REVISIONS[5:]
    engine = migration_engine(earlier)
    with engine.begin() as connection:
        kept = {row.principal_id: row for row in connection.execute(sa.select(users))}
        codes = {row.principal_id: row for row in connection.execute(sa.select(recovery_codes))}
        assert connection.execute(sa.select(invitations.c.mailed)).scalars().all() == [False]
        tables = set(sa.inspect(connection).get_table_names())
    engine.dispose()
    assert {name: row.home_org_id for name, row in kept.items()} == {"ada": "o2", "bob": "o1", "eve": None, "mia": None}
    for name, row in kept.items():
        assert (row.email, row.email_verified) == (f"{name}@example.org", name == "mia")
        assert (bytes(row.totp_secret), row.totp_step, row.theme) == (b"sealed", 7, "dark")
        assert row.created_at.second == 2
        assert (bytes(codes[name].hash), codes[name].used_at.second) == (name.encode().ljust(32), 3)
    assert not [name for name in tables if name.startswith("moved")]


def test_accounts_of_several_organizations_stay_in_them_and_join_no_other(earlier: str) -> None:
    migrations.migrate(earlier)
    asyncio.run(_check_memberships(earlier))


async def _check_memberships(url: str) -> None:
    database = Database(url)
    await database.start()
    async with database.write() as connection:
        third = (await organization_repository.create_organization(connection, "third", "Third")).id
        for name in ("ada", "bob", "eve"):
            with pytest.raises(Conflict, match="confined"):
                await organization_repository.add_membership(connection, third, name, Role.MEMBER)
        await organization_repository.add_membership(connection, third, "mia", Role.MEMBER)
        assert len(await member_repository.list_organizations(connection, "ada", 10)) == 2
        homes = []
        for org in ("o2", "o1"):
            await organization_repository.remove_membership(connection, org, "ada")
            await user_repository.leave_home(connection, "ada", org)
            homes.append((await user_repository.get_user(connection, "ada")).home_org_id)
        assert homes == ["o1", None], "it is confined to the other one, then closed"
    await database.close()


async def test_passwords_of_before_log_in(earlier: str, tmp_path: Path) -> None:
    migrations.migrate(earlier)
    engine = migration_engine(earlier)
    with engine.begin() as connection:
        connection.execute(users.update().values(totp_secret=None))  # the service would look for its key
    engine.dispose()
    async with serving(earlier, tmp_path, ControlSettings()) as control:
        for name, org, expected in (
            ("ada", "org-o1", 200),
            ("ada", "org-o2", 200),
            ("ada", None, 400),
            ("bob", None, 200),
        ):
            body = {"email": f"{name}@example.org", "password": PASSWORD} | ({"orgSlug": org} if org else {})
            assert (await control.call("POST", "/auth/login", body))[0] == expected, (name, org)
        body = {"email": "eve@example.org", "password": PASSWORD}
        assert (await control.call("POST", "/auth/login", body))[0] == 401, "who was in no organization has left"
