"""`sluice erasures`: lists erasures of all organizations, deleted ones included, shows one, restarts a failed one or
those that a restored ClickHouse undid, exports those in force and applies them to a restored backup, and lists and
removes the journals that they wait for.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from chassis.db.database import Database, format_time
from chassis.erasures import export, repository
from chassis.erasures.repository import StoredErasure
from chassis.errors import StartupError
from control.governance.erasures.api import Erasure, erasure_body
from query.values import TimestampError, parse_timestamp
from sluice.cli.database import load_settings, on_database
from sluice.erasure_replay import apply_erasures, read_export

PAGE: Final = 500
MAX_LISTED: Final = 1_000


class ErasureReport(Erasure, frozen=True, rename="camel", kw_only=True):
    """What `--json` prints of one erasure. `waits_for`: journals that may hold requests which it covers."""

    org_id: str
    waits_for: list[str]


def run(arguments: argparse.Namespace) -> int:
    """Do what the action says; the exit code. Raises StartupError for an unknown id."""
    action = _ACTIONS[arguments.action]
    return on_database(load_settings(arguments), lambda database: action(database, arguments))


async def _list(database: Database, arguments: argparse.Namespace) -> int:
    """The newest MAX_LISTED, or with `--open` those that are not completed."""
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
    exported = await asyncio.to_thread(read_export, Path(arguments.file))
    for erasure, result in await apply_erasures(database, exported):
        print(f"{erasure.id}  {erasure.requested_at}  {erasure.kind.value}: {result}")
    return 0


async def _journals(database: Database, arguments: argparse.Namespace) -> int:
    """List the journals, or remove one that is lost with all it held."""
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
    """Every erasure in force, newest first. The lines contain the filters: keep them like a backup."""
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
