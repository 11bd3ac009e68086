"""The export methods: one flat list of steps for both signals, as over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import grpc

from chassis.auth.project_credential import QueryCredential
from chassis.errors import ApiError, BadRequest, InternalError
from chassis.http.access import check_project_key
from chassis.http.preparse import Slot
from chassis.limits.rate_limits import RateLimits
from chassis.runtime.telemetry import Telemetry
from gateway.export.parts import ExportParts
from gateway.export.refusals import METRICS_HINT, count_refused, drop_traceback
from gateway.grpc.call import GrpcCall
from gateway.grpc.metrics import GrpcMetrics
from gateway.grpc.receiving import MessageReceiver
from gateway.grpc.status import Context, abort_with, status_code
from gateway.request_context import WIRE_BYTES
from proto.otlp.policy import Signal
from proto.otlp.responses import export_response

TRACES: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS: Final = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
METRICS: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

Handler = Callable[[AsyncIterator[bytes], Context], Awaitable[bytes]]

CANCELLED: Final = "The client has cancelled the request."

_NO_QUERY: Final = QueryCredential()
_OK: Final = "OK"
_OK_STATUS: Final = 200  # of HTTP, for the access log


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportDependencies:
    """What the export methods stand on; `parts`, limits and telemetry are shared with HTTP."""

    parts: ExportParts
    rate_limits: RateLimits
    telemetry: Telemetry
    receiver: MessageReceiver
    metrics: GrpcMetrics


class ExportService:
    """`TraceService/Export` and `LogsService/Export`."""

    def __init__(self, dependencies: ExportDependencies) -> None:
        self._shared, self._parts = dependencies, dependencies.parts
        self._tasks: set[asyncio.Task[bytes | ApiError]] = set()
        dependencies.metrics.in_flight.set_function(lambda: len(self._tasks))

    def handlers(self) -> dict[str, Handler]:
        """The handlers by path, that of metrics included."""
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
        """Run an export in a task of its own: gRPC cancels a handler whose client leaves, and what is in the journal by
        then must be counted and stored like any other request.
        """
        task = asyncio.get_running_loop().create_task(export)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _observed(self, signal: Signal, path: str, call: GrpcCall, context: Context) -> bytes | ApiError:
        """The response, or the error to end the call with; counted and logged once."""
        started = time.perf_counter()
        shared, code, status = self._shared, _OK, _OK_STATUS
        result: bytes | ApiError
        try:
            result = await self._export(signal, call, context, started)
        except ApiError as error:
            result = error
        except asyncio.CancelledError:  # of reading, once the client has left; nothing cancels this task
            result = BadRequest(CANCELLED)
        except Exception:
            shared.telemetry.log.exception("request failed", method="gRPC", path=path, request_id=call.request_id)
            result = InternalError()
        if isinstance(result, ApiError):
            self._count_refused(signal, call, result)
            code, status = status_code(result).name, result.status
        shared.metrics.calls.labels(path, code).inc()
        seconds = time.perf_counter() - started
        remote = shared.rate_limits.client_address(call)
        shared.telemetry.record_request(path, "POST", path, status, seconds, remote, call.request_id)
        return result

    async def _export(self, signal: Signal, call: GrpcCall, context: Context, started: float) -> bytes:
        """Handle one call. The docstring of the package lists these steps in order."""
        shared, parts = self._shared, self._parts
        with self._slot(call) as slot:
            await check_project_key(call, _NO_QUERY, parts.project_keys, shared.rate_limits)
            await parts.steps.admit(call)
            with parts.steps.lease(call) as lease:
                decoded = await parts.steps.ingest(
                    call, signal, "protobuf", *await shared.receiver.receive(context, lease, slot), lease
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
        drop_traceback(error)
        count_refused(self._parts.outcomes, call, signal, error, call.get(WIRE_BYTES) or 0)
        self._parts.refusal_cache.add_for(call.client_key, call, error)

    async def _reject_metrics(self, _messages: AsyncIterator[bytes], context: Context) -> NoReturn:
        """UNIMPLEMENTED with a hint: exporters send metrics here unless they are configured otherwise."""
        self._shared.metrics.calls.labels(METRICS, grpc.StatusCode.UNIMPLEMENTED.name).inc()
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, METRICS_HINT)
