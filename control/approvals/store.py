"""Approval requests and votes in the database. Every function runs in the caller's transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import MembershipStatus, load_membership_statuses, with_owner_chain
from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import new_id, principals
from chassis.db.database import to_milliseconds
from chassis.errors import NotFound
from control.approvals.model import Participant, RequestRecord, Status, StoredVote, Verdict, acting_ids
from control.approvals.policies.rules import RiskClass, Rule, Source, decision_reason
from control.approvals.tables import DECIDED, MARKED_EXPIRED, OPEN, approval_requests, approval_votes
from proto.identity import PrincipalKind, Role


@dataclass(frozen=True, slots=True)
class RequestDetails:
    """The requested action, from the request body."""

    action: str
    target_type: str
    target_id: str
    project_id: int | None
    payload: Mapping[str, Any]


async def load_participant(connection: AsyncConnection, caller: AuthorizationContext) -> Participant:
    """The caller with its owner group. Raises NotFound when one of them is no longer a member."""
    acting = acting_ids(caller.principal_id, caller.on_behalf_of, caller.act_chain)
    return participant(caller, await load_membership_statuses(connection, caller.org_id, acting))


def participant(caller: AuthorizationContext, memberships: Mapping[str, MembershipStatus]) -> Participant:
    """The caller with its owner group, from `memberships`, statuses that are already loaded and may include others."""
    acting = acting_ids(caller.principal_id, caller.on_behalf_of, caller.act_chain)
    owner_group = with_owner_chain(acting, memberships)
    if any(memberships[one].role is None for one in owner_group):
        raise NotFound
    return Participant(caller.principal_id, caller.kind, caller.on_behalf_of, tuple(caller.act_chain), owner_group)


async def with_current_owners(connection: AsyncConnection, request: RequestRecord) -> RequestRecord:
    """The request with the requester's current owners."""
    found = await load_membership_statuses(connection, request.org_id, request.acting_principal_ids)
    return request.with_current_owners(found)


async def create(
    connection: AsyncConnection,
    org_id: str,
    requester: Participant,
    details: RequestDetails,
    rule: Rule,
    expires_at: datetime,
    now: datetime,
) -> RequestRecord:
    """Create an open request, with a copy of the rule."""
    id_ = new_id("apr")
    row = {
        "id": id_,
        "org_id": org_id,
        "requester_id": requester.principal_id,
        "on_behalf_of": requester.on_behalf_of,
        "act_chain": list(requester.act_chain),
        "circle": sorted(requester.owner_group),
        "action": details.action,
        "target_type": details.target_type,
        "target_id": details.target_id,
        "project_id": details.project_id,
        "status": Status.PENDING.value,
        "risk_class": rule.risk_class.value,
        "min_approvers": rule.min_approvers,
        "approver_roles": [role.value for role in rule.approver_roles],
        "machine_approver_ids": list(rule.machine_approver_ids),
        "policy_id": rule.policy_id,
        "policy_source": rule.source.value,
        "policy_reason": decision_reason(rule),
        "expires_at": to_milliseconds(expires_at),
        "created_at": to_milliseconds(now),
        "payload": dict(details.payload),
        "told_channel_ids": [],
        "expiry_noted": False,
    }
    await connection.execute(approval_requests.insert().values(row))
    return await get(connection, org_id, id_)


async def find_open(
    connection: AsyncConnection, org_id: str, requester: Participant, details: RequestDetails, now: datetime
) -> RequestRecord | None:
    """The open request of the same requester for the same action."""
    columns = approval_requests.c
    project = columns.project_id.is_(None) if details.project_id is None else columns.project_id == details.project_id
    same = (
        columns.org_id == org_id,
        columns.requester_id == requester.principal_id,
        OPEN,
        columns.expires_at > now,
        columns.action == details.action,
        columns.target_type == details.target_type,
        columns.target_id == details.target_id,
        project,
    )
    found = await connection.execute(sa.select(approval_requests).where(*same))
    open_requests = sorted((_request(row) for row in found.mappings()), key=lambda one: one.id)
    delegation = (requester.on_behalf_of, requester.act_chain)
    return next((one for one in open_requests if (one.on_behalf_of, one.act_chain) == delegation), None)


async def find(connection: AsyncConnection, org_id: str, request_id: str) -> RequestRecord | None:
    """The organization's request with this id."""
    where = (approval_requests.c.org_id == org_id) & (approval_requests.c.id == request_id)
    row = (await connection.execute(sa.select(approval_requests).where(where))).mappings().one_or_none()
    return None if row is None else _request(row)


async def get(connection: AsyncConnection, org_id: str, request_id: str) -> RequestRecord:
    """The organization's request with this id. Raises NotFound."""
    found = await find(connection, org_id, request_id)
    if found is None:
        raise NotFound
    return found


async def list_requests(
    connection: AsyncConnection, org_id: str, status: Status | None, now: datetime, limit: int
) -> list[RequestRecord]:
    """At most `limit` requests with this status (None: any) at that time, newest first."""
    return await list_newest(connection, org_id, [status], now, None, limit)


async def list_newest(
    connection: AsyncConnection,
    org_id: str,
    statuses: Iterable[Status | None],
    now: datetime,
    before: str | None,
    limit: int,
) -> list[RequestRecord]:
    """At most `limit` requests with one of these statuses, newest first. `before`: only requests older than the request
    with this id.
    """
    found: list[RequestRecord] = []
    for conditions in (each for status in statuses for each in _status_conditions(status, now)):
        page = sa.select(approval_requests).where(approval_requests.c.org_id == org_id, *conditions)
        if before is not None:
            page = page.where(approval_requests.c.id < before)
        page = page.order_by(approval_requests.c.id.desc()).limit(limit)
        found += [_request(row) for row in (await connection.execute(page)).mappings()]
    return sorted(found, key=lambda one: one.id, reverse=True)[:limit]


async def list_pending(
    connection: AsyncConnection, org_id: str, now: datetime, after: tuple[datetime, str] | None, limit: int
) -> list[RequestRecord]:
    """At most `limit` pending requests, in the order of their expiry. `after`: expiry and id of the last request of the
    previous page. Only ids are sorted, and `requests.check_open_limit` bounds their number.
    """
    columns = approval_requests.c
    page = sa.select(columns.id).where(columns.org_id == org_id, OPEN, columns.expires_at > now)
    if after is not None:
        same_time = (columns.expires_at == after[0]) & (columns.id > after[1])
        page = page.where((columns.expires_at > after[0]) | same_time)
    ids = (await connection.scalars(page.order_by(columns.expires_at, columns.id).limit(limit))).all()
    found = await connection.execute(sa.select(approval_requests).where(columns.id.in_(ids)))
    return sorted((_request(row) for row in found.mappings()), key=lambda one: (one.expires_at, one.id))


async def count_pending(connection: AsyncConnection, org_id: str, now: datetime) -> int:
    """The number of pending requests of the organization."""
    columns = approval_requests.c
    waiting = (columns.org_id == org_id, OPEN, columns.expires_at > now)
    return await connection.scalar(sa.select(sa.func.count()).select_from(approval_requests).where(*waiting)) or 0


async def mark_expired(connection: AsyncConnection, request_id: str, now: datetime) -> bool:
    """Store that a request has expired. False, without a change, if it has not expired or its expiry is stored."""
    due = (approval_requests.c.id == request_id, OPEN, approval_requests.c.expires_at <= now)
    return (await connection.execute(approval_requests.update().where(*due).values(expiry_noted=True))).rowcount == 1


async def decide(connection: AsyncConnection, request: RequestRecord, values: Mapping[str, Any], now: datetime) -> bool:
    """Store the decision on an open request. False, without a change, if the request is not open."""
    where = (approval_requests.c.id == request.id) & (approval_requests.c.org_id == request.org_id)
    is_open = (OPEN, approval_requests.c.expires_at > now)
    decided = await connection.execute(approval_requests.update().where(where, *is_open).values(dict(values)))
    return decided.rowcount == 1


async def set_notified_channels(
    connection: AsyncConnection, request: RequestRecord, channel_ids: Sequence[str]
) -> None:
    """Store which channels were notified of the request and have to be notified of its decision or expiry."""
    where = approval_requests.c.id == request.id
    await connection.execute(approval_requests.update().where(where).values(told_channel_ids=list(channel_ids)))


async def list_votes(connection: AsyncConnection, request_ids: Sequence[str]) -> dict[str, list[StoredVote]]:
    """The votes on these requests, oldest first, by request."""
    votes = approval_votes.c
    statement = sa.select(approval_votes).where(votes.request_id.in_(request_ids))
    by_request: dict[str, list[StoredVote]] = {id_: [] for id_ in request_ids}
    for row in await connection.execute(statement.order_by(votes.voted_at, votes.principal_id)):
        by_request[row.request_id].append(_vote(row))
    return by_request


async def save_vote(
    connection: AsyncConnection,
    request: RequestRecord,
    voter: Participant,
    verdict: Verdict,
    reason_: str | None,
    token_id: str,
    now: datetime,
) -> None:
    """Write the vote. It replaces an earlier vote of the same principal."""
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
        "circle": sorted(voter.owner_group),
        "token_id": token_id,
        "voted_at": to_milliseconds(now),
    }
    await connection.execute(approval_votes.insert().values(row))


async def withdraw_approvals(
    connection: AsyncConnection, org_id: str, principal_ids: sa.Select[tuple[str]], now: datetime
) -> int:
    """Delete the approvals on open requests that these principals have cast, or that others have cast on their behalf.
    Call this when the principals leave the organization, so that their approvals do not count if they return. The audit
    log keeps the approvals. Returns the number of deleted approvals.
    """
    open_requests = sa.select(approval_requests.c.id).where(
        approval_requests.c.org_id == org_id, OPEN, approval_requests.c.expires_at > now
    )
    by_them = approval_votes.c.principal_id.in_(principal_ids) | approval_votes.c.on_behalf_of.in_(principal_ids)
    where = (approval_votes.c.org_id == org_id) & approval_votes.c.request_id.in_(open_requests) & by_them
    count = await connection.scalar(sa.select(sa.func.count()).select_from(approval_votes).where(where)) or 0
    if count:
        await connection.execute(approval_votes.delete().where(where))
    return count


async def principal_names(connection: AsyncConnection, principal_ids: Iterable[str]) -> dict[str, str]:
    """Names of principals, by id."""
    statement = sa.select(principals.c.id, principals.c.name).where(principals.c.id.in_(list(principal_ids)))
    return {row.id: row.name for row in await connection.execute(statement)}


def _status_conditions(
    status: Status | None, now: datetime
) -> list[tuple[sa.ColumnElement[bool] | sa.TextClause, ...]]:
    """Alternative conditions for requests of a status. Each condition has a partial index of exactly these requests."""
    columns = approval_requests.c
    if status is None:
        return [()]
    if status is Status.PENDING:
        return [(OPEN, columns.expires_at > now)]
    if status is Status.EXPIRED:
        return [(MARKED_EXPIRED,), (OPEN, columns.expires_at <= now)]
    return [(DECIDED, columns.status == status.value)]


def _vote(row: sa.Row[*tuple[Any, ...]]) -> StoredVote:
    return StoredVote(
        principal_id=row.principal_id,
        kind=PrincipalKind(row.kind),
        verdict=Verdict(row.verdict),
        reason=row.reason,
        on_behalf_of=row.on_behalf_of,
        act_chain=tuple(row.act_chain),
        owner_group=frozenset(row.circle),
        voted_at=row.voted_at,
    )


def _request(row: sa.RowMapping) -> RequestRecord:
    return RequestRecord(
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
