"""`sluice init`: creates an organization with its owner, a project, a project key and an access token.

The secrets are written only to a file (mode 0600). The output has the path of the file.
"""

import argparse
from pathlib import Path

import msgspec

from chassis.db.database import Database
from chassis.errors import StartupError
from control.identity.organizations.bootstrap import Bootstrap, provision
from proto.identity import is_slug
from sluice import first_run
from sluice.cli.database import load_settings, on_database


class InitResult(msgspec.Struct, frozen=True, rename="camel"):
    """The output of `--json`: all results except the secrets, and the file that contains the secrets."""

    base_url: str
    org_slug: str
    project_slug: str
    project_id: str
    file: str


def run(arguments: argparse.Namespace) -> int:
    """Create all of these; the exit code. Raises StartupError for an invalid or taken slug, or a file that exists."""
    for option in ("org", "project"):
        if not is_slug(getattr(arguments, option)):
            raise StartupError(
                f"--{option} must have 1 to 64 lowercase letters, digits or hyphens, and must not begin or end with a "
                "hyphen.",
                exit_code=2,
            )
    settings = load_settings(arguments, prepare=True)
    name = f"init-{arguments.org}-{arguments.project}.json"
    file = Path(arguments.out).absolute() if arguments.out else settings.data_dir / name
    created = on_database(settings, lambda database: _make(database, settings.base_url, arguments, file))
    result = InitResult(created.base_url, created.org_slug, created.project_slug, created.project_id, str(file))
    if arguments.json:
        print(msgspec.json.encode(result).decode())
    else:
        print(f"Created organization {created.org_slug} with project {created.project_slug} ({created.project_id}).")
        if arguments.quota:
            hint = f"`sluice limits --org {created.org_slug}` changes it."
            print(f"The organization's quota is {arguments.quota} items per month; {hint}")
        print(f"The project key, its DSN and the owner's access token are in {file}.")
    return 0


async def _make(database: Database, base_url: str, arguments: argparse.Namespace, file: Path) -> Bootstrap:
    async with database.write() as connection:
        bootstrap = await provision(connection, base_url, arguments.org, arguments.project, arguments.quota)
        await first_run.record_bootstrap(connection, bootstrap)
        first_run.write(file, bootstrap)  # before the commit: otherwise a crash would lose the secrets
    return bootstrap
