"""The key ring of a process: drawn at the first start, and only where nothing was encrypted with another one."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from chassis.auth.tables import metadata
from chassis.db.database import Database, DatabaseUnavailable
from control.identity.users import user_store
from control.secrets import keyring
from control.secrets.keyring import KeyringWatcher
from control.secrets.secret_box import KeyFile, KeyRingMissing, SecretBox


def keeper(database: Database, path: Path) -> tuple[KeyFile, KeyringWatcher]:
    keys = KeyFile(path / "sealing.keys")
    return keys, KeyringWatcher(keys, database, metadata)


async def seal_something(database: Database, sealer: SecretBox) -> None:
    async with database.write() as connection:
        user = await user_store.create_user(connection, "ada@example.org", "Ada", "hash", home_org_id=None)
        sealed = sealer.encrypt(b"totp", table="users", row=user.id, org="", column="totp_secret")
        await user_store.enroll_factor(connection, user.id, sealed)


async def test_it_is_drawn_once_and_then_read(database: Database, tmp_path: Path) -> None:
    """Also by several processes that start together."""
    made = [keeper(database, tmp_path) for _ in range(4)]
    await asyncio.gather(*(each.check() for _, each in made))
    again, at_next_start = keeper(database, tmp_path)
    await at_next_start.check()
    assert [keys.ring() for keys, _ in made] == [again.ring()] * 4


async def test_a_ring_that_is_lost_stops_the_start_and_comes_back(database: Database, tmp_path: Path) -> None:
    keys, at_start = keeper(database, tmp_path)
    await at_start.check()
    await seal_something(database, SecretBox(keys))
    lost = keys.path.rename(tmp_path / "backup")
    with pytest.raises(KeyRingMissing, match="from a backup"):
        await anext(keeper(database, tmp_path)[1].running())
    assert not keys.path.exists()
    lost.rename(keys.path)
    await keeper(database, tmp_path)[1].check()


async def test_a_running_process_says_that_its_ring_is_gone(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "CHECK_INTERVAL_S", 0.01)
    keys, running = keeper(database, tmp_path)
    with capture_logs() as logs:
        resource = running.running()
        await anext(resource)
        kept = keys.ring()
        keys.path.unlink()
        async with asyncio.timeout(5):
            while not logs:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await anext(resource, None)
    assert [(entry["log_level"], entry["error"]) for entry in logs] == [
        ("warning", f"The key ring {keys.path} does not exist.")
    ]
    assert keys.ring() == kept
    assert not keys.path.exists()


async def test_a_ring_is_drawn_when_the_store_is_back(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "CHECK_INTERVAL_S", 0.01)
    away = Database(migrated_url)
    keys, running = keeper(away, tmp_path)  # not started: it is away
    with pytest.raises(DatabaseUnavailable):
        await running.check()
    resource = running.running()
    await anext(resource)
    assert not keys.path.exists()
    await away.start()
    async with asyncio.timeout(5):
        while not keys.path.exists():
            await asyncio.sleep(0.01)
    await anext(resource, None)
    await away.close()
