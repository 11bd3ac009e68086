"""How far issues are behind a steady stream of errors."""

import os
import statistics
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.processes import cpu_s, pid_of
from benchmarks.report import Table
from tests.e2e.product import Sluice, running
from tests.faults.deployment import metric

EXPORTS: Final = 10  # a second
POLL_S: Final = 0.1
_IDLE_S: Final = 5.0
STACK_TRACE: Final = "Traceback (most recent call last):\n" + "".join(
    f'  File "/app/shop/module_{number}.py", line {number}, in function_{number}\n    call()\n' for number in range(30)
)


def measure_lag(directory: Path, rate: int, seconds: int, errors: int) -> None:
    """Offer errors for a time, and print the times from the answer until they were counted."""
    sluice = running(directory / "data", directory / "log", SLUICE_API_RATE="0", SLUICE_LOG_LEVEL="warning")
    try:
        pid = pid_of(sluice.writer)
        idle = cpu_s(pid)
        time.sleep(_IDLE_S)
        idle = (cpu_s(pid) - idle) / _IDLE_S
        acknowledged: list[tuple[float, int]] = []  # when, and how many in all
        sender = threading.Thread(target=_send, args=(sluice, rate, seconds, errors, acknowledged))
        cpu, begun = cpu_s(pid), time.monotonic()
        sender.start()
        counted: list[tuple[float, int]] = []
        while sender.is_alive() or not counted or counted[-1][1] < acknowledged[-1][1]:
            counted.append((time.monotonic(), _counted(sluice)))
            time.sleep(POLL_S)
            if time.monotonic() - begun > seconds + 60:
                raise SystemExit(f"not counted within a minute: {acknowledged[-1:]} {counted[-1:]}")
        cpu = cpu_s(pid) - cpu
        lags = _lags(acknowledged, counted)
        total = acknowledged[-1][1]
        columns = {f"lag, {errors} errors for {seconds} s": "", "counted after, median, longest s": ".2f"}
        table = Table({**columns, "CPU us of the whole product": ".0f", "cores when idle": ".3f"})
        times = statistics.median(lags), max(lags)
        table.row(f"{total / seconds:.0f} errors/s, polled every {POLL_S:g} s", times, cpu / total * 1e6, idle)
        sluice.stop()
    finally:
        sluice.kill()


def _lags(acknowledged: Sequence[tuple[float, int]], counted: Sequence[tuple[float, int]]) -> list[float]:
    """Of each export, the time until so many were counted."""
    lags, at = [], 0
    for when, number in acknowledged:
        while counted[at][1] < number:
            at += 1
        lags.append(max(0.0, counted[at][0] - when))
    return lags


def _send(sluice: Sluice, rate: int, seconds: int, errors: int, acknowledged: list[tuple[float, int]]) -> None:
    number, begun = 0, time.monotonic()
    for export in range(seconds * EXPORTS):
        time.sleep(max(0.0, begun + export / EXPORTS - time.monotonic()))
        body = _body(range(number, number + rate // EXPORTS), errors)
        if sluice.export("traces", body).status == 200:
            number += rate // EXPORTS
            acknowledged.append((time.monotonic(), number))


def _body(numbers: range, errors: int) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add()
    scope.resource.attributes.add(key="service.version").value.string_value = "1.0.0"
    spans = scope.scope_spans.add().spans
    now = time.time_ns()
    for number in numbers:
        span = spans.add(trace_id=os.urandom(16), span_id=os.urandom(8), name="charge")
        span.start_time_unix_nano, span.end_time_unix_nano = now, now + 1_000
        event = span.events.add(name="exception", time_unix_nano=now)
        event.attributes.add(key="exception.type").value.string_value = f"Error{number % errors}"
        event.attributes.add(key="exception.message").value.string_value = "card declined"
        event.attributes.add(key="exception.stacktrace").value.string_value = STACK_TRACE
    return request.SerializeToString()


def _counted(sluice: Sluice) -> int:
    """Occurrences that were counted, in an issue or as untracked."""
    return int(metric(sluice.control_url, "sluice_issue_occurrences_total"))
