"""Export requests as an SDK sends them: 512 items, 10 attributes each, a resource of 10 attributes."""

from random import Random

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData, SeverityNumber
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from proto.otlp.policy import Signal

NOW_NS = 1_790_000_000 * 10**9

_RESOURCE: dict[str, str | int | float | bool] = {
    "service.name": "checkout",
    "service.version": "2026.11.3",
    "service.namespace": "shop",
    "service.instance.id": "627cc493-f310-47de-96bd-71410b7dec09",
    "deployment.environment.name": "production",
    "telemetry.sdk.name": "opentelemetry",
    "telemetry.sdk.language": "python",
    "telemetry.sdk.version": "1.45.2",
    "host.name": "node-7.eu-central-1.example.internal",
    "process.pid": 4711,
}
_ROUTES = ("/cart", "/cart/{id}", "/checkout", "/products/{sku}", "/health")


def request(signal: Signal, items: int = 512, seed: int = 1) -> TracesData | LogsData:
    """One request as a message; `SerializeToString()` is what is sent."""
    random = Random(seed)
    if signal == "traces":
        traces = TracesData()
        sent_spans = traces.resource_spans.add()
        sent_spans.resource.attributes.extend(_attributes(_RESOURCE))
        scope_spans = sent_spans.scope_spans.add()
        scope_spans.scope.name, scope_spans.scope.version = "opentelemetry.instrumentation.aiohttp", "0.66b2"
        scope_spans.spans.extend(_span(random, place) for place in range(items))
        return traces
    logs = LogsData()
    sent_logs = logs.resource_logs.add()
    sent_logs.resource.attributes.extend(_attributes(_RESOURCE))
    scope_logs = sent_logs.scope_logs.add()
    scope_logs.scope.name = "checkout.payment"
    scope_logs.log_records.extend(_log(random, place) for place in range(items))
    return logs


def _attributes(values: dict[str, str | int | float | bool]) -> list[KeyValue]:
    pairs = []
    for key, value in values.items():
        pair = KeyValue(key=key)
        if isinstance(value, bool):
            pair.value.bool_value = value
        elif isinstance(value, int):
            pair.value.int_value = value
        elif isinstance(value, float):
            pair.value.double_value = value
        else:
            pair.value.string_value = value
        pairs.append(pair)
    return pairs


def _http(random: Random, place: int) -> dict[str, str | int | float | bool]:
    route = random.choice(_ROUTES)
    return {
        "http.request.method": random.choice(("GET", "POST")),
        "http.route": route,
        "url.path": route.replace("{id}", str(random.randrange(10**6))).replace("{sku}", f"sku-{place}"),
        "http.response.status_code": random.choice((200, 200, 200, 404, 500)),
        "server.address": "shop.example.com",
        "server.port": 8443,
        "user_agent.original": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
        "client.address": f"10.0.{random.randrange(256)}.{random.randrange(256)}",
        "cart.value": round(random.uniform(1, 500), 2),
        "cache.hit": random.random() < 0.3,
    }


def _span(random: Random, place: int) -> Span:
    start_ns = NOW_NS - random.randrange(10**10)
    return Span(
        trace_id=random.randbytes(15) + b"\x01",
        span_id=random.randbytes(7) + b"\x01",
        parent_span_id=random.randbytes(8),
        name=random.choice(_ROUTES),
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + random.randrange(10**9),
        flags=0x101,
        attributes=_attributes(_http(random, place)),
    )


def _log(random: Random, place: int) -> LogRecord:
    time_ns = NOW_NS - random.randrange(10**10)
    log = LogRecord(
        time_unix_nano=time_ns,
        observed_time_unix_nano=time_ns + 1000,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="INFO",
        trace_id=random.randbytes(15) + b"\x01",
        span_id=random.randbytes(7) + b"\x01",
        attributes=_attributes(_http(random, place)),
    )
    log.body.string_value = f"order {random.randrange(10**9)} charged in {random.random():.3f} s"
    return log
