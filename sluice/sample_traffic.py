"""An hour of a web shop's traffic, up to now, exported by the OpenTelemetry SDK: five services, their errors and log
records, and slow requests that have one cause, so that users can try to find it.

The cause: a release of the payment service waits for connections to its database, on one of its three hosts.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, format_trace_id, set_span_in_context
from opentelemetry.util.types import AttributeValue

from sluice.sample_export import Exports

HOURLY_TRACES: Final = 900
_MILLISECOND: Final = 10**6
_HOUR: Final = 3_600 * 10**9
_ROLLED_OUT: Final = _HOUR * 5 // 12  # time before now at which release 1.4.2 of payment was rolled out
_OLD, _NEW = "1.4.1", "1.4.2"
_SLOW_HOST: Final = "payment-3"
_SERVICES: Final[Mapping[str, Sequence[str]]] = {
    "web": ("2.8.0",),
    "catalog": ("3.1.0",),
    "cart": ("1.9.3",),
    "payment": (_OLD, _NEW),
    "email": ("1.0.7",),
}
_ROUTES: Final = (("GET /", 35), ("GET /products/{id}", 30), ("POST /cart", 13), ("POST /orders", 22))


@dataclass(frozen=True, slots=True)
class SampleTraffic:
    """The number of items that the server accepted."""

    traces: int
    spans: int
    log_records: int


@dataclass(slots=True)
class _Call:
    """A span and the calls in it, before it has a time. Offsets and durations are in milliseconds."""

    service: str
    name: str
    kind: SpanKind
    took: float
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    offset: float = 0.0
    inside: list["_Call"] = field(default_factory=list)
    error: Exception | None = None
    log: str | None = None
    release: str | None = None


def send(url: str, key: str, seed: int | None = None) -> SampleTraffic:
    """Export to `url` with a project key; the same `seed` gives the same requests. Raises StartupError if the server
    does not accept all items.
    """
    draw = Random(seed)  # noqa: S311 - a sample
    now = time.time_ns()
    with ExitStack() as stack:
        exports = stack.enter_context(Exports.to(url, key))
        sending = _Sending(
            {
                (service, release): exports.providers(
                    {"service.name": service, "service.version": release, "deployment.environment.name": "example"}
                )
                for service, releases in _SERVICES.items()
                for release in releases
            }
        )
        for start in sorted(now - int(draw.random() * _HOUR) for _ in range(HOURLY_TRACES)):
            call = _request(draw, is_new=start > now - _ROLLED_OUT)
            if start + call.took * _MILLISECOND < now:
                sending.emit(call, start)
    return SampleTraffic(sending.traces, sending.spans, sending.log_records)


class _Sending:
    def __init__(self, providers: Mapping[tuple[str, str], tuple[TracerProvider, LoggerProvider]]) -> None:
        self._providers = providers
        self.traces = self.spans = self.log_records = 0

    def emit(self, call: _Call, start: int, parent: Span | None = None) -> str:
        """Emit the spans and log records of a request that starts at `start`, in nanoseconds; the trace id."""
        release = call.release or _SERVICES[call.service][0]
        tracers, loggers = self._providers[call.service, release]
        span = tracers.get_tracer("sluice.send").start_span(
            call.name,
            context=None if parent is None else set_span_in_context(parent),
            kind=call.kind,
            start_time=start,
            attributes=call.attributes,
        )
        end = start + int(call.took * _MILLISECOND)
        for inner in call.inside:
            self.emit(inner, start + int(inner.offset * _MILLISECOND), span)
        if call.error is not None:
            with _raised(call.error) as error:
                span.record_exception(error, timestamp=end)
            span.set_status(Status(StatusCode.ERROR, str(call.error)))
        if call.log is not None:
            self.log_records += 1
            loggers.get_logger("sluice.send").emit(
                LogRecord(
                    timestamp=end,
                    context=set_span_in_context(span),
                    severity_number=SeverityNumber.INFO if call.error is None else SeverityNumber.ERROR,
                    severity_text="INFO" if call.error is None else "ERROR",
                    body=call.log,
                )
            )
        span.end(end)
        self.spans += 1
        self.traces += parent is None
        return format_trace_id(span.get_span_context().trace_id)


@contextmanager
def _raised(error: Exception) -> Iterator[Exception]:
    """The error with a stack trace, as in a real application."""
    try:
        raise error
    except type(error) as caught:
        yield caught


def _request(draw: Random, *, is_new: bool) -> _Call:
    """A request of a browser to the shop; `is_new`: after the release of payment."""
    route = draw.choices([route for route, _ in _ROUTES], [weight for _, weight in _ROUTES])[0]
    method = route.split()[0]
    tenant = draw.choice(("north", "south", "west"))
    root = _Call(
        "web",
        route,
        SpanKind.SERVER,
        took=draw.lognormvariate(2.2, 0.5),
        attributes={"http.request.method": method, "http.route": route.split()[1], "shop.region": tenant},
    )
    if route != "POST /orders":
        service = "cart" if method == "POST" else "catalog"
        _append(root, _call(draw, service, method, f"/{service}", _query(draw, service, 1.2)))
    else:
        _append(root, _call(draw, "cart", "GET", "/cart", _query(draw, "cart", 0.9)))
        payment = _payment(draw, is_new=is_new)
        _append(root, payment)
        if payment.error is not None:
            root.error = RuntimeError("the order was not paid")
        else:
            mail = _Call(
                "email", "process order.placed", SpanKind.CONSUMER, draw.lognormvariate(3, 0.4), log="mail sent"
            )
            sent = _Call("web", "send order.placed", SpanKind.PRODUCER, took=1.5, offset=root.took, inside=[mail])
            mail.offset = draw.uniform(5, 40)  # after the end of its parent, because it was in a queue
            root.inside.append(sent)
            root.took += sent.took
    root.attributes["http.response.status_code"] = 502 if root.error is not None else 200
    return root


def _payment(draw: Random, *, is_new: bool) -> _Call:
    host = draw.choice(("payment-1", "payment-2", _SLOW_HOST))
    release = _NEW if is_new and host == _SLOW_HOST else _OLD
    database = _query(draw, "payment", 1.5)
    charge = _call(draw, "payment", "POST", "/charges", database)
    called = charge.inside[0]
    called.release = release
    called.attributes |= {"host.name": host, "db.pool.size": 2 if release == _NEW else 20}
    database.release = release
    if release == _NEW:
        waited = draw.lognormvariate(6.6, 0.35)
        pool = _Call(
            "payment", "acquire connection", SpanKind.INTERNAL, waited, {"db.pool.waiting": draw.randint(8, 30)}, 2.0
        )
        pool.release = release
        called.inside.insert(0, pool)
        for call in (called, charge):
            call.took += waited + 2
        database.offset += waited + 2
        called.log = f"waited {waited:.0f} ms for a connection"
        if waited > 1_100:
            called.error = charge.error = TimeoutError("no connection to the database within 1100 ms")
    return charge


def _call(draw: Random, service: str, method: str, route: str, inner: _Call) -> _Call:
    """A call of `web` to another service: the spans of both sides."""
    inner.offset = draw.uniform(0.3, 1.5)
    server = _Call(
        service,
        f"{method} {route}",
        SpanKind.SERVER,
        inner.offset + inner.took + draw.uniform(0.3, 2),
        {"http.request.method": method, "http.route": route, "http.response.status_code": 200},
        draw.uniform(0.2, 0.8),
        [inner],
    )
    took = server.offset + server.took + draw.uniform(0.2, 0.8)
    return _Call("web", f"{method} {route}", SpanKind.CLIENT, took, {"server.address": service}, inside=[server])


def _query(draw: Random, service: str, size: float) -> _Call:
    cached = draw.random() < 0.6
    name, took = ("GET", 0.4) if cached else (f"SELECT {service}", draw.lognormvariate(size, 0.6))
    system = "redis" if cached else "postgresql"
    return _Call(service, name, SpanKind.CLIENT, took, {"db.system.name": system})


def _append(root: _Call, call: _Call) -> None:
    """Append the next call of a request."""
    call.offset = root.took
    root.inside.append(call)
    root.took += call.took
