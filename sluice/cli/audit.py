"""`sluice audit verify`: verifies the audit hash chain of every organization, in the database or in an export.

It detects events that were altered, removed or inserted. A user who can write to the database could also rewrite a
complete chain, or truncate it together with its head. To detect this, note the last event that is printed, and pass it
as `--noted` later.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from chassis.db.database import Database
from chassis.errors import StartupError
from control.audit import verify
from control.audit.verify import VerifyResult
from sluice.cli.database import load_settings, on_database


class ChainReport(msgspec.Struct, frozen=True):
    """The output of `--json` for one chain. `broken`: missing, altered, unlinked, replaced, cut, headless, unsealed, or
    null for an intact chain.
    """

    org: str
    events: int
    seq: int
    hash: str
    broken: str | None
    at: int | None


def run(arguments: argparse.Namespace) -> int:
    """Verify and print; 1 if a chain is broken. Raises StartupError for an unknown organization or an invalid file."""
    noted = dict([arguments.noted]) if arguments.noted else {}
    if noted and not (arguments.org or arguments.file):
        raise StartupError("--noted requires --org or --file.", exit_code=2)
    if arguments.file:
        results: Sequence[VerifyResult] = [_verify_file(Path(arguments.file), noted)]
    else:
        results = on_database(load_settings(arguments), lambda database: _verify_store(database, arguments.org, noted))
    for result in results:
        sys.stdout.write(_json(result) if arguments.json else _line(result))
    return 1 if any(result.first_break for result in results) else 0


async def _verify_store(database: Database, org: str | None, noted: Mapping[int, bytes]) -> list[VerifyResult]:
    chains = [(id_, slug) async for id_, slug in verify.iter_chains(database) if org in (None, slug, id_)]
    if org is not None and not chains:
        raise StartupError(f"There is no organization {org}.")
    return [await verify.verify_stored(database, id_, slug, noted) for id_, slug in chains]


def _verify_file(file: Path, noted: Mapping[int, bytes]) -> VerifyResult:
    try:
        with file.open("rb") as lines:
            return verify.verify_export(lines, noted)
    except OSError as error:
        raise StartupError(f"The export {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise StartupError(f"The file {file} cannot be verified as an audit export: {error}.") from error


def _line(result: VerifyResult) -> str:
    if result.first_break is not None:
        found = result.first_break
        return f"{result.org}: BROKEN at event {found.seq} ({found.kind}), after {result.events} events read\n"
    return f"{result.org}: {result.events} events verified; keep for --noted: {result.seq}:{result.hash.hex()}\n"


def _json(result: VerifyResult) -> str:
    broken, at = (result.first_break.kind, result.first_break.seq) if result.first_break else (None, None)
    report = ChainReport(result.org, result.events, result.seq, result.hash.hex(), broken, at)
    return msgspec.json.encode(report).decode() + "\n"
