"""Functions of commands that work on the relational database: settings, the open database, organizations, audit."""

import argparse
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db import migrations
from chassis.db.database import Database
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from sluice import data_dir, process
from sluice.settings_sources import SettingsSources

if TYPE_CHECKING:
    from control.identity.organizations.organization_store import StoredOrganization

T = TypeVar("T")


def load_settings(arguments: argparse.Namespace, *, prepare: bool = False) -> ChassisSettings:
    """The settings of a command. Checks the database schema, and sends the log to standard error. `prepare`: also
    prepares the data directory. Raises StartupError.
    """
    settings = SettingsSources.from_arguments(arguments).chassis_settings()
    process.log_to_stderr(settings)
    if prepare:
        data_dir.prepare(settings.data_dir)
    migrations.check(settings.effective_database_url)
    return settings


def on_database(settings: ChassisSettings, work: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    """Run `work` with the database and return its result. Raises StartupError if the database fails."""

    async def opened() -> T:
        async with open_database(settings) as database:
            return await work(database)

    return process.run(opened())


def open_database(settings: ChassisSettings) -> AbstractAsyncContextManager[Database]:
    """The database, closed afterwards."""
    return process.started(Database.from_settings(settings))


async def get_organization(connection: AsyncConnection, slug: str) -> "StoredOrganization":
    """The organization with this slug. Raises StartupError."""
    from control.identity.organizations import organization_store

    found = await organization_store.find_organization(connection, slug)
    if found is None:
        raise StartupError(f"There is no organization {slug}.")
    return found


async def record_command(
    connection: AsyncConnection, org_id: str, action: str, object_id: str, data: Mapping[str, object]
) -> None:
    """Append an event to the audit log of an organization: the operator has run a command."""
    from control.audit.record import COMMAND_REQUEST_ID, Actor, record

    await record(connection, Actor(org_id), action, object_id, data, COMMAND_REQUEST_ID)
