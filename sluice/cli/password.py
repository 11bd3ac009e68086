"""`sluice password`: resets a forgotten password; reads the new one from the terminal or from standard input.

It ends every session of the user. `--without-factor` also removes the second factor, for users who have lost both the
device and the recovery codes. Personal access tokens stay valid: revoke them if they are not trusted.

Several accounts may have the address. Like a login, the command takes the one that has verified it; without such an
account, and if there are several, `--org` selects one.
"""

import argparse
import getpass
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from chassis.errors import StartupError
from control.identity.members import member_store
from control.identity.users import session_store, user_store
from control.identity.users.user_store import User
from sluice.cli.database import load_settings, on_database

MAX_NAMED: Final = 20  # organizations in a message


class _NamedAccount(NamedTuple):
    """What the options name."""

    email: str
    org_slug: str | None

    @property
    def where(self) -> str:
        return "" if self.org_slug is None else f" in the organization {self.org_slug}"


def run(arguments: argparse.Namespace) -> int:
    """Set the password; the exit code. Raises StartupError for an unknown address, several accounts with the address,
    or an invalid password length.
    """
    named = _NamedAccount(arguments.email, arguments.org)
    settings, password = load_settings(arguments), _password()
    user = on_database(settings, lambda database: _set(database, named, password, arguments.without_factor))
    print(f"{user.email} has a new password{named.where}; all sessions were ended.")
    return 0


def _password() -> str:
    """Prompts twice on a terminal; otherwise reads the first line of standard input."""
    from control.identity.users.passwords import MAX_LENGTH, MIN_LENGTH

    if sys.stdin.isatty():
        password = getpass.getpass("New password: ")
        if getpass.getpass("Repeat the new password: ") != password:
            raise StartupError("The passwords do not match.", exit_code=2)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise StartupError(f"A password must have {MIN_LENGTH} to {MAX_LENGTH} characters.", exit_code=2)
    return password


async def _set(database: Database, named: _NamedAccount, password: str, without_factor: bool) -> User:
    from control.identity.users.passwords import Passwords

    async with database.read() as connection:
        user = await _find(connection, named)
    hashed = await Passwords().hash(password, salted_like=user.password_hash)
    async with database.write() as connection:
        await user_store.set_password(connection, user.id, hashed)
        await session_store.end_all(connection, user.id, datetime.now(UTC))
        if without_factor:
            await user_store.remove_factor(connection, user.id)
        await _record_audit(connection, user, without_factor)
    return user


async def _find(connection: AsyncConnection, named: _NamedAccount) -> User:
    """Raises StartupError unless it is one account."""
    if named.org_slug is not None:
        user = await user_store.find_in_organization(connection, named.email, named.org_slug)
        accounts = [] if user is None else [user]
    else:
        accounts = await user_store.list_accounts(connection, named.email)
    if not accounts:
        raise StartupError(f"There is no user with the e-mail address {named.email}{named.where}.")
    if len(accounts) > 1 and not accounts[0].email_verified:
        slugs = await _organizations_of(connection, accounts[:MAX_NAMED])
        more = ", ..." if len(accounts) > MAX_NAMED else ""
        message = (
            f"Several users have the e-mail address {named.email}; select one with --org: {', '.join(slugs)}{more}."
        )
        raise StartupError(message, exit_code=2)
    return accounts[0]


async def _organizations_of(connection: AsyncConnection, accounts: Sequence[User]) -> list[str]:
    """One organization of each account."""
    found = [await member_store.list_organizations(connection, user.id, 1) for user in accounts]
    return [organization.slug for each in found for organization, _ in each]


async def _record_audit(connection: AsyncConnection, user: User, without_factor: bool) -> None:
    from control.audit.record import COMMAND_REQUEST_ID, Actor
    from control.identity.account.api import record_in_all_orgs

    data = {"withoutFactor": without_factor}
    await record_in_all_orgs(connection, user.id, Actor, "user.password", data, COMMAND_REQUEST_ID)
