"""The export handlers: one flat list of steps for both signals."""

import time
from typing import NoReturn

from aiohttp import web

from chassis.errors import ApiError
from chassis.http.body import read_body
from gateway.admission.memory_budget import Lease
from gateway.decompression import IDENTITY, content_encoding
from gateway.export.refusals import METRICS_HINT
from gateway.export.steps import ExportSteps
from gateway.http.responses import OtlpResponses, request_media
from gateway.settings import GatewaySettings
from proto.errors import ErrorCode
from proto.otlp.policy import Signal
from proto.otlp.responses import Media


async def reject_metrics(_request: web.Request) -> NoReturn:
    """404 with a hint: exporters send metrics here unless they are configured otherwise."""
    raise ApiError(ErrorCode.NOT_FOUND, METRICS_HINT)


class ExportHandlers:
    """`POST /v1/traces` and `/v1/logs`. All dependencies are passed in; it holds no state of its own."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        body_timeout_s: float,
        body_min_rate: int,
        responses: OtlpResponses,
        steps: ExportSteps,
    ) -> None:
        self._max_wire_bytes = settings.max_wire_bytes
        self._body_timeout_s = body_timeout_s
        self._body_min_rate = body_min_rate
        self._responses = responses
        self._steps = steps

    async def export_traces(self, request: web.Request) -> web.Response:
        """Ingest spans.

        Each item is accepted, or rejected with a reason. A 200 means that the accepted items are on disk; they are
        stored in ClickHouse, once, about half a second later, or when ClickHouse is available again. The setting
        `SLUICE_DURABILITY` can change the meaning of a 200: the accepted items are in ClickHouse already (`store`), or
        in the memory of the gateway (`memory`).
        """
        return await self._export("traces", request)

    async def export_logs(self, request: web.Request) -> web.Response:
        """Ingest log records.

        Each item is accepted, or rejected with a reason. A 200 means that the accepted items are on disk; they are
        stored in ClickHouse, once, about half a second later, or when ClickHouse is available again. The setting
        `SLUICE_DURABILITY` can change the meaning of a 200: the accepted items are in ClickHouse already (`store`), or
        in the memory of the gateway (`memory`).
        """
        return await self._export("logs", request)

    async def _export(self, signal: Signal, request: web.Request) -> web.Response:
        """Handle one export request. The docstring of the package `gateway` lists these steps in order, with the
        statuses that each can refuse with.
        """
        started = time.perf_counter()
        await self._steps.admit(request)
        with self._steps.lease(request) as lease:
            media, encoding = request_media(request), content_encoding(request.headers.getall("Content-Encoding", []))
            decoded = await self._steps.ingest(
                request, signal, media, encoding, await self._read_body(request, media, encoding, lease), lease
            )
            return self._responses.success(media, decoded, time.perf_counter() - started)

    async def _read_body(self, request: web.Request, media: Media, encoding: str, lease: Lease) -> bytes:
        """The body as received; its memory is leased before it arrives."""
        declared = min(request.content_length or 0, self._max_wire_bytes)
        lease.set(declared)
        wire_cap = self._max_wire_bytes
        if encoding == IDENTITY:
            wire_cap = min(wire_cap, self._steps.decoder.limits[media].max_bytes)
        wire = await read_body(
            request,
            wire_cap,
            self._body_timeout_s,
            on_growth=lambda size: lease.set(max(size, declared)),
            min_rate=self._body_min_rate,
        )
        lease.set(len(wire))
        return wire
