"""The export methods: one flat list of steps for both signals, as over HTTP.

A message is received within a time, and within the memory budget (`MessageReceiver`). The core buffers the message
until it is complete, and does not report how much of it has arrived. So the memory charged for a message changes: first
the flow-control window, which the client may fill before the message is read; after GRACE_S without a complete message,
the size of the largest message; once the message is complete, its size.

Errors become gRPC statuses (https://opentelemetry.io/docs/specs/otlp/#failures). The code is the same as in the
google.rpc.Status over HTTP (`proto.otlp.responses`): both protocols use one table. Clients retry UNAVAILABLE, and
RESOURCE_EXHAUSTED if it has a RetryInfo. Bad data never gets a status that clients retry.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeAlias

import grpc
from aiohttp import web
from grpc import aio
from multidict import CIMultiDict

from chassis.auth.project_credential import QueryCredential, client_key
from chassis.errors import ApiError, BadRequest, InternalError, ServiceUnavailable
from chassis.http.access import check_project_key
from chassis.http.preparse import Slot
from chassis.http.request_ids import resolve_request_id
from chassis.limits.rate_limits import RateLimits, limit_headers
from chassis.runtime.telemetry import Telemetry
from gateway.admission.budgets import MemoryReservation
from gateway.decompression import IDENTITY
from gateway.export import METRICS_HINT, ExportParts, count_refused
from gateway.grpc.connections import WINDOW_BYTES, GrpcMetrics, peer_address
from gateway.metrics import WIRE_BYTES
from proto.otlp.policy import Signal
from proto.otlp.responses import Violation, export_response, rpc_code, status_protobuf


class GrpcCall(dict[web.RequestKey[Any], Any]):
    """Peer and metadata of a call, and the values that steps store for later ones (`ClientRequest`)."""

    __slots__ = ("client_key", "headers", "remote", "request_id")

    def __init__(self, peer: str, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """`peer` is the core's name of the client. Binary metadata (`-bin`) is ignored."""
        super().__init__()
        self.remote = peer_address(peer)
        texts = [(name, value) for name, value in metadata if isinstance(value, str)]
        self.headers: CIMultiDict[str] = CIMultiDict(texts)
        self.client_key = client_key(self.headers.get("x-legacy-auth"), self.headers.get("authorization"), "")
        self.request_id = resolve_request_id(self.headers.get("x-request-id", ""))


Context: TypeAlias = "aio.ServicerContext[bytes, bytes]"

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


def status_code(error: ApiError) -> grpc.StatusCode:
    """The code of an error."""
    return _CODES[rpc_code(error.status)]


async def abort_with(context: Context, error: ApiError, call: GrpcCall) -> NoReturn:
    """End the call with the status of `error`. The trailing metadata has the google.rpc.Status, with RetryInfo where a
    retry may succeed and BadRequest where fields are wrong, the request id, and the state of the rate limit.
    """
    violations = [Violation(issue.path, issue.message) for issue in error.details or ()]
    status = status_protobuf(error.status, error.message, violations, retry_after_s=error.retry_after)
    metadata: tuple[tuple[str, str | bytes], ...] = (
        ("grpc-status-details-bin", status),
        ("x-request-id", call.request_id),
        *limit_headers(call).items(),
    )
    await context.abort(status_code(error), error.message, metadata)


GRACE_S: Final = 0.25
TOO_SLOW: Final = "The message was not received in time."
ENDED: Final = "The call has ended."  # the server has stopped or the client has left, so no client reads this
_GZIP_MAGIC: Final = b"\x1f\x8b"


class MessageReceiver:
    """Messages of at most `max_bytes`, which the core enforces, within `timeout_s`."""

    def __init__(self, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def receive(self, context: Context, memory: MemoryReservation, slot: Slot) -> tuple[str, bytes]:
        """The encoding of the message, and the message as the client compressed it. `memory` then holds its size, and
        `slot` measures latency from then on.

        Raises BadRequest unless the stream has exactly one message, ServiceUnavailable when it does not end in time or
        the budget is used up.
        """
        memory.set(WINDOW_BYTES)
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                message = await self._read(context, memory, limit, held=0)
                if message is None:
                    raise BadRequest("The request has no message, or the client has cancelled the request.")
                memory.set(len(message))
                if await self._read(context, memory, limit, held=len(message)) is not None:
                    raise BadRequest("The request has more than one message.")
        except TimeoutError as error:
            raise ServiceUnavailable(TOO_SLOW) from error
        except aio.BaseError as error:
            raise ServiceUnavailable(ENDED) from error
        memory.set(len(message))
        slot.on_body_received()
        return message_encoding(message), message

    async def _read(
        self, context: Context, memory: MemoryReservation, limit: asyncio.Timeout, *, held: int
    ) -> bytes | None:
        """The next message; None at the end of the stream. `held`: bytes of the earlier message that stay reserved."""
        with _charged_when_slow(memory, held + self._max_bytes, limit):
            message: bytes | object = await context.read()
        return message if isinstance(message, bytes) else None  # the object is grpc.aio.EOF


@contextmanager
def _charged_when_slow(memory: MemoryReservation, nbytes: int, limit: asyncio.Timeout) -> Iterator[None]:
    """Charge `nbytes` if the block takes longer than GRACE_S. If the budget has too little left, `limit` expires and
    the block raises ServiceUnavailable.
    """
    refusals: list[ServiceUnavailable] = []
    loop = asyncio.get_running_loop()

    def charge() -> None:
        try:
            memory.set(nbytes)
        except ServiceUnavailable as error:
            refusals.append(error)
            limit.reschedule(loop.time())

    timer = loop.call_later(GRACE_S, charge)
    try:
        yield
    except asyncio.CancelledError:
        if refusals:
            raise refusals[0] from None
        raise
    finally:
        timer.cancel()


def message_encoding(message: bytes) -> str:
    """`gzip` or `identity`. A client may leave single messages uncompressed, and gRPC does not report which ones. The
    first byte distinguishes them: the first byte of gzip is no valid protobuf tag, because its wire type (7) does not
    exist.
    """
    return "gzip" if message.startswith(_GZIP_MAGIC) else IDENTITY


TRACES: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS: Final = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
METRICS: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

Handler = Callable[[AsyncIterator[bytes], Context], Awaitable[bytes]]

CANCELLED: Final = "The client has cancelled the request."

_NO_QUERY: Final = QueryCredential()
_OK: Final = "OK"
_OK_STATUS: Final = 200  # of HTTP, for the access log


class ExportService:
    """`TraceService/Export` and `LogsService/Export`."""

    def __init__(
        self,
        parts: ExportParts,
        rate_limits: RateLimits,
        telemetry: Telemetry,
        receiver: MessageReceiver,
        metrics: GrpcMetrics,
    ) -> None:
        """`parts`, limits and telemetry are shared with HTTP."""
        self._parts = parts
        self._rate_limits = rate_limits
        self._telemetry = telemetry
        self._receiver = receiver
        self._metrics = metrics
        self._tasks: set[asyncio.Task[bytes | ApiError]] = set()
        metrics.in_flight.set_function(lambda: len(self._tasks))

    def handlers(self) -> dict[str, Handler]:
        """The handlers by path, including the handler that refuses metrics."""
        return {
            TRACES: self._handler("traces", TRACES),
            LOGS: self._handler("logs", LOGS),
            METRICS: self._reject_metrics,
        }

    async def finish(self) -> None:
        """Wait for exports whose clients have left."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _handler(self, signal: Signal, path: str) -> Handler:
        async def handle(_messages: AsyncIterator[bytes], context: Context) -> bytes:
            call = GrpcCall(context.peer(), context.invocation_metadata() or ())
            refusal = self._parts.refusal_cache.cached_error(call.client_key, signal)
            result = refusal or await self._run(self._observed(signal, path, call, context))
            return result if isinstance(result, bytes) else await abort_with(context, result, call)

        return handle

    async def _run(self, export: Coroutine[Any, Any, bytes | ApiError]) -> bytes | ApiError:
        """Run an export in a task of its own: gRPC cancels a handler when its client leaves, but a request that is
        already in the journal must be counted and stored like any other.
        """
        task = asyncio.get_running_loop().create_task(export)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _observed(self, signal: Signal, path: str, call: GrpcCall, context: Context) -> bytes | ApiError:
        """The response, or the error to end the call with; counted and logged once."""
        started = time.perf_counter()
        code, status = _OK, _OK_STATUS
        result: bytes | ApiError
        try:
            result = await self._export(signal, call, context, started)
        except ApiError as error:
            result = error
        # Reading was cancelled because the client has left; this task itself is never cancelled.
        except asyncio.CancelledError:
            result = BadRequest(CANCELLED)
        except Exception:
            self._telemetry.log.exception("request failed", method="gRPC", path=path, request_id=call.request_id)
            result = InternalError()
        if isinstance(result, ApiError):
            self._count_refused(signal, call, result)
            code, status = status_code(result).name, result.status
        self._metrics.calls.labels(path, code).inc()
        seconds = time.perf_counter() - started
        remote = self._rate_limits.client_address(call)
        self._telemetry.record_request(path, "POST", path, status, seconds, remote, call.request_id)
        return result

    async def _export(self, signal: Signal, call: GrpcCall, context: Context, started: float) -> bytes:
        """Handle one call. The docstring of the package lists these steps in order."""
        parts = self._parts
        with self._slot(call) as slot:
            await check_project_key(call, _NO_QUERY, parts.project_keys, self._rate_limits)
            await parts.steps.admit(call)
            with parts.steps.reserve_memory(call) as memory:
                decoded = await parts.steps.ingest(
                    call, signal, "protobuf", *await self._receiver.receive(context, memory, slot), memory
                )
                parts.outcomes.observe_latency(signal, time.perf_counter() - started)
                return export_response(signal, "protobuf", decoded.rejected, decoded.first_fault, decoded.warnings)

    @contextmanager
    def _slot(self, call: GrpcCall) -> Iterator[Slot]:
        """The slot of the call while the block runs. Raises ServiceUnavailable when there is none."""
        slot = self._parts.refusal_cache.try_acquire(call.client_key)
        if slot is None:
            raise self._parts.refusal_cache.overload_error()
        succeeded = False
        try:
            yield slot
            succeeded = True
        finally:
            slot.release(succeeded=succeeded)

    def _count_refused(self, signal: Signal, call: GrpcCall, error: ApiError) -> None:
        count_refused(self._parts.outcomes, call, signal, error, call.get(WIRE_BYTES) or 0)
        self._parts.refusal_cache.add_for(call.client_key, call, error)

    async def _reject_metrics(self, _messages: AsyncIterator[bytes], context: Context) -> NoReturn:
        """UNIMPLEMENTED with a hint: exporters send metrics here unless they are configured otherwise."""
        self._metrics.calls.labels(METRICS, grpc.StatusCode.UNIMPLEMENTED.name).inc()
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, METRICS_HINT)
