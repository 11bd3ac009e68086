"""What a migration makes of rows that an earlier release has written."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from chassis.auth.tables import organizations, projects
from chassis.db import migrations
from chassis.db.database import UtcTime, migration_engine
from chassis.issues.tables import issues
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


def at(minute: int) -> datetime:
    return NOW + timedelta(minutes=minute)


def insert(connection: sa.Connection, table: str, **values: object) -> None:
    """A row as an earlier release inserts it."""
    columns = [sa.column(name, UtcTime if name.endswith(("_at", "_seen")) else None) for name in values]
    connection.execute(sa.table(table, *columns).insert().values(values))


def insert_issue(connection: sa.Connection, number: int, status: str, merged_into: str | None = None) -> str:
    """An issue that changed last at minute 10."""
    times = dict.fromkeys(("first_seen", "last_seen", "created_at"), NOW) | {"updated_at": at(10)}
    issue_id = f"iss_{number}"
    times |= {"resolved_at": at(10)} if status == "resolved" else {}
    texts = {"title": "Error", "search_text": "error", "fingerprint": bytes([number]) * 16, "status": status}
    insert(
        connection, "issues", id=issue_id, org_id="org_1", project_id=1, number=number, count=1,
        merged_into=merged_into, **times, **texts,
    )  # fmt: skip
    return issue_id


def test_issues_stay_as_they_were_also_if_their_pull_request_was_edited_later(database_url: str) -> None:
    """It was merged at minute 5 and edited at minute 20; a person opened the issue at minute 10."""
    engine = migration_engine(database_url)
    with engine.begin() as connection:
        migrate_to(connection, "0018")
        organization = {"id": "org_1", "slug": "acme", "name": "Acme", "monthly_items": 0, "created_at": NOW}
        connection.execute(organizations.insert().values(organization))
        connection.execute(projects.insert().values(project_row(1, "shop")))
        insert_issue(connection, 1, "unresolved")
        insert_issue(connection, 2, "unresolved")
        insert_issue(connection, 3, "unresolved", merged_into="iss_2")
        insert_issue(connection, 4, "resolved")
        insert_issue(connection, 5, "unresolved")
        for number, issue_id, changed in ((1, "iss_1", 20), (2, "iss_3", 30), (3, "iss_4", 5)):
            insert(
                connection, "proposals", id=f"prp_{number}", org_id="org_1", repository="shop/web", number=str(number),
                title="Fix", state="merged", changed_at=at(changed), created_at=NOW, updated_at=NOW,
            )  # fmt: skip
            insert(
                connection, "proposal_issues", proposal_id=f"prp_{number}", issue_id=issue_id, org_id="org_1",
                project_id=1,
            )  # fmt: skip
    migrations.migrate(database_url)
    with engine.begin() as connection:
        columns = issues.c.number, issues.c.decided_status, issues.c.decided_at
        found = connection.execute(sa.select(*columns).order_by(issues.c.number)).all()
    engine.dispose()
    assert found == [
        (1, "unresolved", at(20)),
        (2, "unresolved", at(30)),
        (3, "unresolved", at(10)),
        (4, "resolved", at(10)),
        (5, None, None),
    ]
