"""`/orgs/{orgSlug}/audit`: list, export."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, bounded_int, bounded_text
from chassis.http.web import Route, json_response
from control.audit import store
from control.audit.chain import Event
from control.audit.store import Wanted
from control.audit.tables import MAX_ACTION_LENGTH, MAX_OBJECT_ID_LENGTH
from control.http.context import HandlerContext
from control.http.paging import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    PAGE_PARAMETERS,
    NextCursor,
    PageRequest,
    open_cursor,
    page_body,
)
from control.http.time_input import MAX_TIME_LENGTH, parse_time_range
from proto.identity import Scope

MAX_ID_LENGTH: Final = 32
MAX_SEQ: Final = 2**53 - 1
NDJSON: Final = "application/x-ndjson"
_ID: Final = re.compile(r"[0-9A-Za-z_.:-]+")
_OBJECT: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")  # objects may have any name
_ACTION: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")


class EventPage(msgspec.Struct, rename="camel"):
    """A page of events, newest first."""

    data: list[Event]
    next_cursor: NextCursor
    has_more: bool


def _text_parameter(name: str, hi: int, description: str, example: str | None = None) -> Parameter:
    return Parameter(name, "query", Annotated[str, Meta(min_length=1, max_length=hi)], description, example=example)


TAG: Final = Tag("audit", "Audit log: who changed what, as one hash chain per organization.")
WINDOW_PARAMETERS: Final = (
    _text_parameter("from", MAX_TIME_LENGTH, "Start of the time range, inclusive (RFC 3339).", "2026-11-20T00:00:00Z"),
    _text_parameter("to", MAX_TIME_LENGTH, "End of the time range, exclusive (RFC 3339)."),
)
FILTER_PARAMETERS: Final = (
    _text_parameter("actorPrincipalId", MAX_ID_LENGTH, "Only events of this actor."),
    _text_parameter(
        "action",
        MAX_ACTION_LENGTH,
        "Only events with this action; with a trailing dot, every action with this prefix.",
        "approval_request.",
    ),
    _text_parameter("objectId", MAX_OBJECT_ID_LENGTH, "Only events about this resource."),
    *WINDOW_PARAMETERS,
)
AFTER_SEQ: Final = Parameter(
    "afterSeq",
    "query",
    Annotated[int, Meta(ge=0, le=MAX_SEQ)],
    "Only events with a higher `seq`, such as that of the last event of an earlier export.",
    default=0,
)
LIST: Final = Operation(
    "listAuditEvents", TAG, (ResponseSpec("A page.", json_content(EventPage)),), (*PAGE_PARAMETERS, *FILTER_PARAMETERS)
)
EXPORT: Final = Operation(
    "exportAuditEvents",
    TAG,
    (ResponseSpec("One event per line, oldest first.", {NDJSON: Event}),),
    (AFTER_SEQ, *WINDOW_PARAMETERS),
)


@dataclass(frozen=True, slots=True)
class Audit:
    """Handlers of the audit log, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/audit"
        return [
            Route("GET", every, self.list, bearer(Scope.AUDIT_READ), operation=LIST),
            Route(
                "GET", every + "/export", self.export, bearer(Scope.AUDIT_READ), operation=EXPORT, answers_head=False
            ),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List audit events, newest first."""
        org_id = authorization_context(request).org_id
        issues = Issues()
        event_filter = _parse_filter(request, issues)
        limit = bounded_int(request.query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues)
        binding = f"audit of {org_id}: {event_filter}".encode()
        position = open_cursor(request, self.context.cursors, binding, tuple[int], issues)
        issues.raise_if_any("The query is not valid.")
        before = None if position is None else position[0]
        async with self.context.database.read() as connection:
            found = await store.list_events(connection, org_id, event_filter, before, limit + 1)
        page = PageRequest(limit, None)
        return json_response(
            page_body(found, page, lambda one: one, lambda one: one.seq, self.context.cursors, binding)
        )

    async def export(self, request: web.Request) -> web.StreamResponse:
        """Export audit events, oldest first, one JSON object per line.

        `jq -cjS 'del(.hash)' | sha256sum` verifies a line, `sluice audit verify --file` the complete export.
        """
        issues = Issues()
        since, until = parse_time_range(request.query, issues)
        after = bounded_int(request.query, "afterSeq", 0, 0, MAX_SEQ, issues)
        issues.raise_if_any("The query is not valid.")
        event_filter = Wanted(since=since, until=until)
        chunks = store.iter_chunks(self.context.database, authorization_context(request).org_id, event_filter, after)
        # Read the first chunk before the response starts, so that an unavailable database is still a 503.
        first: Sequence[Event] = await anext(chunks, [])
        headers = {"Content-Type": NDJSON, "Content-Disposition": 'attachment; filename="audit.ndjson"'}
        return web.Response(body=_stream_ndjson(first, chunks), headers=headers)


async def _stream_ndjson(first: Sequence[Event], rest: AsyncIterator[Sequence[Event]]) -> AsyncIterator[bytes]:
    yield _encode_ndjson(first)
    async for events in rest:
        yield _encode_ndjson(events)


def _encode_ndjson(events: Sequence[Event]) -> bytes:
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


def _parse_filter(request: web.Request, issues: Issues) -> Wanted:
    since, until = parse_time_range(request.query, issues)
    return Wanted(
        actor_id=_parse_text(request, "actorPrincipalId", MAX_ID_LENGTH, _ID, issues),
        action=_parse_text(request, "action", MAX_ACTION_LENGTH, _ACTION, issues),
        object_id=_parse_text(request, "objectId", MAX_OBJECT_ID_LENGTH, _OBJECT, issues),
        since=since,
        until=until,
    )


def _parse_text(request: web.Request, name: str, hi: int, pattern: re.Pattern[str], issues: Issues) -> str | None:
    text = bounded_text(request.query, name, 1, hi, issues)
    if text is None or pattern.fullmatch(text) is not None:
        return text
    issues.add(f"query.{name}", "Has an invalid format.", "format")
    return None
