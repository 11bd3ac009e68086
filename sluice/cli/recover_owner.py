"""`sluice owner`: creates an access token of an owner, to recover access when every owner is locked out.

Whoever can run it has access to the database, and so to everything. The token is written only to a file (mode 0600).
"""

import argparse
from pathlib import Path

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db import migrations
from chassis.db.database import Database
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from control.identity.members import member_store
from control.identity.organizations import organization_store
from control.identity.users import session_store
from sluice import bootstrap_file, data_dir, process
from sluice.settings_sources import SettingsSources

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
    settings = SettingsSources.from_arguments(arguments).chassis_settings()
    process.log_to_stderr(settings)
    data_dir.prepare(settings.data_dir)
    migrations.check(settings.effective_database_url)
    file = Path(arguments.out).absolute() if arguments.out else settings.data_dir / f"owner-{arguments.org}.json"
    token = process.run(_make(settings, arguments.org, file))
    print(f"A new token of owner {token.principal_id} of {token.org_slug} is in {file}. Existing tokens stay valid.")
    return 0


async def _make(settings: ChassisSettings, org_slug: str, file: Path) -> RecoveredToken:
    database = Database.from_settings(settings)
    await database.start()
    try:
        async with database.write() as connection:
            token = await _token(connection, settings.base_url, org_slug)
            bootstrap_file.write(file, token)  # before the commit: otherwise a crash would lose the token
        return token
    finally:
        await database.close()


async def _token(connection: AsyncConnection, base_url: str, org_slug: str) -> RecoveredToken:
    from control.audit.record import COMMAND_REQUEST_ID, Actor, record

    organization = await organization_store.find_organization(connection, org_slug)
    if organization is None:
        raise StartupError(f"There is no organization {org_slug}.")
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
    await record(connection, Actor(organization.id), "token.create", token.id, data, COMMAND_REQUEST_ID)
    return RecoveredToken(base_url, org_slug, owner_id, token.secret)
