"""`sluice sourcemaps upload`: uploads the source maps of a build, for one release.

The text of the sources is not uploaded. Maps that were uploaded before change nothing, so you can run the command again
after a failure. The token is read from a file or from the environment.
"""

import argparse
import os
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from chassis.errors import StartupError
from proto.source_maps.frame_rewriting import url_path
from sluice.control_client import ControlClient, Refused, read_token
from sluice.source_map_files import BuiltScript, find_scripts, upload_body

MAX_NAMED: Final = 10  # scripts without a map that are listed
_OF_ONE_FILE: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
_IN_PATHS: Final = "/!$&'()*+,:;=@[]|"  # what browsers do not encode in the path of a URL


class _Answer(msgspec.Struct, rename="camel"):
    """The fields of the response to an upload that are read."""

    path: str
    bytes: int
    removed_releases: list[str]


def run(arguments: argparse.Namespace) -> int:
    """Upload, or print what would be uploaded; the exit code. Raises StartupError."""
    directory = Path(arguments.directory)
    scripts = find_scripts(directory)
    mapped = [one for one in scripts if one.map_file is not None]
    if not mapped:
        raise StartupError(
            f"No source maps were found beneath {directory}. Build with source maps; for Vite, set build.sourcemap to "
            "'hidden'."
        )
    prefix = url_path(arguments.url_prefix.removeprefix("~")).rstrip("/")
    failed = _print_paths(mapped, prefix) if arguments.dry_run else _upload(arguments, mapped, prefix)
    _name_unmapped([one for one in scripts if one.map_file is None])
    return 1 if failed else 0


def _print_paths(scripts: list[BuiltScript], prefix: str) -> int:
    """Print the paths; returns the number of scripts without a path."""
    failed = 0
    for one in scripts:
        try:
            print(f"{_path(one, prefix)}  {_printable(str(one.map_file))}")
        except StartupError as error:
            failed += 1
            _name_failure(one, error)
    return failed


def _upload(arguments: argparse.Namespace, scripts: list[BuiltScript], prefix: str) -> int:
    """Upload the maps; returns the number of maps that failed for reasons of their own. Raises StartupError for errors
    that concern all maps."""
    client = ControlClient(arguments.server, read_token(arguments.token_file))
    org, project = quote(arguments.org, safe=""), quote(arguments.project, safe="")
    removed: dict[str, None] = {}
    stored = known = failed = 0
    for one in scripts:
        try:
            query, body = urlencode({"release": arguments.release, "url": _path(one, prefix)}), upload_body(one)
        except StartupError as error:
            failed += 1
            _name_failure(one, error)
            continue
        try:
            status, answer = client.post(f"/orgs/{org}/projects/{project}/source-maps?{query}", body, _Answer)
        except Refused as error:
            if error.status not in _OF_ONE_FILE:
                raise
            failed += 1
            _name_failure(one, error)
            continue
        print(f"{answer.path}  {answer.bytes:,} bytes compressed".replace(",", " "))
        stored += status == HTTPStatus.CREATED
        known += status != HTTPStatus.CREATED
        removed.update(dict.fromkeys(answer.removed_releases))
    already = f", {known} {'was' if known == 1 else 'were'} already stored" if known else ""
    print(f"Stored {_counted(stored)} for release {arguments.release}{already}.")
    if removed:
        releases = f"release{'s' if len(removed) > 1 else ''} {', '.join(removed)}"
        print(f"Deleted the source maps of {releases}, because the project reached its limit.")
    if failed:
        print(f"{_counted(failed)} {'was' if failed == 1 else 'were'} not uploaded.", file=sys.stderr)
    return failed


def _path(script: BuiltScript, prefix: str) -> str:
    """The path of a script as in stack frames. Raises StartupError."""
    try:
        return f"{prefix}/{quote(script.name, safe=_IN_PATHS)}"
    except UnicodeEncodeError as error:
        raise StartupError("the name of the file is not UTF-8.") from error


def _counted(number: int) -> str:
    return "1 source map" if number == 1 else f"{number} source maps"


def _name_failure(script: BuiltScript, error: StartupError) -> None:
    print(f"{_printable(script.name)}: {_printable(str(error))}", file=sys.stderr)


def _printable(name: str) -> str:
    """The printable form of a name, which may be invalid UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _name_unmapped(scripts: list[BuiltScript]) -> None:
    if scripts:
        names = ", ".join(_printable(one.name) for one in scripts[:MAX_NAMED])
        more = f", and {len(scripts) - MAX_NAMED} more" if len(scripts) > MAX_NAMED else ""
        print(f"No source map found for: {names}{more}.")
