"""The export handler: one flat list of steps for both signals."""

import time
from collections.abc import Callable
from typing import NoReturn

from aiohttp import web

from chassis.access import PROJECT
from chassis.body import read_body
from chassis.errors import ApiError
from gateway.answers import ITEMS, WIRE_BYTES, Answers, request_media
from gateway.budget import Budget, Lease
from gateway.decoding import Decoder
from gateway.inflate import IDENTITY, content_encoding
from gateway.intake import Accepted, Intake
from gateway.journal import Request
from gateway.large_origins import SMALL, LargeOrigins, without_large_ones
from gateway.outcomes import Ledger
from gateway.quota.quota import Quota
from gateway.settings import GatewaySettings
from proto.errors import ErrorCode
from proto.otlp.policy import Decoded, Signal
from proto.otlp.responses import Media


async def no_metrics(_request: web.Request) -> NoReturn:
    """404 with what to do about it: exporters send metrics here unless they are told otherwise."""
    raise ApiError(
        ErrorCode.NOT_FOUND,
        "Metrics are not supported; traces and logs are: set OTEL_METRICS_EXPORTER=none, or take this exporter out of "
        "the metrics pipeline of your Collector.",
    )


class Exporter:
    """`POST /v1/traces` and `/v1/logs`. Everything it needs is handed in; it holds no state of its own."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        body_timeout_s: float,
        body_min_rate: int,
        answers: Answers,
        ledger: Ledger,
        quota: Quota,
        budget: Budget,
        decoder: Decoder,
        intake: Intake,
        large_origins: LargeOrigins,
        clock: Callable[[], int],
    ) -> None:
        self._max_wire_bytes = settings.max_wire_bytes
        self._body_timeout_s = body_timeout_s
        self._body_min_rate = body_min_rate
        self._answers = answers
        self._ledger = ledger
        self._quota = quota
        self._budget = budget
        self._decoder = decoder
        self._intake = intake
        self._large_origins = large_origins
        self._clock = clock

    async def traces(self, request: web.Request) -> web.Response:
        """Take spans.

        Every item is accepted or rejected with a reason, one by one. A 200 means that the accepted ones are on disk;
        they are in ClickHouse, once, about half a second later, or when it is back. With the setting
        `SLUICE_DURABILITY` a 200 may mean instead that they are in ClickHouse already (`store`), or that they are in
        the memory of the gateway (`memory`).
        """
        return await self._export("traces", request)

    async def logs(self, request: web.Request) -> web.Response:
        """Take log records.

        Every item is accepted or rejected with a reason, one by one. A 200 means that the accepted ones are on disk;
        they are in ClickHouse, once, about half a second later, or when it is back. With the setting
        `SLUICE_DURABILITY` a 200 may mean instead that they are in ClickHouse already (`store`), or that they are in
        the memory of the gateway (`memory`).
        """
        return await self._export("logs", request)

    async def _export(self, signal: Signal, request: web.Request) -> web.Response:
        """Take one export request. The order of the steps, and what each refuses:

        1. project key, its rate (the route's access rule, before this)   401, 403, 429
        2. is anything left of the organization's month                   429
        3. can anything be taken, is there memory                         503
        4. media type, content encoding                                   415
        5. read, at most the wire cap                                     413, 400
        6. inflate, decode; for large JSON, is there memory to read it    413, 400, 503
        7. do the items fit into the month                                429
        8. take: until the promise of the answer holds                    503
        """
        started = time.perf_counter()
        project = request[PROJECT]
        await self._quota.admit(request)
        self._intake.admit()
        with self._budget.lease(project.project_id) as lease:
            media, encoding = request_media(request), content_encoding(request.headers.getall("Content-Encoding", []))
            wire = await self._read(request, media, encoding, lease)
            wire_bytes = request[WIRE_BYTES] = len(wire)
            body = await self._decoder.inflated(encoding, wire, self._decoder.limits[media])
            kept = wire if self._intake.keeps_bodies else b""
            del wire
            lease.set((len(kept) if kept is not body else 0) + len(body))
            policy, now_ns = self._decoder.policy(project.sensitive_words), self._clock()
            decoded = await self._decoder.decoded(signal, media, body, project.project_id, policy, now_ns, lease)
            if not self._large_origins.admit(project.project_id, decoded.days, decoded.large_origins(SMALL)):
                del decoded  # not two of them in memory
                policy = without_large_ones(policy)  # which the journal keeps: read again, it is cut likewise
                decoded = await self._decoder.decoded(signal, media, body, project.project_id, policy, now_ns, lease)
            del body
            self._count(request, decoded)
            lease.set(len(kept) + decoded.nbytes, decoded.accepted)
            if decoded.accepted:
                as_it_came = Request(
                    project.project_id, signal, media, encoding, now_ns, decoded.accepted, policy, kept
                )
                with self._quota.charge(request, decoded.accepted):
                    await self._intake.take(Accepted(as_it_came, decoded, wire_bytes))
            else:
                self._ledger.answered(decoded, wire_bytes)
            return self._answers.success(media, decoded, time.perf_counter() - started)

    async def _read(self, request: web.Request, media: Media, encoding: str, lease: Lease) -> bytes:
        """The body as it came, paid for in memory before it is there."""
        announced = min(request.content_length or 0, self._max_wire_bytes)
        lease.set(announced)
        wire_cap = self._max_wire_bytes
        if encoding == IDENTITY:
            wire_cap = min(wire_cap, self._decoder.limits[media].max_bytes)
        wire = await read_body(
            request,
            wire_cap,
            self._body_timeout_s,
            grown=lambda size: lease.set(max(size, announced)),
            min_rate=self._body_min_rate,
        )
        lease.set(len(wire))
        return wire

    def _count(self, request: web.Request, decoded: Decoded) -> None:
        request[ITEMS] = decoded.accepted + sum(decoded.rejected.values())
        self._ledger.received(decoded)
