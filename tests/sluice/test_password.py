"""`sluice password`: who has lost his gets in again, and nobody else stays in."""

import asyncio
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from chassis.auth.tables import recovery_codes
from chassis.auth.tables import sessions as session_table
from chassis.db.database import Database
from control.audit.tables import audit_events
from control.identity.organizations import organization_store
from control.identity.users import session_store, user_store
from control.identity.users.passwords import Passwords
from control.identity.users.user_store import User
from proto.identity import Role
from tests.chassis.auth.tenants import new_tenant

from .conftest import sluice

PASSWORD = "a fresh horse battery"
ADA = "ada@example.org"


def command(data: Path, url: str, given: str, *options: str) -> subprocess.CompletedProcess[str]:
    settings = {"SLUICE_DATA": str(data), "SLUICE_DATABASE_URL": url}
    return sluice("password", *options, given=given, **settings)


async def ada(url: str) -> None:
    """A member with a session and a second factor."""
    database = Database(url)
    await database.start()
    tenant = await new_tenant(database, "acme")
    now = datetime.now(UTC)
    async with database.write() as connection:
        user = await user_store.create_user(
            connection, "ada@example.org", "Ada", "hash", home_org_id=tenant.organization.id
        )
        await organization_store.add_membership(connection, tenant.organization.id, user.id, Role.MEMBER)
        await session_store.start(connection, tenant.organization.id, user.id, ("pwd",), now)
        await user_store.enroll_factor(connection, user.id, b"sealed")
        await user_store.confirm_factor(connection, user.id, 1, now)
        await user_store.replace_recovery_codes(connection, user.id, [b"h" * 32])
    await database.close()


async def state(url: str) -> tuple[User, int, int, list[tuple[str, str | None, str]]]:
    """The user, how many sessions and recovery codes there are, and the audit."""
    database = Database(url)
    await database.start()
    async with database.read() as connection:
        [user] = await user_store.list_accounts(connection, "ada@example.org")
        live = sa.select(sa.func.count()).where(session_table.c.revoked_at.is_(None))
        codes = sa.select(sa.func.count()).select_from(recovery_codes)
        counted = await connection.scalar(live) or 0, await connection.scalar(codes) or 0
        told = sa.select(audit_events.c.action, audit_events.c.actor_id, audit_events.c.request_id)
        events = [(row[0], row[1], row[2]) for row in await connection.execute(told)]
    await database.close()
    return user, *counted, events


@pytest.mark.parametrize("without", [False, True])
def test_a_new_password_ends_sessions_and_on_demand_the_factor(
    migrated_url: str, tmp_path: Path, without: bool
) -> None:
    asyncio.run(ada(migrated_url))
    options = ["--without-factor"] if without else []
    done = command(tmp_path, migrated_url, PASSWORD + "\n", "--email", "Ada@example.org", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "ada@example.org has a new password; all sessions were ended.\n"
    user, live, codes, events = asyncio.run(state(migrated_url))
    assert asyncio.run(Passwords().matches(user.password_hash, PASSWORD))
    assert (live, codes, user.has_factor) == (0, 0 if without else 1, not without)
    assert events == [("user.password", None, "(command)")]


async def several(url: str, *, verified: bool) -> None:
    """Accounts with one address in three organizations."""
    database = Database(url)
    await database.start()
    for number, slug in enumerate(("acme", "globex", "initech")):
        tenant = await new_tenant(database, slug)
        home = None if verified and slug == "globex" else tenant.organization.id
        async with database.write() as connection:
            user = await user_store.create_user(connection, ADA, "Ada", f"hash {number}", home_org_id=home)
            await organization_store.add_membership(connection, tenant.organization.id, user.id, Role.MEMBER)
    await database.close()


async def changed(url: str) -> list[str]:
    """Slugs of the organizations whose accounts have the new password."""
    database = Database(url)
    await database.start()
    slugs = []
    async with database.read() as connection:
        for slug in ("acme", "globex", "initech"):
            user = await user_store.find_in_organization(connection, ADA, slug)
            if user is not None and await Passwords().matches(user.password_hash, PASSWORD):
                slugs.append(slug)
    await database.close()
    return slugs


@pytest.mark.parametrize(
    ("verified", "options", "code", "expected"),
    [
        (False, [], 2, []),
        (False, ["--org", "initech"], 0, ["initech"]),
        (False, ["--org", "nowhere"], 1, []),
        (True, [], 0, ["globex"]),
        (True, ["--org", "acme"], 0, ["acme"]),
    ],
)
def test_one_of_several_accounts_is_selected(
    migrated_url: str, tmp_path: Path, verified: bool, options: list[str], code: int, expected: list[str]
) -> None:
    asyncio.run(several(migrated_url, verified=verified))
    done = command(tmp_path, migrated_url, PASSWORD + "\n", "--email", ADA, *options)
    where = f" in the organization {options[1]}" if options else ""
    said = {
        0: f"{ADA} has a new password{where}; all sessions were ended.",
        1: f"sluice: There is no user with the e-mail address {ADA} in the organization nowhere.",
        2: f"sluice: Several users have the e-mail address {ADA}; select one with --org: acme, globex, initech.",
    }
    assert (done.returncode, (done.stdout + done.stderr).strip()) == (code, said[code])
    assert asyncio.run(changed(migrated_url)) == expected


@pytest.mark.parametrize(
    ("given", "email", "code", "said"),
    [
        ("x" * 11, "ada@example.org", 2, "12 to 200 characters"),
        ("x" * 201, "ada@example.org", 2, "12 to 200 characters"),
        (PASSWORD, "bob@example.org", 1, "no user with the e-mail address bob@example.org"),
    ],
)
def test_an_invalid_password_is_reported_and_nothing_is_changed(
    migrated_url: str, tmp_path: Path, given: str, email: str, code: int, said: str
) -> None:
    asyncio.run(ada(migrated_url))
    done = command(tmp_path, migrated_url, given, "--email", email)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert given not in done.stderr
    user, live, codes, events = asyncio.run(state(migrated_url))
    assert (user.password_hash, live, codes, events) == ("hash", 1, 1, [])
