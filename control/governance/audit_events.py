"""`/orgs/{orgSlug}/audit`: list, export."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, ClassVar, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.http.access import bearer
from chassis.http.declaration import PageOf, route
from chassis.http.route import Query, ResponseSpec, Tag
from control.audit.chain import Event
from control.audit.record import EventFilter, iter_chunks, list_events
from control.http.field_types import TimeRange
from control.routing.arguments import Handlers
from control.routing.resource import PageReader
from proto.identity import Scope

MAX_SEQ: Final = 2**53 - 1
NDJSON: Final = "application/x-ndjson"
PATH: Final = "/orgs/{orgSlug}/audit"
EXPORTED: Final = ResponseSpec("One event per line, oldest first.", {NDJSON: Event})


class ExportStart(Query, frozen=True, rename="camel"):
    """Where an export starts."""

    after_seq: Annotated[
        int,
        Meta(ge=0, le=MAX_SEQ),
        Meta(
            description="Only events with a higher `seq`. To continue an earlier export, use the `seq` of its last "
            "event."
        ),
    ] = 0


class Audit(Handlers):
    """Handlers of the audit log, and their dependencies."""

    TAG: ClassVar = Tag("audit", "Audit log: who changed what, as one hash chain per organization.")

    @route("GET", PATH, bearer(Scope.AUDIT_READ))
    async def list_audit_events(
        self, caller: AuthorizationContext, page: PageReader, filters: EventFilter, window: TimeRange
    ) -> PageOf[Event]:
        """List audit events, newest first."""

        async def fetch(connection: AsyncConnection, before: str | None, limit: int) -> list[Event]:
            return await list_events(connection, caller.org_id, filters, window, int(before) if before else None, limit)

        list_name = ("audit", caller.org_id, filters, window)
        return await page.read(list_name, fetch, lambda event: event, lambda event: str(event.seq))

    @route("GET", PATH + "/export", bearer(Scope.AUDIT_READ), responses=(EXPORTED,), answers_head=False)
    async def export_audit_events(
        self, caller: AuthorizationContext, start: ExportStart, window: TimeRange
    ) -> web.StreamResponse:
        """Export audit events, oldest first, one JSON object per line.

        `jq -cjS 'del(.hash)' | sha256sum` verifies a line, `sluice audit verify --file` the complete export.
        """
        chunks = iter_chunks(self.context.database, caller.org_id, start.after_seq, window)
        # Read the first chunk before the response starts, so that an unavailable database is still answered with 503.
        first: Sequence[Event] = await anext(chunks, [])
        headers = {"Content-Type": NDJSON, "Content-Disposition": 'attachment; filename="audit.ndjson"'}
        return web.Response(body=_stream_ndjson(first, chunks), headers=headers)


async def _stream_ndjson(first: Sequence[Event], rest: AsyncIterator[Sequence[Event]]) -> AsyncIterator[bytes]:
    yield _encode_ndjson(first)
    async for events in rest:
        yield _encode_ndjson(events)


def _encode_ndjson(events: Sequence[Event]) -> bytes:
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)
