"""`sluice owner`: creates an access token of an owner, to recover access when every owner is locked out.

Whoever can run it has access to the database, and so to everything. The token is written only to a file (mode 0600).
"""

import argparse
from functools import partial
from pathlib import Path

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from chassis.errors import StartupError
from control.identity.members import member_store
from control.identity.organizations import organization_store
from control.identity.users import session_store
from sluice import first_run
from sluice.cli.database import get_organization, load_settings, on_database, record_command

TOKEN_NAME = "Created by sluice owner"  # noqa: S105 (a name)


class RecoveredToken(msgspec.Struct, frozen=True, rename="camel"):
    """The contents of the file."""

    base_url: str
    org_slug: str
    principal_id: str
    access_token: str

    def __repr__(self) -> str:  # the access token is a secret
        return f"RecoveredToken(org_slug={self.org_slug!r}, principal_id={self.principal_id!r})"


def run(arguments: argparse.Namespace) -> int:
    """Create the token; the exit code. Raises StartupError for an unknown organization, one without an owner, or a
    file that exists.
    """
    settings = load_settings(arguments, prepare=True)
    file = Path(arguments.out).absolute() if arguments.out else settings.data_dir / f"owner-{arguments.org}.json"
    token = on_database(settings, partial(_make, base_url=settings.base_url, org_slug=arguments.org, file=file))
    print(f"A new token of owner {token.principal_id} of {token.org_slug} is in {file}. Existing tokens stay valid.")
    return 0


async def _make(database: Database, base_url: str, org_slug: str, file: Path) -> RecoveredToken:
    async with database.write() as connection:
        token = await _token(connection, base_url, org_slug)
        first_run.write(file, token)  # before the commit: otherwise a crash would lose the token
    return token


async def _token(connection: AsyncConnection, base_url: str, org_slug: str) -> RecoveredToken:
    organization = await get_organization(connection, org_slug)
    owner_id = await member_store.find_first_owner(connection, organization.id)
    if owner_id is None:
        raise StartupError(f"The organization {org_slug} has no owner.")
    if await session_store.blocks_user_tokens(connection, organization.id):
        raise StartupError(
            f"The organization {org_slug} requires single sign-on, for tokens of users too; run "
            f"`sluice sso release --org {org_slug}` first."
        )
    token = await organization_store.create_token(connection, organization.id, owner_id, TOKEN_NAME)
    data = {"holder": owner_id, "name": TOKEN_NAME, "scopes": [], "expiresAt": ""}
    await record_command(connection, organization.id, "token.create", token.id, data)
    return RecoveredToken(base_url, org_slug, owner_id, token.secret)
