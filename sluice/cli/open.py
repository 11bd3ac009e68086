"""`sluice open`: opens the page in a browser, logged in as an owner of an organization.

Whoever can run it has access to the database, and so to everything. The link has a one-time code in its fragment, which
reaches no log and no proxy; it is good once, for ten minutes.
"""

import argparse
import urllib.request
import webbrowser
from datetime import UTC, datetime
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from control.identity.members import member_store
from control.identity.organizations import organization_store
from control.identity.users import login_store, user_store
from sluice import data_dir, process
from sluice.cli.database import get_organization, load_settings, open_database, record_command

# Of the first owner, who has no address; `.invalid` is reserved (RFC 2606), so no mail is ever sent there.
PLACEHOLDER: Final = "owner@sluice.invalid"
_TIMEOUT_S: Final = 10.0


def run(arguments: argparse.Namespace) -> int:
    """Create the code, and open or print the link; the exit code. Raises StartupError for an organization without an
    owner.
    """
    settings = load_settings(arguments, prepare=True)
    url = data_dir.running_url(settings.data_dir) or settings.base_url
    if not settings.public_url:  # that one may not be reachable from here
        _require_page(url)
    link = process.run(make_link(settings, url, arguments.org))
    if not arguments.print and webbrowser.open(link):
        print("The page opens in your browser, logged in as an owner. `sluice open --print` prints the link instead.")
        return 0
    print(link)
    return 0


def _require_page(base_url: str) -> None:
    """Raises StartupError if nothing at the URL serves the page: a code that cannot be spent helps nobody."""
    try:
        with urllib.request.urlopen(f"{base_url}/ui/", timeout=_TIMEOUT_S):  # noqa: S310 - of our own settings
            return
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise StartupError(
            f"There is no page at {base_url}/ui/ ({reason}): start `sluice up` or `sluice control`, or set "
            "SLUICE_PUBLIC_URL to the address at which browsers find it."
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
