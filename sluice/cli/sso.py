"""`sluice sso`: the operator's word on single sign-on. `domain` says that a domain belongs to an organization, which
needs no DNS record then; `release` ends its enforcement, for an organization that has locked itself out.
"""

import argparse
import re
from datetime import UTC, datetime
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db import migrations
from chassis.db.database import Database
from chassis.errors import ApiError, StartupError
from chassis.runtime.settings import ChassisSettings
from control.identity.organizations import organization_store
from control.identity.organizations.organization_store import StoredOrganization
from sluice import process
from sluice.settings_sources import SettingsSources

_DOMAIN: Final = re.compile(
    r"(?=.{3,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+\Z"
)


def run(arguments: argparse.Namespace) -> int:
    """Do it; the exit code. Raises StartupError for an unknown organization, and for what is no domain."""
    domain = arguments.domain.lower() if arguments.action == "domain" else ""
    if arguments.action == "domain" and _DOMAIN.fullmatch(domain) is None:
        raise StartupError(f"--domain {arguments.domain} is not a domain name.", exit_code=2)
    settings = SettingsSources.from_arguments(arguments).chassis_settings()
    process.log_to_stderr(settings)
    migrations.check(settings.effective_database_url)
    print(process.run(_work(settings, arguments.org, domain)))
    return 0


async def _work(settings: ChassisSettings, org_slug: str, domain: str) -> str:
    database = Database.from_settings(settings)
    await database.start()
    try:
        async with database.write() as connection:
            organization = await organization_store.find_organization(connection, org_slug)
            if organization is None:
                raise StartupError(f"There is no organization {org_slug}.")
            if domain:
                return await _verify_domain(connection, organization, domain)
            return await _release(connection, organization)
    except ApiError as error:
        raise StartupError(error.message) from error
    finally:
        await database.close()


async def _verify_domain(connection: AsyncConnection, organization: StoredOrganization, domain: str) -> str:
    from control.audit.record import COMMAND_REQUEST_ID, Actor, record
    from control.identity.sso import domain_repository

    now = datetime.now(UTC)
    found = await domain_repository.find_by_name(connection, organization.id, domain)
    if found is not None and found.verified_at is not None:
        return f"{domain} is a domain of {organization.slug} already."
    added = found or await domain_repository.add(connection, organization.id, domain, now)
    await domain_repository.mark_verified(connection, added, now)
    data = {"domain": domain, "by": "operator"}
    await record(connection, Actor(organization.id), "sso.domain.verify", added.id, data, COMMAND_REQUEST_ID)
    return f"{domain} is a domain of {organization.slug}: members with an address in it are linked by it."


async def _release(connection: AsyncConnection, organization: StoredOrganization) -> str:
    from control.audit.record import COMMAND_REQUEST_ID, Actor, record
    from control.identity.sso import connection_repository, settings_repository

    now, released = datetime.now(UTC), 0
    for each in await connection_repository.list_connections(connection, organization.id):
        if each.enforced:
            released += 1
            await connection_repository.release(connection, each.id, now)
            data = {"protocol": each.protocol.value, "enforced": False}
            await record(connection, Actor(organization.id), "sso.connection.update", each.id, data, COMMAND_REQUEST_ID)
    await settings_repository.apply_enforcement(connection, organization.id, now)
    if not released:
        return f"{organization.slug} does not require single sign-on."
    return f"{organization.slug} no longer requires single sign-on: passwords and tokens of its users work again."
