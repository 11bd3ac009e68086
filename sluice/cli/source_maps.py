"""`sluice sourcemaps upload`: uploads the source maps of a build, for one release.

The text of the sources is left out. Maps that were uploaded before change nothing, so the command may be run again
after a failure. The token is read from a file or from the environment.
"""

import argparse
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from chassis.errors import StartupError
from proto.source_maps.stack_trace import url_path
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
    for one in scripts:
        query = urlencode({"release": arguments.release, "url": f"{prefix}/{one.name}"})
        answer = client.post(f"/orgs/{org}/projects/{project}/source-maps?{query}", upload_body(one), _Answer)
        print(f"{answer.path}  {answer.bytes} bytes")
        removed.update(dict.fromkeys(answer.removed_releases))
    count = "1 source map" if len(scripts) == 1 else f"{len(scripts)} source maps"
    print(f"Uploaded {count} of {arguments.release}.")
    if removed:
        print(f"The project has no room for the source maps of {', '.join(removed)}: they were removed.")


def _name_unmapped(scripts: list[BuiltScript]) -> None:
    if scripts:
        names = ", ".join(one.name for one in scripts[:MAX_NAMED])
        more = f", and {len(scripts) - MAX_NAMED} more" if len(scripts) > MAX_NAMED else ""
        print(f"Without source map: {names}{more}.")
