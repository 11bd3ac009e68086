"""Each check goes by the mark of deletion itself, whatever else a deletion has revoked."""

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from chassis.auth.tables import organizations, projects
from chassis.errors import Unauthorized
from control.approvals.notifications import ExpiryTask, LinkBuilder
from control.approvals.tables import approval_requests
from control.audit.tables import audit_events
from control.identity.members import invitations
from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson


async def mark(control: Control, table: sa.Table, row_id: object) -> None:
    """Deleted, and nothing else."""
    async with control.checks.database.write() as connection:
        await connection.execute(table.update().where(table.c.id == row_id).values(deleted_at=datetime.now(UTC)))
    control.checks.bearer.invalidate_all()
    control.checks.project_keys.invalidate_all()


async def test_keys_go_by_it(control: Control) -> None:
    acme, globex, keys = control.acme, control.globex, control.checks.project_keys
    for table, row_id, gone, left in (
        (projects, acme.project.id, acme, globex),
        (organizations, globex.organization.id, globex, None),
    ):
        await keys.check(legacy_key=gone.key.secret)
        await mark(control, table, row_id)
        with pytest.raises(Unauthorized):
            await keys.check(legacy_key=gone.key.secret)
        if left is not None:
            await keys.check(legacy_key=left.key.secret)


@pytest.mark.both_stores
async def test_tokens_sessions_and_invitations_go_by_it(control: Control, person: NewPerson) -> None:
    ada = await person()
    body = {"email": "bob@example.org", "role": "MEMBER"}
    _, invitation, _ = await control.call("POST", "/orgs/acme/invitations", body)
    await mark(control, organizations, control.acme.organization.id)
    for token in (ada.access, control.acme.token.secret):
        assert (await control.call("GET", "/orgs/acme", token=token))[0] == 401
    assert (await ada.login())[0] == 403
    async with control.checks.database.read() as connection:
        secret = invitation["inviteToken"]
        assert await invitations.find_open_invitation(connection, secret, datetime.now(UTC)) is None


async def test_projects_go_by_it(control: Control) -> None:
    await mark(control, projects, control.acme.project.id)
    assert (await control.call("GET", "/orgs/acme/projects/web"))[0] == 404
    assert (await control.call("GET", "/orgs/acme/projects"))[1]["data"] == []
    asked = {"action": "a.b", "targetType": "t", "targetId": "1", "projectTag": "web"}
    assert (await control.call("POST", "/orgs/acme/approval-requests", asked))[0] == 400


@pytest.mark.both_stores
async def test_background_work_and_accounts_go_by_it(control: Control, person: NewPerson) -> None:
    """No event is appended to a chain that is being erased."""
    database, org_id = control.checks.database, control.acme.organization.id
    ada = await person(verified=True)
    status, invitation, _ = await control.call(
        "POST", "/orgs/globex/invitations", {"email": ada.email, "role": "MEMBER"}, control.globex.token.secret
    )
    joined = {
        "inviteToken": invitation["inviteToken"],
        "name": "Ada",
        "password": "correct horse battery",
        "existingAccount": True,
    }
    status, session, _ = await control.call("POST", "/auth/invitations/accept", joined)
    assert status == 201
    asked = {"action": "a.b", "targetType": "t", "targetId": "1"}
    assert (await control.call("POST", "/orgs/acme/approval-requests", asked))[0] == 201
    past = datetime.now(UTC) - timedelta(hours=1)
    await mark(control, organizations, org_id)  # first: the service expires requests, too
    async with database.write() as connection:
        await connection.execute(approval_requests.update().values(expires_at=past))

    async def events() -> int:
        query = sa.select(sa.func.count()).select_from(audit_events).where(audit_events.c.org_id == org_id)
        async with database.read() as connection:
            return await connection.scalar(query) or 0

    before = await events()
    assert await ExpiryTask(database, LinkBuilder()).poll_once() == 0
    token = session["tokens"]["accessToken"]
    assert (await control.call("PATCH", "/auth/user", {"theme": "dark"}, token))[0] == 200
    assert await events() == before
