"""`sluice password`: resets a forgotten password; reads the new one from the terminal or from standard input.

It ends every session of the user. `--without-factor` also removes the second factor, for users who have lost both the
device and the recovery codes. Personal access tokens stay valid: revoke them if they are not trusted.
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
    """Set the password; the exit code. Raises StartupError for an unknown address or an invalid password length."""
    settings = SettingsSources.from_arguments(arguments).chassis_settings()
    process.log_to_stderr(settings)
    migrations.check(settings.effective_database_url)
    user = process.run(_set(settings, arguments.email, _password(), arguments.without_factor))
    print(f"{user.email} has a new password; all sessions were ended.")
    return 0


def _password() -> str:
    """Prompts twice on a terminal; otherwise reads the first line of standard input."""
    from control.identity.passwords import MAX_LENGTH, MIN_LENGTH

    if sys.stdin.isatty():
        password = getpass.getpass("New password: ")
        if getpass.getpass("Repeat the new password: ") != password:
            raise StartupError("The passwords do not match.", exit_code=2)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise StartupError(f"A password must have {MIN_LENGTH} to {MAX_LENGTH} characters.", exit_code=2)
    return password


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
