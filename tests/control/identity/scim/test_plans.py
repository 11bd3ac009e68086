"""How the databases find what a filter names: directories ask for each user by name or address, and there are
many users.
"""

import re
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from multidict import MultiDict
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id
from chassis.db.database import Database
from chassis.http.cursor import CursorSigner
from control.identity.directory.tables import scim_group_members, scim_groups, scim_user_emails, scim_users
from control.identity.scim.protocol.library import Group, ScimResource, ScimUser
from control.identity.scim.protocol.listing import parse_query, select_page
from tests.chassis.auth.tenants import new_tenant

USERS: Final = 3_000
GROUPS: Final = 600
FILTERS: Final[tuple[tuple[type[ScimResource], str], ...]] = (
    (ScimUser, 'userName eq "Person77@example.com"'),
    (ScimUser, 'externalId eq "e77"'),
    (ScimUser, 'displayName eq "person 77"'),
    (ScimUser, 'id eq "{user}"'),
    (ScimUser, 'emails.value eq "person77@example.com"'),
    (ScimUser, 'emails eq "person77@example.com"'),
    (ScimUser, 'emails[type eq "work" and value eq "person77@example.com"]'),
    (ScimUser, 'userName eq "person77@example.com" and active eq true'),
    (ScimUser, 'groups.value eq "{group}"'),
    (Group, 'displayName eq "Group 7"'),
    (Group, 'externalId eq "e7"'),
    (Group, 'id eq "{group}" and members eq "{user}"'),
    (Group, 'members.value eq "{user}"'),
    (Group, 'members[value eq "{user}"]'),
)
_ALL_OF_ORG: Final = re.compile(r"\(org_id=\?\)|SCAN")
_REMOVED: Final = re.compile(r"Rows Removed by Filter: (\d+)")


async def test_no_plan_reads_every_resource(database: Database) -> None:
    tenant = await new_tenant(database, "acme")
    org_id = tenant.organization.id
    async with database.write() as connection:
        user, group = await _fill(connection, org_id)
    async with database.read() as connection:
        for model, text in FILTERS:
            query = MultiDict({"filter": text.replace("{user}", user).replace("{group}", group)})
            wanted = parse_query(model, org_id, query, CursorSigner(b"k" * 32))
            statement = await select_page(connection, org_id, wanted)
            assert len((await connection.scalars(statement)).all()) >= 1, text
            plan = await _plan(connection, statement)
            if connection.dialect.name == "sqlite":
                assert _ALL_OF_ORG.search(plan) is None, f"{text}: {plan}"
            else:
                assert sum(map(int, _REMOVED.findall(plan))) < GROUPS / 2, f"{text}: {plan}"


async def test_broad_filters_are_read_in_order(database: Database) -> None:
    """What many match is read until a page is full, and not sorted for each page."""
    tenant = await new_tenant(database, "acme")
    org_id, query = tenant.organization.id, MultiDict({"filter": 'meta.created gt "2020-01-01T00:00:00Z"'})
    async with database.write() as connection:
        await _fill(connection, org_id)
    async with database.read() as connection:
        for model in (ScimUser, Group):
            wanted = parse_query(model, org_id, query, CursorSigner(b"k" * 32))
            plan = await _plan(connection, await select_page(connection, org_id, wanted))
            assert "Sort" not in plan
            assert "TEMP B-TREE" not in plan


async def _fill(connection: AsyncConnection, org_id: str) -> tuple[str, str]:
    """A user in a group; of many."""
    now = datetime.now(UTC)
    users, groups = [new_id("scu") for _ in range(USERS)], [new_id("scg") for _ in range(GROUPS)]
    of_all: dict[str, Any] = {"org_id": org_id, "version": 1, "created_at": now, "updated_at": now}
    of_users: dict[str, Any] = of_all | {"owns_account": False, "active": True, "document": {}}
    rows: dict[sa.Table, list[dict[str, Any]]] = {
        scim_users: [
            of_users
            | {"id": id_, "user_name": f"person{number}@example.com", "external_id": f"e{number}"}
            | {"display_name": f"person {number}"}
            for number, id_ in enumerate(users)
        ],
        scim_user_emails: [
            {"user_id": id_, "position": 0, "org_id": org_id, "value": f"person{number}@example.com", "type": "work"}
            for number, id_ in enumerate(users)
        ],
        scim_groups: [
            of_all
            | {"id": id_, "external_id": f"e{number}"}
            | {"display_name": f"Group {number}", "display_name_folded": f"group {number}"}
            for number, id_ in enumerate(groups)
        ],
        scim_group_members: [
            {"group_id": groups[number % GROUPS], "user_id": id_, "org_id": org_id} for number, id_ in enumerate(users)
        ],
    }
    for table, all_of_table in rows.items():
        for start in range(0, len(all_of_table), 1_000):
            await connection.execute(table.insert(), all_of_table[start : start + 1_000])
    if connection.dialect.name == "postgresql":  # as its autovacuum does; SQLite is to find its way without
        await connection.execute(sa.text("ANALYZE"))
    return users[77], groups[77]


async def _plan(connection: AsyncConnection, statement: sa.Select[Any]) -> str:
    is_sqlite = connection.dialect.name == "sqlite"
    text = str(statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True}))
    explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN (ANALYZE) "
    rows = await connection.execute(sa.text(explain + text.replace(":", r"\:")))
    return "\n".join(str(row[3] if is_sqlite else row[0]) for row in rows)
