"""The list of change events."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from chassis.changes import MAX_NAME_LENGTH, ChangeFilter, ChangeKind, ChangePosition, StoredChange, list_changes
from chassis.db.database import Database
from chassis.http.access import authorization_context
from chassis.http.cursor import CursorSigner
from chassis.http.validation import Issues, bounded_int, bounded_text, must_be_one_of, single_value
from chassis.http.web import json_response
from query.changes.schemas import ChangeEventPage, change_event, nanoseconds
from query.json_types import Range
from query.path_params import get_project_id
from query.request.parameters import DEFAULT_LIMIT, MAX_CURSOR, MAX_LIMIT, parse_time_range
from query.search.listing import open_cursor
from query.statements.window import Window
from query.timestamps import format_timestamp

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

    async def changes(self, request: web.Request) -> web.StreamResponse:
        """List change events of the project and of its whole organization, newest first.

        With a filter by environment or service, events without one are listed, too: they concern all of them.
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
    kind = _kind(query, issues)
    limit = bounded_int(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues)
    given = (times.from_text, times.to_text, times.hours)
    binding = msgspec.msgpack.encode(("explore/changes", org_id, project_id, given, environment, service, kind))
    cursor = bounded_text(query, "cursor", 1, MAX_CURSOR, issues)
    payload = open_cursor(signer, cursor, binding, _CursorPayload, issues)
    window = times.resolve(now_ns, "query", issues) if payload is None else Window(payload.from_ns, payload.to_ns)
    issues.raise_if_any()
    if window is None:
        raise TypeError("a missing window must have an issue")
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
    """A name to filter by. None for one that no column stores, after recording an issue."""
    text = bounded_text(query, name, 1, MAX_NAME_LENGTH, issues)
    if text is None or not _ODD.intersection(text):
        return text
    issues.add(f"query.{name}", "Must consist of printable characters.", "format")
    return None


def _kind(query: Mapping[str, str], issues: Issues) -> ChangeKind | None:
    text = single_value(query, "kind", issues)
    if text is None:
        return None
    try:
        return ChangeKind(text)
    except ValueError:
        issues.add("query.kind", must_be_one_of(ChangeKind), "not_allowed")
        return None


def _time(nanos: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanos // _NANOS_PER_MICRO)
