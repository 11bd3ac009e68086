"""Appends an event to the chain of its organization, in the transaction of the change that it records."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

import msgspec
import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time, to_milliseconds
from chassis.runtime.periodic import FailureLog
from control.audit.chain import GENESIS_HASH, Event, canonical_json, hash_event
from control.audit.tables import MAX_ACTION_LENGTH, MAX_OBJECT_ID_LENGTH, SALT_BYTES, audit_events, audit_heads
from proto.identity import PrincipalKind

# Used instead of a request id for changes by a CLI command; no request has an id with brackets.
COMMAND_REQUEST_ID: Final = "(command)"
MAX_CLOCK_SKEW: Final = timedelta(seconds=60)

_CLOCK_SKEW_LOG: Final = FailureLog(
    structlog.get_logger(__name__), "clock skew: audit events get the time of the previous event"
)


class ClockSkew(Exception):
    """The last event is in the future. `code`: its organization; logged once per organization."""

    def __init__(self, org_id: str, last: datetime, now: datetime) -> None:
        self.code = org_id
        self.message = f"the last event is {(last - now).total_seconds():.0f} s ahead of this host's clock"
        super().__init__(self.message)


class ChainSealed(Exception):
    """The organization is deleted and its chain is complete: nothing more happens in it."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who made the change, if there is no `AuthorizationContext`: a user logging in, or (`principal_id` None) the
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
    """Append an event; it is stored if and only if the caller's write transaction commits.

    `action` is `noun.verb` of at most 100 characters, `object_id` the id of the changed object, of at most 200. `data`
    has the details: texts, integers, booleans, lists and mappings, never a secret. `request_id`:
    `chassis.http.web.request_id`, or COMMAND_REQUEST_ID. If this process's clock is behind the previous event, the
    event gets that one's time, so that a time window is a contiguous part of the chain. Raises ValueError for a longer
    text, TypeError for other data, ChainSealed for an organization that was deleted and erased.
    """
    if len(action) > MAX_ACTION_LENGTH or len(object_id) > MAX_OBJECT_ID_LENGTH:
        raise ValueError(
            f"audit action ({len(action)} characters) or object id ({len(object_id)} characters) is too long"
        )
    actor = Actor.of(by) if isinstance(by, AuthorizationContext) else by
    seq, digest, last = await _read_head(connection, actor.org_id)
    now = to_milliseconds(datetime.now(UTC))
    if last is not None and last - now > MAX_CLOCK_SKEW:
        _CLOCK_SKEW_LOG.failed(ClockSkew(actor.org_id, last, now))
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
        data=msgspec.json.decode(canonical_json(dict(data))),  # as it will be read back
        request_id=request_id,
        prev_hash=digest.hex(),
        hash=GENESIS_HASH.hex(),
        salt=secrets.token_hex(SALT_BYTES),
    )
    await _append(connection, event, hash_event(event))


async def _read_head(connection: AsyncConnection, org_id: str) -> tuple[int, bytes, datetime | None]:
    """Number, hash and time of the last event; valid until the commit, because write transactions are serialized."""
    last = (audit_events.c.org_id == audit_heads.c.org_id) & (audit_events.c.seq == audit_heads.c.seq)
    found = sa.select(audit_heads.c.seq, audit_heads.c.hash, audit_heads.c.sealed, audit_events.c.at).outerjoin_from(
        audit_heads, audit_events, last
    )
    row = (await connection.execute(found.where(audit_heads.c.org_id == org_id))).one_or_none()
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
