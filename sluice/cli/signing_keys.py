"""`sluice signers`: lists the keys that sign the access tokens of sessions (`show`), or withdraws one (`withdraw`).

Within five seconds every process rejects tokens that a withdrawn key has signed. The process that has the key creates
no more sessions, so give it another key first (remove DATA/signing.key, restart). Sessions stay valid and only need a
new token.
"""

import argparse
from datetime import UTC, datetime
from functools import partial
from typing import Final

from chassis.auth.jwt import StoredKey, list_all_keys, withdraw_key
from chassis.db.database import Database, format_time
from chassis.errors import StartupError
from sluice.cli.database import load_settings, on_database

MAX_SHOWN: Final = 1_000


def run(arguments: argparse.Namespace) -> int:
    """Withdraw the key, if requested, and list all keys; the exit code. Raises StartupError for an unknown key."""
    withdrawn = arguments.kid if arguments.action == "withdraw" else None
    now = datetime.now(UTC)
    for key in on_database(load_settings(arguments), partial(_work, withdrawn=withdrawn, now=now)):
        print(_line(key, now))
    return 0


async def _work(database: Database, withdrawn: str | None, now: datetime) -> list[StoredKey]:
    async with database.write() as connection:
        if withdrawn is not None and not await withdraw_key(connection, withdrawn, now):
            raise StartupError(f"There is no signing key {withdrawn}.")
        return await list_all_keys(connection, MAX_SHOWN)


def _line(key: StoredKey, now: datetime) -> str:
    state = "in use" if key.trusted_at(now) else "unused for a week"
    if key.withdrawn_at is not None:
        state = f"withdrawn {format_time(key.withdrawn_at)}"
    return f"{key.kid}: {state}, created {format_time(key.created_at)}, last used {format_time(key.seen_at)}"
