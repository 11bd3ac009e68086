"""The explore endpoints: each a column of steps from the request to one answer."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from aiohttp import web

from chassis.access import reach
from chassis.cursor import CursorSigner
from chassis.errors import NotFound
from query.analysis import aggregate, attributes, compare
from query.answers import Answers, asker_of
from query.asking.bodies import read_raw
from query.asking.parameters import MAX_SPAN_ID, MAX_TRACE_ID
from query.fields import LOGS, SPANS, Signal, span_id_bytes, trace_id_bytes
from query.lists.listing import Page, Place, fetch, page_question, plan
from query.lists.records import log_page, span_page
from query.paths import id_of, project_of
from query.question import Made, Question
from query.settings import QuerySettings
from query.store import Stores
from query.trace.reading import read_span, read_waterfall, trace_windows

PageShape = Callable[[Sequence[Sequence[Any]], str | None], object]


class Explore:
    """The endpoints over each principal's store. JSON is made off the loop: an answer may hold many megabytes."""

    def __init__(
        self,
        stores: Stores,
        answers: Answers,
        signer: CursorSigner,
        settings: QuerySettings,
        clock: Callable[[], int],
    ) -> None:
        self._stores = stores
        self._answers = answers
        self._signer = signer
        self._settings = settings
        self._clock = clock

    async def attributes(self, request: web.Request) -> web.StreamResponse:
        """List the keys that spans carry.

        Own fields and attributes, as filters and groups take them. A key counts the spans that `exists` finds with it.
        """
        project_id, window = project_of(request), attributes.plan(request.query, self._clock())

        async def make() -> Made:
            async with self._stores.reading(asker_of(request)) as store:
                found = await attributes.read(store, project_id, window, self._settings.max_attribute_keys)
            return Made(msgspec.json.encode(found.keys), "keys" if found.truncated else "")

        return await self._answers.answer(
            request, Question.of("attributes", project_id, window, to_ns=window.to_ns), make
        )

    async def aggregate(self, request: web.Request) -> web.StreamResponse:
        """Count, add up or rank spans by group, over time.

        Counts, sums of durations, percentiles and uniques are exact; the groups are those of the greatest values.
        """
        project_id = project_of(request)
        asked = aggregate.plan(await read_raw(request, self._settings.timeout_s), self._clock())

        async def make() -> Made:
            async with self._stores.reading(asker_of(request)) as store:
                await store.check_patterns(asked.filters, aggregate.FILTERS_PATH)
                found = await aggregate.read(store, self._settings, project_id, asked)
            return Made(await asyncio.to_thread(aggregate.answer, asked, found, self._settings))

        question = Question.of("aggregate", project_id, asked, to_ns=asked.window.to_ns)
        return await self._answers.answer(request, question, make)

    async def compare(self, request: web.Request) -> web.StreamResponse:
        """Find what is different about the spans of a spike.

        Values of fields and attributes that are more frequent in it than in the baseline, the most telling first.
        """
        project_id = project_of(request)
        planned = compare.plan(await read_raw(request, self._settings.timeout_s), self._clock())

        async def make() -> Made:
            async with self._stores.reading(asker_of(request)) as store:
                await store.check_patterns(planned.filters, compare.FILTERS_PATH)
                answer = await compare.read(store, project_id, planned, self._settings.max_scan_rows)
            return Made(msgspec.json.encode(answer))

        end = max(planned.spike.to_ns, planned.baseline.to_ns)
        question = Question.of("compare", project_id, replace(planned, now_ns=0), to_ns=end)
        return await self._answers.answer(request, question, make)

    async def spans(self, request: web.Request) -> web.StreamResponse:
        """List spans, newest first.

        Every stored span that matches comes exactly once, whatever the ties; pages hold while others are stored.
        """
        return await self._list(request, SPANS, span_page, None)

    async def logs(self, request: web.Request) -> web.StreamResponse:
        """List log records, newest first.

        Every stored record that matches comes exactly once, whatever the ties; pages hold while others are stored.
        """
        return await self._list(request, LOGS, log_page, None)

    async def trace_logs(self, request: web.Request) -> web.StreamResponse:
        """List the log records of a trace, newest first.

        Without a time, the trace's own counts.
        """
        return await self._list(request, LOGS, log_page, _trace_id(request))

    async def waterfall(self, request: web.Request) -> web.StreamResponse:
        """Lay a trace out as a tree.

        Depth first, siblings by their start. No timestamp is changed, and every span comes once, whatever was sent.
        """
        project_id, trace_id = project_of(request), _trace_id(request)

        async def make() -> Made:
            async with self._stores.reading(asker_of(request)) as store:
                body = await read_waterfall(store, self._settings, project_id, trace_id)
            if body is None:
                raise NotFound
            return Made(body)

        return await self._answers.answer(request, Question.of("waterfall", project_id, trace_id), make)

    async def span(self, request: web.Request) -> web.StreamResponse:
        """Show everything that is stored of a span.

        Events, links, resource and scope are there as they were sent.
        """
        project_id, trace_id, span_id = project_of(request), _trace_id(request), _span_id(request)

        async def make() -> Made:
            async with self._stores.reading(asker_of(request)) as store:
                body = await read_span(store, project_id, trace_id, span_id)
            if body is None:
                raise NotFound
            return Made(body)

        return await self._answers.answer(request, Question.of("span", project_id, trace_id, span_id), make)

    async def _list(
        self, request: web.Request, signal: Signal, shape: PageShape, trace_id: bytes | None
    ) -> web.StreamResponse:
        project_id = project_of(request)
        place = Place(reach(request).org_id, project_id, signal, trace_id)
        planned = plan(request.query, place, self._signer, self._clock())

        async def make() -> Made:
            async with self._stores.reading(asker_of(request)) as store:
                if trace_id is not None and not await trace_windows(store, project_id, trace_id):
                    raise NotFound
                page = await fetch(store, self._signer, planned)
            return Made(await asyncio.to_thread(_encoded, page, shape))

        return await self._answers.answer(request, page_question(planned), make)


def _encoded(page: Page, shape: PageShape) -> bytes:
    return msgspec.json.encode(shape(page.rows, page.next_cursor))


def _trace_id(request: web.Request) -> bytes:
    return id_of(request, "traceId", MAX_TRACE_ID, trace_id_bytes)


def _span_id(request: web.Request) -> bytes:
    return id_of(request, "spanId", MAX_SPAN_ID, span_id_bytes)
