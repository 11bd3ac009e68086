"""`sluice limits`: shows the quota of an organization, its usage, and the keys with their own rates.

With `--quota`, or `--key` and `--rate`, it sets them first. Gateways apply the change within five seconds.

`sluice billing`: shows the subscription of an organization, and links its customer at the payment processor.

Only the operator can link a customer to an organization: events of the processor about the customer apply only to this
organization (docs/billing.md).

`sluice sso`: the operator's commands for single sign-on. `domain` confirms that a domain belongs to an organization,
which then needs no DNS record. `release` ends the enforcement of single sign-on, for an organization that has locked
itself out.

`sluice owner`: creates an access token of an owner, to recover access when every owner is locked out.

A user who can run this command has access to the database, and so to all data. The token is written only to a file
(mode 0600).
"""

import argparse
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth import usage
from chassis.db.database import Database, format_time
from chassis.errors import StartupError
from control.governance.billing import store as billing_store
from control.identity.members import member_store
from control.identity.organizations import organization_store, project_key_store
from control.identity.organizations.organization_store import StoredOrganization
from control.identity.users import session_store
from sluice import first_run
from sluice.cli.database import get_organization, load_settings, on_database, record_command

MAX_KEYS: Final = 1_000


class KeyRate(msgspec.Struct, frozen=True):
    """A key with its own rate, in requests per second; 0: no limit."""

    id: str
    name: str
    hint: str
    rate: int


class OrganizationLimits(msgspec.Struct, frozen=True, rename="camel"):
    """The output. `monthly_items` 0: unlimited. `used_items`: items of this month that gateways have reported so
    far."""

    org_slug: str
    month: str
    monthly_items: int
    used_items: int
    keys: tuple[KeyRate, ...]


def run_limits(arguments: argparse.Namespace) -> int:
    """Apply the options and print; the exit code. Raises StartupError for an unknown organization or key."""
    if (arguments.key is None) != (arguments.rate is None):
        raise StartupError("--key and --rate must be used together.", exit_code=2)
    found = on_database(load_settings(arguments), partial(_apply_limits, arguments=arguments))
    if arguments.json:
        print(msgspec.json.encode(found).decode())
    else:
        _print_limits(found)
    return 0


async def _apply_limits(database: Database, arguments: argparse.Namespace) -> OrganizationLimits:
    async with database.write() as connection:
        await _set_limits(connection, await get_organization(connection, arguments.org), arguments)
    async with database.read() as connection:
        return await _load_limits(connection, await get_organization(connection, arguments.org))


async def _set_limits(
    connection: AsyncConnection, organization: StoredOrganization, arguments: argparse.Namespace
) -> None:
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


def _print_limits(limits: OrganizationLimits) -> None:
    quota = f"of {limits.monthly_items} items" if limits.monthly_items else "items, without a quota"
    print(f"{limits.org_slug}: {limits.used_items} {quota} in {limits.month} (UTC).")
    for key in limits.keys:
        rate = f"{key.rate} requests per second" if key.rate else "no limit"
        print(f"  key {key.id} ({key.name}, ...{key.hint}): {rate}")


class OrganizationBilling(msgspec.Struct, frozen=True, rename="camel"):
    """The output. `monthly_items`: the organization's quota; 0: unlimited."""

    org_slug: str
    customer_id: str | None
    subscription_id: str | None
    plan: str | None
    status: str | None
    monthly_items: int
    current_period_end: str | None


def run_billing(arguments: argparse.Namespace) -> int:
    """Apply the options and print; the exit code. Raises StartupError for an unknown organization, and for a customer
    of another organization.
    """
    found = on_database(load_settings(arguments), partial(_apply_billing, arguments=arguments))
    if arguments.json:
        print(msgspec.json.encode(found).decode())
    else:
        _print_billing(found)
    return 0


async def _apply_billing(database: Database, arguments: argparse.Namespace) -> OrganizationBilling:
    if arguments.customer is not None:
        async with database.write() as connection:
            await _link_customer(connection, await get_organization(connection, arguments.org), arguments.customer)
    async with database.read() as connection:
        return await _load_billing(connection, await get_organization(connection, arguments.org))


async def _link_customer(connection: AsyncConnection, organization: StoredOrganization, customer_id: str) -> None:
    """Link a customer to an organization; an empty `customer_id` unlinks it."""
    before = await billing_store.find_by_organization(connection, organization.id)
    if (before.customer_id if before else "") == customer_id:
        return
    if customer_id:
        try:
            await billing_store.link(connection, organization.id, customer_id)
        except billing_store.CustomerTaken:
            raise StartupError(f"The customer {customer_id} belongs to another organization.") from None
    else:
        await billing_store.unlink(connection, organization.id)
    data = {"customerId": customer_id or None, "before": before.customer_id if before else None}
    await record_command(connection, organization.id, "subscription.link", organization.id, data)


async def _load_billing(connection: AsyncConnection, organization: StoredOrganization) -> OrganizationBilling:
    found = await billing_store.find_by_organization(connection, organization.id)
    if found is None:
        return OrganizationBilling(organization.slug, None, None, None, None, organization.monthly_items, None)
    end = found.current_period_end
    return OrganizationBilling(
        organization.slug,
        found.customer_id,
        found.subscription_id,
        found.plan,
        found.status,
        organization.monthly_items,
        None if end is None else format_time(end),
    )


def _print_billing(billing: OrganizationBilling) -> None:
    quota = f"{billing.monthly_items} items per month" if billing.monthly_items else "no quota"
    if billing.customer_id is None:
        print(f"{billing.org_slug}: no customer; {quota}.")
    elif billing.status is None:
        print(f"{billing.org_slug}: customer {billing.customer_id}, without a subscription so far; {quota}.")
    else:
        until = "" if billing.current_period_end is None else f" until {billing.current_period_end}"
        plan = billing.plan or "without a plan"
        print(f"{billing.org_slug}: customer {billing.customer_id}, {plan} ({billing.status}{until}); {quota}.")


_DOMAIN: Final = re.compile(
    r"(?=.{3,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+\Z"
)


def run_sso(arguments: argparse.Namespace) -> int:
    """Run the action; the exit code. Raises StartupError for an unknown organization and an invalid domain."""
    domain = arguments.domain.lower() if arguments.action == "domain" else ""
    if arguments.action == "domain" and _DOMAIN.fullmatch(domain) is None:
        raise StartupError(f"--domain {arguments.domain} is not a domain name.", exit_code=2)
    print(on_database(load_settings(arguments), partial(_apply_sso, org_slug=arguments.org, domain=domain)))
    return 0


async def _apply_sso(database: Database, org_slug: str, domain: str) -> str:
    async with database.write() as connection:
        organization = await get_organization(connection, org_slug)
        return await (
            _verify_domain(connection, organization, domain)
            if domain
            else _release_enforcement(connection, organization)
        )


async def _verify_domain(connection: AsyncConnection, organization: StoredOrganization, domain: str) -> str:
    from control.identity.sso import domains

    now = datetime.now(UTC)
    found = await domains.find_domain(connection, organization.id, domain)
    if found is not None and found.verified_at is not None:
        return f"{domain} is already a domain of {organization.slug}."
    domain_id: str = found.id if found else await domains.add_domain(connection, organization.id, domain, now)
    await domains.mark_verified(connection, domain_id, now)
    data = {"domain": domain, "by": "operator"}
    await record_command(connection, organization.id, "sso.domain.verify", domain_id, data)
    return (
        f"{domain} is a domain of {organization.slug}: single sign-on now finds existing members by their e-mail "
        f"address in this domain."
    )


async def _release_enforcement(connection: AsyncConnection, organization: StoredOrganization) -> str:
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


TOKEN_NAME = "Created with the command sluice owner"  # noqa: S105 (a name)


class RecoveredToken(msgspec.Struct, frozen=True, rename="camel"):
    """The contents of the file."""

    base_url: str
    org_slug: str
    principal_id: str
    access_token: str

    def __repr__(self) -> str:  # the access token is a secret
        return f"RecoveredToken(org_slug={self.org_slug!r}, principal_id={self.principal_id!r})"


def run_owner(arguments: argparse.Namespace) -> int:
    """Create the token; the exit code. Raises StartupError for an unknown organization, one without an owner, or a
    file that exists.
    """
    settings = load_settings(arguments, prepare=True)
    file = Path(arguments.out).absolute() if arguments.out else settings.data_dir / f"owner-{arguments.org}.json"
    token = on_database(
        settings, partial(_make_owner_token, base_url=settings.base_url, org_slug=arguments.org, file=file)
    )
    print(f"A new token of owner {token.principal_id} of {token.org_slug} is in {file}. Existing tokens stay valid.")
    return 0


async def _make_owner_token(database: Database, base_url: str, org_slug: str, file: Path) -> RecoveredToken:
    async with database.write() as connection:
        token = await _create_owner_token(connection, base_url, org_slug)
        first_run.write(file, token)  # before the commit: otherwise a crash would lose the token
    return token


async def _create_owner_token(connection: AsyncConnection, base_url: str, org_slug: str) -> RecoveredToken:
    organization = await get_organization(connection, org_slug)
    owner_id = await member_store.find_first_owner(connection, organization.id)
    if owner_id is None:
        raise StartupError(f"The organization {org_slug} has no owner.")
    if await session_store.blocks_user_tokens(connection, organization.id):
        raise StartupError(
            f"The organization {org_slug} requires single sign-on, also for tokens of users; run `sluice sso release "
            f"--org {org_slug}` first."
        )
    token = await organization_store.create_token(connection, organization.id, owner_id, TOKEN_NAME)
    data = {"holder": owner_id, "name": TOKEN_NAME, "scopes": [], "expiresAt": ""}
    await record_command(connection, organization.id, "token.create", token.id, data)
    return RecoveredToken(base_url, org_slug, owner_id, token.secret)
