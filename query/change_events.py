"""Change events beside latency: `ChangeHandlers.list_change_events` lists the change events of a project and of its
whole organization in a time range. Control records them in the relational database (`chassis.changes`).
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple

import msgspec
from aiohttp import web

from chassis.changes import MAX_NAME_LENGTH, ChangeFilter, ChangeKind, ChangePosition, StoredChange, list_changes
from chassis.db.database import Database
from chassis.http.access import authorization_context
from chassis.http.cursor import CursorSigner
from chassis.http.route import Parameter, Tag
from chassis.http.validation import Issues, bounded_int, bounded_text
from chassis.http.web import json_response
from query.request.parameters import DEFAULT_LIMIT, MAX_CURSOR, MAX_LIMIT, checked, parse_choice, parse_time_range
from query.routing import CURSOR, LIMIT, TIME, explore, get_project_id
from query.search.listing import open_cursor
from query.statements import Window
from query.values import Range, Timestamp, format_timestamp

TAG: Final = Tag("change-events", "Changes on a time line: deployments, releases and flags.")
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
KIND: Final = Parameter("kind", "query", ChangeKind, "Only changes of this kind.")
ENVIRONMENT: Final = Parameter(
    "environment",
    "query",
    _Name,
    "Only changes in this environment, and changes that concern all environments.",
    example="production",
)
SERVICE: Final = Parameter(
    "service", "query", _Name, "Only changes of this service, and changes that concern all services."
)


class ChangeEvent(msgspec.Struct, rename="camel"):
    """A deployment, a release or another change. If `environment` or `service` is null, the change concerns all
    environments or all services."""

    id: Annotated[str, msgspec.Meta(pattern="^chg_[0-9a-z]{26}$")]
    kind: ChangeKind
    title: str
    detail: str | None
    time: Timestamp
    environment: str | None
    release: str | None
    service_name: str | None
    url: str | None
    of_project: Annotated[
        bool,
        msgspec.Meta(
            description="Whether the change concerns only this project. False: it concerns all projects of the "
            "organization."
        ),
    ]


class ChangeEventPage(msgspec.Struct, rename="camel"):
    """A page of change events, newest first. `range` is the time range of the first page."""

    range: Range
    data: list[ChangeEvent]
    next_cursor: Annotated[
        str | None, msgspec.Meta(description="Pass this text as `cursor` to get the next page; null on the last page.")
    ]
    has_more: bool


def change_event(change: StoredChange) -> ChangeEvent:
    """The API representation."""
    return ChangeEvent(
        id=change.id,
        kind=change.kind,
        title=change.title,
        detail=change.detail,
        time=format_timestamp(nanoseconds(change.at)),
        environment=change.environment,
        release=change.release,
        service_name=change.service,
        url=change.url,
        of_project=change.project_id is not None,
    )


def nanoseconds(time: datetime) -> int:
    """Nanoseconds since 1970; stored times are whole milliseconds."""
    return round(time.timestamp() * 1_000) * 1_000_000


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS_PER_MICRO: Final = 1_000
_ODD: Final = frozenset(map(chr, range(32))) | {"\x7f"}


class _CursorPayload(NamedTuple):
    """The payload of a cursor: the window of the first page, and the last event shown."""

    from_ns: int
    to_ns: int
    at_ms: int
    id: str


class _ChangeListPlan(NamedTuple):
    """A validated request."""

    wanted: ChangeFilter
    window: Window
    after: ChangePosition | None
    limit: int
    binding: bytes


class ChangeHandlers:
    """The endpoint over the relational database; `clock` returns nanoseconds since 1970."""

    def __init__(self, database: Database, signer: CursorSigner, clock: Callable[[], int]) -> None:
        self._database = database
        self._signer = signer
        self._clock = clock

    @explore(TAG, "/changes", ChangeEventPage, *TIME, KIND, ENVIRONMENT, SERVICE, LIMIT, CURSOR)
    async def list_change_events(self, request: web.Request) -> web.StreamResponse:
        """List change events of the project and of its whole organization, newest first.

        A filter by environment or service also lists events without an environment or service, because they concern
        all.
        """
        org_id, project_id = authorization_context(request).org_id, get_project_id(request)
        plan = _plan(request.query, org_id, project_id, self._signer, self._clock())
        async with self._database.read() as connection:
            found = await list_changes(connection, plan.wanted, plan.after, plan.limit + 1)
        shown, window = found[: plan.limit], plan.window
        cursor = self._signer.sign(_payload(window, shown[-1]), plan.binding) if len(found) > plan.limit else None
        times = Range(format_timestamp(window.from_ns), format_timestamp(window.to_ns))
        return json_response(ChangeEventPage(times, [change_event(one) for one in shown], cursor, cursor is not None))


def _plan(query: Mapping[str, str], org_id: str, project_id: int, signer: CursorSigner, now_ns: int) -> _ChangeListPlan:
    """Validate the request; BadRequest names each offending field."""
    issues = Issues()
    times = parse_time_range(query, issues)
    environment, service = (_name(query, name, issues) for name in ("environment", "service"))
    kind = parse_choice(query, "kind", ChangeKind, issues)
    limit = bounded_int(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues)
    given = (times.from_text, times.to_text, times.hours)
    binding = msgspec.msgpack.encode(("explore/changes", org_id, project_id, given, environment, service, kind))
    cursor = bounded_text(query, "cursor", 1, MAX_CURSOR, issues)
    payload = open_cursor(signer, cursor, binding, _CursorPayload, issues)
    window = times.resolve(now_ns, "query", issues) if payload is None else Window(payload.from_ns, payload.to_ns)
    window = checked(window, issues)
    wanted = ChangeFilter(
        org_id=org_id,
        since=_time(-(-window.from_ns // 1_000_000) * 1_000_000),  # stored times are whole milliseconds
        until=_time(-(-window.to_ns // 1_000_000) * 1_000_000),
        project_id=project_id,
        kind=kind,
        environment=environment,
        service=service,
        everywhere=True,
    )
    after = None if payload is None else ChangePosition(_time(payload.at_ms * 1_000_000), payload.id)
    return _ChangeListPlan(wanted, window, after, limit, binding)


def _payload(window: Window, last: StoredChange) -> _CursorPayload:
    return _CursorPayload(window.from_ns, window.to_ns, nanoseconds(last.at) // 1_000_000, last.id)


def _name(query: Mapping[str, str], name: str, issues: Issues) -> str | None:
    """A name to filter by. If no column can store the name, records an issue and returns None."""
    text = bounded_text(query, name, 1, MAX_NAME_LENGTH, issues)
    if text is None or not _ODD.intersection(text):
        return text
    issues.add(f"query.{name}", "Must consist of printable characters.", "format")
    return None


def _time(nanos: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanos // _NANOS_PER_MICRO)
