"""`sluice password`: resets a forgotten password. Reads the new password from the terminal or from standard input.

It ends every session of the user. `--without-factor` also removes the second factor, for users who have lost both the
device and the recovery codes. Personal access tokens stay valid: revoke them if they are not trusted.

Several accounts may have the same address. Like a login, the command uses the account that has verified the address. If
no account has verified it and there are several accounts, `--org` selects one.

`sluice open`: opens the page in a browser, logged in as an owner of an organization.

A user who can run this command has access to the database, and so to all data. The link has a login code in its
fragment, which reaches no log and no proxy. The code works once, within ten minutes.
"""

import argparse
import getpass
import sys
import urllib.request
import webbrowser
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from control.identity.members import member_store
from control.identity.organizations import organization_store
from control.identity.users import login_store, session_store, user_store
from control.identity.users.user_store import User
from sluice import data_dir, process
from sluice.cli.database import get_organization, load_settings, on_database, open_database, record_command

MAX_NAMED: Final = 20  # organizations in a message


class _NamedAccount(NamedTuple):
    """The account that the options name."""

    email: str
    org_slug: str | None

    @property
    def where(self) -> str:
        return "" if self.org_slug is None else f" in the organization {self.org_slug}"


def run_password(arguments: argparse.Namespace) -> int:
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
    """The account. Raises StartupError unless exactly one account matches."""
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


# For the first owner, who has no address. `.invalid` is reserved (RFC 2606), so no mail is ever sent to it.
PLACEHOLDER: Final = "owner@sluice.invalid"
_TIMEOUT_S: Final = 10.0


def run_open(arguments: argparse.Namespace) -> int:
    """Create the code, and open or print the link; the exit code. Raises StartupError for an organization without an
    owner.
    """
    settings = load_settings(arguments, prepare=True)
    url = data_dir.running_url(settings.data_dir) or settings.base_url
    if not settings.public_url:  # a public URL may not be reachable from this machine
        _require_page(url)
    link = process.run(make_link(settings, url, arguments.org))
    if not arguments.print and webbrowser.open(link):
        print("The page opens in your browser, logged in as an owner. `sluice open --print` prints the link instead.")
        return 0
    print(link)
    return 0


def _require_page(base_url: str) -> None:
    """Raises StartupError if no service at the URL serves the page, because the code could not be used."""
    try:
        with urllib.request.urlopen(f"{base_url}/ui/", timeout=_TIMEOUT_S):  # noqa: S310 - of our own settings
            return
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise StartupError(
            f"There is no page at {base_url}/ui/ ({reason}): start `sluice up` or `sluice control`, or set "
            f"SLUICE_PUBLIC_URL to the address that browsers use."
        ) from error


async def make_link(settings: ChassisSettings, base_url: str, org_slug: str | None) -> str:
    """A link that logs an owner in once, within ten minutes. `org_slug` None: the first organization."""
    async with open_database(settings) as database, database.write() as connection:
        return f"{base_url}/ui/#code={await _code(connection, org_slug)}"


async def _code(connection: AsyncConnection, org_slug: str | None) -> str:
    org_id = await _find_organization(connection, org_slug)
    owner_id = await member_store.find_first_owner(connection, org_id)
    if owner_id is None:
        raise StartupError("The organization has no owner; `sluice owner --org SLUG` recovers access.")
    if await user_store.find_user(connection, owner_id) is None:
        await user_store.create_account(connection, owner_id, PLACEHOLDER, org_id)
    code = await login_store.create_code(connection, org_id, owner_id, datetime.now(UTC))
    await record_command(connection, org_id, "login_code.create", owner_id, {})
    return code


async def _find_organization(connection: AsyncConnection, org_slug: str | None) -> str:
    if org_slug is None:
        found = await organization_store.find_first_organization(connection)
        if found is None:
            raise StartupError("There is no organization yet: `sluice up` or `sluice init` creates one.")
        return found.id
    return (await get_organization(connection, org_slug)).id
