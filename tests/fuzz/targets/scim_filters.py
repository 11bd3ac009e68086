"""Filters as a directory may write them, for users and for groups: text to SQL, run on a real database.

Whatever comes in is refused, or compiles for both databases and selects some of the resources; its negation selects the
others, and the page that is listed has the same ones, in order.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from multidict import MultiDict
from sqlalchemy.dialects import postgresql

from chassis.auth.tables import metadata
from chassis.http.cursor import CursorSigner
from control.identity.directory.tables import scim_group_members, scim_groups, scim_user_emails, scim_users
from control.identity.scim.messages import ScimError
from control.identity.scim.protocol.filters import compile_filter
from control.identity.scim.protocol.library import MAX_DETAIL_LENGTH, Group, ScimResource, ScimUser
from control.identity.scim.protocol.listing import order_page, parse_query

ORG: Final = "org_00000000000000000000000000"
_CURSORS: Final = CursorSigner(bytes(32))
_POSTGRESQL: Final = postgresql.dialect()  # type: ignore[no-untyped-call]  # it has no types
_TABLES: Final = (scim_users, scim_user_emails, scim_groups, scim_group_members)
_MODELS: Final[tuple[tuple[type[ScimResource], sa.Table], ...]] = ((ScimUser, scim_users), (Group, scim_groups))


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    for model, table in _MODELS:
        try:
            found = compile_filter(model, text)
        except ScimError as error:
            assert len(error.message) <= MAX_DETAIL_LENGTH
            continue
        check_condition(found.condition, table)
        wanted = parse_query(model, ORG, MultiDict({"filter": text}), _CURSORS)
        listed = order_page(sa.select(table.c.id).where(table.c.org_id == ORG, found.condition), wanted, table)
        assert _ids(listed) == sorted(_ids(sa.select(table.c.id).where(found.condition)))


def check_condition(condition: sa.ColumnElement[bool], table: sa.Table) -> None:
    everything = sa.select(table.c.id)
    everything.where(condition).compile(dialect=_POSTGRESQL)
    matching, others = _ids(everything.where(condition)), _ids(everything.where(sa.not_(condition)))
    assert not set(matching) & set(others)
    assert sorted([*matching, *others]) == sorted(_ids(everything))


def _ids(statement: sa.Select[Any]) -> list[str]:
    return list(_connection.scalars(statement).all())


def _filled() -> sa.Connection:
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    metadata.create_all(engine, tables=_TABLES)
    connection = engine.connect()
    for table, rows in zip(_TABLES, (_users(), _emails(), _groups(), _members()), strict=True):
        connection.execute(table.insert(), list(rows))
    return connection


def _users() -> Iterator[dict[str, Any]]:
    """One with every value, one with none of those that may be left out, some in between."""
    for number in range(5):
        yield {
            "id": f"scu_{number:026d}",
            "org_id": ORG,
            "owns_account": False,
            "user_name": f"person{number}@example.com",
            "external_id": None if number == 1 else f"E{number}",
            "active": number != 2,
            "display_name": None if number == 1 else ("", "", "ada lovelace", "straße \u0130", "a%_b")[number],
            "family_name": "lovelace" if number % 2 else None,
            "given_name": None if number % 2 else "ada",
            "document": {},
            "version": 1,
            "created_at": datetime(2026, 11, 1 + number, tzinfo=UTC),
            "updated_at": datetime(2026, 11, 20, tzinfo=UTC),
        }


def _emails() -> Iterator[dict[str, Any]]:
    for user, value, type_, is_primary in (
        (0, "person0@example.com", "work", True),
        (0, "home@example.com", "home", False),
        (2, None, "work", None),
        (3, "person3@example.com", None, None),
    ):
        yield {
            "user_id": f"scu_{user:026d}",
            "position": 1 if type_ == "home" else 0,
            "org_id": ORG,
            "value": value,
            "type": type_,
            "is_primary": is_primary,
        }


def _groups() -> Iterator[dict[str, Any]]:
    for number in range(3):
        yield {
            "id": f"scg_{number:026d}",
            "org_id": ORG,
            "display_name": f"Group {number}",
            "display_name_folded": f"group {number}",
            "external_id": None if number else "e",
            "version": 1,
            "created_at": datetime(2026, 11, 1 + number, tzinfo=UTC),
            "updated_at": datetime(2026, 11, 20, tzinfo=UTC),
        }


def _members() -> Iterator[dict[str, Any]]:
    for group, user in ((0, 0), (0, 1), (1, 0)):
        yield {"group_id": f"scg_{group:026d}", "user_id": f"scu_{user:026d}", "org_id": ORG}


def examples() -> Iterator[bytes]:
    """Inputs to begin with: what directories send, and each operator with each kind of attribute."""
    yield from (
        b'userName eq "person0@example.com"',
        b'emails[type eq "work" and value co "@example.com"]',
        b'not (emails.value ew "example.com") or active eq false',
        b'id eq "scg_00000000000000000000000000" and members eq "scu_00000000000000000000000000"',
        b'members[value ne "scu_00000000000000000000000001"] and displayName sw "group"',
        b'externalId ne "E0" and not (displayName ne "a%_b") or emails.type ne "work"',
        b'groups pr and not (groups.value eq "scg_00000000000000000000000001")',
        b'urn:ietf:params:scim:schemas:core:2.0:User:userName sw "P"',
        b'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department eq "x"',
        b"externalId eq null or (name.familyName pr and emails.primary eq true)",
        b'meta.lastModified ge "2026-11-20T00:00:00+01:00"',
        b'meta.created lt "0001-01-01T00:00:00+14:00" or meta.created gt "9999-12-31T23:59:59-14:00"',
        b'displayName eq "STRASSE \\u0130" or displayName co "%_"',
    )
    attributes = (b"userName", b"externalId", b"emails", b"emails.type", b"active", b"meta.created", b"displayName")
    values = (b'"a"', b'""', b"true", b"null", b"1", b'"2026-11-20T00:00:00Z"')
    for number, attribute in enumerate(attributes):
        for operator in (b"eq", b"ne", b"co", b"sw", b"ew", b"gt", b"ge", b"lt", b"le"):
            yield b"%s %s %s" % (attribute, operator, values[(number + len(operator)) % len(values)])
        yield b"not (%s pr)" % attribute
    yield b" and ".join([b"id pr"] * 51)
    yield b"(" * 100 + b"id pr" + b")" * 100


_connection: Final = _filled()
