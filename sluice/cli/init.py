"""`sluice init`: an organization with its owner, a project, a project key and an access token.

Secrets go to a file (mode 0600) and nowhere else; what is printed names it.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from chassis.db import migrations
from chassis.db.database import Database
from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from control.identity.bootstrap import Bootstrap, provision
from proto.identity import is_slug
from sluice import bootstrap_audit, bootstrap_file, data_dir, process
from sluice.settings_sources import SettingsSources


class InitResult(msgspec.Struct, frozen=True, rename="camel"):
    """What `--json` prints: everything but the secrets, and the file that has them."""

    base_url: str
    org_slug: str
    project_slug: str
    project_id: str
    file: str


def run(arguments: argparse.Namespace) -> int:
    """Make them; the exit code. Raises StartupError: a slug that is none or taken, a file that exists."""
    for option in ("org", "project"):
        if not is_slug(getattr(arguments, option)):
            raise StartupError(f"--{option} must be lower-case letters, digits and dashes, at most 64.", exit_code=2)
    settings = SettingsSources.from_arguments(arguments).chassis_settings()
    process.log_to_stderr(settings)
    data_dir.prepare(settings.data_dir)
    migrations.check(settings.effective_database_url)
    name = f"init-{arguments.org}-{arguments.project}.json"
    file = Path(arguments.out).absolute() if arguments.out else settings.data_dir / name
    made = process.run(_make(settings, arguments.org, arguments.project, arguments.quota, file))
    shown = InitResult(made.base_url, made.org_slug, made.project_slug, made.project_id, str(file))
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
    else:
        print(f"Made organization {made.org_slug} with project {made.project_slug} ({made.project_id}).")
        if arguments.quota:
            print(f"It may send {arguments.quota} items a month; `sluice limits --org {made.org_slug}` changes that.")
        print(f"The project key, its DSN and the owner's access token are in {file}.")
    return 0


async def _make(
    settings: ChassisSettings, org_slug: str, project_slug: str, monthly_items: int, file: Path
) -> Bootstrap:
    database = Database.from_settings(settings)
    await database.start()
    try:
        async with database.write() as connection:
            made = await provision(connection, settings.base_url, org_slug, project_slug, monthly_items)
            await bootstrap_audit.record_bootstrap(connection, made)
            bootstrap_file.write(file, made)  # before the commit: no secret is made and then lost
        return made
    finally:
        await database.close()
