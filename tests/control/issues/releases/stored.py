"""Issues and projects as a test needs them, and what has become of them."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from chassis.auth.tables import new_id
from chassis.issues import issue_fingerprints, issues
from control.identity.organizations import organization_store
from control.issues.tables import issue_activity
from proto.grouping.fingerprint import FINGERPRINT_VERSION
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control

NOW = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)


async def new_issue(control: Control, number: int, tenant: Tenant | None = None, **values: Any) -> str:
    """An unresolved issue of the tenant's first project (acme's `web`); its id."""
    tenant = tenant or control.acme
    row: dict[str, Any] = {
        "id": new_id("iss"),
        "org_id": tenant.organization.id,
        "project_id": tenant.project.id,
        "number": number,
        "title": f"Error {number}",
        "search_text": f"error {number}",
        "status": "unresolved",
        "count": 1,
        "first_seen": NOW,
        "last_seen": NOW,
        "created_at": NOW,
        "updated_at": NOW,
    } | values
    row.setdefault("fingerprint", hashlib.md5(f"{row['project_id']} {number}".encode()).digest())  # noqa: S324
    async with control.checks.database.write() as connection:
        await connection.execute(issues.insert().values(row))
        link = {"issue_id": row["id"], "rules_version": FINGERPRINT_VERSION, "since_us": 0}
        await connection.execute(
            issue_fingerprints.insert().values({name: row[name] for name in ("project_id", "fingerprint")} | link)
        )
    return str(row["id"])


async def new_project(control: Control, slug: str) -> int:
    """A further project of acme."""
    async with control.checks.database.write() as connection:
        made = await organization_store.create_project(connection, control.acme.organization.id, slug, slug)
    return made.id


async def issue(control: Control, issue_id: str) -> Any:
    """Its row."""
    async with control.checks.database.read() as connection:
        return (await connection.execute(sa.select(issues).where(issues.c.id == issue_id))).one()


async def activity(control: Control, issue_id: str) -> list[tuple[str, dict[str, Any]]]:
    """What happened to it, by kind, with its data."""
    found = sa.select(issue_activity).where(issue_activity.c.issue_id == issue_id).order_by(issue_activity.c.id)
    async with control.checks.database.read() as connection:
        rows = [(row.kind, row.data) for row in await connection.execute(found)]
    return sorted(rows, key=lambda row: row[0])  # ids of one millisecond have no order


def commit(sha: str, message: str, *files: str, **more: Any) -> dict[str, Any]:
    """A commit for a report; `sha` is continued."""
    return {"sha": sha.ljust(40, "0"), "message": message, "files": list(files)} | more


async def report(control: Control, version: str = "1.0.0", *commits: dict[str, Any], **more: Any) -> Any:
    """The answer to a report of a release of acme's project `web`."""
    body = {"version": version, "projects": ["web"], "repository": "shop/web", "commits": list(commits)} | more
    status, answer, _ = await control.call("POST", "/orgs/acme/releases", body)
    assert status in (200, 201), answer
    return answer
