"""What a migration makes of rows that an earlier release has written."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from chassis.auth.tables import organizations, projects
from chassis.db import migrations
from chassis.db.database import migration_engine
from tests.databases import REVISIONS

pytestmark = pytest.mark.both_stores

NOW = datetime(2026, 11, 28, tzinfo=UTC)


def migrate_to(connection: sa.Connection, revision: str) -> None:
    """Migrate an empty database to the schema of an earlier release."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def project_row(project_id: int, slug: str) -> dict[str, Any]:
    """A project as an earlier release inserts it."""
    row = {"id": project_id, "org_id": "org_1", "slug": slug, "name": "Shop", "created_at": NOW}
    return {**row, "sensitive_words": ["iban"]}


def test_projects_of_an_earlier_release_exempt_no_key(database_url: str) -> None:
    engine = migration_engine(database_url)
    with engine.begin() as connection:
        migrate_to(connection, "0016")
        organization = {"id": "org_1", "slug": "acme", "name": "Acme", "monthly_items": 0, "created_at": NOW}
        connection.execute(organizations.insert().values(organization))
        connection.execute(projects.insert().values(project_row(1, "before")))
    assert migrations.migrate(database_url) == REVISIONS[REVISIONS.index("0017") :]
    with engine.begin() as connection:
        connection.execute(projects.insert().values(project_row(2, "meanwhile")))  # by a process that still runs
        columns = projects.c.slug, projects.c.sensitive_words, projects.c.exempt_keys
        found = connection.execute(sa.select(*columns).order_by(projects.c.id)).all()
    engine.dispose()
    assert found == [("before", ["iban"], []), ("meanwhile", ["iban"], [])]
