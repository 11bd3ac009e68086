"""`sluice erase`: erases the spans and log records of a project that match filters and a time range.

It stores the erasure; a gateway executes it. `sluice erasures show ID` shows how far it is.
"""

import argparse
import sys
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, to_milliseconds
from chassis.erasures.repository import NewErasure, StoredErasure
from chassis.erasures.tables import ErasureKind
from chassis.errors import StartupError
from chassis.http.validation import Issues
from control.governance.erasures.api import erasure_body
from control.identity.organizations import organization_store
from query.values import TimestampError, parse_timestamp
from sluice.cli.database import get_organization, load_settings, on_database
from sluice.erasure_filters import check_filter_text


def run(arguments: argparse.Namespace) -> int:
    """Store the erasure and print its id; the exit code. Raises StartupError for an unknown organization or project,
    and for invalid filters or times.
    """
    now = to_milliseconds(datetime.now(UTC))
    wanted = _parse(arguments, now)
    erasure = on_database(load_settings(arguments), lambda database: _create(database, arguments, wanted, now))
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(erasure_body(erasure)).decode() + "\n")
        return 0
    what = "counts" if erasure.dry_run else "erases"
    print(f"{erasure.id}: a gateway {what} the rows; `sluice erasures show {erasure.id}` shows how far it is.")
    return 0


def _parse(arguments: argparse.Namespace, now: datetime) -> dict[str, Any]:
    """Filters and times as they are stored. Raises StartupError."""
    if arguments.where is None and arguments.begin is None and arguments.end is None:
        raise StartupError("One of --where, --from and --to is required.", exit_code=2)
    issues = Issues()
    filters = [] if arguments.where is None else check_filter_text(arguments.where, now, "--where", issues)
    if arguments.where is not None and not filters and not len(issues):
        issues.add("--where", "Must have a filter.", "missing")
    from control.governance.erasures.api import check_time_range, nanoseconds

    from_ns = _nanos(arguments.begin, "--from", issues)
    to_ns = nanoseconds(now) if arguments.end is None else _nanos(arguments.end, "--to", issues)
    if to_ns is not None:
        check_time_range(from_ns, to_ns, "--from", issues)
    if len(issues):
        raise StartupError(" ".join(f"{one.path}: {one.message}" for one in issues), exit_code=2)
    return {"filters": filters or None, "from_ns": from_ns, "to_ns": to_ns}


def _nanos(text: str | None, path: str, issues: Issues) -> int | None:
    try:
        return None if text is None else parse_timestamp(text, time.time_ns())
    except TimestampError as error:
        issues.add(path, str(error), "format")
        return None


async def _create(
    database: Database, arguments: argparse.Namespace, wanted: dict[str, Any], now: datetime
) -> StoredErasure:
    from control.audit.record import COMMAND_REQUEST_ID, Actor
    from control.governance.erasures.api import create_filter_erasure

    async with database.write() as connection:
        org_id, project = await _find_project(connection, arguments.org, arguments.project)
        new = NewErasure(
            kind=ErasureKind.FILTER,
            org_id=org_id,
            project_id=project.id,
            project_slug=project.slug,
            dry_run=arguments.dry_run,
            purged=True,
            **wanted,
        )
        return await create_filter_erasure(connection, Actor(org_id), new, COMMAND_REQUEST_ID, now)


async def _find_project(
    connection: AsyncConnection, org_slug: str, project_slug: str
) -> tuple[str, organization_store.StoredProject]:
    organization = await get_organization(connection, org_slug)
    project = await organization_store.find_project(connection, organization.id, project_slug)
    if project is None:
        raise StartupError(f"The organization {org_slug} has no project {project_slug}.")
    return organization.id, project
