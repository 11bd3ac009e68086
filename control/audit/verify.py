"""Checks whole chains: those in the store, and an export of one."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa

from chassis.identity.tables import organizations
from chassis.relational import Database
from control.audit import store
from control.audit.chain import Break, Event, Verifier
from control.audit.store import Wanted

_ORGANIZATIONS_AT_ONCE: Final = 500


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
    """The chain in the store, against its own head and what else was `noted`. Events that are added meanwhile count."""
    async with database.read() as connection:
        head = await store.head(connection, org_id)
    verifier = Verifier({**({} if head is None else dict([head])), **noted})
    events = 0
    try:
        async for chunk in store.walk(database, org_id, Wanted()):
            for event in chunk:
                verifier.add(event)
            events += len(chunk)
    except ValueError:  # a column holds what its type cannot
        return Checked(slug, events, verifier.seq, verifier.hash, Break(verifier.seq + 1, "altered"))
    broken = verifier.end()
    return Checked(slug, events, verifier.seq, verifier.hash, broken)


def exported(lines: Iterable[bytes], noted: Mapping[int, bytes]) -> Checked:
    """An export, whole or from some event on. Raises ValueError, naming the line, for what is none."""
    verifier: Verifier | None = None
    events, org = 0, ""
    for number, line in enumerate(lines, 1):
        event = _event(line, number)
        if verifier is None:
            before = event.seq - 1
            verifier = Verifier(noted, seq=before, start=noted.get(before, bytes.fromhex(event.prev_hash)))
            org = event.org_id
        if event.org_id != org:
            raise ValueError(f"line {number} is of another organization")
        verifier.add(event)
        events += 1
    if verifier is None:
        raise ValueError("it is empty")
    return Checked(org, events, verifier.seq, verifier.hash, verifier.end())


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
