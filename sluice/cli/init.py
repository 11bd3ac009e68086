"""`sluice init`: creates an organization with its owner, a project, a project key and an access token.

The secrets are written only to a file (mode 0600), which the output names.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from chassis.db import migrations
from chassis.db.database import Database
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from control.identity.organizations.bootstrap import Bootstrap, provision
from proto.identity import is_slug
from sluice import bootstrap_audit, bootstrap_file, data_dir, process
from sluice.settings_sources import SettingsSources


class InitResult(msgspec.Struct, frozen=True, rename="camel"):
    """What `--json` prints: everything except the secrets, and the file that contains them."""

    base_url: str
    org_slug: str
    project_slug: str
    project_id: str
    file: str


def run(arguments: argparse.Namespace) -> int:
    """Create them; the exit code. Raises StartupError for an invalid or taken slug, or a file that exists."""
    for option in ("org", "project"):
        if not is_slug(getattr(arguments, option)):
            raise StartupError(f"--{option} must be 1 to 64 lowercase letters, digits, inner hyphens.", exit_code=2)
    settings = SettingsSources.from_arguments(arguments).chassis_settings()
    process.log_to_stderr(settings)
    data_dir.prepare(settings.data_dir)
    migrations.check(settings.effective_database_url)
    name = f"init-{arguments.org}-{arguments.project}.json"
    file = Path(arguments.out).absolute() if arguments.out else settings.data_dir / name
    created = process.run(_make(settings, arguments.org, arguments.project, arguments.quota, file))
    result = InitResult(created.base_url, created.org_slug, created.project_slug, created.project_id, str(file))
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        print(f"Created organization {created.org_slug} with project {created.project_slug} ({created.project_id}).")
        if arguments.quota:
            hint = f"`sluice limits --org {created.org_slug}` changes it."
            print(f"Its quota is {arguments.quota} items per month; {hint}")
        print(f"The project key, its DSN and the owner's access token are in {file}.")
    return 0


async def _make(
    settings: ChassisSettings, org_slug: str, project_slug: str, monthly_items: int, file: Path
) -> Bootstrap:
    database = Database.from_settings(settings)
    await database.start()
    try:
        async with database.write() as connection:
            bootstrap = await provision(connection, settings.base_url, org_slug, project_slug, monthly_items)
            await bootstrap_audit.record_bootstrap(connection, bootstrap)
            bootstrap_file.write(file, bootstrap)  # before the commit: otherwise a crash would lose the secrets
        return bootstrap
    finally:
        await database.close()
