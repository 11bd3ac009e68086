"""The explore endpoints: each a column of steps from the request to one answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from chassis.access import reach
from chassis.cursor import CursorSigner
from chassis.errors import NotFound
from query.answers import Answers, json_answer
from query.asking.parameters import MAX_TRACE_ID
from query.fields import LOGS, SPANS, Signal, span_id_bytes, trace_id_bytes
from query.lists.listing import Page, Place, fetch, plan
from query.lists.records import log, span
from query.paths import id_of, project_of
from query.settings import QuerySettings
from query.store import Store
from query.trace.reading import read_span, read_waterfall, trace_windows

MAX_SPAN_ID: Final = 64

Shape = Callable[[Sequence[Any]], object]


class _List(msgspec.Struct, rename="camel"):
    """Specification 4.2: a page of a list."""

    data: Sequence[object]
    next_cursor: str | None
    has_more: bool


class Explore:
    """The endpoints over one store. JSON is made off the loop: a page, a trace or a span may hold many megabytes."""

    def __init__(
        self,
        store: Store,
        answers: Answers,
        signer: CursorSigner,
        settings: QuerySettings,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._answers = answers
        self._signer = signer
        self._settings = settings
        self._clock = clock

    async def spans(self, request: web.Request) -> web.StreamResponse:
        """GET .../explore/spans"""
        return await self._list(request, SPANS, span, None)

    async def logs(self, request: web.Request) -> web.StreamResponse:
        """GET .../explore/logs"""
        return await self._list(request, LOGS, log, None)

    async def trace_logs(self, request: web.Request) -> web.StreamResponse:
        """GET .../explore/traces/{traceId}/logs"""
        return await self._list(request, LOGS, log, _trace_id(request))

    async def waterfall(self, request: web.Request) -> web.StreamResponse:
        """GET .../explore/traces/{traceId}/waterfall"""
        project_id, trace_id = project_of(request), _trace_id(request)
        await self._answers.take_place()
        async with self._store.reading():
            body = await read_waterfall(self._store, self._settings, project_id, trace_id)
        if body is None:
            raise NotFound
        return json_answer(body)

    async def span(self, request: web.Request) -> web.StreamResponse:
        """GET .../explore/traces/{traceId}/spans/{spanId}"""
        project_id, trace_id, span_id = project_of(request), _trace_id(request), _span_id(request)
        await self._answers.take_place()
        async with self._store.reading():
            body = await read_span(self._store, project_id, trace_id, span_id)
        if body is None:
            raise NotFound
        return json_answer(body)

    async def _list(
        self, request: web.Request, signal: Signal, shape: Shape, trace_id: bytes | None
    ) -> web.StreamResponse:
        project_id = project_of(request)
        place = Place(reach(request).org_id, project_id, signal, trace_id)
        planned = plan(request.query, place, self._signer, self._clock())
        await self._answers.take_place()
        async with self._store.reading():
            if trace_id is not None and not await trace_windows(self._store, project_id, trace_id):
                raise NotFound
            page = await fetch(self._store, self._signer, planned)
        return json_answer(await asyncio.to_thread(_encoded, page, shape))


def _encoded(page: Page, shape: Shape) -> bytes:
    data = [shape(row) for row in page.rows]
    return msgspec.json.encode(_List(data, page.next_cursor, page.next_cursor is not None))


def _trace_id(request: web.Request) -> bytes:
    return id_of(request, "traceId", MAX_TRACE_ID, trace_id_bytes)


def _span_id(request: web.Request) -> bytes:
    return id_of(request, "spanId", MAX_SPAN_ID, span_id_bytes)
