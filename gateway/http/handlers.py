"""The export handlers: one flat list of steps for both signals."""

import time
from collections.abc import Callable
from typing import NoReturn

from aiohttp import web

from chassis.errors import ApiError
from chassis.http.access import PROJECT
from chassis.http.body import read_body
from gateway.admission.large_resources import SMALL_BYTES, LargeResourceBudget, with_small_resource_limits
from gateway.admission.memory_budget import Lease, MemoryBudget
from gateway.admission.quota.quota import Quota
from gateway.decompression import IDENTITY, content_encoding
from gateway.http.decoding import Decoder
from gateway.http.responses import OtlpResponses, request_media
from gateway.ingest.interface import AcceptedRequest, Ingest
from gateway.journal import JournaledRequest
from gateway.outcomes import OutcomeCounters
from gateway.request_context import ITEMS, WIRE_BYTES
from gateway.settings import GatewaySettings
from proto.errors import ErrorCode
from proto.otlp.policy import DecodedPayload, Signal
from proto.otlp.responses import Media


async def reject_metrics(_request: web.Request) -> NoReturn:
    """404 with a hint: exporters send metrics here unless they are configured otherwise."""
    raise ApiError(
        ErrorCode.NOT_FOUND,
        "Metrics are not supported. Set OTEL_METRICS_EXPORTER=none, or remove this exporter from the metrics pipelines "
        "of your Collector.",
    )


class ExportHandlers:
    """`POST /v1/traces` and `/v1/logs`. All dependencies are passed in; it holds no state of its own."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        body_timeout_s: float,
        body_min_rate: int,
        responses: OtlpResponses,
        outcomes: OutcomeCounters,
        quota: Quota,
        budget: MemoryBudget,
        decoder: Decoder,
        ingest: Ingest,
        large_resources: LargeResourceBudget,
        clock: Callable[[], int],
    ) -> None:
        self._max_wire_bytes = settings.max_wire_bytes
        self._body_timeout_s = body_timeout_s
        self._body_min_rate = body_min_rate
        self._responses = responses
        self._outcomes = outcomes
        self._quota = quota
        self._budget = budget
        self._decoder = decoder
        self._ingest = ingest
        self._large_resources = large_resources
        self._clock = clock

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
        project = request[PROJECT]
        await self._quota.admit(request)
        self._ingest.admit()
        with self._budget.lease(project.project_id) as lease:
            media, encoding = request_media(request), content_encoding(request.headers.getall("Content-Encoding", []))
            wire = await self._read_body(request, media, encoding, lease)
            wire_bytes = request[WIRE_BYTES] = len(wire)
            body = await self._decoder.decompress(encoding, wire, self._decoder.limits[media])
            raw_body = wire if self._ingest.needs_raw_body else b""
            del wire
            lease.set((len(raw_body) if raw_body is not body else 0) + len(body))
            policy, now_ns = self._decoder.policy(project.sensitive_words), self._clock()
            decoded = await self._decoder.decode(signal, media, body, project.project_id, policy, now_ns, lease)
            if not self._large_resources.admit(project.project_id, decoded.days, decoded.large_origins(SMALL_BYTES)):
                del decoded  # frees its memory before the second decode
                policy = with_small_resource_limits(policy)  # the journal keeps it, so a replay drops the same
                decoded = await self._decoder.decode(signal, media, body, project.project_id, policy, now_ns, lease)
            del body
            self._count_received(request, decoded)
            lease.set(len(raw_body) + decoded.nbytes, decoded.accepted)
            if decoded.accepted:
                journaled = JournaledRequest(
                    project.project_id, signal, media, encoding, now_ns, decoded.accepted, policy, raw_body
                )
                with self._quota.reserve(request, decoded.accepted):
                    await self._ingest.submit(AcceptedRequest(journaled, decoded, wire_bytes))
            else:
                self._outcomes.answered(decoded, wire_bytes)
            return self._responses.success(media, decoded, time.perf_counter() - started)

    async def _read_body(self, request: web.Request, media: Media, encoding: str, lease: Lease) -> bytes:
        """The body as received; its memory is leased before it arrives."""
        declared = min(request.content_length or 0, self._max_wire_bytes)
        lease.set(declared)
        wire_cap = self._max_wire_bytes
        if encoding == IDENTITY:
            wire_cap = min(wire_cap, self._decoder.limits[media].max_bytes)
        wire = await read_body(
            request,
            wire_cap,
            self._body_timeout_s,
            on_growth=lambda size: lease.set(max(size, declared)),
            min_rate=self._body_min_rate,
        )
        lease.set(len(wire))
        return wire

    def _count_received(self, request: web.Request, decoded: DecodedPayload) -> None:
        request[ITEMS] = decoded.accepted + sum(decoded.rejected.values())
        self._outcomes.received(decoded)
