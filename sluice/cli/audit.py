"""`sluice audit verify`: whether the audit of every organization is what was written, in the store or in an export.

What was altered, taken out or put in between shows by itself. Someone who can write the database could write a whole
chain anew, or cut off its end together with the head; note down the last event that is printed and give it as `--noted`
later, and that shows too.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from chassis.db import migrations
from chassis.db.database import Database
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from control.audit import verify
from control.audit.verify import VerifyResult
from sluice import process
from sluice.settings_sources import SettingsSources


class ChainReport(msgspec.Struct, frozen=True):
    """What `--json` prints of one chain; `broken`: missing, altered, unlinked, replaced, cut, headless, or null when it
    holds.
    """

    org: str
    events: int
    seq: int
    hash: str
    broken: str | None
    at: int | None


def run(arguments: argparse.Namespace) -> int:
    """Check, print; 1 when a chain is broken. Raises StartupError for an organization or a file that is none."""
    noted = dict([arguments.noted]) if arguments.noted else {}
    if noted and not (arguments.org or arguments.file):
        raise StartupError("--noted is of one chain: name it with --org or --file.", exit_code=2)
    if arguments.file:
        checked: Sequence[VerifyResult] = [_verify_file(Path(arguments.file), noted)]
    else:
        settings = SettingsSources.from_arguments(arguments).chassis_settings()
        process.log_to_stderr(settings)
        migrations.check(settings.effective_database_url)
        checked = process.run(_verify_store(settings, arguments.org, noted))
    for one in checked:
        sys.stdout.write(_json(one) if arguments.json else _line(one))
    return 1 if any(one.first_break for one in checked) else 0


async def _verify_store(settings: ChassisSettings, org: str | None, noted: Mapping[int, bytes]) -> list[VerifyResult]:
    database = Database.from_settings(settings)
    await database.start()
    try:
        wanted = [(id_, slug) async for id_, slug in verify.iter_chains(database) if org in (None, slug)]
        if org is not None and not wanted:
            raise StartupError(f"There is no organization {org}.")
        return [await verify.verify_stored(database, id_, slug, noted) for id_, slug in wanted]
    finally:
        await database.close()


def _verify_file(file: Path, noted: Mapping[int, bytes]) -> VerifyResult:
    try:
        with file.open("rb") as lines:
            return verify.verify_export(lines, noted)
    except OSError as error:
        raise StartupError(f"The export {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise StartupError(f"The file {file} cannot be checked as an export of an audit: {error}.") from error


def _line(one: VerifyResult) -> str:
    if one.first_break is not None:
        found = one.first_break
        return f"{one.org}: BROKEN at event {found.seq} ({found.kind}), after {one.events} events read\n"
    return f"{one.org}: {one.events} events hold, the last is {one.seq}:{one.hash.hex()}\n"


def _json(one: VerifyResult) -> str:
    broken, at = (one.first_break.kind, one.first_break.seq) if one.first_break else (None, None)
    return msgspec.json.encode(ChainReport(one.org, one.events, one.seq, one.hash.hex(), broken, at)).decode() + "\n"
