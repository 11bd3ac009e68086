"""`sluice signers`: lists the keys that sign the access tokens of sessions (`show`), or withdraws one (`withdraw`).

Every process rejects what a withdrawn key signed within five seconds, and the process that has the key creates no more
sessions: give it another key first (remove DATA/signing.key, restart). Sessions stay valid and only need a new token.
"""

import argparse
from datetime import UTC, datetime
from typing import Final

from chassis.auth.jwt import StoredKey, list_all_keys, withdraw_key
from chassis.db import migrations
from chassis.db.database import Database, format_time
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from sluice import process
from sluice.settings_sources import SettingsSources

MAX_SHOWN: Final = 1_000


def run(arguments: argparse.Namespace) -> int:
    """Withdraw the key, if requested, and list all keys; the exit code. Raises StartupError for an unknown key."""
    settings = SettingsSources.from_arguments(arguments).chassis_settings()
    process.log_to_stderr(settings)
    migrations.check(settings.effective_database_url)
    withdrawn = arguments.kid if arguments.action == "withdraw" else None
    now = datetime.now(UTC)
    for key in process.run(_work(settings, withdrawn, now)):
        print(_line(key, now))
    return 0


async def _work(settings: ChassisSettings, withdrawn: str | None, now: datetime) -> list[StoredKey]:
    database = Database.from_settings(settings)
    await database.start()
    try:
        async with database.write() as connection:
            if withdrawn is not None and not await withdraw_key(connection, withdrawn, now):
                raise StartupError(f"There is no signing key {withdrawn}.")
            return await list_all_keys(connection, MAX_SHOWN)
    finally:
        await database.close()


def _line(key: StoredKey, now: datetime) -> str:
    state = "in use" if key.trusted_at(now) else "unused for a week"
    if key.withdrawn_at is not None:
        state = f"withdrawn {format_time(key.withdrawn_at)}"
    return f"{key.kid}: {state}, created {format_time(key.created_at)}, last used {format_time(key.seen_at)}"
