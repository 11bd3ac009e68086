"""The audit over HTTP, and what the store does not let anybody do."""

import hashlib
import itertools
import json
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from aiohttp import ClientPayloadError
from sqlalchemy import exc

from chassis.db.database import Database, DatabaseUnavailable
from control.audit import record as audit_log
from control.audit.record import Actor, EventFilter, record
from control.audit.tables import audit_events, audit_heads
from control.audit.verify import iter_chains, verify_export, verify_stored
from control.http.field_types import TimeRange
from proto.identity import PrincipalKind
from tests.chassis.auth.tenants import new_tenant
from tests.control.approvals.office import ASKED, AUDIT, REQUESTS, Office
from tests.control.plans import Plans

KEYS = [
    *("orgId", "seq", "at", "actorPrincipalId", "actorKind", "onBehalfOfPrincipalId", "actChain", "tokenId"),
    *("action", "objectId", "data", "requestId", "prevHash", "hash", "salt"),
]


async def fill(office: Office, number: int, **by: Any) -> None:
    async with office.checks.database.write() as connection:
        for each in range(number):
            await record(connection, Actor(office.acme.organization.id, **by), "test.it", f"obj_{each}", {}, "r")


async def exported_lines(office: Office, **query: str) -> list[bytes]:
    headers = {"Authorization": f"Bearer {office.acme.token.secret}"}
    async with office.client.get(f"{AUDIT}/export", headers=headers, params=query) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        assert answer.headers["X-Request-Id"]
        return (await answer.read()).splitlines(keepends=True)


async def test_events_record_actor_and_delegation(office: Office) -> None:
    alice = await office.member()
    agent = await office.machine(alice)
    headers = {"X-Request-Id": "from-the-client"}
    status, answer, _ = await office.call("POST", REQUESTS, ASKED, agent.token, headers=headers)
    assert status == 201
    status, page, _ = await office.call("GET", AUDIT)
    assert (status, list(page), page["nextCursor"], page["hasMore"]) == (
        200,
        ["data", "nextCursor", "hasMore"],
        None,
        False,
    )
    [event] = page["data"]
    assert list(event) == KEYS
    assert event | {"at": "", "hash": "", "tokenId": "", "salt": ""} == {
        "orgId": office.acme.organization.id,
        "seq": 1,
        "at": "",
        "actorPrincipalId": agent.id,
        "actorKind": "agent",
        "onBehalfOfPrincipalId": None,
        "actChain": [],
        "tokenId": "",
        "action": "approval_request.create",
        "objectId": answer["request"]["id"],
        "data": ASKED | {"projectTag": None, "riskClass": "HIGH", "policyId": None, "policySource": "fallback"},
        "requestId": "from-the-client",
        "prevHash": "0" * 64,
        "hash": "",
        "salt": "",
    }
    assert re.fullmatch("[0-9a-f]{32}", event["salt"])
    assert agent.token not in msgspec.json.encode(page).decode()


@pytest.mark.both_stores
async def test_lists_can_be_filtered(office: Office) -> None:
    """What is allowed immediately is recorded, too; what is recorded meanwhile is on no later page."""
    alice = await office.member()
    await fill(office, 2)
    await office.ask(alice)
    await office.policy()
    await office.call("POST", REQUESTS, ASKED | {"action": "issue.resolve", "targetId": "a b/ü 'x'"})
    [*_, asked, policy, _] = await office.audit()
    for query, seqs in (
        ({"actorPrincipalId": alice.id}, [3]),
        ({"objectId": policy["objectId"]}, [4]),
        ({"action": "test.it"}, [1, 2]),
        ({"action": "test."}, [1, 2]),
        ({"objectId": "service:a b/ü 'x'"}, [5]),
        ({"action": "test"}, []),
        ({"action": "approval_request."}, [3, 5]),
        ({"action": "approvalxrequest."}, []),
        ({"actorPrincipalId": alice.id, "action": "policy."}, []),
        ({"from": asked["at"]}, [3, 4, 5]),
        ({"to": "2020-01-01T00:00:00Z"}, []),
        ({"from": "2020-01-01T00:00:00+02:00", "to": "9999-12-31T00:00:00.123456789Z"}, [1, 2, 3, 4, 5]),
    ):
        assert [one["seq"] for one in await office.audit(**query)] == seqs, query
    _, foreign, _ = await office.call("GET", "/orgs/globex/audit", token=office.globex.token.secret)
    assert foreign["data"] == []
    _, first, _ = await office.call("GET", AUDIT, params={"limit": "3"})
    long = "x" * 500
    await office.call("POST", REQUESTS, ASKED | {"action": "issue.resolve", "targetId": long})
    _, second, _ = await office.call("GET", AUDIT, params={"cursor": first["nextCursor"]})
    assert [one["seq"] for page in (first, second) for one in page["data"]] == [5, 4, 3, 2, 1]
    [*_, event] = await office.audit()
    assert (event["action"], event["objectId"]) == ("approval_request.allow", f"service:{long}"[:200])
    assert event["data"]["targetId"] == long


INVALID: list[tuple[dict[str, str], list[tuple[str, str]]]] = [
    ({"actorPrincipalId": "\x00"}, [("query.actorPrincipalId", "format")]),
    ({"actorPrincipalId": "x" * 33}, [("query.actorPrincipalId", "too_long")]),
    ({"action": "%"}, [("query.action", "format")]),
    ({"action": "x" * 101}, [("query.action", "too_long")]),
    ({"objectId": "a\x00"}, [("query.objectId", "format")]),
    ({"objectId": "\x85"}, [("query.objectId", "format")]),
    ({"objectId": ""}, [("query.objectId", "too_short")]),
    ({"objectId": "x" * 201}, [("query.objectId", "too_long")]),
    ({"to": "0001-01-01T00:00:00Z"}, [("query.to", "format")]),
    ({"to": "9999-12-31T23:59:59-14:00"}, [("query.to", "format")]),
    ({"from": "2026-11-20T00:00:00Z", "to": "2026-11-20T00:00:00Z"}, [("query.from", "range")]),
    *(({"afterSeq": after}, [("query.afterSeq", code)])
      for after, code in (("-1", "too_small"), ("x", "type"), ("9007199254740992", "too_large"))),
]  # fmt: skip


async def test_invalid_query_is_400(office: Office) -> None:
    for query, issues in INVALID:
        lists = () if "afterSeq" in query else (AUDIT,)
        exports = (f"{AUDIT}/export",) if query.keys() <= {"from", "to", "afterSeq"} else ()
        for path in (*lists, *exports):
            status, answer, _ = await office.call("GET", path, params=query)
            assert (status, [(one["path"], one["code"]) for one in answer["error"]["details"]]) == (400, issues), query


async def test_export_is_the_complete_and_valid_chain(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "CHUNK_SIZE", 4)
    assert await exported_lines(office) == []
    await office.policy(name='Ünïcödé 🦊 " \\ / %')
    await fill(office, 10, principal_id="prn_1", kind=PrincipalKind.SERVICE, on_behalf_of="prn_2", act_chain=("prn_1",))
    lines = await exported_lines(office)
    listed = await office.audit()
    assert [json.loads(line) for line in lines] == listed
    checked = verify_export(lines, {})
    assert (checked.events, checked.seq, checked.first_break) == (11, 11, None)
    assert await exported_lines(office, afterSeq="9") == lines[9:]
    tail = verify_export(lines[9:], {9: bytes.fromhex(listed[8]["hash"])})
    assert (tail.events, tail.seq, tail.first_break) == (2, 11, None)
    for line in lines:
        written = json.loads(line)
        digest = written.pop("hash")
        again = json.dumps(written, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
        assert hashlib.sha256(again).hexdigest() == digest


async def test_interrupted_export_is_detectable(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(office, 5)
    monkeypatch.setattr(audit_log, "CHUNK_SIZE", 2)
    chunk, calls = audit_log._read_chunk, 0

    async def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise DatabaseUnavailable
        return await chunk(*arguments)

    monkeypatch.setattr(audit_log, "_read_chunk", failing)
    with pytest.raises(ClientPayloadError):
        await exported_lines(office)
    calls = 1
    assert (await office.call("GET", f"{AUDIT}/export"))[0] == 503, "nothing had been sent yet"


async def test_event_is_stored_if_and_only_if_its_change_is(office: Office) -> None:
    async def undone() -> None:
        async with office.checks.database.write() as connection:
            await record(connection, Actor(office.acme.organization.id), "test.it", "x", {}, "r")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await undone()
    assert await office.audit() == []
    await fill(office, 1)
    assert [one["seq"] for one in await office.audit()] == [1]


@pytest.mark.both_stores
async def test_events_are_append_only(office: Office) -> None:
    """By us and by anybody with a connection, as long as he leaves the triggers alone. SQLite's OR REPLACE deletes
    without the trigger for deleting, also by the number that a row has for itself.
    """
    await fill(office, 2)
    columns = ", ".join(column.name for column in audit_events.c)
    altered = columns.replace("action", "'x'")
    statements = [f"INSERT INTO audit_events ({columns}) SELECT {altered} FROM audit_events"]
    if office.checks.database._url.get_backend_name() == "sqlite":
        moved = altered.replace("seq", "seq + 7")
        statements += [
            f"INSERT OR REPLACE INTO audit_events ({columns}) SELECT {altered} FROM audit_events",
            f"INSERT OR REPLACE INTO audit_events (rowid, {columns}) SELECT rowid, {moved} FROM audit_events",
        ]
    for inserted in statements:
        with pytest.raises((exc.DBAPIError, DatabaseUnavailable)):
            async with office.checks.database.write() as connection:
                await connection.execute(sa.text(inserted))
    for statement in (
        audit_events.update().values(action="x"),
        audit_events.delete(),
        audit_events.delete().where(audit_events.c.seq == 2),
    ):
        with pytest.raises((exc.DBAPIError, DatabaseUnavailable)) as raised:
            async with office.checks.database.write() as connection:
                await connection.execute(statement)
        assert "audit events are only added" in f"{raised.value} {raised.value.__cause__}"
    assert [one["action"] for one in await office.audit()] == ["test.it"] * 2
    await fill(office, 1)
    assert (await verify_stored(office.checks.database, office.acme.organization.id, "acme", {})).first_break is None


async def drop_triggers(office: Office) -> None:
    async with office.checks.database.write() as connection:
        for change in ("update", "delete"):
            of_table = "" if connection.dialect.name == "sqlite" else " ON audit_events"
            await connection.execute(sa.text(f"DROP TRIGGER IF EXISTS audit_events_no_{change}{of_table}"))


async def set_triggers(office: Office) -> None:
    """Other tests use the same tables on PostgreSQL."""
    async with office.checks.database.write() as connection:
        if connection.dialect.name != "sqlite":
            await connection.execute(
                sa.text(
                    "CREATE TRIGGER audit_events_no_update BEFORE UPDATE OR DELETE ON audit_events"
                    " FOR EACH ROW EXECUTE FUNCTION audit_events_append_only()"
                )
            )


THIRD = audit_events.update().where(audit_events.c.seq == 3)
TAMPERING: list[tuple[Any, tuple[int, str]]] = [
    (THIRD.values(data='{"a":1}'), (3, "altered")),
    (THIRD.values(data="{"), (3, "altered")),
    (THIRD.values(act_chain="x"), (3, "altered")),
    (THIRD.values(actor_id="prn_x"), (3, "altered")),
    (THIRD.values(actor_kind="king"), (3, "altered")),
    (THIRD.values(hash=b"\1" * 32), (3, "altered")),
    (THIRD.values(at=datetime(2020, 1, 1, tzinfo=UTC)), (3, "altered")),
    (audit_events.delete().where(audit_events.c.seq == 3), (4, "missing")),
    (audit_events.delete().where(audit_events.c.seq == 1), (2, "missing")),
    (audit_events.delete().where(audit_events.c.seq >= 4), (4, "cut")),
    (audit_events.delete(), (1, "cut")),
    (audit_heads.update().values(hash=b"\1" * 32), (5, "replaced")),
    (THIRD.values(data='{"a":0.5}'), (3, "altered")),
    (THIRD.values(data='{"a":1e400}'), (3, "altered")),
    (THIRD.values(data="[" * 20_000), (3, "altered")),
    (THIRD.values(data='{"a":' + "9" * 400 + "}"), (3, "altered")),
    (audit_heads.delete(), (6, "headless")),
    ([audit_events.delete(), audit_heads.delete()], (1, "headless")),
]


@pytest.mark.both_stores
async def test_tampering_is_detected(office: Office) -> None:
    await fill(office, 5)
    await drop_triggers(office)
    try:
        org, kept, wrong = office.acme.organization, await kept_rows(office), []
        assert (await verify_stored(office.checks.database, org.id, "acme", {})).first_break is None
        for statements, expected in TAMPERING:
            async with office.checks.database.write() as connection:
                for statement in statements if isinstance(statements, list) else [statements]:
                    await connection.execute(statement)
            found = (await verify_stored(office.checks.database, org.id, "acme", {})).first_break
            globex = await verify_stored(office.checks.database, office.globex.organization.id, "globex", {})
            slugs = [slug async for _, slug in iter_chains(office.checks.database)]
            # An organization is made with its first event.
            if (found, globex.events, globex.first_break, slugs) != (expected, 0, (1, "headless"), ["acme", "globex"]):
                wrong.append((str(statements), found, globex, slugs))
            await put_back(office, kept)
            assert (await verify_stored(office.checks.database, org.id, "acme", {})).first_break is None
        assert wrong == []
        await check_cut(office)
    finally:
        await set_triggers(office)


async def check_cut(office: Office) -> None:
    """A chain that is cut with its head is detected by a noted hash, also when it goes on."""
    org_id, database = office.acme.organization.id, office.checks.database
    [*_, last] = await office.audit()
    async with database.write() as connection:
        await connection.execute(audit_events.delete().where(audit_events.c.seq > 3))
        third = sa.select(audit_events.c.hash).where(audit_events.c.seq == 3).scalar_subquery()
        await connection.execute(audit_heads.update().values(seq=3, hash=third))
    assert (await verify_stored(database, org_id, "acme", {})).first_break is None
    noted = {5: bytes.fromhex(last["hash"])}
    assert (await verify_stored(database, org_id, "acme", noted)).first_break == (4, "cut")
    await fill(office, 4)
    assert (await verify_stored(database, org_id, "acme", noted)).first_break == (5, "replaced")


async def kept_rows(office: Office) -> list[tuple[sa.Table, list[dict[str, Any]]]]:
    async with office.checks.database.read() as connection:
        return [
            (table, [dict(row) for row in (await connection.execute(sa.select(table))).mappings()])
            for table in (audit_events, audit_heads)
        ]


async def put_back(office: Office, kept: list[tuple[sa.Table, list[dict[str, Any]]]]) -> None:
    async with office.checks.database.write() as connection:
        for table, rows in kept:
            await connection.execute(table.delete())
            await connection.execute(table.insert(), rows)


async def test_values_of_invalid_types_are_located(sqlite: Database) -> None:
    """SQLite keeps anything in any column."""
    acme = (await new_tenant(sqlite, "acme")).organization
    async with sqlite.write() as connection:
        for _ in range(5):
            await record(connection, Actor(acme.id), "test.it", "x", {}, "r")
        await connection.execute(sa.text("DROP TRIGGER audit_events_no_update"))
        await connection.execute(sa.text("CREATE TABLE kept AS SELECT * FROM audit_events"))

    async def changed(*statements: str) -> tuple[int, str] | None:
        async with sqlite.write() as connection:
            for statement in statements:
                await connection.exec_driver_sql(statement)
        return (await verify_stored(sqlite, acme.id, "acme", {})).first_break

    values = ("'text'", "7", "1e20", "x'ff'", "CAST(x'ff' AS TEXT)", "9223372036854775807")
    for column, value in itertools.product(sorted(set(audit_events.c.keys()) - {"org_id", "seq"}), values):
        of_third = f"UPDATE audit_events SET {column} = {{}} WHERE seq = 3"
        kept = f"(SELECT {column} FROM kept WHERE seq = 3 AND org_id = '{acme.id}')"
        assert await changed(of_third.format(value)) == (3, "altered"), (column, value)
        assert await changed(of_third.format(kept)) is None, (column, value)
    for value in values:
        both = "UPDATE audit_events SET data = 'x' WHERE seq = 3", f"UPDATE audit_heads SET hash = {value}"
        assert await changed(*both) == (3, "altered"), value


async def test_invalid_exports_are_rejected(office: Office) -> None:
    await fill(office, 5)
    lines = await exported_lines(office)
    first, second, *_ = lines
    other = msgspec.json.encode(json.loads(second) | {"orgId": "org_other"})
    more = msgspec.json.encode(json.loads(first) | {"more": 1})
    for exported, complaint in (
        ([], "empty"),
        ([b"{}\n"], "line 1 is not an audit event"),
        ([first, b"\xff\n"], "line 2 is not an audit event"),
        ([first, other], "line 2 belongs to another organization"),
        ([more], "line 1 has unknown fields: more"),
    ):
        with pytest.raises(ValueError, match=complaint):
            verify_export(exported, {})
    hashes = {n: bytes.fromhex(json.loads(line)["hash"]) for n, line in enumerate(lines, 1)}
    assert verify_export(lines[2:], {2: hashes[2]}).first_break is None
    assert verify_export(lines[2:], {2: hashes[1]}).first_break == (3, "unlinked")
    with pytest.raises(ValueError, match="the file starts at event 3, but --noted has the hash of an earlier event"):
        verify_export(lines[2:], {1: hashes[1]})  # it would hold whatever became of what was noted


@pytest.mark.both_stores
async def test_time_window_is_contiguous_despite_clock_skew(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of a process whose clock is behind has the time of the one before it."""
    times = [datetime(2026, 11, 20, 12, 0, second, tzinfo=UTC) for second in (1, 5, 3, 5, 4, 9, 8)]

    class Skewed(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:  # noqa: ARG003  # as the clock is called
            return times.pop(0)

    monkeypatch.setattr("control.audit.record.datetime", Skewed)
    await fill(office, 7)
    assert [one["at"][17:19] for one in await office.audit()] == ["01", "05", "05", "05", "05", "09", "09"]
    for window, seqs in (
        ({"from": "2026-11-20T12:00:05Z"}, [2, 3, 4, 5, 6, 7]),
        ({"to": "2026-11-20T12:00:05Z"}, [1]),
        ({"from": "2026-11-20T12:00:04Z", "to": "2026-11-20T12:00:09Z"}, [2, 3, 4, 5]),
        ({"from": "2026-11-20T12:00:06Z"}, [6, 7]),
        ({"from": "2026-11-20T12:00:10Z"}, []),
    ):
        assert [one["seq"] for one in await office.audit(**window)] == seqs
        lines = await exported_lines(office, **window)
        assert [json.loads(line)["seq"] for line in lines] == seqs
        assert not lines or verify_export(lines, {}).first_break is None


WANTED: list[tuple[EventFilter, TimeRange, str]] = [
    (EventFilter(), TimeRange(), "sqlite_autoindex_audit_events_1"),
    (EventFilter(action="test.it"), TimeRange(), "ix_audit_events_org_id_action_seq"),
    (EventFilter(action="test."), TimeRange(), "ix_audit_events_org_id_action_seq"),
    (EventFilter(object_id="x"), TimeRange(), "ix_audit_events_org_id_object_id_seq"),
    (EventFilter(actor_principal_id="x"), TimeRange(), "ix_audit_events_org_id_actor_id_seq"),
    (EventFilter(), TimeRange(since=datetime(2026, 1, 1, tzinfo=UTC)), "sqlite_autoindex_audit_events_1"),
]


async def test_lists_use_an_index(sqlite: Database) -> None:
    """However long the chain is (SQLite's plans)."""
    acme = (await new_tenant(sqlite, "acme")).organization
    async with sqlite.write() as connection:
        for action in ("test.it", "test.other", "tests.it"):
            await record(connection, Actor(acme.id), action, "x", {}, "r")
    for filters, window, index in WANTED:
        with Plans(sqlite, "audit_events") as plans:
            async with sqlite.read() as connection:
                await audit_log.list_events(connection, acme.id, filters, window, None, 10)
        assert plans.seen[-1].startswith(index), plans.seen
        assert not [one for one in plans.seen if one.startswith("SCAN") or "B-TREE" in one], plans.seen


async def test_event_data_types_and_lengths_are_checked(office: Office) -> None:
    actor, good = Actor(office.acme.organization.id), {"n": 2**53, "t": "\x00", "l": [True, None, {"a": "b"}]}
    async with office.checks.database.write() as connection:
        await record(connection, actor, "x" * 100, "y" * 200, good, "r")
        for action, object_id, data, fault in (
            ("x" * 101, "y", {}, ValueError),
            ("x", "y" * 201, {}, ValueError),
            ("x", "y", {"half": 0.5}, TypeError),
        ):
            with pytest.raises(fault):
                await record(connection, actor, action, object_id, data, "r")
    [event] = await office.audit()
    assert (event["action"], event["objectId"], event["data"]) == ("x" * 100, "y" * 200, good)
    assert (event["actorPrincipalId"], event["actorKind"], event["tokenId"]) == (None, None, None)
