"""`sluice billing`: shows the subscription of an organization, and names its customer at the payment processor.

Only the operator can say whose customer an organization is: events of the processor apply to that organization alone
(docs/billing.md).
"""

import argparse
import sys
from functools import partial

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, format_time
from chassis.errors import StartupError
from control.governance.billing import store
from control.governance.billing.store import CustomerTaken
from control.identity.organizations.organization_store import StoredOrganization
from sluice.cli.database import get_organization, load_settings, on_database, record_command


class OrganizationBilling(msgspec.Struct, frozen=True, rename="camel"):
    """What is printed. `monthly_items`: the organization's quota, 0: unlimited."""

    org_slug: str
    customer_id: str | None
    subscription_id: str | None
    plan: str | None
    status: str | None
    monthly_items: int
    current_period_end: str | None


def run(arguments: argparse.Namespace) -> int:
    """Apply the options and print; the exit code. Raises StartupError for an unknown organization, and for a customer
    of another one.
    """
    found = on_database(load_settings(arguments), partial(_work, arguments=arguments))
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        _print(found)
    return 0


async def _work(database: Database, arguments: argparse.Namespace) -> OrganizationBilling:
    if arguments.customer is not None:
        async with database.write() as connection:
            await _link(connection, await get_organization(connection, arguments.org), arguments.customer)
    async with database.read() as connection:
        return await _load(connection, await get_organization(connection, arguments.org))


async def _link(connection: AsyncConnection, organization: StoredOrganization, customer_id: str) -> None:
    """An empty customer: none."""
    before = await store.find_by_organization(connection, organization.id)
    if (before.customer_id if before else "") == customer_id:
        return
    if customer_id:
        try:
            await store.link(connection, organization.id, customer_id)
        except CustomerTaken:
            raise StartupError(f"The customer {customer_id} is that of another organization.") from None
    else:
        await store.unlink(connection, organization.id)
    data = {"customerId": customer_id or None, "before": before.customer_id if before else None}
    await record_command(connection, organization.id, "subscription.link", organization.id, data)


async def _load(connection: AsyncConnection, organization: StoredOrganization) -> OrganizationBilling:
    found = await store.find_by_organization(connection, organization.id)
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


def _print(found: OrganizationBilling) -> None:
    quota = f"{found.monthly_items} items per month" if found.monthly_items else "no quota"
    if found.customer_id is None:
        print(f"{found.org_slug}: no customer; {quota}.")
    elif found.status is None:
        print(f"{found.org_slug}: customer {found.customer_id}, without a subscription so far; {quota}.")
    else:
        until = "" if found.current_period_end is None else f" until {found.current_period_end}"
        plan = found.plan or "without a plan"
        print(f"{found.org_slug}: customer {found.customer_id}, {plan} ({found.status}{until}); {quota}.")
