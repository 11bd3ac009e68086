"""ClickHouse goes away and comes back, and clients lose and double nothing: none of them is refused, or, in the mode
`store`, their own retries see to it.
"""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import clickhouse_connect
import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.logging.handler import LoggingHandler
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.e2e.agents import export_javascript, forwarding, key_header, rotel
from tests.e2e.product import Answer, Sluice, call, eventually, running_apart
from tests.e2e.reading import logs_of, spans_of
from tests.engine.process import Engine

ITEMS = 400  # less than a batch of the SDKs: one request for each signal
# Clients give up after ten seconds by default. Starting ClickHouse again may take as long on a busy machine; the waits
# that the gateway asks for may not.
PATIENCE_S = 40
LONGEST_WAIT_S = 5
DATABASE = "outage"


class Served(NamedTuple):
    """Sluice on a ClickHouse server that a test may stop."""

    sluice: Sluice
    engine: Engine

    def occurrences(self, trace_id: str) -> list[tuple[Any, ...]]:
        """The exceptions of a trace, as they are stored."""
        client = clickhouse_connect.get_client(dsn=self.engine.url, database=DATABASE, autogenerate_session_id=False)
        statement = """SELECT source, type, message, service_name FROM error_occurrences
                       WHERE trace_id = unhex({trace_id:String}) ORDER BY time, source DESC"""
        rows = client.query(statement, parameters={"trace_id": trace_id}).result_rows
        client.close()
        return [tuple(row) for row in rows]

    def refused(self) -> dict[str, int]:
        """Requests answered 503 until now, by signal."""
        return counted(self.sluice, 'requests_total{outcome="refused",reason="service_unavailable"')


def counted(sluice: Sluice, opening: str) -> dict[str, int]:
    """A counter of the gateway, by signal; `opening` is how its lines begin."""
    metrics = call("GET", f"{sluice.base_url}/metrics").body.decode()
    found = re.findall(rf'^{re.escape(f"sluice_gateway_{opening}")},signal="(\w+)"\}} (\S+)$', metrics, re.MULTILINE)
    return {"traces": 0, "logs": 0} | {signal: int(float(count)) for signal, count in found}


class Sent(NamedTuple):
    """What a client sent: traces with their numbers of spans and log records, and where which exception was raised. And
    how many seconds it says that it waited before each retry.
    """

    traces: dict[str, tuple[int, int]]
    raised_in: str
    raised: list[tuple[str, str, str, str]]
    waits: list[float]


Client = Callable[[Sluice, Path, Callable[[], None]], Sent]


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("served")
    engine = Engine(directory / "engine")
    engine.start()
    try:
        url, shared = f"{engine.url}/{DATABASE}", f"sqlite:///{directory / 'shared.db'}"
        # In the mode store a request that is under way when ClickHouse goes away is answered 503 then.
        settings = {"SLUICE_DURABILITY": request.param, "SLUICE_GATEWAY_ACK_DEADLINE_S": "1"}
        sluice = running_apart(directory, url, shared, **settings)
        yield Served(sluice, engine)
        sluice.stop()
    finally:
        engine.stop()


@contextmanager
def refusing(served: Served) -> Iterator[Callable[[], None]]:
    """ClickHouse is away and the gateway knows it. What is given waits until a client was refused, and ends it."""
    served.engine.stop()
    answer = eventually(lambda: refusal(served.sluice), "a 503")
    assert answer is not None
    assert int(answer.headers["Retry-After"]) in range(1, LONGEST_WAIT_S + 1)
    before = served.refused()
    gone = True

    def come_back() -> None:
        nonlocal gone
        eventually(lambda: all(count > before[name] for name, count in served.refused().items()), "a 503 per signal")
        served.engine.start()
        gone = False

    try:
        yield come_back
    finally:
        if gone:
            served.engine.start()


def refusal(sluice: Sluice) -> Answer | None:
    """The answer to a span that nobody asks for afterwards, if it is a refusal."""
    request = ExportTraceServiceRequest()
    now = time.time_ns()
    request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=os.urandom(16), span_id=os.urandom(8), name="any", start_time_unix_nano=now, end_time_unix_nano=now
    )
    answer = sluice.export("traces", request.SerializeToString())
    return answer if answer.status == 503 else None


class Listener(logging.Handler):
    """What the exporters of the SDK for Python say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> list[str]:
        logging.getLogger("opentelemetry.exporter").addHandler(self)
        return self.texts

    def __exit__(self, *_exception: object) -> None:
        logging.getLogger("opentelemetry.exporter").removeHandler(self)


class Python(NamedTuple):
    """Spans and log records of one trace in the SDK for Python, not exported yet."""

    trace_id: str
    tracers: TracerProvider
    loggers: LoggerProvider

    def sent(self, waits: list[float]) -> Sent:
        message = "invalid literal for int() with base 10: 'seven'"
        raised = [("log", "ValueError", message, "shop")]
        return Sent({self.trace_id: (ITEMS + 1, ITEMS + 1)}, self.trace_id, raised, waits)

    def flush(self) -> list[bool]:
        """Export both at once; whether it succeeded."""
        with ThreadPoolExecutor(2) as pool:
            return list(
                pool.map(lambda provider: provider.force_flush(PATIENCE_S * 1000), (self.tracers, self.loggers))
            )


@contextmanager
def python_sdk(base_url: str, headers: dict[str, str]) -> Iterator[Python]:
    resource = Resource({"service.name": "shop"})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    spans = OTLPSpanExporter(f"{base_url}/v1/traces", headers=headers, timeout=PATIENCE_S)
    records = OTLPLogExporter(f"{base_url}/v1/logs", headers=headers, timeout=PATIENCE_S)
    # Exported by the flush alone: the timer of the processors must not split what was made into two requests.
    tracers.add_span_processor(BatchSpanProcessor(spans, schedule_delay_millis=PATIENCE_S * 1000))
    loggers.add_log_record_processor(BatchLogRecordProcessor(records, schedule_delay_millis=PATIENCE_S * 1000))
    tracer, logger = tracers.get_tracer("outage"), loggers.get_logger("outage")
    with tracer.start_as_current_span("root") as root:
        for number in range(ITEMS):
            tracer.start_span("one", attributes={"number": number}).end()
            logger.emit(LogRecord(body=number))
        try:
            int("seven")
        except ValueError:
            record = logging.LogRecord("outage", logging.ERROR, __file__, 1, "no number", (), sys.exc_info())
            LoggingHandler(logger_provider=loggers).handle(record)
    yield Python(f"{root.get_span_context().trace_id:032x}", tracers, loggers)
    tracers.shutdown()
    loggers.shutdown()


def send_from_python(sluice: Sluice, directory: Path, come_back: Callable[[], None]) -> Sent:
    with (
        python_sdk(sluice.base_url, key_header(sluice.key)) as sdk,
        Listener() as said,
        ThreadPoolExecutor(1) as pool,
    ):
        flushing = pool.submit(sdk.flush)
        come_back()
        assert flushing.result() == [True, True]
    waits = [re.fullmatch(r"Transient error Service Unavailable .* retrying in (.*)s\.", text) for text in said]
    return sdk.sent([float(wait[1]) for wait in waits if wait])


def send_from_javascript(encoding: str, sluice: Sluice, directory: Path, come_back: Callable[[], None]) -> Sent:
    headers = key_header(sluice.key)
    options = {"base": sluice.base_url, "headers": headers, "timeoutMillis": PATIENCE_S * 1000}
    client = export_javascript(encoding, ITEMS, options=options)
    come_back()
    held = json.loads(client.output())
    assert held["failures"] == []
    waits = [re.fullmatch(r"Scheduling export retry in (\d+)ms", said["text"]) for said in held["said"]]
    order, crowd = ({span["name"]: span["traceId"] for span in held["spans"]}[name] for name in ("charge", "one"))
    raised = [(source, "RangeError", "card declined", "shop") for source in ("span", "log")]
    return Sent(
        {order: (4, 2), crowd: (ITEMS + 1, ITEMS)}, order, raised, [int(wait[1]) / 1000 for wait in waits if wait]
    )


def send_through_rotel(sluice: Sluice, directory: Path, come_back: Callable[[], None]) -> Sent:
    patience = {"otlp-exporter-retry-initial-backoff": "1s", "otlp-exporter-retry-max-backoff": "2s"}
    accepted = partial(counted, sluice, 'items_total{outcome="accepted",reason=""')
    before = accepted()
    with (
        rotel(directory, forwarding(sluice.base_url, sluice.key, "gzip") | patience) as agent,
        python_sdk(agent.endpoint, {}) as sdk,
    ):
        assert sdk.flush() == [True, True]
        come_back()
        eventually(
            lambda: accepted() == {signal: count + ITEMS + 1 for signal, count in before.items()}, "all passed on"
        )
    return sdk.sent([])


CLIENTS: dict[str, Client] = {
    "python": send_from_python,
    "javascript-json": partial(send_from_javascript, "json"),
    "javascript-protobuf": partial(send_from_javascript, "protobuf"),
    "rotel": send_through_rotel,
}


def arrived(sluice: Sluice, sent: Sent) -> None:
    """Everything is stored, and nothing twice."""
    for trace_id, (spans, logs) in sent.traces.items():
        rows = spans_of(sluice, trace_id, spans)
        assert len({row["spanId"] for row in rows}) == spans
        assert len({json.dumps(row["body"]) for row in logs_of(sluice, trace_id, logs)}) == logs


def raised(served: Served, sent: Sent) -> None:
    """So are its exceptions."""
    eventually(lambda: len(served.occurrences(sent.raised_in)) >= len(sent.raised), "error occurrences")
    assert served.occurrences(sent.raised_in) == sent.raised


@pytest.mark.parametrize("served", ["journal"], indirect=True)
def test_what_is_sent_while_clickhouse_is_away_arrives_once_and_no_client_notices(
    served: Served, tmp_path: Path
) -> None:
    served.engine.stop()
    try:
        sent = [client(served.sluice, tmp_path, lambda: None) for client in CLIENTS.values()]
        assert served.refused() == {"traces": 0, "logs": 0}
    finally:
        served.engine.start()
    for each in sent:
        arrived(served.sluice, each)
        raised(served, each)
        assert each.waits == []


@pytest.mark.parametrize("served", ["store"], indirect=True)
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(client, id=name, marks=() if name.startswith("rotel") else pytest.mark.long)
        for name, client in CLIENTS.items()
    ],
)
def test_what_was_refused_arrives_once(served: Served, tmp_path: Path, client: Client) -> None:
    with refusing(served) as come_back:
        sent = client(served.sluice, tmp_path, come_back)
    arrived(served.sluice, sent)
    raised(served, sent)
    # They wait as long as they are told to, and that is well within their own ten seconds.
    assert set(sent.waits) <= set(range(1, LONGEST_WAIT_S + 1))
    assert len(sent.waits) >= 2 or client is send_through_rotel  # which goes by waits of its own
