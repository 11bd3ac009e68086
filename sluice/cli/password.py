"""`sluice password`: a new password for a user who has lost his, from the keyboard or from standard input.

Every session of the user ends by it; with `--without-factor` the second factor goes, too, for who has lost the device
and the recovery codes. Personal access tokens stay: revoke them where they are not trusted.
"""

import argparse
import getpass
import sys
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db import migrations
from chassis.db.database import Database
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from control.identity import session_repository, user_repository
from control.identity.user_repository import User
from sluice import process
from sluice.settings_sources import SettingsSources


def run(arguments: argparse.Namespace) -> int:
    """Set it; the exit code. Raises StartupError for an address of nobody, and a password of a length that is none."""
    settings = SettingsSources.from_arguments(arguments).chassis_settings()
    process.log_to_stderr(settings)
    migrations.check(settings.effective_database_url)
    user = process.run(_set(settings, arguments.email, _password(), arguments.without_factor))
    print(f"{user.email} has a new password, and no sessions.")
    return 0


def _password() -> str:
    """Asked for twice at a keyboard, else the first line of what is piped in."""
    from control.identity.passwords import MAX_LENGTH, MIN_LENGTH

    if sys.stdin.isatty():
        given = getpass.getpass("New password: ")
        if getpass.getpass("Once more: ") != given:
            raise StartupError("The two are not the same.", exit_code=2)
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if not MIN_LENGTH <= len(given) <= MAX_LENGTH:
        raise StartupError(f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters.", exit_code=2)
    return given


async def _set(settings: ChassisSettings, email: str, password: str, without_factor: bool) -> User:
    from control.identity.passwords import Passwords

    database = Database.from_settings(settings)
    await database.start()
    try:
        hashed = await Passwords().hash(password)
        async with database.write() as connection:
            user = await user_repository.find_user_by_email(connection, email)
            if user is None:
                raise StartupError(f"There is no user with the e-mail address {email}.")
            await user_repository.set_password(connection, user.id, hashed)
            await session_repository.end_all(connection, user.id, datetime.now(UTC))
            if without_factor:
                await user_repository.remove_factor(connection, user.id)
            await _record_audit(connection, user, without_factor)
        return user
    finally:
        await database.close()


async def _record_audit(connection: AsyncConnection, user: User, without_factor: bool) -> None:
    from control.audit.record import COMMAND_REQUEST_ID, Actor
    from control.identity.account_audit import record_in_all_orgs

    data = {"withoutFactor": without_factor}
    await record_in_all_orgs(connection, user.id, Actor, "user.password", data, COMMAND_REQUEST_ID)
