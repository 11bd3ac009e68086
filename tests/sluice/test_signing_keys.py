"""`sluice signers`: the keys that sessions are signed with, shown and withdrawn."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chassis.auth.jwt import JwtSigner, list_trusted_keys, publish_key
from chassis.db.database import Database

from .conftest import refusal, sluice

NOW = datetime.now(UTC).replace(microsecond=0)
KEYS = [JwtSigner.from_seed(bytes([number]) * 32).public for number in range(3)]


async def published(url: str) -> None:
    """Two in use, the first for longer, and one that was not heard of."""
    database = Database(url)
    await database.start()
    async with database.write() as connection:
        for days, key in enumerate(KEYS):
            await publish_key(connection, key, NOW - timedelta(days=4 * days))
    await database.close()


async def believed(url: str) -> list[str]:
    database = Database(url)
    await database.start()
    async with database.read() as connection:
        found = await list_trusted_keys(connection, datetime.now(UTC))
    await database.close()
    return [key.kid for key in found]


def test_keys_are_shown_and_withdrawn(migrated_url: str, tmp_path: Path) -> None:
    asyncio.run(published(migrated_url))
    settings = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_DATABASE_URL": migrated_url}
    shown = sluice("signers", "show", **settings)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert [line.partition(", created")[0] for line in lines] == [
        f"{KEYS[0].kid}: in use", f"{KEYS[1].kid}: in use", f"{KEYS[2].kid}: unused for a week",
    ]  # fmt: skip
    assert refusal(sluice("signers", "withdraw", "none", **settings), 1) == "There is no signing key none."
    done = sluice("signers", "withdraw", KEYS[0].kid, **settings)
    at = done.stdout.splitlines()[0].removeprefix(f"{KEYS[0].kid}: withdrawn ").partition(",")[0]
    assert NOW <= datetime.fromisoformat(at) <= datetime.now(UTC)
    assert done.stdout.splitlines()[1:] == lines[1:]
    assert asyncio.run(believed(migrated_url)) == [KEYS[1].kid]
    assert sluice("signers", "withdraw", **settings).returncode == 2
