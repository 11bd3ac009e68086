"""`sluice sourcemaps upload`: uploads the source maps of a build, for one release.

The text of the sources is left out. Maps that were uploaded before change nothing, so the command may be run again
after a failure. The token is read from a file or from the environment.
"""

import argparse
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from chassis.errors import StartupError
from proto.source_maps.frame_rewriting import url_path
from sluice.control_client import ControlClient, read_token
from sluice.source_map_files import BuiltScript, find_scripts, upload_body

MAX_NAMED: Final = 10  # scripts without map that are named


class _Answer(msgspec.Struct, rename="camel"):
    """What is read of the answer to an upload."""

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
    if arguments.dry_run:
        for one in mapped:
            print(f"{prefix}/{one.name}  {one.map_file}")
    else:
        _upload(arguments, mapped, prefix)
    _name_unmapped([one for one in scripts if one.map_file is None])
    return 0


def _upload(arguments: argparse.Namespace, scripts: list[BuiltScript], prefix: str) -> None:
    client = ControlClient(arguments.server, read_token(arguments.token_file))
    org, project = quote(arguments.org, safe=""), quote(arguments.project, safe="")
    removed: dict[str, None] = {}
    stored = 0
    for one in scripts:
        query = urlencode({"release": arguments.release, "url": f"{prefix}/{one.name}"})
        status, answer = client.post(f"/orgs/{org}/projects/{project}/source-maps?{query}", upload_body(one), _Answer)
        print(f"{answer.path}  {answer.bytes:,} bytes compressed".replace(",", " "))
        stored += status == HTTPStatus.CREATED
        removed.update(dict.fromkeys(answer.removed_releases))
    count, known = "1 source map" if stored == 1 else f"{stored} source maps", len(scripts) - stored
    already = f", {known} {'was' if known == 1 else 'were'} already stored" if known else ""
    print(f"Stored {count} for release {arguments.release}{already}.")
    if removed:
        releases = f"release{'s' if len(removed) > 1 else ''} {', '.join(removed)}"
        print(f"Deleted the source maps of {releases}, because the project reached its limit.")


def _name_unmapped(scripts: list[BuiltScript]) -> None:
    if scripts:
        names = ", ".join(one.name for one in scripts[:MAX_NAMED])
        more = f", and {len(scripts) - MAX_NAMED} more" if len(scripts) > MAX_NAMED else ""
        print(f"No source map found for: {names}{more}.")
