"""`sluice owner`: an organization that nobody gets into any more is not lost."""

import asyncio
import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from chassis.auth.tables import access_tokens
from chassis.db.database import Database
from control.audit.tables import audit_events
from control.identity.organizations import organization_store
from proto.identity import PrincipalKind, Role, hash_secret
from tests.chassis.auth.tenants import new_tenant

from .conftest import refusal, sluice


async def founded(url: str, *, disabled: bool = False) -> str:
    """An organization whose owner has lost his token; the id of the one who is to get another."""
    database = Database(url)
    await database.start()
    tenant = await new_tenant(database, "acme")
    async with database.write() as connection:
        await organization_store.revoke_token(connection, tenant.organization.id, tenant.token.id)
        second = await organization_store.create_principal(connection, PrincipalKind.USER, "Second")
        await organization_store.add_membership(connection, tenant.organization.id, second.id, Role.OWNER)
        if disabled:
            await organization_store.disable_principal(connection, tenant.owner_id)
    await database.close()
    return second.id if disabled else tenant.owner_id


async def kept(url: str) -> tuple[list[tuple[str, bytes]], list[tuple[str, str]]]:
    """Holders and hashes of tokens that work, and the audit."""
    database = Database(url)
    await database.start()
    async with database.read() as connection:
        live = sa.select(access_tokens.c.principal_id, access_tokens.c.hash).where(access_tokens.c.revoked_at.is_(None))
        tokens = [(row[0], bytes(row[1])) for row in await connection.execute(live)]
        told = sa.select(audit_events.c.action, audit_events.c.request_id)
        events = [(row[0], row[1]) for row in await connection.execute(told)]
    await database.close()
    return tokens, events


@pytest.mark.parametrize("disabled", [False, True])
def test_the_first_active_owner_gets_a_new_token(migrated_url: str, tmp_path: Path, disabled: bool) -> None:
    owner_id = asyncio.run(founded(migrated_url, disabled=disabled))
    settings = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_DATABASE_URL": migrated_url}
    done = sluice("owner", "--org", "acme", **settings)
    assert (done.returncode, done.stderr) == (0, "")
    file = tmp_path / "data" / "owner-acme.json"
    assert file.stat().st_mode & 0o777 == 0o600
    made = json.loads(file.read_text())
    assert list(made) == ["baseUrl", "orgSlug", "principalId", "accessToken"]
    assert (made["orgSlug"], made["principalId"], made["accessToken"] in done.stdout) == ("acme", owner_id, False)
    tokens, events = asyncio.run(kept(migrated_url))
    assert tokens == [(owner_id, hash_secret(made["accessToken"]))]
    assert events == [("token.create", "(command)")]
    assert "may have the only copy of a secret" in refusal(sluice("owner", "--org", "acme", **settings), 1)
    assert asyncio.run(kept(migrated_url)) == (tokens, events), "and nothing was made"


def test_an_unknown_organization_is_named(migrated_file: Path, tmp_path: Path) -> None:
    settings = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_DATABASE_URL": f"sqlite:///{migrated_file}"}
    assert refusal(sluice("owner", "--org", "acme", **settings), 1) == "There is no organization acme."
