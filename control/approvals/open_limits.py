"""Limits the number of open requests: each submission reads them, and people have to decide them."""

from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import load_membership_statuses, owned_principals, owning_user
from chassis.errors import ApiError
from chassis.limits.limiter import LimitResult
from control.approvals.tables import OPEN, approval_requests
from proto.errors import ErrorCode

MAX_OPEN_PER_ORG: Final = 10_000  # per organization
MAX_OPEN_PER_USER: Final = 1_000  # per user, including the machine principals that the user owns


class TooManyOpenRequests(ApiError):
    """429: the limit of open requests is reached; `seconds` until the first of them expires. `limit_result` is for the
    headers.
    """

    def __init__(self, limit: int, scope: str, seconds: int, now: datetime) -> None:
        message = f"The limit of {limit} open requests per {scope} is reached. Decide or withdraw some."
        super().__init__(ErrorCode.QUOTA_EXCEEDED, message, retry_after=seconds)
        self.limit_result = LimitResult(limit, 0, int(now.timestamp()) + seconds, seconds * 1_000_000_000)


async def check_open_limit(connection: AsyncConnection, org_id: str, requester_id: str, now: datetime) -> None:
    """Raises TooManyOpenRequests. A slot becomes free when a request is decided, at the latest when one expires.
    Requests of agents and services count for their owning user, who may create any number of them.
    """
    columns = approval_requests.c
    owning_user_id = owning_user(requester_id, await load_membership_statuses(connection, org_id, [requester_id]))
    for limit, scope, condition in (
        (
            MAX_OPEN_PER_USER,
            "user, with the agents and services that the user owns",
            columns.requester_id.in_(owned_principals(owning_user_id)),
        ),
        (MAX_OPEN_PER_ORG, "organization", sa.true()),
    ):
        waiting = (columns.org_id == org_id, condition, OPEN, columns.expires_at > now)
        found = sa.select(columns.expires_at).where(*waiting).limit(limit).subquery()
        count = sa.select(sa.func.count(), sa.func.min(found.c.expires_at, type_=columns.expires_at.type))
        number, soonest = (await connection.execute(count.select_from(found))).one()
        if number >= limit:
            raise TooManyOpenRequests(limit, scope, int((soonest - now).total_seconds()) + 1, now)
