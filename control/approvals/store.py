"""Approval requests and votes in the store. Every function works within the transaction of its caller."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.identity.minting import new_id
from chassis.identity.model import Reach
from chassis.identity.tables import memberships, principals
from chassis.relational import to_milliseconds
from control.approvals.model import Party, Request, Status, Verdict
from control.approvals.tables import approval_requests, approval_votes
from control.policies.engine import reason
from control.policies.model import RiskClass, Rule, Source
from proto.identity import PrincipalKind, Role

MAX_OWNERS: Final = 8  # an owner's owner's owner and so on

_owner: Final = principals.alias("owner")
_owner_membership: Final = memberships.alias("owner_membership")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done, by the body of a request."""

    action: str
    target_type: str
    target_id: str
    project_id: int | None
    payload: Mapping[str, Any]


async def party(connection: AsyncConnection, caller: Reach) -> Party:
    """Who calls, with everyone who owns somebody in it."""
    named = {caller.principal_id, *caller.act_chain} | ({caller.on_behalf_of} if caller.on_behalf_of else set())
    circle = await _with_owners(connection, named | ({caller.owner_id} if caller.owner_id else set()))
    return Party(caller.principal_id, caller.kind, caller.on_behalf_of, tuple(caller.act_chain), circle)


async def ask(
    connection: AsyncConnection,
    org_id: str,
    requester: Party,
    asked: Asked,
    rule: Rule,
    expires_at: datetime,
    now: datetime,
) -> Request:
    """A new request that waits, under the rule as it is now."""
    made_id = new_id("apr")
    row = {
        "id": made_id,
        "org_id": org_id,
        "requester_id": requester.principal_id,
        "on_behalf_of": requester.on_behalf_of,
        "act_chain": list(requester.act_chain),
        "circle": sorted(requester.circle),
        "action": asked.action,
        "target_type": asked.target_type,
        "target_id": asked.target_id,
        "project_id": asked.project_id,
        "status": Status.PENDING.value,
        **_rule_columns(rule),
        "expires_at": to_milliseconds(expires_at),
        "created_at": to_milliseconds(now),
        "payload": dict(asked.payload),
        "told_channel_ids": [],
        "expiry_noted": False,
    }
    await connection.execute(approval_requests.insert().values(row))
    return await existing(connection, org_id, made_id)


async def find_open(
    connection: AsyncConnection, org_id: str, requester: Party, asked: Asked, now: datetime
) -> Request | None:
    """The request for the same thing, by the same party, that waits already."""
    columns = approval_requests.c
    project = columns.project_id.is_(None) if asked.project_id is None else columns.project_id == asked.project_id
    found = (
        sa.select(approval_requests)
        .where(
            columns.org_id == org_id,
            columns.requester_id == requester.principal_id,
            columns.status == Status.PENDING.value,
            columns.action == asked.action,
            columns.target_type == asked.target_type,
            columns.target_id == asked.target_id,
            project,
            columns.expires_at > now,
        )
        .order_by(columns.id)
    )
    waiting = [_request(row) for row in (await connection.execute(found)).mappings()]
    asking = (requester.on_behalf_of, requester.act_chain)
    return next((one for one in waiting if (one.on_behalf_of, one.act_chain) == asking), None)


async def find(connection: AsyncConnection, org_id: str, request_id: str) -> Request | None:
    """The organization's request of this id."""
    where = (approval_requests.c.org_id == org_id) & (approval_requests.c.id == request_id)
    row = (await connection.execute(sa.select(approval_requests).where(where))).mappings().one_or_none()
    return None if row is None else _request(row)


async def existing(connection: AsyncConnection, org_id: str, request_id: str) -> Request:
    """One that is known to be there."""
    found = await find(connection, org_id, request_id)
    if found is None:
        raise LookupError(request_id)
    return found


async def list_requests(
    connection: AsyncConnection, org_id: str, status: Status | None, now: datetime, limit: int
) -> list[Request]:
    """At most `limit` of this status (None: of any) at that time, newest first."""
    page = sa.select(approval_requests).where(approval_requests.c.org_id == org_id)
    if status is not None:
        page = page.where(*_is(status, now))
    page = page.order_by(approval_requests.c.id.desc()).limit(limit)
    return [_request(row) for row in (await connection.execute(page)).mappings()]


async def decide(connection: AsyncConnection, request: Request, values: Mapping[str, Any], now: datetime) -> bool:
    """Set what was decided, on a request that waits; False, and nothing, on any other."""
    where = (approval_requests.c.id == request.id) & (approval_requests.c.org_id == request.org_id)
    waits = _is(Status.PENDING, now)
    done = await connection.execute(approval_requests.update().where(where, *waits).values(dict(values)))
    return done.rowcount == 1


async def set_told(connection: AsyncConnection, request: Request, channel_ids: Sequence[str]) -> None:
    """Which channels were told of the request, and are to be told how it ended."""
    where = approval_requests.c.id == request.id
    await connection.execute(approval_requests.update().where(where).values(told_channel_ids=list(channel_ids)))


async def own_vote(connection: AsyncConnection, request: Request, principal_id: str) -> Verdict | None:
    """What the principal's vote says; None when there is none."""
    votes = approval_votes.c
    found = sa.select(votes.verdict).where(votes.request_id == request.id, votes.principal_id == principal_id)
    verdict = await connection.scalar(found)
    return None if verdict is None else Verdict(verdict)


async def cast(
    connection: AsyncConnection,
    request: Request,
    voter: Party,
    verdict: Verdict,
    reason_: str | None,
    token_id: str,
    now: datetime,
) -> None:
    """Write the vote, in the place of an earlier one of the same principal."""
    where = (approval_votes.c.request_id == request.id) & (approval_votes.c.principal_id == voter.principal_id)
    await connection.execute(approval_votes.delete().where(where))
    row = {
        "request_id": request.id,
        "principal_id": voter.principal_id,
        "org_id": request.org_id,
        "kind": voter.kind.value,
        "verdict": verdict.value,
        "reason": reason_,
        "on_behalf_of": voter.on_behalf_of,
        "act_chain": list(voter.act_chain),
        "circle": sorted(voter.circle),
        "token_id": token_id,
        "voted_at": to_milliseconds(now),
    }
    await connection.execute(approval_votes.insert().values(row))


async def approving(connection: AsyncConnection, request: Request) -> dict[str, frozenset[str]]:
    """Circles, by principal, of those who approve and may decide as things are now."""
    votes = approval_votes.c
    found = sa.select(votes.principal_id, votes.circle).where(
        votes.request_id == request.id, votes.verdict == Verdict.APPROVE.value
    )
    circles = {row.principal_id: frozenset(row.circle) for row in await connection.execute(found)}
    able = await deciding(connection, request, circles)
    return {one: circle for one, circle in circles.items() if one in able}


async def deciding(connection: AsyncConnection, request: Request, principal_ids: Iterable[str]) -> set[str]:
    """Those of them who may decide the request as things are now: members in one of its roles who are not disabled.

    Agents and services only where the request lists them, and as long as their owner is such a member too.
    """
    roles = [role.value for role in request.approver_roles]
    found = (
        sa.select(principals.c.id)
        .join_from(principals, memberships, memberships.c.principal_id == principals.c.id)
        .join(_owner, _owner.c.id == principals.c.owner_id, isouter=True)
        .join(
            _owner_membership,
            (_owner_membership.c.principal_id == _owner.c.id) & (_owner_membership.c.org_id == request.org_id),
            isouter=True,
        )
        .where(
            memberships.c.org_id == request.org_id,
            memberships.c.role.in_(roles),
            principals.c.id.in_(list(principal_ids)),
            principals.c.disabled_at.is_(None),
            (principals.c.kind == PrincipalKind.USER.value)
            | (
                principals.c.id.in_(sorted(request.machine_approver_ids))
                & _owner.c.disabled_at.is_(None)
                & _owner_membership.c.role.in_(roles)
            ),
        )
    )
    return set((await connection.execute(found)).scalars())


async def is_member(connection: AsyncConnection, org_id: str, principal_id: str) -> bool:
    """Whether the organization is in the principal's sight as things are now."""
    where = (memberships.c.org_id == org_id) & (memberships.c.principal_id == principal_id)
    return await connection.scalar(sa.select(memberships.c.role).where(where)) is not None


async def names(connection: AsyncConnection, principal_ids: Iterable[str]) -> dict[str, str]:
    """Their names, by id."""
    found = sa.select(principals.c.id, principals.c.name).where(principals.c.id.in_(list(principal_ids)))
    return {row.id: row.name for row in await connection.execute(found)}


async def _with_owners(connection: AsyncConnection, ids: set[str]) -> frozenset[str]:
    known, fresh = set(ids), set(ids)
    for _ in range(MAX_OWNERS):
        found = sa.select(principals.c.owner_id).where(principals.c.id.in_(fresh), principals.c.owner_id.is_not(None))
        fresh = set((await connection.execute(found)).scalars()) - known
        if not fresh:
            break
        known |= fresh
    return frozenset(known)


def expiry(now: datetime, minutes: int) -> datetime:
    """When a request of now expires."""
    return to_milliseconds(now) + timedelta(minutes=minutes)


def _is(status: Status, now: datetime) -> list[sa.ColumnElement[bool]]:
    columns = approval_requests.c
    if status is Status.PENDING:
        return [columns.status == Status.PENDING.value, columns.expires_at > now]
    if status is Status.EXPIRED:
        return [columns.status == Status.PENDING.value, columns.expires_at <= now]
    return [columns.status == status.value]


def _rule_columns(rule: Rule) -> dict[str, Any]:
    return {
        "risk_class": rule.risk_class.value,
        "min_approvers": rule.min_approvers,
        "approver_roles": [role.value for role in rule.approver_roles],
        "machine_approver_ids": list(rule.machine_approver_ids),
        "policy_id": rule.policy_id,
        "policy_source": rule.source.value,
        "policy_reason": reason(rule),
    }


def _request(row: sa.RowMapping) -> Request:
    return Request(
        **{
            **row,
            "act_chain": tuple(row["act_chain"]),
            "circle": frozenset(row["circle"]),
            "risk_class": RiskClass(row["risk_class"]),
            "status": Status(row["status"]),
            "approver_roles": frozenset(Role(one) for one in row["approver_roles"]),
            "machine_approver_ids": frozenset(row["machine_approver_ids"]),
            "policy_source": Source(row["policy_source"]),
            "told_channel_ids": tuple(row["told_channel_ids"]),
        }
    )
