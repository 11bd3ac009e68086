"""The steps of one export request that are the same for every protocol. HTTP (`gateway.http`) and gRPC (`gateway.grpc`)
authenticate the request, read its body and render the result. The steps between are here:

    ExportSteps.admit             before the body is read: quota, and whether ingest accepts requests
    ExportSteps.reserve_memory    reserves memory of the budget for the request
    ExportSteps.ingest            decompresses, decodes, reserves the quota, submits
      Decoder.decompress, decode  columns and outcomes, in a thread if the body is large
      find_field_errors           for a malformed JSON body, one issue per field
    count_refused                 counts a request that ends with an error
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, TypeVar

import msgspec

from chassis.errors import ApiError, Issue, PayloadTooLarge
from chassis.http.access import PROJECT, ProjectKeyCheck
from chassis.http.validation import Issues, decode_json
from chassis.limits.rate_limits import ClientRequest
from gateway.admission.budgets import (
    SMALL_BYTES,
    LargeResourceBudget,
    MemoryBudget,
    MemoryReservation,
    with_small_resource_limits,
)
from gateway.admission.concurrency import OVERLOADED, Overloaded
from gateway.admission.quota import Quota
from gateway.admission.refusal_cache import RefusalCache
from gateway.decompression import IDENTITY, DecompressionLimits, decompress
from gateway.ingest.lanes import AcceptedRequest, Ingest
from gateway.journal import JournaledRequest
from gateway.metrics import ITEMS, NO_PROJECT, WIRE_BYTES, OutcomeCounters
from gateway.settings import GatewaySettings
from proto.errors import ErrorCode
from proto.otlp.codec import (
    KERNEL,
    PythonReadLimit,
    decode,
    decode_json_in_python,
    decode_json_within,
    estimate_json_memory,
)
from proto.otlp.json import FieldError
from proto.otlp.json.messages import FullLogsRequest, FullTracesRequest
from proto.otlp.policy import DecodedPayload, DecodeError, Policy, RequestRejection, Signal
from proto.otlp.responses import Media

_BAD_REQUEST_REASONS: Final = frozenset((RequestRejection.MALFORMED, RequestRejection.TOO_DEEP))
METRICS_HINT: Final = (
    "Metrics are not supported. Set OTEL_METRICS_EXPORTER=none, or remove this exporter from the metrics pipelines "
    "of your Collector."
)


class DecodeRejected(ApiError):
    """The decoder refuses the request: 400 if it is malformed, 413 if it exceeds a limit."""

    def __init__(self, error: DecodeError, details: list[Issue] | None = None) -> None:
        """`details`: one issue per wrong field, if any."""
        code = ErrorCode.BAD_REQUEST if error.reason in _BAD_REQUEST_REASONS else ErrorCode.PAYLOAD_TOO_LARGE
        super().__init__(code, error.message, details=details, close=code is ErrorCode.PAYLOAD_TOO_LARGE)
        self.reason = error.reason


def count_refused(
    outcomes: OutcomeCounters, request: ClientRequest, signal: Signal, error: ApiError, wire_bytes: int
) -> None:
    """Count a request that ends with `error`. `wire_bytes`: received bytes of its body. Removes the traceback of the
    error: its frames hold the body and columns until the next garbage collection.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    reason = OVERLOADED if isinstance(error, Overloaded) else error.code.value
    if isinstance(error, DecodeRejected):
        reason = error.reason.value
    project = request.get(PROJECT)
    project_id = project.project_id if project is not None else NO_PROJECT
    outcomes.refused(signal, reason, project_id, wire_bytes, request.get(ITEMS) or 0)


# For larger bodies only the first error is reported: finding all errors takes several times as long.
MAX_CHECKED_BYTES: Final = 64 * 2**10

_SHAPES: Final[Mapping[Signal, type[msgspec.Struct]]] = {"traces": FullTracesRequest, "logs": FullLogsRequest}


def find_field_errors(signal: Signal, body: bytes, first: FieldError) -> list[Issue]:
    """One issue per wrong field, up to the maximum of a response; includes `first`, even if it is no type error."""
    issues = Issues()
    if len(body) <= MAX_CHECKED_BYTES:
        decode_json(_SHAPES[signal], body, "", issues, unique_keys=False)  # in OTLP the last of equal keys counts
    found = [msgspec.structs.replace(issue, path=issue.path.removeprefix(".")) for issue in issues]
    if any(issue.path == first.path for issue in found):
        return found
    return [Issue(first.path, first.fault, first.reason.value), *found]


T = TypeVar("T")
DecodeAttempt = tuple[AbstractAsyncContextManager[None], PythonReadLimit]

# A switch to a thread and back costs about 0.1 ms of CPU. Up to these sizes the work itself takes about as long.
INLINE_WIRE: Final = 64 * 2**10  # encoded bytes, if they decompress to at most INLINE_INFLATED
INLINE_INFLATED: Final = 2**20
INLINE_DECODE: Final = 512 * 2**10
INLINE_COUNT: Final = 2 * 2**20
# Limits on items that the Python parser reads instead of the kernel.
INLINE_JSON: Final = PythonReadLimit(64 * 2**10, 64 * 2**10)
FEW_ITEMS: Final = PythonReadLimit(2**20, 64 * 2**10)  # the same limits in a thread that other requests wait for
# Python parses at most this much of one body if there is a kernel: it takes seconds.
MOST_PYTHON_BYTES: Final = 8 * 2**20
# The limits in a thread that other requests do not wait for.
MANY_ITEMS: Final = PythonReadLimit(MOST_PYTHON_BYTES, 2**20)
LARGE_JSON_BYTES: Final = 2**20  # larger bodies are parsed in Python one at a time, because that holds the GIL

_IRREGULAR: Final = (
    f"The body is larger than {MOST_PYTHON_BYTES // 2**20} MiB, and too much of it is invalid or unusual JSON, which "
    f"is slow to read. Send field names in lowerCamelCase, each field only once, and values of the types that OTLP "
    f"specifies. You can also send smaller batches, or protobuf."
)

POLICY_CACHE_SIZE: Final = 1_024  # policies: one for each combination of additional sensitive words and exempt keys


class Decoder:
    """Decompresses and decodes bodies within the limits of the settings."""

    def __init__(self, settings: GatewaySettings, retention_days: int, threads: Executor) -> None:
        self._threads = threads
        self.policy: Callable[[tuple[str, ...], tuple[str, ...]], Policy] = lru_cache(POLICY_CACHE_SIZE)(
            partial(settings.policy, retention_days)
        )
        body_limits = DecompressionLimits(settings.max_body_bytes, settings.max_members, settings.max_window_bytes)
        json_bytes = min(settings.max_json_bytes, settings.max_body_bytes)
        self.limits: Mapping[Media, DecompressionLimits] = {
            "protobuf": body_limits,
            "json": body_limits._replace(max_bytes=json_bytes),
        }
        self._json_lock = asyncio.Lock()  # JSON that the kernel parses in a thread
        self._python_json_lock = asyncio.Lock()  # large JSON that Python parses, in whole or in part

    async def decompress(self, encoding: str, wire: bytes, limits: DecompressionLimits) -> bytes:
        """Decompress a body; raises the errors of `gateway.decompression.decompress`."""
        if encoding == IDENTITY:
            return decompress(encoding, wire, limits)
        if len(wire) <= INLINE_WIRE:
            try:
                return decompress(encoding, wire, limits._replace(max_bytes=min(INLINE_INFLATED, limits.max_bytes)))
            except PayloadTooLarge:
                pass  # too large for the event loop; a thread checks it against the cap
        return await self._off_loop(decompress, encoding, wire, limits)

    async def decode(
        self,
        signal: Signal,
        media: Media,
        body: bytes,
        project_id: int,
        policy: Policy,
        now_ns: int,
        memory: MemoryReservation,
    ) -> DecodedPayload:
        """Columns and outcomes of a decompressed body. Raises DecodeRejected when the request is refused, and
        ServiceUnavailable when there is no memory to parse it. `memory` must hold the body already.
        """
        try:
            if media == "json":
                return await self._decode_json(memory, signal, body, project_id, policy, now_ns)
            if len(body) <= INLINE_DECODE:
                return decode(signal, body, project_id, policy, now_ns)
            return await self._off_loop(decode, signal, body, project_id, policy, now_ns)
        except FieldError as error:
            raise DecodeRejected(error, find_field_errors(signal, body, error)) from error
        except DecodeError as error:
            raise DecodeRejected(error) from error

    async def _decode_json(
        self, memory: MemoryReservation, signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int
    ) -> DecodedPayload:
        """Decode with the kernel; invalid and unusual items are parsed in Python, one at a time. If a body is invalid
        or unusual outside of its items, or in a very large item, the whole body is parsed in Python. Raises DecodeError
        if Python would have to parse more than MOST_PYTHON_BYTES and there is a kernel.

        Large bodies are parsed in a thread, one at a time, and their memory is reserved. Bodies with few items for
        Python do not wait for bodies with many.
        """
        request = (signal, body, project_id, policy, now_ns)
        python_lock: AbstractAsyncContextManager[None] = (
            self._python_json_lock if len(body) > LARGE_JSON_BYTES else nullcontext()
        )
        few: tuple[DecodeAttempt, ...] = ((self._json_lock, FEW_ITEMS),)
        if len(body) <= INLINE_DECODE:
            # No other body is parsed meanwhile, so no memory is reserved.
            decoded = decode_json_within(INLINE_JSON, *request)
            if decoded is not None:
                return decoded
            few = ()
        for lock, python_limit in (*few, (python_lock, MANY_ITEMS)) if KERNEL else ():
            async with lock:
                with memory.reading(await self._estimate_memory(body, policy, python_limit)):
                    decoded = await self._off_loop(decode_json_within, python_limit, *request)
            if decoded is not None:
                return decoded
        if KERNEL and len(body) > MOST_PYTHON_BYTES:
            raise DecodeError(RequestRejection.IRREGULAR_JSON, _IRREGULAR)
        async with python_lock:
            with memory.reading(await self._estimate_memory(body, policy, None)):
                return await self._off_loop(decode_json_in_python, *request)

    async def _estimate_memory(self, body: bytes, policy: Policy, python_limit: PythonReadLimit | None) -> int:
        """Bytes of memory to parse a JSON body. Up to INLINE_COUNT the kernel counts it faster than a thread switch."""
        if KERNEL and len(body) <= INLINE_COUNT:
            return estimate_json_memory(body, policy, python_limit)
        return await self._off_loop(estimate_json_memory, body, policy, python_limit)

    async def _off_loop(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments))


class ExportSteps:
    """All dependencies are passed in; it holds no state of its own."""

    def __init__(
        self,
        *,
        outcomes: OutcomeCounters,
        quota: Quota,
        budget: MemoryBudget,
        decoder: Decoder,
        ingest: Ingest,
        large_resources: LargeResourceBudget,
        clock: Callable[[], int],
    ) -> None:
        self._outcomes = outcomes
        self._quota = quota
        self._budget = budget
        self.decoder = decoder
        self._ingest = ingest
        self._large_resources = large_resources
        self._clock = clock

    async def admit(self, request: ClientRequest) -> None:
        """Before the body is read: raises QuotaExceeded if nothing is left of the organization's month, and
        ServiceUnavailable while no request can be taken.
        """
        await self._quota.admit(request)
        self._ingest.admit()

    def reserve_memory(self, request: ClientRequest) -> MemoryReservation:
        """The request's reservation in the memory budget; empty until its size is set."""
        return self._budget.reserve(request[PROJECT].project_id)

    async def ingest(
        self,
        request: ClientRequest,
        signal: Signal,
        media: Media,
        encoding: str,
        wire: bytes,
        memory: MemoryReservation,
    ) -> DecodedPayload:
        """Ingest the items of the body `wire`; returns when everything that a success promises is done. Raises
        ApiError.

        The caller must pass its only reference to `wire`, so that its memory is freed as soon as it is decompressed.
        """
        project = request[PROJECT]
        wire_bytes = request[WIRE_BYTES] = len(wire)
        body = await self.decoder.decompress(encoding, wire, self.decoder.limits[media])
        raw_body = wire if self._ingest.needs_raw_body else b""
        del wire
        memory.set((len(raw_body) if raw_body is not body else 0) + len(body))
        policy, now_ns = self.decoder.policy(project.sensitive_words, project.exempt_keys), self._clock()
        decoded = await self.decoder.decode(signal, media, body, project.project_id, policy, now_ns, memory)
        if not self._large_resources.admit(project.project_id, decoded.days, decoded.large_origins(SMALL_BYTES)):
            del decoded  # frees its memory before the second decode
            # The journal stores the policy, so a replay drops the same attributes.
            policy = with_small_resource_limits(policy)
            decoded = await self.decoder.decode(signal, media, body, project.project_id, policy, now_ns, memory)
        del body
        self._count_received(request, decoded)
        memory.set(len(raw_body) + decoded.nbytes, decoded.accepted)
        if decoded.accepted:
            journaled = JournaledRequest(
                project.project_id, signal, media, encoding, now_ns, decoded.accepted, policy, raw_body
            )
            with self._quota.reserve(request, decoded.accepted):
                await self._ingest.submit(AcceptedRequest(journaled, decoded, wire_bytes))
        else:
            self._outcomes.answered(decoded, wire_bytes)
        return decoded

    def _count_received(self, request: ClientRequest, decoded: DecodedPayload) -> None:
        request[ITEMS] = decoded.accepted + sum(decoded.rejected.values())
        self._outcomes.received(decoded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportParts:
    """The steps of an export, with their telemetry, the early refusals, and the guard of project keys."""

    steps: ExportSteps
    outcomes: OutcomeCounters
    refusal_cache: RefusalCache
    project_keys: ProjectKeyCheck
