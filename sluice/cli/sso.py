"""`sluice sso`: the operator's word on single sign-on. `domain` says that a domain belongs to an organization, which
needs no DNS record then; `release` ends its enforcement, for an organization that has locked itself out.
"""

import argparse
import re
from datetime import UTC, datetime
from functools import partial
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from chassis.errors import StartupError
from control.identity.organizations.organization_store import StoredOrganization
from sluice.cli.database import get_organization, load_settings, on_database, record_command

_DOMAIN: Final = re.compile(
    r"(?=.{3,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+\Z"
)


def run(arguments: argparse.Namespace) -> int:
    """Do it; the exit code. Raises StartupError for an unknown organization, and for what is no domain."""
    domain = arguments.domain.lower() if arguments.action == "domain" else ""
    if arguments.action == "domain" and _DOMAIN.fullmatch(domain) is None:
        raise StartupError(f"--domain {arguments.domain} is not a domain name.", exit_code=2)
    print(on_database(load_settings(arguments), partial(_work, org_slug=arguments.org, domain=domain)))
    return 0


async def _work(database: Database, org_slug: str, domain: str) -> str:
    async with database.write() as connection:
        organization = await get_organization(connection, org_slug)
        return await (
            _verify_domain(connection, organization, domain) if domain else _release(connection, organization)
        )


async def _verify_domain(connection: AsyncConnection, organization: StoredOrganization, domain: str) -> str:
    from control.identity.sso import domains

    now = datetime.now(UTC)
    found = await domains.find_domain(connection, organization.id, domain)
    if found is not None and found.verified_at is not None:
        return f"{domain} is a domain of {organization.slug} already."
    domain_id: str = found.id if found else await domains.add_domain(connection, organization.id, domain, now)
    await domains.mark_verified(connection, domain_id, now)
    data = {"domain": domain, "by": "operator"}
    await record_command(connection, organization.id, "sso.domain.verify", domain_id, data)
    return f"{domain} is a domain of {organization.slug}: members with an address in it are linked by it."


async def _release(connection: AsyncConnection, organization: StoredOrganization) -> str:
    from control.identity.sso import connection_store, options

    now, released = datetime.now(UTC), 0
    for each in await connection_store.list_connections(connection, organization.id):
        if each.enforced:
            released += 1
            await connection_store.release(connection, each.id, now)
            data = {"protocol": each.protocol.value, "enforced": False}
            await record_command(connection, organization.id, "sso.connection.update", each.id, data)
    await options.update_enforcement(connection, organization.id, now)
    if not released:
        return f"{organization.slug} does not require single sign-on."
    return f"{organization.slug} no longer requires single sign-on: passwords and tokens of its users work again."
