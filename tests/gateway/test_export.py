"""The OTLP paths, table by table: each status, header and content type, on both sides of each bound."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, NamedTuple

import pytest
from backports import zstd
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import SeverityNumber

from chassis.clickhouse import ClickHouse
from gateway.admission import concurrency
from proto.otlp.protobuf_writer import bytes_field
from tests.gateway.conftest import Answer, Gateway, RecordingStore, Rows, StartGateway, eventually, holding
from tests.gateway.otlp import (
    DAY_NS,
    JSON,
    NOW_NS,
    PROTOBUF,
    log,
    logs,
    read_logs,
    read_traces,
    span,
    text,
    traces,
    traces_json,
)

PATHS = ("/v1/traces", "/v1/logs")
BODIES = {"/v1/traces": traces(span()), "/v1/logs": logs(log())}


@pytest.fixture
async def gateway(start_gateway: StartGateway) -> Gateway:
    """A gateway whose caps are small, over a store that takes everything."""
    return await start_gateway(
        RecordingStore(),
        max_wire_bytes=20_000,
        max_body_bytes=40_000,
        max_json_bytes=30_000,
        max_items=20,
        max_parts=400,
        max_members=3,
        max_window_bytes=2**20,
        cors_origins=(),
    )


def assert_refused(answer: Answer, status: int, code: str, media: str = PROTOBUF) -> str:
    """The answer is this refusal, in kind; its message."""
    assert (answer.status, answer.content_type) == (status, media)
    assert "X-Request-Id" in answer.headers
    if media == PROTOBUF:
        return str(Status.FromString(answer.body).message)
    body = answer.json
    assert body["error"]["code"] == code
    assert body["error"]["requestId"] == answer.headers["X-Request-Id"]
    assert body["message"] == body["error"]["message"]
    assert isinstance(body["code"], int)
    return str(body["message"])


async def test_success_is_an_empty_answer_in_kind(gateway: Gateway) -> None:
    media_types = {
        "application/x-protobuf": PROTOBUF,
        "Application/X-Protobuf; charset=utf-8": PROTOBUF,
        "application/json": JSON,
        "application/json; charset=utf-8": JSON,
        'application/json;v=1; charset="UTF-8"; x=latin1': JSON,
    }
    for path in PATHS:
        for sent, media in media_types.items():
            body, empty = (b"{}", b"{}") if media == JSON else (BODIES[path], b"")
            answer = await gateway.post(path, body, {"Content-Type": sent})
            assert (answer.status, answer.content_type, answer.body) == (200, media, empty), sent
        assert (await gateway.post(path, b"")).status == 200


async def test_repeated_keys_are_no_fault_of_otlp(gateway: Gateway) -> None:
    """The last one counts, as in protobuf. A fault beside them is reported alone."""
    body = b'{"more": 1, "more": 2, "resourceSpans": {}}'
    answer = await gateway.post("/v1/traces", body, {"Content-Type": JSON})
    assert_refused(answer, 400, "bad_request", JSON)
    assert [issue["path"] for issue in answer.json["error"]["details"]] == ["resourceSpans"]


PACKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zlib": zlib.compress,
    "zstd": zstd.compress,
}


async def test_accepted_encodings(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore())
    for encoding, pack in PACKERS.items():
        for media, body in ((PROTOBUF, traces(span())), (JSON, traces_json(span()))):
            headers = {"Content-Type": media, "Content-Encoding": encoding}
            assert (await gateway.post("/v1/traces", pack(body), headers)).status == 200, headers
    await gateway.all_stored()
    assert gateway.metric("stored_items_total") == 2 * len(PACKERS)


class Wrong(NamedTuple):
    """A request that is refused, and what its refusal says."""

    body: bytes
    headers: dict[str, str]
    status: int = 400
    message: str = ""


TAILED: Final = "The {} body is followed by {} that {} not another {}."
WRONG: Final = [
    *(
        Wrong(BODIES["/v1/traces"], {"Content-Type": media}, 415, "Content-Type must be")
        for media in ("text/plain", "application/octet-stream", "application/protobuf", "", "json")
    ),
    *(
        Wrong(
            b"{}", {"Content-Type": f"{media}; charset=iso-8859-1"}, 415, "Send UTF-8: omit `charset` in Content-Type"
        )
        for media in (PROTOBUF, JSON)
    ),
    *(
        Wrong(traces(span()), {"Content-Encoding": encoding}, 415, "Content-Encoding must be")
        for encoding in ("br", "snappy", "gzip, gzip", "gzip,identity")
    ),
    *(
        Wrong(body, {"Content-Encoding": encoding})
        for encoding, body in (
            ("gzip", b"not gzip at all"),
            ("gzip", b""),
            ("deflate", zlib.compress(traces(span()))[:-1]),
            ("zstd", zstd.compress(traces(span()))[:-1]),
            ("identity", traces(span())[:-1]),
            ("identity", b"\x00\x01"),
            ("identity", b"\xff\xff\xff"),
        )
    ),
    *(
        Wrong(body, {"Content-Type": JSON, "Content-Encoding": encoding}, 400, message)
        for encoding, body, message in (
            ("gzip", gzip.compress(b"{}") + b"{}", TAILED.format("gzip", "2 bytes", "are", "gzip member")),
            ("gzip", gzip.compress(b"{}") + b"\n", TAILED.format("gzip", "1 byte", "is", "gzip member")),
            ("gzip", gzip.compress(b"{}")[:-1], "The gzip body is truncated."),
            ("deflate", zlib.compress(b"{}") + b"\n", "The deflate body is followed by other data."),
            ("zstd", zstd.compress(b"{}") + b"\0\0", TAILED.format("zstd", "2 bytes", "are", "zstd frame")),
        )
    ),
    *(
        Wrong(body, {"Content-Type": JSON})
        for body in (b"", b"{", b"[]", b'{"resourceSpans": 1}', b"\xff", b'{"resourceSpans": [{]}')
    ),
]
CODES: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    413: "payload_too_large",
    415: "unsupported_media_type",
}


async def test_what_is_not_an_export_is_refused_in_kind_and_the_fault_is_named(gateway: Gateway) -> None:
    for wrong in WRONG:
        answer = await gateway.post("/v1/traces", wrong.body, wrong.headers)
        is_protobuf = wrong.headers.get("Content-Type", PROTOBUF).startswith(PROTOBUF)
        message = assert_refused(answer, wrong.status, CODES[wrong.status], PROTOBUF if is_protobuf else JSON)
        assert message.startswith(wrong.message), wrong
        assert message, wrong


async def test_every_bad_json_field_of_a_refused_request_is_named(gateway: Gateway) -> None:
    spans = [
        {"traceId": 5, "name": 6, "kind": {}, "startTimeUnixNano": True, "attributes": 3},
        {"name": "good"},
        {"events": [{"name": 7}]},
    ]
    scopes = [{"spans": spans}, {"spans": 5}, 5]
    sent = {"resourceSpans": [{"resource": {"attributes": [{"key": 1}]}, "scopeSpans": scopes}]}
    answer = await gateway.post("/v1/traces", json.dumps(sent).encode(), {"Content-Type": JSON})
    assert_refused(answer, 400, "bad_request", JSON)
    issues = {issue["path"]: issue["message"] for issue in answer.json["error"]["details"]}
    fields = ["traceId", "name", "kind", "startTimeUnixNano", "attributes"]
    scopes_at = "resourceSpans[0].scopeSpans"
    assert set(issues) == {
        "resourceSpans[0].resource.attributes[0].key",
        *(f"{scopes_at}[0].spans[0].{field}" for field in fields),
        f"{scopes_at}[0].spans[2].events[0].name",
        f"{scopes_at}[1].spans",
        f"{scopes_at}[2]",
    }
    assert not any("resourceSpans" in message for message in issues.values())
    assert [issue["field"] for issue in answer.json["details"][0]["fieldViolations"]] == list(issues)


def nested(depth: int) -> bytes:
    """A span with an attribute whose value is `depth` deep."""
    value = AnyValue(string_value="x")
    for _ in range(depth - 1):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    one = span()
    one.attributes.append(KeyValue(key="deep", value=value))
    return traces(one)


def sized(size: int) -> bytes:
    """A valid request of exactly `size` bytes: an unknown field fills it up."""
    missing = size - len(traces(span())) - 1
    return traces(span()) + bytes_field(15, bytes(missing - (2 if missing < 2**14 else 3)))


def spaced(size: int) -> bytes:
    """A valid JSON request of exactly `size` bytes."""
    return traces_json(span()).ljust(size)


def crowded(parts: int) -> bytes:
    """A request of exactly `parts` parts: resource, scope, span and attributes."""
    base = 2 + 1 + 1 + 2  # ResourceSpans, ScopeSpans, the span, its attribute, two of the resource
    return traces(span(more={f"k{number}": "v" for number in range(parts - base)}))


def windowed(window_log: int) -> bytes:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
    return packer.compress(traces(span())) + packer.flush()


GZIP: Final = {"Content-Encoding": "gzip"}
ZSTD: Final = {"Content-Encoding": "zstd"}
AS_JSON: Final = {"Content-Type": JSON}
BOUNDS: Final[dict[str, tuple[bytes, bytes, Mapping[str, str], int]]] = {
    "wire": (sized(20_000), sized(20_001), {}, 413),
    "inflated": (gzip.compress(sized(40_000)), gzip.compress(sized(40_001)), GZIP, 413),
    "json": (gzip.compress(spaced(30_000)), gzip.compress(spaced(30_001)), GZIP | AS_JSON, 413),
    "json on the wire": (spaced(19_000), spaced(20_001), AS_JSON, 413),
    "items": (traces(*map(span, range(1, 21))), traces(*map(span, range(1, 22))), {}, 413),
    "parts": (crowded(400), crowded(401), {}, 413),
    "members": (gzip.compress(sized(2_000)) + gzip.compress(b"") * 2, gzip.compress(b"") * 4, GZIP, 413),
    "window": (windowed(20), windowed(21), ZSTD, 413),
    "a bomb": (gzip.compress(sized(40_000)), gzip.compress(bytes(16 * 2**20)), GZIP, 413),
    "a bomb of zstd": (zstd.compress(sized(40_000)), zstd.compress(bytes(16 * 2**20)), ZSTD, 413),
    "depth": (nested(32), nested(33), {}, 400),
}


async def test_both_sides_of_each_cap(gateway: Gateway) -> None:
    for name, (within, beyond, headers, status) in BOUNDS.items():
        assert (await gateway.post("/v1/traces", within, headers)).status == 200, name
        answer = await gateway.post("/v1/traces", beyond, headers)
        assert assert_refused(answer, status, CODES[status], headers.get("Content-Type", PROTOBUF)), name
        assert (answer.headers.get("Connection") == "close") == (status == 413), name
    assert gateway.metric("inflight_bytes") == 0


async def test_a_body_that_does_not_arrive_is_503(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore(), body_timeout_s=0.1)
    path = f"/v1/traces?legacy_key={gateway.projects[0].key}"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 9\r\n\r\n"
    async with gateway.written_to(head, b"{") as (reader, _):
        answer = await reader.read()  # until the server closes
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"Retry-After: " in answer
    assert b'"code":"service_unavailable"' in answer


async def test_the_wire_cap_holds_for_a_body_of_unknown_length(gateway: Gateway) -> None:
    async def pieces(size: int) -> AsyncIterator[bytes]:
        yield sized(size)

    headers = {"Content-Type": PROTOBUF, **gateway.key()}
    assert (await gateway.request("POST", "/v1/traces", data=pieces(20_000), headers=headers)).status == 200
    answer = await gateway.request("POST", "/v1/traces", data=pieces(20_001), headers=headers)
    assert_refused(answer, 413, "payload_too_large")


async def test_credentials(gateway: Gateway) -> None:
    """The three places of a key, on both sides of the bounds of the query; and what is refused, in kind."""
    mine, other = gateway.projects
    legacy, dsn = gateway.key(), {"Authorization": f"DSN http://{mine.key}@127.0.0.1/{mine.id}"}
    both = f"legacy_key={mine.key}&project_id={mine.id}"
    for query, given, status in (
        ("", legacy, 200),
        ("", dsn, 200),
        (f"legacy_key={mine.key}", {}, 200),
        (both, legacy | dsn, 200),
        ("", {}, 401),
        ("legacy_key=unknown", {}, 401),
        (f"legacy_key={other.key}", legacy, 401),
        ("", {"Authorization": "Bearer pat_x"}, 401),
        (f"project_id={other.id}", legacy, 403),
        (f"legacy_key={'k' * 128}", {}, 401),
        (f"legacy_key={'k' * 129}", {}, 400),
        (f"project_id={'1' * 64}", legacy, 403),
        (f"project_id={'1' * 65}", legacy, 400),
    ):
        for media, body in ((PROTOBUF, traces(span())), (JSON, b"{}")):
            sent = body if status == 200 else b"x" * 10_000
            headers = {"Content-Type": media, **given}
            answer = await gateway.request("POST", f"/v1/traces?{query}", data=sent, headers=headers)
            if status == 200:
                assert answer.status == 200, query
                continue
            assert_refused(answer, status, CODES[status], media)
            assert answer.headers["Connection"] == "close"
            assert ("x-ratelimit-limit" in answer.headers) == (status == 403), "a good key is counted and told so"


async def test_an_empty_project_is_a_fault_of_the_query(gateway: Gateway) -> None:
    """It names no other project than the key's, which would be a 403."""
    headers = {"Content-Type": JSON, **gateway.key()}
    for query in ("project_id=", "project_id", "legacy_key=unknown&project_id="):
        answer = await gateway.request("POST", f"/v1/traces?{query}", data=b"{}", headers=headers)
        assert_refused(answer, 400, "bad_request", JSON)
        assert answer.json["error"]["details"] == [
            {"path": "query.project_id", "message": "Must have at least 1 character.", "code": "too_short"}
        ]


async def test_other_methods_are_405_and_metrics_get_404_with_a_hint(gateway: Gateway) -> None:
    for path in PATHS:
        for method in ("GET", "PUT", "DELETE", "OPTIONS"):
            answer = await gateway.request(method, path, headers={"Content-Type": PROTOBUF})
            assert_refused(answer, 405, "method_not_allowed")
            assert answer.headers["Allow"] == "POST"
    counted = gateway.metric("requests_total")
    for media in (PROTOBUF, JSON, "text/plain"):
        answer = await gateway.request("POST", "/v1/metrics", data=b"x" * 100_000, headers={"Content-Type": media})
        assert_refused(answer, 404, "not_found", PROTOBUF if media == PROTOBUF else JSON)
        assert b"Metrics are not supported. Set" in answer.body
        assert b"OTEL_METRICS_EXPORTER=none" in answer.body
    for method in ("GET", "PUT"):
        assert_refused(await gateway.request(method, "/v1/metrics"), 405, "method_not_allowed", JSON)
    assert gateway.metric("requests_total") == counted, "no export was refused"


async def test_an_expected_continue_comes_after_the_key_check(gateway: Gateway) -> None:
    """The interim answer is sent once the key is known, and not at all to one without."""
    for key, expected in ((gateway.projects[0].key, b"100 Continue"), ("unknown", b"401")):
        head = (
            f"POST /v1/traces?legacy_key={key} HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\n"
            "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"
        )
        async with gateway.written_to(head) as (reader, _):
            assert expected in await reader.readline()


ORIGIN = "https://shop.example"
PREFLIGHT = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}


async def test_cors_is_off_by_default(gateway: Gateway) -> None:
    answer = await gateway.post("/v1/traces", traces(span()), {"Origin": ORIGIN})
    assert not [name for name in answer.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    ("origins", "allowed"),
    [
        ((ORIGIN,), {ORIGIN: ORIGIN, "https://evil.example": None, "null": None}),
        (("*",), {"https://any.example": "*", "*": "*"}),
        (("*", ORIGIN), {ORIGIN: ORIGIN, "https://any.example": "*"}),
    ],
)
async def test_cors_by_configured_origin(
    start_gateway: StartGateway, origins: tuple[str, ...], allowed: dict[str, str | None]
) -> None:
    gateway = await start_gateway(RecordingStore(), cors_origins=origins)
    for origin, expected in allowed.items():
        preflight = await gateway.request("OPTIONS", "/v1/logs", headers=PREFLIGHT | {"Origin": origin})
        assert preflight.status == 204
        assert preflight.headers.get("Access-Control-Allow-Methods") == ("POST" if expected else None)
        headers = {"Content-Type": JSON, "Origin": origin}
        for answer in (
            preflight,
            await gateway.post("/v1/traces", traces_json(span()), headers),
            await gateway.post("/v1/traces", b"{", headers),
            await gateway.post("/v1/traces", b"{}", headers | {"X-Legacy-Auth": "x"}),
        ):
            assert answer.headers.get("Access-Control-Allow-Origin") == expected
            assert answer.headers.get("Access-Control-Allow-Credentials") == ("true" if expected == ORIGIN else None)
            assert (answer.headers.get("Vary") == "Origin") == (origins != ("*",))


LISTED: Final = ["content-type", "content-encoding", "authorization", "x-legacy-auth", "x-request-id"]
ADDED: Final[dict[str, list[str]]] = {
    "": [],
    "content-type,x-tenant": ["x-tenant"],
    "X-Tenant , b3,\tx-tenant,b3": ["x-tenant", "b3"],
    "cookie,host,x-forwarded-for,x-forwarded-,proxy-authorization,sec-fetch-site,sec-": [],
    "cookies,hosts,x-forwarded,proxy,sec,cookie-x": ["cookies", "hosts", "x-forwarded", "proxy", "sec", "cookie-x"],
    "x_a,x a,x.a,*,\u00e9,a:b,%61,-": ["-"],
    "a" * 64 + "," + "b" * 65: ["a" * 64],
    ",".join(f"x-{number}" for number in range(40)): [f"x-{number}" for number in range(30)],
    ",".join(["cookie"] * 100 + ["x-a"]): ["x-a"],
}


async def test_a_page_of_a_named_origin_may_send_headers_of_its_own(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore(), cors_origins=(ORIGIN, "*"))
    for requested, added in ADDED.items():
        asked = PREFLIGHT | {"Access-Control-Request-Headers": requested}
        for origin, told in ((ORIGIN, [*LISTED, *added]), ("https://any.example", LISTED)):
            answer = await gateway.request("OPTIONS", "/v1/traces", headers=asked | {"Origin": origin})
            assert answer.headers["Access-Control-Allow-Headers"].split(", ") == told
        answer = await gateway.request("OPTIONS", "/v1/traces", headers=asked | {"Origin": "null"})
        assert answer.headers["Access-Control-Allow-Origin"] == "*"


async def test_one_bad_item_does_not_cost_its_neighbours(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    gateway = await start_gateway(clickhouse)
    spans = [
        span(1),
        span(2, trace_id=b"short"),
        span(3, start_ns=0),
        span(4, start_ns=NOW_NS + 3_600 * 10**9 + 1),
        span(5, start_ns=NOW_NS + 3_600 * 10**9),
        span(6, start_ns=NOW_NS - 30 * DAY_NS - 1),
        span(7, start_ns=NOW_NS - 30 * DAY_NS),
    ]
    answer = await gateway.post("/v1/traces", traces(*spans))
    partial = read_traces(answer.body).partial_success
    assert partial.rejected_spans == 4
    assert partial.error_message == (
        "4 spans rejected: invalid_trace_id 1, missing_start_time 1, start_time_in_future 1, start_time_too_old 1"
    )
    assert await rows("SELECT reinterpretAsUInt64(reverse(span_id)) AS n FROM spans ORDER BY n") == [(1,), (5,), (7,)]
    answer = await gateway.post("/v1/logs", logs(log(1), log(2, time_ns=NOW_NS + 2 * DAY_NS)))
    assert read_logs(answer.body).partial_success.rejected_log_records == 1
    assert await rows("SELECT body FROM logs") == [("hello 1",)]
    answer = await gateway.post("/v1/traces", traces_json(span(), span(2, start_ns=0)), AS_JSON)
    assert answer.json == {
        "partialSuccess": {"rejectedSpans": 1, "errorMessage": "1 spans rejected: missing_start_time 1"}
    }


async def test_json_and_protobuf_leave_the_same_rows_and_large_bodies_take_the_way_off_the_loop(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    gateway = await start_gateway(clickhouse)
    spans = [span(number, name="n" * 500) for number in range(1, 3_001)]
    for body, headers in (
        (traces(*spans), {}),
        (gzip.compress(traces(*spans)), GZIP),
        (traces_json(*spans), AS_JSON),
        (gzip.compress(traces_json(*spans[:300])), GZIP | AS_JSON),
    ):
        assert (await gateway.post("/v1/traces", body, headers)).status == 200
    assert await rows("SELECT count(), uniqExact(tuple(* EXCEPT (batch_id, row))) FROM spans") == [(9_300, 3_000)]


async def test_a_projects_own_words_are_scrubbed(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    gateway = await start_gateway(clickhouse)
    one = traces(span(more={"car.plate": "B-XY 12", "password": "hunter2"}))
    for project in (0, 1):
        await gateway.post("/v1/traces", one, project=project)
    found = await rows("SELECT project_id, attributes['car.plate'], attributes['password'] FROM spans")
    shop, garage = gateway.projects
    assert sorted(found) == sorted([(shop.id, "B-XY 12", "[scrubbed]"), (garage.id, "[scrubbed]", "[scrubbed]")])


async def test_exceptions_become_error_occurrences(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    gateway = await start_gateway(clickhouse)
    trace = 'Traceback (most recent call last):\n  File "/srv/shop/cart.py", line {}, in add\n'
    raised = [("KeyError", "4711", trace.format(10)), ("KeyError", "12", trace.format(99))]
    record = log(3, more={"exception.type": "OSError", "exception.message": "disk 7 is full"})
    record.severity_number = SeverityNumber.SEVERITY_NUMBER_ERROR
    await gateway.post("/v1/traces", traces(*(span(n, exception=one) for n, one in enumerate(raised, 1))))
    await gateway.post("/v1/logs", logs(record))
    await gateway.stop()
    found = await rows(
        "SELECT source, type, message, service_name, release, count() OVER (PARTITION BY fingerprint)"
        " FROM error_occurrences ORDER BY source DESC, message"
    )
    assert found == [
        ("span", "KeyError", "12", "shop", "1.2.3", 2),
        ("span", "KeyError", "4711", "shop", "1.2.3", 2),
        ("log", "OSError", "disk 7 is full", "shop", "", 1),
    ]


async def test_every_item_is_accounted_for(clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway) -> None:
    """sent = accepted + rejected by reason: in the answers, at /metrics and in ingest_outcomes."""
    gateway = await start_gateway(clickhouse, max_items=100)
    sent = accepted = rejected = wire = 0
    for number in range(5):
        spans = [span(n) for n in range(1, 11)] + [span(11, start_ns=0)] * number + [span(12, trace_id=b"")] * 2
        body = traces(*spans)
        answer = await gateway.post("/v1/traces", body, project=number % 2)
        partial = read_traces(answer.body).partial_success.rejected_spans
        sent, rejected, accepted, wire = sent + len(spans), rejected + partial, accepted + 10, wire + len(body)
        assert partial == len(spans) - 10
    all_bad = traces(span(1, start_ns=0), span(2, start_ns=0))
    assert read_traces((await gateway.post("/v1/traces", all_bad)).body).partial_success.rejected_spans == 2
    sent, rejected, wire = sent + 2, rejected + 2, wire + len(all_bad)
    await gateway.post("/v1/logs", logs(log(1, body="x" * 10, more={"password": "hunter2"})))
    await gateway.post("/v1/traces", b"\x00")  # malformed
    await gateway.post("/v1/traces", traces(*[span(1)] * 101))
    await gateway.request("POST", "/v1/traces", data=b"", headers={"Content-Type": PROTOBUF})
    await gateway.stop()

    assert sent == accepted + rejected
    metric = gateway.metric
    assert metric("received_items_total", signal="traces") == sent
    assert metric("items_total", signal="traces", outcome="accepted") == accepted
    assert metric("items_total", signal="traces", outcome="rejected") == rejected
    assert metric("requests_total", signal="traces", outcome="answered") == 6
    assert metric("requests_total", signal="traces", outcome="refused") == 3
    assert metric("modified_items_total", signal="logs", kind="scrubbed") == 1

    read = await rows(
        "SELECT outcome, reason, sum(items), sum(requests), uniqExact(project_id) FROM ingest_outcomes"
        " WHERE signal = 'traces' GROUP BY outcome, reason ORDER BY outcome, reason"
    )
    assert read == [
        ("accepted", "", accepted, 6, 2),
        ("refused", "malformed", 0, 1, 1),
        ("refused", "too_many_items", 0, 1, 1),
        ("refused", "unauthorized", 0, 1, 1),
        ("rejected", "invalid_trace_id", 10, 0, 2),
        ("rejected", "missing_start_time", 12, 0, 2),
    ]
    of_accepted = "signal = 'traces' AND outcome = 'accepted'"
    assert await rows(f"SELECT sum(wire_bytes) FROM ingest_outcomes WHERE {of_accepted}") == [(wire,)]
    assert await rows("SELECT modified FROM ingest_outcomes WHERE signal = 'logs'") == [({"scrubbed": 1},)]
    assert await rows("SELECT project_id FROM ingest_outcomes WHERE reason = 'unauthorized'") == [(0,)]
    assert await rows("SELECT count() FROM spans") == [(accepted,)]


async def test_refused_requests_are_stored_while_the_gateway_runs(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, outcomes_flush_s=0.05)
    await gateway.post("/v1/traces", b"\x00")
    await eventually(lambda: store.tables() == ["ingest_outcomes"])


async def test_a_head_that_cannot_be_parsed_is_refused_in_the_media_type_of_its_request(gateway: Gateway) -> None:
    head = "POST /v1/traces HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nBad Header\r\n\r\n"
    async with gateway.written_to(head) as (reader, _):
        told, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 400")
    assert b"Content-Type: application/x-protobuf\r\n" in told
    assert Status.FromString(body).message == "The request head cannot be parsed."


async def test_beyond_a_project_s_allowance_large_resources_are_cut(
    start_gateway: StartGateway, clickhouse: ClickHouse, rows: Rows
) -> None:
    gateway = await start_gateway(clickhouse, large_origins_bytes=12_000)
    for number, pod in enumerate(("a", "a", "b", "a"), 1):
        request = ExportTraceServiceRequest.FromString(traces(span(number)))
        request.resource_spans[0].resource.attributes.extend([text("pod", pod), text("notes", pod.ljust(10_000, "."))])
        assert (await gateway.post("/v1/traces", request.SerializeToString())).status == 200
    found = await rows(
        "SELECT length(resource) > 10000, position(resource, 'pod') > 0,"
        " service_name, resource_dropped_attributes_count FROM spans ORDER BY reinterpretAsUInt64(reverse(span_id))"
    )
    whole, cut = (1, 1, "shop", 0), (0, 1, "shop", 1)
    assert found == [whole, whole, cut, whole]


async def status_line(gateway: Gateway, key: str, length: int) -> bytes:
    """Of the answer to a head that speaks of so many bytes, with three of them."""
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Legacy-Auth: Legacy legacy_key={key}\r\n"
    async with gateway.written_to(f"{head}Content-Length: {length}\r\n\r\nabc") as (reader, _):
        return (await reader.readline()).rstrip()


async def test_of_a_refused_request_the_bytes_count_that_came(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not those that its head speaks of: without a key, without a media type, and without a place."""
    monkeypatch.setattr(concurrency, "INITIAL_LIMIT", 2)
    gateway = await start_gateway(store := holding(), durability="store")

    def counted() -> float:
        return gateway.metric("wire_bytes_total", outcome="refused")

    key = gateway.projects[0].key
    assert await status_line(gateway, "f" * 32, 10**12) == b"HTTP/1.1 401 Unauthorized"
    assert await status_line(gateway, key, 10**12) == b"HTTP/1.1 415 Unsupported Media Type"
    assert counted() == 6
    held = gateway.later(traces(span(1)))
    await eventually(lambda: gateway.metric("inflight_items") == 1)
    assert await status_line(gateway, key, 10**6) == b"HTTP/1.1 503 Service Unavailable"
    await eventually(lambda: counted() > 6)
    assert counted() == 9
    store.released.set()
    assert await asyncio.wait_for(held, 20) == [200]
