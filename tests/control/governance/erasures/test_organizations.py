"""`DELETE` of an organization: what stops at once, who may, and what remains once it is erased."""

import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from chassis.auth.tables import email_verifications, memberships, metadata, organizations, principals, users
from chassis.db.database import Database, sqlite_file
from chassis.erasures import repository
from chassis.erasures.tables import ErasureState
from chassis.errors import Unauthorized
from control.audit import erasing
from control.audit.record import Actor, ChainSealed, record
from control.audit.tables import audit_events
from control.audit.verify import iter_chains, verify_stored
from control.governance.erasures.deletion import delete_organization
from control.identity.organizations import organization_store
from control.identity.organizations.bootstrap import bootstrap
from control.identity.organizations.organization_store import SlugTaken, StoredOrganization
from control.identity.sso import connection_store, domains, identities, options
from control.identity.sso.login import login_store
from control.identity.sso.login.browser import new_secret
from control.identity.sso.login.login_store import StoredCode
from control.identity.sso.options import SsoSettings
from control.identity.sso.tables import Protocol
from proto.identity import PrincipalKind, Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.approvals.office import new_machine
from tests.control.conftest import Control
from tests.control.governance.erasures.conftest import erase_telemetry, purge
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol
from tests.control.test_rights_meanwhile import sent_slowly

ACME: Final = "/orgs/acme"
DELETE: Final = f"{ACME}?confirm=acme"
# What only the organization has, and what only people who are nowhere else have; in no id by chance.
PERSONAL: Final = ("zebedee", "quuxley", "plugh", "xyzzy", "waldo", "fnord")


@dataclass
class Populated:
    """An organization with something in each table, of which nothing may be left."""

    zebedee: Person  # in acme alone
    bob: Person  # in globex, too
    left: Person  # was removed from acme, and is nowhere
    invite_token: str
    noted: dict[int, bytes]


@pytest.fixture
async def populated(control: Control, person: NewPerson) -> Populated:
    zebedee = await person("zebedee.quuxley@example.org", "ADMIN")
    bob = await person("bob@example.org", "MEMBER", verified=True)
    left = await person("zebedee.left@example.org", "MEMBER")
    await enrol(zebedee)
    now = datetime.now(UTC)
    mailed = {"principal_id": zebedee.id, "email": zebedee.email, "hash": b"x" * 32}
    async with control.checks.database.write() as connection:
        await connection.execute(email_verifications.insert().values(created_at=now, expires_at=now, **mailed))
    await sign_on(control, zebedee)
    status, invitation, _ = await control.call(
        "POST", "/orgs/globex/invitations", {"email": bob.email, "role": "MEMBER"}, control.globex.token.secret
    )
    accepted = {"inviteToken": invitation["inviteToken"], "name": "Bob", "password": PASSWORD, "existingAccount": True}
    status, _, _ = await control.call("POST", "/auth/invitations/accept", accepted)
    assert status == 201
    owner = control.acme.token.secret
    for method, path, body in (
        ("PATCH", ACME, {"name": "Plugh Waldo"}),
        ("POST", "/projects", {"slug": "xyzzy-of-plugh", "name": "Xyzzy"}),
        ("PATCH", "/projects/web", {"sensitiveWords": ["fnord"], "exemptKeys": ["token.of.Waldo"]}),
        ("POST", "/projects/web/keys", {"name": "Key of Zebedee"}),
        ("POST", "/projects/web/views", {"name": "Of Zebedee", "path": "/ui/acme/web/explore?q=waldo"}),
        ("POST", "/tokens", {"name": "Laptop of Zebedee"}),
        ("POST", "/principals", {"kind": "agent", "name": "Bot of Zebedee"}),
        ("POST", "/approval-policies", {"name": "Waldo", "actionPattern": "a.b", "effect": "ASK", "riskClass": "LOW"}),
        ("POST", "/projects/web/notification-channels",
         {"name": "Quuxley", "kind": "email", "config": {"to": ["quuxley@example.org"]}, "scope": "org"}),
        ("POST", "/approval-requests",
         {"action": "a.b", "targetType": "user", "targetId": "xyzzy", "summary": "Fnord?", "notify": True}),
        ("POST", "/approval-requests", {"action": "issue.assign", "targetType": "user", "targetId": "quuxley"}),
        ("POST", "/projects/web/erasures", {"filters": [{"key": "user", "op": "eq", "value": "waldo"}]}),
        ("POST", "/projects", {"slug": "waldo", "name": "Waldo"}),
        ("DELETE", "/projects/waldo", None),
        ("DELETE", f"/members/{left.id}", None),
    ):  # fmt: skip
        status, answer, _ = await control.call(method, path if path == ACME else ACME + path, body, owner)
        assert status < 300, (path, answer)
        if path == "/principals":
            tokens = f"{ACME}/principals/{answer['principalId']}/tokens"
            assert (await control.call("POST", tokens, {"name": "of Zebedee"}, owner))[0] == 201
            retired = await control.call("POST", f"{ACME}/principals", body, owner)
            assert (await control.call("DELETE", f"{ACME}/principals/{retired[1]['principalId']}"))[0] == 204
        if path == "/approval-requests" and answer["request"] is not None:
            voted = {"reason": "Plugh says no."}
            await zebedee.call("POST", f"{ACME}/approval-requests/{answer['request']['id']}/reject", voted)
    status, invitation, _ = await control.call(
        "POST", f"{ACME}/invitations", {"email": "waldo@example.org", "role": "OWNER"}, owner
    )
    assert status == 201
    _, page, _ = await control.call("GET", f"{ACME}/audit?limit=1")
    [last] = page["data"]
    return Populated(zebedee, bob, left, invitation["inviteToken"], {last["seq"]: bytes.fromhex(last["hash"])})


async def sign_on(control: Control, zebedee: Person) -> None:
    """A row in each table of single sign-on."""
    org_id, now = control.acme.organization.id, datetime.now(UTC)
    async with control.checks.database.write() as connection:
        new = connection_store.new_connection(org_id, Protocol.SAML, now)
        new = replace(new, idp_entity_id="https://quuxley.example.com", role_mapping={"waldo": "MEMBER"})
        provider = (await connection_store.store(connection, None, new, now)).id
        await options.save_options(connection, org_id, SsoSettings(break_glass_principal_id=zebedee.id), now)
        await domains.add_domain(connection, org_id, "plugh.example.com", now)
        identity_id = await identities.create_identity(
            connection, provider, org_id, "xyzzy", zebedee.id, zebedee.email, now
        )
        await login_store.begin(
            connection, provider, org_id, now, state=new_secret(), binding=new_secret(), address="192.0.2.1",
            relay_state="/fnord", link_principal_id=zebedee.id,
        )  # fmt: skip
        await login_store.use_assertion(connection, provider, org_id, "_1", now)
        code = StoredCode(provider, identity_id, org_id, zebedee.id, ("fed",), provisioned=False, next="/waldo",
                          session_expires_at=None)  # fmt: skip
        await login_store.issue_code(connection, new_secret(), code, now)
        await login_store.request_link(connection, new_secret(), org_id, zebedee.id, "ses_1", now)


async def deleted(control: Control) -> str:
    """Id of the erasure."""
    status, erasure, _ = await control.call("DELETE", DELETE)
    assert (status, erasure["kind"], erasure["state"], erasure["projectId"]) == (202, "organization", "PENDING", None)
    return str(erasure["id"])


async def texts(database: Database) -> AsyncIterator[tuple[str, str]]:
    """Every value of every column of ours as text, with its place."""
    async with database.read() as connection:
        for table in metadata.sorted_tables:
            for row in (await connection.execute(sa.select(table))).mappings():
                for name, value in row.items():
                    is_text = isinstance(value, str | dict | list)
                    yield f"{table.name}.{name}", json.dumps(value) if is_text else repr(value)


async def leftovers(database: Database) -> list[tuple[str, str]]:
    return [(place, text) async for place, text in texts(database) if any(word in text.lower() for word in PERSONAL)]


async def test_a_deleted_organization_is_gone_at_once(control: Control, populated: Populated) -> None:
    await control.checks.project_keys.check(legacy_key=control.acme.key.secret)
    await deleted(control)
    with pytest.raises(Unauthorized):
        await control.checks.project_keys.check(legacy_key=control.acme.key.secret)
    for token in (control.acme.token.secret, populated.zebedee.access, populated.bob.access):
        assert (await control.call("GET", ACME, token=token))[0] == 401
    assert (await control.call("DELETE", DELETE))[0] == 401
    body = {"refreshToken": populated.zebedee.refresh}
    assert (await control.call("POST", "/auth/refresh", body))[0] == 401
    accepted = {"inviteToken": populated.invite_token, "name": "W", "password": PASSWORD}
    assert (await control.call("POST", "/auth/invitations/accept", accepted))[0] == 401
    assert (await populated.zebedee.login())[0] in {401, 403}
    status, session, _ = await populated.bob.login()
    assert status == 200
    token = session["tokens"]["accessToken"]
    _, mine, _ = await control.call("GET", "/auth/organizations", token=token)
    assert [one["slug"] for one in mine["data"]] == ["globex"]
    assert (await control.call("GET", "/orgs/globex", token=token))[0] == 200
    slug = await scalar(control.checks.database, sa.select(organizations.c.slug).where(of_acme(control)))
    for path in (ACME, f"/orgs/{slug}"):
        assert (await control.call("GET", path, token=control.globex.token.secret))[0] == 404


def of_acme(control: Control) -> sa.ColumnElement[bool]:
    return organizations.c.id == control.acme.organization.id


async def scalar(database: Database, query: sa.Select[Any]) -> Any:
    async with database.read() as connection:
        return await connection.scalar(query)


@pytest.mark.both_stores
async def test_nothing_personal_is_left(control: Control, populated: Populated, migrated_url: str) -> None:
    """Nor a byte in the file of SQLite. (PostgreSQL frees rows by its own vacuum: docs/deletion.md.)"""
    database, file = control.checks.database, sqlite_file(migrated_url)
    assert file is None or set(words_in(file)) == set(PERSONAL)
    assert {place.partition(".")[0] for place, _ in await leftovers(database)} >= {
        *("organizations", "projects", "project_keys", "principals", "users", "access_tokens", "invitations"),
        *("approval_policies", "approval_requests", "approval_votes", "notification_channels", "delivery_messages"),
        *("audit_events", "erasures", "email_verifications", "saved_views"),
        *("sso_connections", "sso_domains", "sso_identities", "sso_logins", "sso_handoff_codes"),
    }
    erasure_id = await deleted(control)
    await purge(database)
    assert await leftovers(database) == []
    assert file is None or (words_in(file), words_in(file, "globex")) == ([], ["globex"])
    emails = sa.select(users.c.email).where(users.c.principal_id == populated.zebedee.id)
    assert await scalar(database, emails) == f"{populated.zebedee.id}@deleted.invalid"
    name = sa.select(principals.c.name).where(principals.c.id == populated.bob.id)
    assert await scalar(database, name) == "Bob"  # as globex has it
    names = sa.select(principals.c.name).where(principals.c.id == control.globex.owner_id)
    assert await scalar(database, names) == "Owner"
    of_org = sa.select(sa.func.count()).select_from(memberships)
    assert await scalar(database, of_org.where(memberships.c.org_id == control.acme.organization.id)) == 0
    async with database.read() as connection:
        found = await repository.get(connection, erasure_id)
    assert found.state is ErasureState.RUNNING
    assert found.purged_at is not None
    assert found.counts.keys() >= {"memberships", "access_tokens", "audit_events", "deliveries", "sessions"}
    assert found.counts.keys() >= {name for name in metadata.tables if name.startswith("sso_")}
    assert await erase_telemetry(database) == 3
    async with database.read() as connection:
        assert (await repository.get(connection, erasure_id)).state is ErasureState.COMPLETED
    assert (await populated.bob.login())[0] == 200


async def test_the_audit_chain_stays_verifiable(
    control: Control, populated: Populated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a purge was interrupted, until it is resumed."""
    database, org_id = control.checks.database, control.acme.organization.id
    erasure_id = await deleted(control)
    assert (org_id, org_id) in [chain async for chain in iter_chains(database)]
    result = await verify_stored(database, org_id, org_id, populated.noted)
    assert result.first_break is None
    erase_events, calls = erasing.erase_events, itertools.count(1)

    async def crash(*arguments: Any) -> erasing.ErasedBatch | None:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return await erase_events(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(erasing, "erase_events", crash)
        with pytest.raises(KeyboardInterrupt):
            await purge(database)
    assert await leftovers(database) != []
    assert (await verify_stored(database, org_id, org_id, {})).first_break is None
    await purge(database)
    assert await leftovers(database) == []
    after = await verify_stored(database, org_id, org_id, populated.noted)
    assert (after.first_break, after.events) == (None, result.events + 1)
    async with database.read() as connection:
        assert (await repository.get(connection, erasure_id)).purged_at is not None
        found = await connection.execute(sa.select(audit_events).where(of_chain(control)).order_by(audit_events.c.seq))
    *erased, last = found.mappings().all()
    assert (last["action"], last["erased"]) == ("organization.erase", False)
    assert {(row["data"], row["request_id"], row["salt"], row["erased"]) for row in erased} == {
        ("{}", "(erased)", None, True)
    }
    assert "organization.delete" in {row["action"] for row in erased}
    with pytest.raises(ChainSealed):
        async with database.write() as connection:
            await record(connection, Actor(org_id), "test.it", org_id, {}, "r")


def of_chain(control: Control) -> sa.ColumnElement[bool]:
    return audit_events.c.org_id == control.acme.organization.id


async def test_a_change_of_what_remains_is_detected(control: Control) -> None:
    database, org_id = control.checks.database, control.acme.organization.id
    await control.call("PATCH", ACME, {"name": "X"})
    await control.call("PATCH", ACME, {"name": "Y"})
    await deleted(control)
    await purge(database)
    second = of_chain(control) & (audit_events.c.seq == 2)
    async with database.read() as connection:
        kept = dict((await connection.execute(sa.select(audit_events).where(second))).mappings().one())
    changes: list[tuple[dict[str, Any], str]] = [
        ({"actor_id": "prn_other"}, "altered"),
        ({"action": "other.verb"}, "altered"),
        ({"at": kept["at"] - timedelta(minutes=1)}, "altered"),
        ({"hash": kept["prev_hash"]}, "unlinked"),
    ]
    for change, _ in changes:
        with pytest.raises(exc.SQLAlchemyError, match="only added"):
            async with database.write() as connection:
                await connection.execute(audit_events.update().where(second).values(change))
    for change, kind in changes:
        await forced(database, audit_events.update().where(second).values(change))
        found = (await verify_stored(database, org_id, org_id, {})).first_break
        assert (found and found.kind) == kind, change
        await forced(database, audit_events.update().where(second).values(kept))
        assert (await verify_stored(database, org_id, org_id, {})).first_break is None


async def forced(database: Database, statement: sa.Update) -> None:
    """By somebody who may do anything."""
    async with database.write() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        without_triggers = "DROP TRIGGER IF EXISTS audit_events_no_update"
        await connection.exec_driver_sql(
            without_triggers if is_sqlite else "SET LOCAL session_replication_role = replica"
        )
        await connection.execute(statement)


@pytest.mark.both_stores
async def test_events_of_a_living_organization_cannot_be_erased(control: Control) -> None:
    await control.call("PATCH", ACME, {"name": "X"})
    erased = "UPDATE audit_events SET data = '{}', request_id = '(erased)', salt = NULL, erased = true"
    with pytest.raises(exc.SQLAlchemyError, match="only added"):
        async with control.checks.database.write() as connection:
            await connection.exec_driver_sql(erased)
    await deleted(control)
    with pytest.raises(exc.SQLAlchemyError, match="only added"):
        async with control.checks.database.write() as connection:
            await connection.exec_driver_sql(f"{erased}, action = 'x.y'")
    async with control.checks.database.write() as connection:  # its content goes, but what remains has no seal
        await connection.exec_driver_sql(erased)
        found = await repository.list_erasures(connection, control.acme.organization.id, None, 10)
        for one in found:
            await repository.mark_purged(connection, one, datetime.now(UTC))
    org_id = control.acme.organization.id
    found_break = (await verify_stored(control.checks.database, org_id, org_id, {})).first_break
    assert found_break is not None
    assert (found_break.seq, found_break.kind) == (1, "unsealed")


async def test_its_slug_is_not_given_again(control: Control) -> None:
    await deleted(control)
    for _ in range(2):
        with pytest.raises(SlugTaken):
            async with control.checks.database.write() as connection:
                await organization_store.create_organization(connection, "acme", "Anew")
        await purge(control.checks.database)
    async with control.checks.database.write() as connection:
        assert await organization_store.find_organization(connection, "acme") is None
        await organization_store.create_organization(connection, "acme-2", "Anew")


async def test_the_last_organization_can_be_deleted(control: Control) -> None:
    await deleted(control)
    assert (await control.call("DELETE", "/orgs/globex?confirm=globex", token=control.globex.token.secret))[0] == 202
    await purge(control.checks.database)
    assert await bootstrap(control.checks.database, "http://127.0.0.1:4318") is None  # `sluice init` makes another
    async with control.checks.database.read() as connection:
        assert await repository.list_unpurged(connection, 10) == []


async def test_the_slug_confirms(control: Control) -> None:
    for query in ("", "?confirm=", "?confirm=globex", "?confirm=Acme", "?confirm=acme&confirm=acme"):
        status, refusal, _ = await control.call("DELETE", ACME + query)
        assert (status, refusal["error"]["details"][0]["path"]) == (400, "query.confirm")
    assert (await control.call("GET", ACME))[0] == 200


async def test_only_an_owner_deletes(control: Control, person: NewPerson) -> None:
    database = control.checks.database
    for role in (Role.VIEWER, Role.BILLING, Role.MEMBER, Role.ADMIN):
        _, token = await new_member_token(database, control.acme, role)
        assert (await control.call("DELETE", DELETE, token=token))[0] == 403
    machine = await new_machine(database, control.acme, control.acme.owner_id, PrincipalKind.AGENT, Role.ADMIN)
    assert (await control.call("DELETE", DELETE, token=machine.token))[0] == 403
    for path in ("/orgs/globex?confirm=globex", "/orgs/none?confirm=none"):
        assert (await control.call("DELETE", path))[0] == 404
    ada = await person("ada@example.org", "OWNER")
    assert (await ada.call("DELETE", DELETE))[0] == 202


async def test_a_change_that_is_under_way_changes_nothing(control: Control, populated: Populated) -> None:
    """Deleted by another process, of which this one has not heard."""
    database = control.checks.database
    body = {"inviteToken": populated.invite_token, "name": "W", "password": PASSWORD}
    for tenant, change in (
        (control.acme, ("POST", "/auth/invitations/accept", body)),
        (control.globex, ("POST", "/orgs/globex/projects/web/keys", {"name": "x"})),
    ):
        org = tenant.organization

        async def delete(org: StoredOrganization = org) -> None:
            async with database.write() as connection:
                await delete_organization(connection, Actor(org.id), org.slug, "r", datetime.now(UTC))

        assert await sent_slowly(control, tenant.token.secret, change, delete) == 401
    found = sa.select(users.c.principal_id).where(users.c.email == "waldo@example.org")
    assert await scalar(database, found) is None
    await purge(database)
    for tenant in (control.acme, control.globex):
        org_id = tenant.organization.id
        assert (await verify_stored(database, org_id, org_id, {})).first_break is None


def words_in(file: Path, *words: str) -> list[str]:
    """Which of these, or of PERSONAL, are in the file or in its write-ahead log."""
    content = b"".join(path.read_bytes() for path in (file, Path(f"{file}-wal")) if path.exists()).lower()
    return [word for word in words or PERSONAL if word.encode() in content]
