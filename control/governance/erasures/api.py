"""`/orgs/{orgSlug}/erasures` and `.../projects/{projectSlug}/erasures`: list, show, create by filter."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.erasures import repository
from chassis.erasures.repository import NewErasure, StoredErasure
from chassis.erasures.tables import ErasureKind, ErasureState, erasures
from chassis.errors import Conflict, Unimplemented
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import PageOf, route
from chassis.http.route import Body, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import json_response
from control.audit.record import Actor, record
from control.export.model import SinkKind, Stream
from control.export.store import list_exported
from control.governance.erasures.deletion import require_user
from control.http.field_types import Slug, Timestamp
from control.routing.arguments import Handlers, begin
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from proto.identity import Scope
from proto.rfc3339 import parse_rfc3339

MAX_FILTERS: Final = 20  # the same number that explore accepts; the parser of explore checks the filters
MAX_NANOS: Final = 2**63 - 1
_NANOS_PER_SECOND: Final = 10**9
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)

E = TypeVar("E", bound="Erasure")

ItemTime = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=40,
        description="The start of a span or the time of a log record, in RFC 3339 with a time zone.",
        examples=["2026-11-20T15:17:03Z"],
    ),
]
StoredItemTime = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{9}Z$",
        description="The start of a span or the time of a log record.",
    ),
]


class NewFilterErasure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The items to erase: at least one of `filters`, `from` and `to` is required. To erase everything, delete the
    project.
    """

    filters: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Filters as in explore: `{key, op, value}`. Only items that match all filters are erased.",
            extra_json_schema={"maxItems": MAX_FILTERS},
        ),
    ] = []
    from_: ItemTime | None = msgspec.field(default=None, name="from")
    to: ItemTime | None = None
    dry_run: Annotated[bool, Meta(description="Only count what would be erased.")] = False


class Erasure(msgspec.Struct, frozen=True, rename="camel"):
    """The deletion of a project, an organization, or the items that match filters, and its progress. The filters are
    not returned, because their values may be the data to be erased.
    """

    id: Annotated[str, Meta(pattern="^ers_[0-9a-z]{26}$")]
    kind: ErasureKind
    state: Annotated[
        ErasureState,
        Meta(
            description="FAILED: the operator has to act (`message` has the reason). COMPLETED: all items are erased, "
            "or, in a dry run, counted."
        ),
    ]
    project_id: Annotated[str | None, Meta(description="`null` if the whole organization is erased.")]
    project_slug: Annotated[Slug | None, Meta(description="The slug that the project had.")]
    dry_run: bool
    filter_count: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="`null` if the filters were deleted after the erasure.")
    ]
    from_: Annotated[StoredItemTime | None, Meta(description="Start of the range, inclusive. `null`: no start.")] = (
        msgspec.field(name="from")
    )
    to: Annotated[StoredItemTime | None, Meta(description="End of the range, exclusive. `null`: no end.")]
    rows: Annotated[
        dict[str, int],
        Meta(description="By table, the number of rows erased so far. In a dry run, the number of rows found."),
    ]
    message: Annotated[str | None, Meta(description="The reason why the erasure waits or has failed.")]
    requested_by_principal_id: Annotated[str | None, Meta(description="`null` if the operator requested the erasure.")]
    requested_at: Timestamp
    completed_at: Timestamp | None


class ErasureExport(msgspec.Struct, rename="camel"):
    """A stream of a warehouse sink that exported rows before the erasure was complete."""

    sink_id: str
    sink_name: str
    sink_kind: SinkKind
    stream: Stream
    exported_until: Annotated[
        Timestamp | None,
        Meta(description="When the last exported row was stored. For issues: when the last exported one was changed."),
    ]


class ErasureDetails(Erasure, frozen=True, rename="camel", kw_only=True):
    """An erasure, and the destinations to which the erased rows may have been exported."""

    exports: Annotated[
        list[ErasureExport],
        Meta(description="Exported rows are not erased. Delete them at the destination. Deleted sinks are not listed."),
    ]


def erasure_body(erasure: StoredErasure | sa.Row[Any]) -> Erasure:
    """The API representation."""
    return _shown_as(Erasure, erasure)


def _shown_as(type_: type[E], erasure: Any, **more: object) -> E:
    return shown_as(
        type_,
        erasure,
        project_id=None if erasure.project_id is None else str(erasure.project_id),
        filter_count=None if erasure.expired_at is not None else len(erasure.filters or ()),
        from_=None if erasure.from_ns is None else format_item_time(erasure.from_ns),
        to=None if erasure.to_ns is None else format_item_time(erasure.to_ns),
        rows=erasure.counts,
        requested_by_principal_id=erasure.requested_by,
        **more,
    )


ERASURES: Final = Resource(
    "erasureId",
    ids("ers"),
    Scope.AUDIT_READ,
    erasures.c.id,
    in_organization(erasures),
    sa.select(erasures),
    lambda row, _caller: erasure_body(row),
)


def parse_item_time(text: str | None, path: str, issues: Issues) -> int | None:
    """Parse a time to nanoseconds since 1970. Returns None for None, and after recording an issue."""
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    if match is not None:
        day, clock, fraction, zone = match.groups()
        moment = parse_rfc3339(f"{day}T{clock}{zone}")
        if moment is not None:
            seconds = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
            nanos = seconds * _NANOS_PER_SECOND + int((fraction or "0").ljust(9, "0"))
            if 0 <= nanos <= MAX_NANOS:
                return nanos
    message = "Must be an RFC 3339 time with a time zone, such as 2026-11-20T15:17:03Z, from 1970 to 2262."
    issues.add(path, message, "format")
    return None


def format_item_time(nanos: int) -> str:
    """Format a time as RFC 3339 in UTC with nine digits."""
    seconds, fraction = divmod(nanos, _NANOS_PER_SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


_NANOS_PER_MILLISECOND: Final = 10**6
MAX_OPEN: Final = 20  # erasures by filter per organization: each reads the tables of its project

# Checks filters as explore does, and returns them in the form in which they are stored. Faults are recorded under the
# path. Times in filters may be relative to the time of the request. The function is in explore's package. It is None if
# that package is not installed.
CheckFilters = Callable[[Sequence[Mapping[str, Any]], datetime, str, Issues], list[dict[str, Any]]]


async def create_filter_erasure(
    connection: AsyncConnection,
    by: AuthorizationContext | Actor,
    wanted: NewErasure,
    request_id: str,
    now: datetime,
) -> StoredErasure:
    """Store the erasure. Raises Conflict if the organization has MAX_OPEN open erasures. The audit log gets the number
    of filters, not their values, which may be the personal data to erase.
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
    """Convert a time to nanoseconds since 1970."""
    return round(time.timestamp() * 1_000) * _NANOS_PER_MILLISECOND


def check_time_range(from_ns: int | None, to_ns: int, path: str, issues: Issues) -> None:
    """Record an issue at `path` for an empty range."""
    if from_ns is not None and from_ns >= to_ns:
        issues.add(
            path, "Must be before the end of the range, or before the current time if the range has no end.", "range"
        )


READ_SCOPES: Final = (Scope.AUDIT_READ, Scope.PROJECTS_WRITE)
PATH: Final = "/orgs/{orgSlug}/erasures"
NEW: Final = Body(
    json_content(NewFilterErasure),
    example={"filters": [{"key": "user.id", "op": "eq", "value": "4711"}], "dryRun": True},
)
ACCEPTED: Final = ResponseSpec(
    "The erasure, which a gateway executes.", json_content(Erasure), 202, {"Location": "Path of the erasure."}
)


@dataclass(frozen=True, slots=True)
class Erasures(Handlers):
    """Handlers of erasures, and their dependencies. `check_filters`: None if explore is not installed. Then erasures
    with filters get 501.
    """

    TAG: ClassVar = Tag("erasures", "Deletions of projects and organizations, and of telemetry by filter.")
    check_filters: CheckFilters | None = None

    @route("GET", PATH, bearer(*READ_SCOPES))
    async def list_erasures(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Erasure]:
        """List erasures, newest first."""
        return await page.of(ERASURES, caller)

    @route("GET", PATH + "/{erasureId}", bearer(*READ_SCOPES))
    async def show_erasure(
        self, erasure_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> ErasureDetails:
        """Show an erasure."""
        found = await ERASURES.find(connection, caller, erasure_id)
        exports = await list_exported(connection, caller.org_id, found.completed_at)
        return _shown_as(ErasureDetails, found, exports=[shown_as(ErasureExport, row) for row in exports])

    @route(
        "POST",
        "/orgs/{orgSlug}/projects/{projectSlug}/erasures",
        bearer(Scope.PROJECTS_WRITE),
        body=NEW,
        responses=(ACCEPTED,),
        errors=(409, 501),
    )
    async def create_erasure(self, request: web.Request) -> web.StreamResponse:
        """Erase the spans and log records of a project that match filters and a time range.

        Without `to`, the range ends at the time of this request. With `dryRun`, a gateway only counts the rows. Only
        users may erase. 409 if the organization has the maximum number of open erasures.
        """
        require_user(authorization_context(request))  # 403 precedes 400
        now = to_milliseconds(datetime.now(UTC))
        check = partial(self._check, now)
        body, checked = await self.context.read_checked_body(request, NewFilterErasure, check)
        async with begin(self.context, request) as transaction:
            caller = transaction.caller
            require_user(caller)
            wanted = NewErasure(
                kind=ErasureKind.FILTER,
                org_id=caller.org_id,
                project_id=caller.project_id,
                project_slug=caller.project_slug,
                dry_run=body.dry_run,
                requested_by=caller.principal_id,
                purged=True,
                **checked,
            )
            erasure = await create_filter_erasure(transaction.connection, caller, wanted, transaction.request_id, now)
        return accepted(erasure, caller.org_slug)

    def _check(self, now: datetime, body: NewFilterErasure, issues: Issues) -> dict[str, Any]:
        """The part of the body that is stored. Faults are recorded. Raises Unimplemented."""
        from_ns = parse_item_time(body.from_, "body.from", issues)
        to_ns = nanoseconds(now) if body.to is None else parse_item_time(body.to, "body.to", issues)
        if to_ns is not None:
            check_time_range(from_ns, to_ns, "body.from", issues)
        filters: list[dict[str, Any]] = []
        if body.filters and not issues.has_issue_under("body.filters"):
            if self.check_filters is None:
                raise Unimplemented("This process cannot check filters, because the query service is not installed.")
            filters = self.check_filters(body.filters, now, "body.filters", issues)
        if not body.filters and body.from_ is None and body.to is None and not issues.has_issue_under("body"):
            message = "At least one of filters, from and to is required. To erase everything, delete the project."
            issues.add("body", message, "missing")
        return {"filters": filters or None, "from_ns": from_ns, "to_ns": to_ns}


def accepted(erasure: StoredErasure, org_slug: str) -> web.Response:
    """The 202 response with the erasure."""
    location = f"/orgs/{org_slug}/erasures/{erasure.id}"
    return json_response(erasure_body(erasure), status=202, headers={"Location": location})
