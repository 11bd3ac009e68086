"""The export handler: one flat list of steps for both signals."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import lru_cache, partial
from typing import Final, TypeVar

from aiohttp import web

from chassis.access import PROJECT
from chassis.body import read_body
from chassis.errors import PayloadTooLarge, ServiceUnavailable
from chassis.identity.model import ProjectIdentity
from gateway.answers import ITEMS, WIRE_BYTES, Answers, Undecodable, request_media
from gateway.batches.availability import Availability
from gateway.batches.batcher import Batcher
from gateway.batches.writer import AWAY
from gateway.budget import Budget
from gateway.inflate import IDENTITY, InflateLimits, content_encoding, inflate
from gateway.outcomes import Ledger
from gateway.settings import GatewaySettings
from proto.otlp import json as otlp_json
from proto.otlp.codec import decode, decode_json
from proto.otlp.policy import Decoded, DecodeError, Policy, Signal
from proto.otlp.responses import Media

T = TypeVar("T")

# A hop to a thread and back costs about 0.1 ms of CPU; up to these sizes the work itself is hardly longer.
INLINE_WIRE: Final = 64 * 2**10  # encoded bytes, provided that no more than INLINE_INFLATED come out
INLINE_INFLATED: Final = 2**20
INLINE_DECODE: Final = 512 * 2**10
INLINE_JSON: Final = 64 * 2**10  # this and the next of what the kernel leaves to the reader in Python
SHARED_JSON: Final = 2**20  # larger ones are converted one at a time: that holds the interpreter's lock

# While a JSON body is read there is protobuf besides it, up to about twice as long.
MEMORY_OF: Final[Mapping[Media, int]] = {"protobuf": 1, "json": 3}  # in lengths of the body

POLICIES: Final = 1_024  # kept at once; one per set of additional sensitive words


class Exporter:
    """`POST /v1/traces` and `/v1/logs`. Everything it needs is handed in; it holds no state of its own."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        retention_days: int,
        body_timeout_s: float,
        answers: Answers,
        ledger: Ledger,
        budget: Budget,
        availability: Availability,
        batcher: Batcher,
        threads: Executor,
        clock: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._body_timeout_s = body_timeout_s
        self._answers = answers
        self._ledger = ledger
        self._budget = budget
        self._availability = availability
        self._batcher = batcher
        self._threads = threads
        self._clock = clock
        self._policy: Callable[[tuple[str, ...]], Policy] = lru_cache(POLICIES)(
            partial(settings.policy, retention_days)
        )
        body_limits = InflateLimits(settings.max_body_bytes, settings.max_members, settings.max_window_bytes)
        json_bytes = min(settings.max_json_bytes, settings.max_body_bytes)
        self._limits: Mapping[Media, InflateLimits] = {
            "protobuf": body_limits,
            "json": body_limits._replace(max_bytes=json_bytes),
        }
        self._json_lane = asyncio.Lock()

    async def traces(self, request: web.Request) -> web.Response:
        """Take spans.

        Every item is stored or rejected with a reason, one by one; a 200 means that the accepted ones are stored.
        """
        return await self._export("traces", request)

    async def logs(self, request: web.Request) -> web.Response:
        """Take log records.

        Every item is stored or rejected with a reason, one by one; a 200 means that the accepted ones are stored.
        """
        return await self._export("logs", request)

    async def _export(self, signal: Signal, request: web.Request) -> web.Response:
        """Take one export request. The order of the steps, and what each refuses:

        1. project key (the route's access rule, before this)         401, 403
        2. rate limit of the key, quota of the organization           429   no setting, and so no step, yet
        3. is the store there, is there memory                        503
        4. media type, content encoding                               415
        5. read, at most the wire cap                                 413, 400
        6. inflate, convert JSON, decode                              413, 400
        7. store: wait until the spans or logs are in ClickHouse      503
        """
        project = request[PROJECT]
        if not self._availability.up:
            raise ServiceUnavailable(AWAY)
        with self._budget.lease() as lease:
            announced = min(request.content_length or 0, self._settings.max_wire_bytes)
            lease.set(announced)
            media, encoding = request_media(request), content_encoding(request.headers.getall("Content-Encoding", []))
            limits = self._limits[media]
            wire_cap = self._settings.max_wire_bytes
            if encoding == IDENTITY:
                wire_cap = min(wire_cap, limits.max_bytes)
            wire = await read_body(
                request, wire_cap, self._body_timeout_s, grown=lambda size: lease.set(max(size, announced))
            )
            wire_bytes = request[WIRE_BYTES] = len(wire)
            lease.set(wire_bytes)
            body = await self._inflated(encoding, wire, limits)
            del wire
            lease.set(len(body) * MEMORY_OF[media])
            decoded = await self._decoded(signal, media, body, project)
            del body
            request[ITEMS] = decoded.accepted + sum(decoded.rejected.values())
            self._ledger.received(decoded)
            lease.set(decoded.nbytes, decoded.accepted)
            if decoded.accepted:
                await self._batcher.store(decoded, wire_bytes)
            return self._answers.success(request, media, decoded, wire_bytes)

    async def _inflated(self, encoding: str, wire: bytes, limits: InflateLimits) -> bytes:
        if encoding == IDENTITY:
            return inflate(encoding, wire, limits)
        if len(wire) <= INLINE_WIRE:
            try:
                return inflate(encoding, wire, limits._replace(max_bytes=min(INLINE_INFLATED, limits.max_bytes)))
            except PayloadTooLarge:
                pass  # too large for the event loop; whether for the cap as well, a thread finds out
        return await self._off_loop(inflate, encoding, wire, limits)

    async def _decoded(self, signal: Signal, media: Media, body: bytes, project: ProjectIdentity) -> Decoded:
        policy = self._policy(project.sensitive_words)
        try:
            if media == "json":
                read = await self._sized(decode_json, signal, body, project.project_id, policy, self._clock())
                if read is not None:
                    return read
                body = await self._converted(signal, body, policy)
            return await self._sized(decode, signal, body, project.project_id, policy, self._clock())
        except DecodeError as error:
            raise Undecodable(error) from error

    async def _sized(
        self, function: Callable[..., T], signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int
    ) -> T:
        if len(body) <= INLINE_DECODE:
            return function(signal, body, project_id, policy, now_ns)
        return await self._off_loop(function, signal, body, project_id, policy, now_ns)

    async def _converted(self, signal: Signal, body: bytes, policy: Policy) -> bytes:
        """OTLP/JSON as protobuf, by the slower way: what the kernel left, be it refused or merely unusual."""
        if len(body) <= INLINE_JSON:
            return otlp_json.to_protobuf(signal, body, policy)
        if len(body) <= SHARED_JSON:
            return await self._off_loop(otlp_json.to_protobuf, signal, body, policy)
        async with self._json_lane:
            return await self._off_loop(otlp_json.to_protobuf, signal, body, policy)

    async def _off_loop(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
