"""`/orgs/{orgSlug}/audit`: list, export."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.access import bearer, reach
from chassis.cursor import MAX_CURSOR_LENGTH
from chassis.operation import Answer, Operation, Parameter, Tag, json_content
from chassis.validation import Issues, bounded_int, bounded_text
from chassis.web import Route, json_response
from control.audit import store
from control.audit.chain import Event
from control.audit.store import Wanted
from control.audit.tables import MAX_ACTION_LENGTH, MAX_OBJECT_ID_LENGTH
from control.desk import Desk
from control.paging import DEFAULT_LIMIT, MAX_LIMIT, PAGE, NextCursor, Page, page_body
from proto.identity import Scope

MAX_ID_LENGTH: Final = 32
MAX_SEQ: Final = 2**53 - 1
MAX_TIME_LENGTH: Final = 40
NDJSON: Final = "application/x-ndjson"
_ID: Final = re.compile(r"[0-9A-Za-z_.:-]+")
_OBJECT: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")  # what is asked about may be called anything
_ACTION: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_TIME: Final = re.compile(
    r"(?:19[7-9][0-9]|[2-9][0-9]{3})-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)


class EventPage(msgspec.Struct, rename="camel"):
    """A page of events, newest first."""

    data: list[Event]
    next_cursor: NextCursor
    has_more: bool


def _text(name: str, hi: int, description: str, example: str | None = None) -> Parameter:
    return Parameter(name, "query", Annotated[str, Meta(min_length=1, max_length=hi)], description, example=example)


TAG: Final = Tag("audit", "Who changed what, as one hash chain per organization.")
WINDOW: Final = (
    _text("from", MAX_TIME_LENGTH, "Events at this time or later: RFC 3339.", "2026-11-20T00:00:00Z"),
    _text("to", MAX_TIME_LENGTH, "Events before this time: RFC 3339."),
)
WANTED: Final = (
    _text("actorPrincipalId", MAX_ID_LENGTH, "What this principal did."),
    _text("action", MAX_ACTION_LENGTH, "This action; with a dot at its end, all that begin so.", "approval_request."),
    _text("objectId", MAX_OBJECT_ID_LENGTH, "What was done to this."),
    *WINDOW,
)
AFTER: Final = Parameter(
    "afterSeq",
    "query",
    Annotated[int, Meta(ge=0, le=MAX_SEQ)],
    "Events behind this number: the last one that an earlier export held.",
    default=0,
)
LIST: Final = Operation("listAuditEvents", TAG, (Answer("A page.", json_content(EventPage)),), (*PAGE, *WANTED))
EXPORT: Final = Operation(
    "exportAuditEvents", TAG, (Answer("One event a line, oldest first.", {NDJSON: Event}),), (AFTER, *WINDOW)
)


@dataclass(frozen=True, slots=True)
class Audit:
    """The handlers, with what they work with."""

    desk: Desk

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/audit"
        return [
            Route("GET", every, self.list, bearer(Scope.AUDIT_READ), operation=LIST),
            Route("GET", every + "/export", self.export, bearer(Scope.AUDIT_READ), operation=EXPORT),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List audit events, newest first."""
        org_id = reach(request).org_id
        issues = Issues()
        wanted = _wanted(request, issues)
        limit = bounded_int(request.query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues)
        cursor = bounded_text(request.query, "cursor", 1, MAX_CURSOR_LENGTH, issues)
        issues.raise_if_any("The query is not valid.")
        binding = f"audit of {org_id}: {wanted}".encode()
        before = None if cursor is None else self.desk.cursors.open(cursor, binding, tuple[int])[0]
        async with self.desk.database.read() as connection:
            found = await store.list_events(connection, org_id, wanted, before, limit + 1)
        page = Page(limit, None)
        return json_response(page_body(found, page, lambda one: one, lambda one: one.seq, self.desk.cursors, binding))

    async def export(self, request: web.Request) -> web.StreamResponse:
        """Export audit events, oldest first, one JSON object a line.

        Each line is checked with `jq -cjS 'del(.hash)' | sha256sum`, the whole with `sluice audit verify --file`.
        """
        issues = Issues()
        since, until = _window(request, issues)
        after = bounded_int(request.query, "afterSeq", 0, 0, MAX_SEQ, issues)
        issues.raise_if_any("The query is not valid.")
        wanted = Wanted(since=since, until=until)
        chunks = store.walk(self.desk.database, reach(request).org_id, wanted, after)
        # A store that is away is found out while there is still an answer to give.
        first: Sequence[Event] = await anext(chunks, [])
        headers = {"Content-Type": NDJSON, "Content-Disposition": 'attachment; filename="audit.ndjson"'}
        return web.Response(body=_lines(first, chunks), headers=headers)


async def _lines(first: Sequence[Event], rest: AsyncIterator[Sequence[Event]]) -> AsyncIterator[bytes]:
    yield _ndjson(first)
    async for events in rest:
        yield _ndjson(events)


def _ndjson(events: Sequence[Event]) -> bytes:
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


def _wanted(request: web.Request, issues: Issues) -> Wanted:
    since, until = _window(request, issues)
    return Wanted(
        actor_id=_matching(request, "actorPrincipalId", MAX_ID_LENGTH, _ID, issues),
        action=_matching(request, "action", MAX_ACTION_LENGTH, _ACTION, issues),
        object_id=_matching(request, "objectId", MAX_OBJECT_ID_LENGTH, _OBJECT, issues),
        since=since,
        until=until,
    )


def _matching(request: web.Request, name: str, hi: int, pattern: re.Pattern[str], issues: Issues) -> str | None:
    text = bounded_text(request.query, name, 1, hi, issues)
    if text is None or pattern.fullmatch(text) is not None:
        return text
    issues.add(f"query.{name}", "Is none that there can be.", "format")
    return None


def _window(request: web.Request, issues: Issues) -> tuple[datetime | None, datetime | None]:
    since, until = _time(request, "from", issues), _time(request, "to", issues)
    if since is not None and until is not None and since >= until:
        issues.add("query.from", "from must be before to.", "range")
    return since, until


def _time(request: web.Request, name: str, issues: Issues) -> datetime | None:
    text = bounded_text(request.query, name, 1, MAX_TIME_LENGTH, issues)
    if text is None:
        return None
    try:
        if _TIME.fullmatch(text) is not None:
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    issues.add(f"query.{name}", "Must be a time with its zone: 2026-11-20T15:17:03Z.", "format")
    return None
