"""`sluice secrets`: after a rotation every secret opens with the new key alone, on both databases."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from chassis.db.database import Database, migration_engine
from control.identity.sso import connection_store
from control.identity.sso.tables import Protocol
from control.identity.users import user_store
from control.notify.channels import store
from control.notify.channels.config import EmailConfig, Kind
from control.notify.channels.tables import notification_channels
from control.secrets.secret_box import KeyFile, KeyRing, SecretBox, key_id_of
from sluice.cli.secrets import _retire, _rotate
from tests.chassis.auth.tenants import new_tenant

from .conftest import ROOT, sluice

CHANNELS = 450  # more than two batches
SECRETS = CHANNELS + 2  # and a second factor, and the secret of an OpenID client


def command(data: Path, url: str, action: str) -> subprocess.CompletedProcess[str]:
    return sluice("secrets", action, "--data", data, SLUICE_DATABASE_URL=url)


async def fill(url: str, sealer: SecretBox) -> str:
    """Many configs, a connection to a provider, and the second factor of a user, whose id is the answer."""
    database = Database(url)
    await database.start()
    tenant = await new_tenant(database, "acme")
    async with database.write() as connection:
        for number in range(CHANNELS):
            await store.create(
                connection, sealer, org_id=tenant.organization.id, project_id=None, name="x", kind=Kind.EMAIL,
                config=EmailConfig([f"a{number}@example.org"]), enabled=True, created_by=tenant.owner_id,
            )  # fmt: skip
        user = await user_store.create_user(connection, "ada@example.org", "Ada", "hash", home_org_id=None)
        sealed = sealer.encrypt(b"totp", table="users", row=user.id, org="", column="totp_secret")
        await user_store.enroll_factor(connection, user.id, sealed)
        now = datetime.now(UTC)
        new = connection_store.new_connection(tenant.organization.id, Protocol.OIDC, now)
        secret = connection_store.encrypt_field(sealer, new, "oidc_client_secret", "s3cret")
        await connection_store.store(connection, None, replace(new, oidc_client_secret=secret), now)
    await database.close()
    return str(user.id)


async def open_all(url: str, sealer: SecretBox) -> set[str]:
    """Every config opens, and the secret of the client; the keys that they are sealed with."""
    database = Database(url)
    await database.start()
    async with database.read() as connection:
        rows = (await connection.execute(notification_channels.select())).all()
        org_id = rows[0].org_id
        provider = await connection_store.find_connection(connection, org_id, Protocol.OIDC)
    await database.close()
    assert provider is not None
    assert connection_store.decrypt_field(sealer, provider, "oidc_client_secret") == "s3cret"
    opened = [store.decrypt_config(sealer, row.org_id, row.id, Kind.EMAIL, bytes(row.config)) for row in rows]
    assert len(rows) == CHANNELS
    assert len({config.to[0] for config in opened if isinstance(config, EmailConfig)}) == CHANNELS
    return {key_id_of(bytes(row.config)) for row in rows} | {key_id_of(bytes(provider.oidc_client_secret or b""))}


@pytest.mark.both_stores
def test_secrets_are_reencrypted_and_the_old_key_is_retired(migrated_url: str, tmp_path: Path) -> None:
    ring = tmp_path / "sealing.keys"
    old = KeyFile(ring).generate().current_key_id
    sealer = SecretBox(KeyFile(ring))
    asyncio.run(fill(migrated_url, sealer))
    assert command(tmp_path, migrated_url, "show").stdout == f"key {old}: {SECRETS} secrets, encrypts new secrets\n"
    rotated = command(tmp_path, migrated_url, "rotate")
    new = KeyFile(ring).ring().current_key_id
    assert rotated.stdout.splitlines() == [
        f"Secrets re-encrypted with key {new}: {SECRETS}.",
        f"key {new}: {SECRETS} secrets, encrypts new secrets",
        f"key {old}: 0 secrets",
    ]
    assert asyncio.run(open_all(migrated_url, sealer)) == {new} != {old}
    retired = command(tmp_path, migrated_url, "retire")
    assert retired.stdout.splitlines()[1:] == [f"key {new}: {SECRETS} secrets, encrypts new secrets"]
    assert asyncio.run(open_all(migrated_url, SecretBox(KeyFile(ring)))) == {new}
    for done in (rotated, retired):
        assert (done.returncode, done.stderr) == (0, "")


def test_the_command_knows_every_encrypted_column_of_the_service() -> None:
    """In a process of its own: here other tests may have imported what the command has forgotten."""
    program = """
from chassis.auth.tables import metadata
from control.secrets.keyring import encrypted_columns
from sluice.cli.secrets import register_encrypted_columns
register_encrypted_columns()
known = {str(each.column) for each in encrypted_columns(metadata)}
import control.app
print(known == {str(each.column) for each in encrypted_columns(metadata)}, len(known))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "10"]


@pytest.mark.parametrize("migrated_url", ["sqlite"], indirect=True)
def test_a_missing_key_ring_is_reported_and_not_created(migrated_url: str, tmp_path: Path) -> None:
    ring = KeyFile(tmp_path / "sealing.keys")
    old = ring.generate().current_key_id
    asyncio.run(fill(migrated_url, SecretBox(ring)))
    ring.path.unlink()
    for action in ("show", "rotate", "retire"):
        done = command(tmp_path, migrated_url, action)
        assert done.returncode == 1
        assert f"The key ring {ring.path} does not exist" in done.stderr
        shown = f"key {old}: MISSING, so its {SECRETS} secrets cannot be decrypted\n"
        assert done.stdout == (shown if action == "show" else "")
    assert not ring.path.exists()


@pytest.mark.parametrize("migrated_url", ["sqlite"], indirect=True)
def test_a_secret_that_cannot_be_decrypted_stops_the_rotation(migrated_url: str, tmp_path: Path) -> None:
    ring = KeyFile(tmp_path / "sealing.keys")
    ring.generate()
    asyncio.run(fill(migrated_url, SecretBox(ring)))
    ring.path.unlink()
    ring.generate()
    assert "secrets cannot be decrypted" in command(tmp_path, migrated_url, "show").stdout
    done = command(tmp_path, migrated_url, "rotate")
    assert done.returncode == 1
    assert "No secret was lost" in done.stderr


@pytest.mark.parametrize("change", [_rotate, _retire])
def test_rotations_of_the_key_ring_are_serialized(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Database, KeyFile], Any]
) -> None:
    """Whoever reads and replaces it has the store's turn to write: of two rotations neither loses the other's key."""
    ring, real = KeyFile(tmp_path / "sealing.keys"), KeyFile.replace
    ring.generate()
    changed: list[int] = []

    def replace(keys: KeyFile, other: KeyRing) -> None:
        with pytest.raises(DBAPIError), migration_engine(migrated_url, 0.2).begin():
            pass
        changed.append(len(other.keys))
        real(keys, other)

    async def changing() -> None:
        database = Database(migrated_url)
        await database.start()
        await change(database, ring)
        await database.close()

    monkeypatch.setattr(KeyFile, "replace", replace)
    asyncio.run(changing())
    assert len(changed) == 1
