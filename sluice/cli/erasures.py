"""`sluice erasures`: lists erasures of all organizations (also deleted ones), shows one erasure, restarts failed or
completed erasures, exports erasures and applies an export to a restored backup, and lists and removes the journals that
erasures wait for. Completed erasures must be restarted after a restore of ClickHouse has undone them. An export that is
applied to a restored backup deletes data that was erased after the backup again.

`sluice erase`: erases the spans and log records of a project that match filters and a time range.

The command stores the erasure, and a gateway executes it. `sluice erasures show ID` shows its progress.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import organizations, projects
from chassis.db.database import Database, format_time, to_milliseconds
from chassis.erasures import export, repository
from chassis.erasures.export import ExportedErasure, decode_line
from chassis.erasures.repository import NewErasure, StoredErasure
from chassis.erasures.tables import ErasureKind
from chassis.errors import StartupError
from chassis.http.validation import Issues
from control.audit.record import COMMAND_REQUEST_ID, Actor
from control.governance.erasures import deletion
from control.governance.erasures.api import Erasure, erasure_body
from control.identity.organizations import organization_store
from query.values import TimestampError, parse_timestamp
from sluice.cli.database import get_organization, load_settings, on_database
from sluice.erasure_filters import check_filter_text


def run_erase(arguments: argparse.Namespace) -> int:
    """Store the erasure and print its id; the exit code. Raises StartupError for an unknown organization or project,
    and for invalid filters or times.
    """
    now = to_milliseconds(datetime.now(UTC))
    wanted = _parse_filters(arguments, now)
    erasure = on_database(load_settings(arguments), lambda database: _create_erasure(database, arguments, wanted, now))
    if arguments.json:
        print(msgspec.json.encode(erasure_body(erasure)).decode())
        return 0
    what = "counts" if erasure.dry_run else "erases"
    print(f"{erasure.id}: a gateway {what} the rows; `sluice erasures show {erasure.id}` shows the progress.")
    return 0


def _parse_filters(arguments: argparse.Namespace, now: datetime) -> dict[str, Any]:
    """Filters and times as they are stored. Raises StartupError."""
    if arguments.where is None and arguments.begin is None and arguments.end is None:
        raise StartupError("One of --where, --from and --to is required.", exit_code=2)
    issues = Issues()
    filters = [] if arguments.where is None else check_filter_text(arguments.where, now, "--where", issues)
    if arguments.where is not None and not filters and not len(issues):
        issues.add("--where", "Must have a filter.", "missing")
    from control.governance.erasures.api import check_time_range, nanoseconds

    from_ns = _parse_time(arguments.begin, "--from", issues)
    to_ns = nanoseconds(now) if arguments.end is None else _parse_time(arguments.end, "--to", issues)
    if to_ns is not None:
        check_time_range(from_ns, to_ns, "--from", issues)
    if len(issues):
        raise StartupError(" ".join(f"{one.path}: {one.message}" for one in issues), exit_code=2)
    return {"filters": filters or None, "from_ns": from_ns, "to_ns": to_ns}


def _parse_time(text: str | None, path: str, issues: Issues) -> int | None:
    try:
        return None if text is None else parse_timestamp(text, time.time_ns())
    except TimestampError as error:
        issues.add(path, str(error), "format")
        return None


async def _create_erasure(
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


Result = Literal["applied", "known", "nothing to erase"]


def read_export(file: Path) -> list[ExportedErasure]:
    """The erasures that `sluice erasures export` has printed. Raises StartupError."""
    try:
        return [decode_line(line) for line in file.read_bytes().splitlines() if line]
    except (OSError, ValueError) as error:
        raise StartupError(f"{file} cannot be read: {error}") from error


async def apply_erasures(
    database: Database, exported: Iterable[ExportedErasure]
) -> list[tuple[ExportedErasure, Result]]:
    """Apply erasures in the order in which they were requested; applying them again changes nothing. Data that the
    backup does not have needs no erasure. Raises DatabaseUnavailable.
    """
    results = []
    for erasure in sorted(exported, key=lambda one: one.number):
        async with database.write() as connection:
            results.append((erasure, await _apply_one(connection, erasure)))
    return results


async def _apply_one(connection: AsyncConnection, exported: ExportedErasure) -> Result:
    if await repository.find(connection, exported.id) is not None:
        return "known"
    now, actor = datetime.now(UTC), Actor(exported.org_id)
    if exported.project_id is None:
        of_org = (organizations.c.id == exported.org_id) & organizations.c.deleted_at.is_(None)
        slug = await connection.scalar(sa.select(organizations.c.slug).where(of_org))
        if slug is None:
            return "nothing to erase"
        await deletion.delete_organization(connection, actor, slug, COMMAND_REQUEST_ID, now)
        return "applied"
    project_id = int(exported.project_id)
    live = (projects.c.id == project_id) & projects.c.deleted_at.is_(None)
    slug = await connection.scalar(sa.select(projects.c.slug).where(live))
    if slug is None:
        return "nothing to erase"
    if exported.kind is ErasureKind.PROJECT:
        await deletion.delete_project(connection, actor, project_id, slug, COMMAND_REQUEST_ID, now)
        return "applied"
    new = NewErasure(
        id=exported.id,
        kind=ErasureKind.FILTER,
        org_id=exported.org_id,
        project_id=project_id,
        project_slug=slug,
        filters=exported.filters,
        from_ns=exported.from_ns,
        to_ns=exported.to_ns,
        purged=True,
    )
    await repository.create(connection, new, exported.requested_time)
    return "applied"


PAGE: Final = 500
MAX_LISTED: Final = 1_000


class ErasureReport(Erasure, frozen=True, rename="camel", kw_only=True):
    """The output of `--json` for one erasure. `waits_for`: journals that may have requests which the erasure covers."""

    org_id: str
    waits_for: list[str]


def run(arguments: argparse.Namespace) -> int:
    """Run the action; the exit code. Raises StartupError for an unknown id."""
    action = _ACTIONS[arguments.action]
    return on_database(load_settings(arguments), lambda database: action(database, arguments))


async def _list(database: Database, arguments: argparse.Namespace) -> int:
    """List the newest MAX_LISTED erasures, or with `--open` the erasures that are not completed."""
    async with database.read() as connection:
        found = await repository.list_erasures(connection, None, None, MAX_LISTED, only_open=arguments.open)
    for erasure in found:
        sys.stdout.write(_json(erasure, []) if arguments.json else _line(erasure))
    return 0


async def _show(database: Database, arguments: argparse.Namespace) -> int:
    async with database.read() as connection:
        erasure = await repository.find(connection, arguments.id)
        waits_for = await repository.missing_acknowledgements(connection, arguments.id) if erasure else []
    if erasure is None:
        raise StartupError(f"There is no erasure {arguments.id}.")
    if arguments.json:
        sys.stdout.write(_json(erasure, waits_for if _needs_journals(erasure) else []))
        return 0
    sys.stdout.write(_line(erasure))
    for table, rows in sorted(erasure.counts.items()):
        print(f"  {table}: {rows} rows")
    if waits_for and _needs_journals(erasure):
        print(f"  waits for the journals: {', '.join(waits_for)}")
    if erasure.message:
        print(f"  {erasure.message}")
    return 0


async def _retry(database: Database, arguments: argparse.Namespace) -> int:
    if (arguments.id is None) == (arguments.completed_since is None):
        raise StartupError("Either ID or --completed-since is required.", exit_code=2)
    if arguments.id is None:
        try:
            since_ns = parse_timestamp(arguments.completed_since, time.time_ns())
        except TimestampError as error:
            raise StartupError(f"--completed-since: {error}", exit_code=2) from error
        async with database.write() as connection:
            number = await repository.repeat_completed(connection, datetime.fromtimestamp(since_ns / 10**9, UTC))
        print(f"{number} completed erasures are queued again; `sluice erasures list --open` shows their progress.")
        return 0
    async with database.write() as connection:
        if not await repository.retry(connection, arguments.id):
            raise StartupError(f"There is no failed erasure {arguments.id}.")
    print(f"{arguments.id} is queued again; `sluice erasures show {arguments.id}` shows its progress.")
    return 0


async def _apply(database: Database, arguments: argparse.Namespace) -> int:
    for erasure, result in await apply_erasures(database, await asyncio.to_thread(read_export, Path(arguments.file))):
        print(f"{erasure.id}  {erasure.requested_at}  {erasure.kind.value}: {result}")
    return 0


async def _journals(database: Database, arguments: argparse.Namespace) -> int:
    """List the journals, or remove a journal that is lost with all its requests."""
    if arguments.remove:
        async with database.write() as connection:
            if not await repository.remove_journal(connection, arguments.remove):
                raise StartupError(f"There is no journal {arguments.remove}.")
        print(f"Erasures no longer wait for {arguments.remove}.")
        return 0
    async with database.read() as connection:
        journals = await repository.list_journals(connection)
    for journal, seen_at in journals.items():
        print(f"{journal}  last seen {format_time(seen_at)}")
    return 0


async def _export(database: Database, _arguments: argparse.Namespace) -> int:
    """Print every erasure that a restored backup needs, newest first. The lines contain the filters: protect them like
    a backup."""
    async for erasure in _iter_all(database):
        if export.is_exported(erasure):
            sys.stdout.buffer.write(export.encode_line(erasure))
    sys.stdout.buffer.flush()
    return 0


async def _iter_all(database: Database) -> AsyncIterator[StoredErasure]:
    before = None
    while True:
        async with database.read() as connection:
            page = await repository.list_erasures(connection, None, before, PAGE)
        for erasure in page:
            yield erasure
        if len(page) < PAGE:
            return
        before = page[-1].id
        await asyncio.sleep(0)


_ACTIONS: Final = {
    "list": _list,
    "show": _show,
    "retry": _retry,
    "export": _export,
    "apply": _apply,
    "journals": _journals,
}


def _needs_journals(erasure: StoredErasure) -> bool:
    return erasure.project_id is not None and not erasure.dry_run and erasure.erased_at is None


def _line(erasure: StoredErasure) -> str:
    what = erasure.kind.value
    if erasure.project_id is not None:
        what = f"project {erasure.project_id}" if what == "project" else f"{what} of project {erasure.project_id}"
    slug = f" ({erasure.project_slug})" if erasure.project_slug else ""
    state = f"{erasure.state.value}{', dry run' if erasure.dry_run else ''}"
    return f"{erasure.id}  {format_time(erasure.requested_at)}  {state}  {what}{slug}, organization {erasure.org_id}\n"


def _json(erasure: StoredErasure, waits_for: list[str]) -> str:
    fields = msgspec.structs.asdict(erasure_body(erasure))
    report = ErasureReport(**fields, org_id=erasure.org_id, waits_for=waits_for)
    return msgspec.json.encode(report).decode() + "\n"
