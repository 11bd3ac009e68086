"""Appends an event to the chain of its organization, in the transaction of the change that the event records. Also
reads pages of a list, newest first, and complete chains from their start.
"""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Self

import msgspec
import sqlalchemy as sa
import structlog
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import Database, format_time, to_milliseconds
from chassis.http.route import Query, form
from chassis.runtime.periodic import FailureLog, LoggedFailure
from control.audit.chain import GENESIS_HASH, ErasedEvent, Event, canonical_json, hash_event
from control.audit.tables import MAX_ACTION_LENGTH, MAX_OBJECT_ID_LENGTH, SALT_BYTES, audit_events, audit_heads
from control.http.field_types import TimeRange
from proto.identity import PrincipalKind

# Used instead of a request id for changes by a CLI command. A request id never has brackets.
COMMAND_REQUEST_ID: Final = "(command)"
MAX_CLOCK_SKEW: Final = timedelta(seconds=60)

_CLOCK_SKEW_LOG: Final = FailureLog(
    structlog.get_logger(__name__), "clock skew: audit events get the time of the previous event"
)


class ChainSealed(Exception):
    """The organization is deleted and its chain is complete: no event can be appended."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a change without an `AuthorizationContext`: a user logging in, or (`principal_id` None) the
    system.
    """

    org_id: str
    principal_id: str | None = None
    kind: PrincipalKind | None = None
    on_behalf_of: str | None = None
    act_chain: tuple[str, ...] = ()
    token_id: str | None = None

    @classmethod
    def of(cls, caller: AuthorizationContext) -> Self:
        """The caller of a request."""
        return cls(
            caller.org_id,
            caller.principal_id,
            caller.kind,
            caller.on_behalf_of,
            tuple(caller.act_chain),
            caller.token_id,
        )


async def record(
    connection: AsyncConnection,
    by: AuthorizationContext | Actor,
    action: str,
    object_id: str,
    data: Mapping[str, object],
    request_id: str,
) -> None:
    """Append an event. It is stored if and only if the caller's write transaction commits.

    `action` is `noun.verb` of at most 100 characters, `object_id` the id of the changed object, of at most 200. `data`
    has the details: texts, integers, booleans, lists and mappings, never a secret. `request_id`:
    `chassis.http.web.request_id`, or COMMAND_REQUEST_ID. If this process's clock is behind the time of the previous
    event, the event gets the time of the previous event, so that a time window is a contiguous part of the chain.
    Raises ValueError for a longer text, TypeError for other data, ChainSealed for an organization that was deleted and
    erased.
    """
    if len(action) > MAX_ACTION_LENGTH or len(object_id) > MAX_OBJECT_ID_LENGTH:
        raise ValueError(
            f"audit action ({len(action)} characters) or object id ({len(object_id)} characters) is too long"
        )
    actor = Actor.of(by) if isinstance(by, AuthorizationContext) else by
    seq, digest, last = await _read_head(connection, actor.org_id)
    now = to_milliseconds(datetime.now(UTC))
    if last is not None and last - now > MAX_CLOCK_SKEW:
        ahead = f"the last event is {(last - now).total_seconds():.0f} s ahead of this host's clock"
        _CLOCK_SKEW_LOG.failed(LoggedFailure(actor.org_id, ahead))  # once per organization
    event = Event(
        org_id=actor.org_id,
        seq=seq + 1,
        at=format_time(now if last is None else max(now, last)),
        actor_principal_id=actor.principal_id,
        actor_kind=actor.kind,
        on_behalf_of_principal_id=actor.on_behalf_of,
        act_chain=list(actor.act_chain),
        token_id=actor.token_id,
        action=action,
        object_id=object_id,
        data=msgspec.json.decode(canonical_json(dict(data))),  # the form in which it will be read back
        request_id=request_id,
        prev_hash=digest.hex(),
        hash=GENESIS_HASH.hex(),
        salt=secrets.token_hex(SALT_BYTES),
    )
    await _append(connection, event, hash_event(event))


async def _read_head(connection: AsyncConnection, org_id: str) -> tuple[int, bytes, datetime | None]:
    """Number, hash and time of the last event. Valid until the commit, because write transactions are serialized."""
    last = (audit_events.c.org_id == audit_heads.c.org_id) & (audit_events.c.seq == audit_heads.c.seq)
    statement = sa.select(
        audit_heads.c.seq, audit_heads.c.hash, audit_heads.c.sealed, audit_events.c.at
    ).outerjoin_from(audit_heads, audit_events, last)
    row = (await connection.execute(statement.where(audit_heads.c.org_id == org_id))).one_or_none()
    if row is not None and row.sealed:
        raise ChainSealed(org_id)
    return (0, GENESIS_HASH, None) if row is None else (row.seq, bytes(row.hash), row.at)


async def _append(connection: AsyncConnection, event: Event, digest: bytes) -> None:
    await connection.execute(audit_events.insert().values(_row(event, digest)))
    head = {"seq": event.seq, "hash": digest}
    if event.seq == 1:
        await connection.execute(audit_heads.insert().values(org_id=event.org_id, **head))
    else:
        await connection.execute(audit_heads.update().where(audit_heads.c.org_id == event.org_id).values(head))


def _row(event: Event, digest: bytes) -> dict[str, Any]:
    return {
        "org_id": event.org_id,
        "seq": event.seq,
        "at": datetime.fromisoformat(event.at),
        "actor_id": event.actor_principal_id,
        "actor_kind": event.actor_kind,
        "on_behalf_of": event.on_behalf_of_principal_id,
        "act_chain": msgspec.json.encode(event.act_chain).decode(),
        "token_id": event.token_id,
        "action": event.action,
        "object_id": event.object_id,
        "data": canonical_json(event.data).decode(),
        "request_id": event.request_id,
        "prev_hash": bytes.fromhex(event.prev_hash),
        "hash": digest,
        "salt": None if isinstance(event.salt, msgspec.UnsetType) else bytes.fromhex(event.salt),
    }


CHUNK_SIZE: Final = 500  # events in memory at once while a chain is read
MAX_ID_LENGTH: Final = 32
_FORM: Final = "Has an invalid format."


class EventFilter(Query, frozen=True, rename="camel"):
    """Filters of events. None: no filter. An `action` that ends in `.` is a prefix."""

    actor_principal_id: Annotated[
        str | None, form(r"[0-9A-Za-z_.:-]+", _FORM, MAX_ID_LENGTH), Meta(description="Only events of this actor.")
    ] = None
    action: Annotated[
        str | None,
        form(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?", _FORM, MAX_ACTION_LENGTH),
        Meta(
            description="Only events with this action. With a trailing dot: all actions that begin with this prefix.",
            examples=["approval_request."],
        ),
    ] = None
    object_id: Annotated[
        str | None,
        form(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+", _FORM, MAX_OBJECT_ID_LENGTH),  # an object may have any name
        Meta(description="Only events about this resource."),
    ] = None


async def list_events(
    connection: AsyncConnection, org_id: str, filters: EventFilter, window: TimeRange, before: int | None, limit: int
) -> list[Event]:
    """At most `limit` matching events, newest first, starting before the event number `before`."""
    conditions = await _window_conditions(connection, org_id, window)
    wanted = {audit_events.c.actor_id: filters.actor_principal_id, audit_events.c.object_id: filters.object_id}
    conditions += [column == value for column, value in wanted.items() if value is not None]
    if before is not None:
        conditions.append(audit_events.c.seq < before)
    found: list[Event] = []
    for action in await _action_conditions(connection, org_id, filters.action):
        page = sa.select(audit_events).where(audit_events.c.org_id == org_id, *action, *conditions)
        page = page.order_by(audit_events.c.seq.desc()).limit(limit)
        found += [event_from_row(row) for row in (await connection.execute(page)).mappings()]
    return sorted(found, key=lambda one: one.seq, reverse=True)[:limit]


async def iter_chunks(
    database: Database, org_id: str, after: int = 0, window: TimeRange | None = None, *, chunk_size: int | None = None
) -> AsyncIterator[list[Event]]:
    """All events of the window after the event number `after`, oldest first, in chunks of `chunk_size` (None:
    CHUNK_SIZE). Each chunk is a transaction of its own, so events appended meanwhile are included.
    """
    limit = chunk_size or CHUNK_SIZE
    while True:
        async with database.read() as connection:
            conditions = await _window_conditions(connection, org_id, window or TimeRange())
            chunk = await _read_chunk(connection, org_id, conditions, after, limit)
        if chunk:
            after = chunk[-1].seq
            yield chunk
        if len(chunk) < limit:
            return


async def find_head(connection: AsyncConnection, org_id: str) -> tuple[int, bytes] | None:
    """Number and hash of the last event, None if there is none."""
    statement = sa.select(audit_heads.c.seq, audit_heads.c.hash).where(audit_heads.c.org_id == org_id)
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else (row.seq, bytes(row.hash))


def event_from_row(row: sa.RowMapping) -> Event:
    """The event as it was hashed, or an erased event with its remaining fields."""
    return (ErasedEvent if row["erased"] else Event)(
        org_id=row["org_id"],
        seq=row["seq"],
        at=format_time(row["at"]),
        actor_principal_id=row["actor_id"],
        actor_kind=row["actor_kind"],
        on_behalf_of_principal_id=row["on_behalf_of"],
        act_chain=_decode_json(row["act_chain"]),
        token_id=row["token_id"],
        action=row["action"],
        object_id=row["object_id"],
        data=_decode_json(row["data"]),
        request_id=row["request_id"],
        prev_hash=bytes(row["prev_hash"]).hex(),
        hash=bytes(row["hash"]).hex(),
        salt=msgspec.UNSET if row["salt"] is None else bytes(row["salt"]).hex(),
    )


def _decode_json(text: str) -> Any:
    """Decode JSON. Text that is not JSON is returned unchanged, and verification then reports the event as altered."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def _read_chunk(
    connection: AsyncConnection, org_id: str, conditions: Sequence[sa.ColumnElement[bool]], after: int, limit: int
) -> list[Event]:
    statement = (
        sa.select(audit_events)
        .where(audit_events.c.org_id == org_id, audit_events.c.seq > after, *conditions)
        .order_by(audit_events.c.seq)
        .limit(limit)
    )
    return [event_from_row(row) for row in (await connection.execute(statement)).mappings()]


async def _window_conditions(
    connection: AsyncConnection, org_id: str, window: TimeRange
) -> list[sa.ColumnElement[bool]]:
    """The time window as a range of event numbers, because events are read in the order of their numbers. An event is
    never earlier than the previous one (`record`), so a window is a contiguous part of the chain.
    """
    conditions: list[sa.ColumnElement[bool]] = []
    of_org = sa.select(audit_events.c.seq).where(audit_events.c.org_id == org_id).limit(1)
    oldest_first = of_org.order_by(audit_events.c.at, audit_events.c.seq)
    if window.since is not None:
        first = await connection.scalar(oldest_first.where(audit_events.c.at >= window.since))
        conditions.append(sa.false() if first is None else audit_events.c.seq >= first)
    if window.until is not None:
        end = await connection.scalar(oldest_first.where(audit_events.c.at >= window.until))
        conditions += [] if end is None else [audit_events.c.seq < end]
    return conditions


async def _action_conditions(
    connection: AsyncConnection, org_id: str, action: str | None
) -> list[list[sa.ColumnElement[bool]]]:
    """One condition per matching action, because the index keeps events in order only within one action. There are a
    few dozen actions, found by skipping through that index.
    """
    if action is None:
        return [[]]
    column = audit_events.c.action
    if not action.endswith("."):
        return [[column == action]]
    next_action = sa.select(sa.func.min(column)).where(
        audit_events.c.org_id == org_id, column < f"{action[:-1]}/"
    )  # `/` is the next character after `.`
    found: list[str] = []
    name = await connection.scalar(next_action.where(column > action))
    while name is not None:
        found.append(name)
        name = await connection.scalar(next_action.where(column > name))
    return [[column == one] for one in found]
