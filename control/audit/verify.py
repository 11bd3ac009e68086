"""Verifies complete chains: the chains in the database, and an export of one chain."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy import exc

from chassis.auth.tables import organizations
from chassis.db.database import Database
from chassis.erasures.tables import ErasureKind, erasures
from control.audit.chain import ChainBreak, ChainVerifier, Event
from control.audit.record import find_head, iter_chunks

_ORGANIZATIONS_PER_PAGE: Final = 500
# Raised for a row with a value outside its column's type, because SQLite stores any value in any column. An unavailable
# database raises DatabaseUnavailable instead.
_COLUMN_ERRORS: Final = (
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
    exc.DBAPIError,
)


class VerifyResult(NamedTuple):
    """Result of one chain: the number of events checked, the last of them, and the first break (None: intact)."""

    org: str
    events: int
    seq: int
    hash: bytes
    first_break: ChainBreak | None


async def iter_chains(database: Database) -> AsyncIterator[tuple[str, str]]:
    """Id and slug of every organization, by slug. For a deleted organization, the id stands in place of the slug."""
    slug = ""
    while True:
        page = (
            sa.select(organizations.c.id, organizations.c.slug, organizations.c.deleted_at)
            .where(organizations.c.slug > slug)
            .order_by(organizations.c.slug)
            .limit(_ORGANIZATIONS_PER_PAGE)
        )
        async with database.read() as connection:
            found = (await connection.execute(page)).all()
        for row in found:
            yield row.id, row.slug if row.deleted_at is None else row.id
        if len(found) < _ORGANIZATIONS_PER_PAGE:
            return
        slug = found[-1].slug


async def verify_stored(database: Database, org_id: str, slug: str, known_hashes: Mapping[int, bytes]) -> VerifyResult:
    """Verify the stored chain against its own head and `known_hashes`, including events appended meanwhile. A chain
    without events is broken, because an organization is created together with its first event. The chain of an
    organization that is being erased has no seal yet.
    """
    head = await _find_head(database, org_id)
    verifier = ChainVerifier({**({} if head is None else dict([head])), **known_hashes})
    events = await _verify_events(database, org_id, verifier)
    first_break = verifier.end()
    if first_break is None and head is None and await _find_head(database, org_id) is None:
        first_break = ChainBreak(verifier.seq + 1, "headless")
    if first_break is not None and first_break.kind == "unsealed" and await _is_being_erased(database, org_id):
        first_break = None
    return VerifyResult(slug, events, verifier.seq, verifier.hash, first_break)


def verify_export(lines: Iterable[bytes], known_hashes: Mapping[int, bytes]) -> VerifyResult:
    """Verify an export, which may begin at any event. Raises ValueError, naming the line, for lines that are no export,
    and for an export that begins after a known hash, because the hash cannot be confirmed.
    """
    verifier: ChainVerifier | None = None
    events, org = 0, ""
    for number, line in enumerate(lines, 1):
        event = _decode_line(line, number)
        if verifier is None:
            before = event.seq - 1
            if min(known_hashes, default=before) < before:
                raise ValueError(f"the file starts at event {event.seq}, but --noted has the hash of an earlier event")
            verifier = ChainVerifier(
                known_hashes, seq=before, start=known_hashes.get(before, bytes.fromhex(event.prev_hash))
            )
            org = event.org_id
        if event.org_id != org:
            raise ValueError(f"line {number} belongs to another organization")
        verifier.add(event)
        events += 1
    if verifier is None:
        raise ValueError("the file is empty")
    return VerifyResult(org, events, verifier.seq, verifier.hash, verifier.end())


async def _verify_events(database: Database, org_id: str, verifier: ChainVerifier) -> int:
    """The number of readable events. If a row is unreadable, reads rows one by one to find the first such row."""
    events = after = 0
    for chunk_size in (None, 1):
        try:
            async for chunk in iter_chunks(database, org_id, after, chunk_size=chunk_size):
                for event in chunk:
                    verifier.add(event)
                events, after = events + len(chunk), chunk[-1].seq
        except _COLUMN_ERRORS:
            continue
        return events
    verifier.add_unreadable()
    return events


async def _find_head(database: Database, org_id: str) -> tuple[int, bytes] | None:
    async with database.read() as connection:
        try:
            return await find_head(connection, org_id)
        except _COLUMN_ERRORS:
            return None


async def _is_being_erased(database: Database, org_id: str) -> bool:
    unpurged = sa.select(erasures.c.id).where(
        erasures.c.org_id == org_id,
        erasures.c.kind == ErasureKind.ORGANIZATION.value,
        erasures.c.purged_at.is_(None),
    )
    async with database.read() as connection:
        return await connection.scalar(unpurged.limit(1)) is not None


def _decode_line(line: bytes, number: int) -> Event:
    try:
        event = msgspec.json.decode(line, type=Event)
        unknown = set(_decode_object(line)) - {field.encode_name for field in msgspec.structs.fields(Event)}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"line {number} is not an audit event: {error}") from error
    if unknown:
        raise ValueError(f"line {number} has unknown fields: {', '.join(sorted(unknown))}")
    return event


def _decode_object(line: bytes) -> dict[str, Any]:
    return msgspec.json.decode(line, type=dict[str, Any])
