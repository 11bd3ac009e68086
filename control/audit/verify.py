"""Checks whole chains: those in the store, and an export of one."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy import exc

from chassis.identity.tables import organizations
from chassis.relational import Database
from control.audit import store
from control.audit.chain import Break, Event, Verifier
from control.audit.store import Wanted

_ORGANIZATIONS_AT_ONCE: Final = 500
# What reading a row raises when a column holds what its type cannot: SQLite keeps anything anywhere. A store that is
# away raises DatabaseUnavailable.
_IN_A_COLUMN: Final = (
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
    exc.DBAPIError,
)


class Checked(NamedTuple):
    """One chain: how many of its events were looked at, the last of them, and where it breaks (None: it holds)."""

    org: str
    events: int
    seq: int
    hash: bytes
    broken: Break | None


async def chains(database: Database) -> AsyncIterator[tuple[str, str]]:
    """Id and slug of every organization, by slug."""
    slug = ""
    while True:
        page = (
            sa.select(organizations.c.id, organizations.c.slug)
            .where(organizations.c.slug > slug)
            .order_by(organizations.c.slug)
            .limit(_ORGANIZATIONS_AT_ONCE)
        )
        async with database.read() as connection:
            found = [(row.id, row.slug) for row in await connection.execute(page)]
        for one in found:
            yield one
        if len(found) < _ORGANIZATIONS_AT_ONCE:
            return
        slug = found[-1][1]


async def stored(database: Database, org_id: str, slug: str, noted: Mapping[int, bytes]) -> Checked:
    """The chain in the store, against its own head and what else was `noted`. Events that are added meanwhile count.
    One without events does not hold: an organization is made with its first.
    """
    head = await _head(database, org_id)
    verifier = Verifier({**({} if head is None else dict([head])), **noted})
    events = await _walked(database, org_id, verifier)
    broken = verifier.end()
    if broken is None and head is None and await _head(database, org_id) is None:
        broken = Break(verifier.seq + 1, "headless")
    return Checked(slug, events, verifier.seq, verifier.hash, broken)


def exported(lines: Iterable[bytes], noted: Mapping[int, bytes]) -> Checked:
    """An export, whole or from some event on. Raises ValueError, naming the line, for what is none, and for one that
    begins behind what was noted: nothing of it tells whether that holds.
    """
    verifier: Verifier | None = None
    events, org = 0, ""
    for number, line in enumerate(lines, 1):
        event = _event(line, number)
        if verifier is None:
            before = event.seq - 1
            if min(noted, default=before) < before:
                raise ValueError(f"it begins at event {event.seq}, behind the noted one")
            verifier = Verifier(noted, seq=before, start=noted.get(before, bytes.fromhex(event.prev_hash)))
            org = event.org_id
        if event.org_id != org:
            raise ValueError(f"line {number} is of another organization")
        verifier.add(event)
        events += 1
    if verifier is None:
        raise ValueError("it is empty")
    return Checked(org, events, verifier.seq, verifier.hash, verifier.end())


async def _walked(database: Database, org_id: str, verifier: Verifier) -> int:
    """How many events could be read; one by one where not all of them can, so as to find which."""
    events = after = 0
    for at_once in (store.CHUNK, 1):
        try:
            async for chunk in store.walk(database, org_id, Wanted(), after, at_once=at_once):
                for event in chunk:
                    verifier.add(event)
                events, after = events + len(chunk), chunk[-1].seq
        except _IN_A_COLUMN:
            continue
        return events
    verifier.add_unreadable()
    return events


async def _head(database: Database, org_id: str) -> tuple[int, bytes] | None:
    async with database.read() as connection:
        try:
            return await store.head(connection, org_id)
        except _IN_A_COLUMN:
            return None


def _event(line: bytes, number: int) -> Event:
    try:
        event = msgspec.json.decode(line, type=Event)
        unknown = set(_keys(line)) - {field.encode_name for field in msgspec.structs.fields(Event)}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"line {number} is no audit event: {error}") from error
    if unknown:
        raise ValueError(f"line {number} has what no audit event has: {', '.join(sorted(unknown))}")
    return event


def _keys(line: bytes) -> dict[str, Any]:
    return msgspec.json.decode(line, type=dict[str, Any])
