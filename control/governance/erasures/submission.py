"""Creates erasures by filter, for the API and the command."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.erasures import repository
from chassis.erasures.repository import NewErasure, StoredErasure
from chassis.erasures.tables import ErasureKind
from chassis.errors import Conflict
from chassis.http.validation import Issues
from control.audit.record import Actor, record
from control.governance.erasures.schemas import format_item_time

_NANOS_PER_MILLISECOND: Final = 10**6
MAX_OPEN: Final = 20  # erasures by filter of an organization: each reads its tables

# Checks filters as explore does, and returns them as they are stored; records faults under the path. Times in them may
# be relative to the time of the request. Explore's package has it; where it is not installed, there is none.
CheckFilters = Callable[[Sequence[Mapping[str, Any]], datetime, str, Issues], list[dict[str, Any]]]


async def create_filter_erasure(
    connection: AsyncConnection,
    by: AuthorizationContext | Actor,
    wanted: NewErasure,
    request_id: str,
    now: datetime,
) -> StoredErasure:
    """Store the erasure. Raises Conflict when MAX_OPEN of the organization are open. The audit log gets the number of
    filters, not their values, which may be the personal data that has to go.
    """
    if wanted.kind is not ErasureKind.FILTER:
        raise ValueError(wanted.kind)
    if await repository.count_open_filters(connection, by.org_id) >= MAX_OPEN:
        raise Conflict(f"The organization has {MAX_OPEN} open erasures, the maximum. Retry when one is completed.")
    erasure = await repository.create(connection, wanted, now)
    data = {
        "projectId": str(wanted.project_id),
        "filters": len(wanted.filters or ()),
        "from": None if wanted.from_ns is None else format_item_time(wanted.from_ns),
        "to": None if wanted.to_ns is None else format_item_time(wanted.to_ns),
        "dryRun": wanted.dry_run,
    }
    await record(connection, by, "erasure.create", erasure.id, data, request_id)
    return erasure


def nanoseconds(time: datetime) -> int:
    """Since 1970."""
    return round(time.timestamp() * 1_000) * _NANOS_PER_MILLISECOND


def check_time_range(from_ns: int | None, to_ns: int, path: str, issues: Issues) -> None:
    """Record an issue at `path` for an empty range."""
    if from_ns is not None and from_ns >= to_ns:
        issues.add(path, "Must be before the end of the range; without one, before now.", "range")
