"""`sluice limits`: shows the quota of an organization, its usage, and the keys with their own rates.

With `--quota`, or `--key` and `--rate`, it sets them first. Gateways apply the change within five seconds.
"""

import argparse
import sys
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth import usage
from chassis.db.database import Database
from chassis.errors import StartupError
from control.identity.organizations import organization_store, project_key_store
from control.identity.organizations.organization_store import StoredOrganization
from sluice.cli.database import get_organization, load_settings, on_database, record_command

MAX_KEYS: Final = 1_000


class KeyRate(msgspec.Struct, frozen=True):
    """A key with its own rate, in requests per second; 0: no limit."""

    id: str
    name: str
    hint: str
    rate: int


class OrganizationLimits(msgspec.Struct, frozen=True, rename="camel"):
    """What is printed. `monthly_items` 0: unlimited. `used_items`: of this month, as gateways have reported so far."""

    org_slug: str
    month: str
    monthly_items: int
    used_items: int
    keys: tuple[KeyRate, ...]


def run(arguments: argparse.Namespace) -> int:
    """Apply the options and print; the exit code. Raises StartupError for an unknown organization or key."""
    if (arguments.key is None) != (arguments.rate is None):
        raise StartupError("--key and --rate must be used together.", exit_code=2)
    found = on_database(load_settings(arguments), partial(_work, arguments=arguments))
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        _print(found)
    return 0


async def _work(database: Database, arguments: argparse.Namespace) -> OrganizationLimits:
    async with database.write() as connection:
        await _set(connection, await get_organization(connection, arguments.org), arguments)
    async with database.read() as connection:
        return await _load_limits(connection, await get_organization(connection, arguments.org))


async def _set(connection: AsyncConnection, organization: StoredOrganization, arguments: argparse.Namespace) -> None:
    if arguments.quota is not None:
        await organization_store.set_quota(connection, organization.id, arguments.quota)
        data = {"monthlyItems": arguments.quota, "before": organization.monthly_items}
        await record_command(connection, organization.id, "organization.update", organization.id, data)
    if arguments.key is not None:
        rate = None if arguments.rate == "default" else arguments.rate
        if await project_key_store.set_key_rate(connection, organization.id, arguments.key, rate) is None:
            raise StartupError(f"The organization {organization.slug} has no key {arguments.key}.")
        await record_command(connection, organization.id, "key.update", arguments.key, {"rate": arguments.rate})


async def _load_limits(connection: AsyncConnection, organization: StoredOrganization) -> OrganizationLimits:
    month = f"{datetime.now(UTC):%Y-%m}"
    used = await usage.read_usage(connection, month, [organization.id])
    keys = await project_key_store.list_keys_with_rate(connection, organization.id, MAX_KEYS)
    return OrganizationLimits(
        organization.slug,
        month,
        organization.monthly_items,
        used.get(organization.id, 0),
        tuple(KeyRate(key.id, key.name, key.hint, key.rate or 0) for key in keys),
    )


def _print(found: OrganizationLimits) -> None:
    quota = f"of {found.monthly_items} items" if found.monthly_items else "items, without a quota"
    print(f"{found.org_slug}: {found.used_items} {quota} in {found.month} (UTC).")
    for key in found.keys:
        rate = f"{key.rate} requests per second" if key.rate else "no limit"
        print(f"  key {key.id} ({key.name}, ...{key.hint}): {rate}")
