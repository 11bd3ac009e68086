"""A service's own telemetry: JSON log lines on standard error, and the metrics behind `/metrics`.

Logs and metrics must not contain secrets. Log values pass `redact`, which masks values by name and by pattern. The
access log has the path without its query. Metrics have route templates, never paths, projects or keys.

`LoopLag` is a timer that measures how late it fires. All work of a process waits for its event loop, so a callback that
takes a second delays every response by a second.
"""

import asyncio
import logging
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Final, TextIO

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from chassis.runtime.health import WorkerMetrics

TICK_S: Final = 0.1
# The maximum covers the current and the previous window, so a scraper sees every peak that is younger than WINDOW_S.
WINDOW_S: Final = 15.0
_LAG_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class LoopLag:
    """Measures the lag while `running`. It uses the system's clock, because a loop's own clock may stand still during a
    callback.
    """

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._worst = self._worst_before = 0.0
        self._due = self._window_end = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.seconds = Histogram(
            "sluice_loop_lag_seconds", "Delay of event-loop timers.", buckets=_LAG_SECONDS, registry=registry
        )
        worst = Gauge(
            "sluice_loop_lag_worst_seconds",
            f"Longest delay of an event-loop timer in the current and the previous period of {WINDOW_S:g} seconds.",
            registry=registry,
        )
        worst.set_function(lambda: max(self._worst, self._worst_before))

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """A cleanup context that measures while the application runs."""
        self._window_end = self._clock() + WINDOW_S
        self._schedule()
        yield
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        self._due = self._clock() + TICK_S
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._on_timer)

    def _on_timer(self) -> None:
        now = self._clock()
        lag = max(0.0, now - self._due)
        self.seconds.observe(lag)
        if now >= self._window_end:
            self._window_end = now + WINDOW_S
            self._worst, self._worst_before = 0.0, self._worst
        self._worst = max(self._worst, lag)
        self._schedule()


MASK: Final = "[redacted]"
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_LOGGED_PATH: Final = 512

_ACCESS_LOGGER: Final = "access"
_SECRET_NAMES: Final = frozenset(
    {
        "access_token",
        "accesstoken",
        "authorization",
        "cookie",
        "dsn",
        "legacy_key",
        "legacykey",
        "password",
        "secret",
        "token",
        "x-legacy-auth",
    }
)
_URL_CREDENTIALS: Final = re.compile(r"://[^\s/@\"']+@")
_LABELLED_SECRET: Final = re.compile(
    r"(legacy_key=|\bpat_|\bscim_|\bwhsec_|\b(?i:bearer|dsn|basic) +)[^\s\"',;]{6,}",
)
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class AccessLogEntry(msgspec.Struct, frozen=True, tag_field="event", tag="request"):
    """One line of the access log. `path` has no query, which may contain credentials."""

    method: str
    path: str
    status: int
    ms: float
    remote: str
    request_id: str
    timestamp: str
    level: str = "info"
    logger: str = _ACCESS_LOGGER


class Telemetry:
    """Metrics of one process, which several services may share, and the logger of the HTTP server code.

    `worker_metrics`: the processes that share the port. `/metrics` of each of them reports the metrics of all.
    """

    def __init__(self, service: str, stream: TextIO | None = None, worker_metrics: WorkerMetrics | None = None) -> None:
        # `_created` series give the creation time of each counter. They would double the number of series without use.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library types half of its functions
        self.registry = CollectorRegistry()
        self._service = service
        self._worker_metrics = worker_metrics
        self.log: structlog.stdlib.BoundLogger = structlog.get_logger(service)
        self._access = logging.getLogger(_ACCESS_LOGGER)
        self._stream = stream if stream is not None else sys.stderr
        self.requests = Counter(
            "sluice_http_requests",
            "Responses, by route template, method and status.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "sluice_http_request_seconds",
            "Time from the request head to the end of the handler.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.connections = Gauge("sluice_http_connections", "Open connections.", registry=self.registry)
        self.refused_connections = Counter(
            "sluice_http_refused_connections", "Connections rejected at the connection limit.", registry=self.registry
        )
        self.expired_connections = Counter(
            "sluice_http_expired_connections",
            "Connections closed by a timeout or evicted, by reason: head (the request head was incomplete), send (the "
            "client did not read the response), idle (evicted at the connection limit).",
            ("phase",),
            registry=self.registry,
        )
        self.head_memory_closed = Counter(
            "sluice_http_head_memory_closed_connections",
            "Connections closed because request heads used too much memory.",
            registry=self.registry,
        )
        self.head_bytes = Gauge(
            "sluice_http_head_bytes",
            "Memory used by request heads that are incomplete, long, or queued behind a request in flight.",
            registry=self.registry,
        )
        self.accept_pauses = Counter(
            "sluice_http_accept_pauses",
            "Times that accepting paused because file descriptors or memory ran out.",
            registry=self.registry,
        )
        self.rate_limited = Counter(
            "sluice_http_rate_limited_requests",
            "Requests rejected by a rate limit, by the name of the limit. The limits api, analysis and channel_test "
            "apply to a principal, approval to a user, otlp to a project key, visitor, failed_bearer and failed_key to "
            "a client address, refresh to a session, failed_code and new_address to an account, failed_login to an "
            "account and a client address together, and login_mail to an account or a client address.",
            ("limit",),
            registry=self.registry,
        )
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # by route, method and status
        self._lag = LoopLag(self.registry)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def record_request(
        self, route: str, method: str, path: str, status: int, seconds: float, remote: str, rid: str
    ) -> None:
        """Count one request and write its line of the access log, without `logging` because this runs for every
        request.
        """
        series = self._series.get((route, method, status))
        if series is None:
            series = self.requests.labels(route, method, str(status)), self.seconds.labels(route)
            self._series[route, method, status] = series
        series[0].inc()
        series[1].observe(seconds)
        if self._access.isEnabledFor(logging.INFO):
            line = AccessLogEntry(
                method=method,
                path=_redact_path(path[:MAX_LOGGED_PATH]),
                status=status,
                ms=round(seconds * 1000, 3),
                remote=remote,
                request_id=rid,
                timestamp=_timestamp(time.time_ns() // 1000),
            )
            self._stream.write(msgspec.json.encode(line).decode() + "\n")

    def set_build_info(self, version: str, decoder: str) -> None:
        """Set `sluice_build_info`: service, version and decoder."""
        build_info = Gauge(
            "sluice_build_info",
            "Always 1. The labels describe the build.",
            ("service", "version", "decoder"),
            registry=self.registry,
        )
        build_info.labels(self._service, version, decoder).set(1)

    def cleanup_contexts(self) -> list[Callable[[web.Application], AsyncIterator[None]]]:
        """The cleanup contexts of the application."""
        if self._worker_metrics is None:
            return [self._lag.running]
        return [self._lag.running, partial(self._worker_metrics.serve, self.exposition)]

    def exposition(self) -> bytes:
        """All metrics of this process in the Prometheus text format 0.0.4."""
        return generate_latest(self.registry)

    async def merged_exposition(self) -> bytes:
        """The metrics of all processes that share the port, in the same format."""
        own = self.exposition()
        return own if self._worker_metrics is None else await self._worker_metrics.collect(own)


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """Send every log line of this process, including lines of libraries, to `stream` (default: standard error) as
    JSON.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        redact,
    ]
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *(processor for processor in shared if not isinstance(processor, structlog.stdlib.ExtraAdder)),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor that masks values by the name of their key, and secrets inside texts."""
    for name, value in event.items():
        if not name.startswith("_"):  # _record and _from_structlog belong to the formatter
            event[name] = MASK if name.lower() in _SECRET_NAMES else _redact_value(value)
    return event


def redact_text(text: str) -> str:
    """Mask credentials in URLs, and tokens that follow a label."""
    return _LABELLED_SECRET.sub(rf"\1{MASK}", _URL_CREDENTIALS.sub(f"://{MASK}@", text))


_redact_path = lru_cache(256)(redact_text)  # few distinct paths, each requested many times


def _timestamp(now_us: int) -> str:
    """Microseconds since 1970 as ISO 8601 in UTC."""
    return f"{_format_second(now_us // 10**6)}.{now_us % 10**6:06}Z"


@lru_cache(4)
def _format_second(now_s: int) -> str:
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _redact_value(value: object) -> object:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {k: MASK if str(k).lower() in _SECRET_NAMES else _redact_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redact_value(part) for part in value]
    return value if value is None or isinstance(value, (bool, int, float)) else redact_text(str(value))
