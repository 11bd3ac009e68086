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

from chassis import migrations
from chassis.errors import StartupError
from chassis.relational import Database
from chassis.settings import ChassisSettings
from control.audit import verify
from control.audit.verify import Checked
from sluice import process
from sluice.options import Options


class Chain(msgspec.Struct, frozen=True):
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
        checked: Sequence[Checked] = [_of_file(Path(arguments.file), noted)]
    else:
        settings = Options.of(arguments).chassis()
        process.log_to_stderr(settings)
        migrations.check(settings.database)
        checked = process.run(_of_store(settings, arguments.org, noted))
    for one in checked:
        sys.stdout.write(_json(one) if arguments.json else _line(one))
    return 1 if any(one.broken for one in checked) else 0


async def _of_store(settings: ChassisSettings, org: str | None, noted: Mapping[int, bytes]) -> list[Checked]:
    database = Database.configured(settings)
    await database.start()
    try:
        wanted = [(id_, slug) async for id_, slug in verify.chains(database) if org in (None, slug)]
        if org is not None and not wanted:
            raise StartupError(f"There is no organization {org}.")
        return [await verify.stored(database, id_, slug, noted) for id_, slug in wanted]
    finally:
        await database.close()


def _of_file(file: Path, noted: Mapping[int, bytes]) -> Checked:
    try:
        with file.open("rb") as lines:
            return verify.exported(lines, noted)
    except OSError as error:
        raise StartupError(f"The export {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise StartupError(f"The file {file} cannot be checked as an export of an audit: {error}.") from error


def _line(one: Checked) -> str:
    if one.broken is not None:
        return f"{one.org}: BROKEN at event {one.broken.seq} ({one.broken.fault}), after {one.events} events read\n"
    return f"{one.org}: {one.events} events hold, the last is {one.seq}:{one.hash.hex()}\n"


def _json(one: Checked) -> str:
    broken, at = (one.broken.fault, one.broken.seq) if one.broken else (None, None)
    return msgspec.json.encode(Chain(one.org, one.events, one.seq, one.hash.hex(), broken, at)).decode() + "\n"
