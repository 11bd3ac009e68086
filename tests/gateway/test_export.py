"""The OTLP paths, table by table: each status, header and content type, on both sides of each bound."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from backports import zstd
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import SeverityNumber

from chassis.clickhouse import ClickHouse
from tests.gateway.conftest import Answer, Gateway, RecordingStore, StartGateway, eventually
from tests.gateway.otlp import (
    DAY_NS,
    JSON,
    NOW_NS,
    PROTOBUF,
    exception_event,
    log,
    logs,
    read_logs,
    read_traces,
    span,
    text,
    traces,
    traces_json,
)

Rows = Callable[..., Awaitable[list[tuple[Any, ...]]]]
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


@pytest.mark.parametrize("path", PATHS)
async def test_full_success_is_an_empty_answer_in_kind(gateway: Gateway, path: str) -> None:
    answer = await gateway.post(path, BODIES[path])
    assert (answer.status, answer.content_type, answer.body) == (200, PROTOBUF, b"")
    answer = await gateway.post(path, b"{}", {"Content-Type": JSON})
    assert (answer.status, answer.content_type, answer.body) == (200, JSON, b"{}")


@pytest.mark.parametrize("path", PATHS)
async def test_an_empty_request_succeeds(gateway: Gateway, path: str) -> None:
    assert (await gateway.post(path, b"")).status == 200


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ("application/x-protobuf", PROTOBUF),
        ("Application/X-Protobuf; charset=utf-8", PROTOBUF),
        ("application/json", JSON),
        ("application/json; charset=utf-8", JSON),
        ('application/json;v=1; charset="UTF-8"; x=latin1', JSON),
    ],
)
async def test_accepted_media_types(gateway: Gateway, sent: str, answered: str) -> None:
    body = b"{}" if answered == JSON else b""
    answer = await gateway.post("/v1/traces", body, {"Content-Type": sent})
    assert (answer.status, answer.content_type) == (200, answered)


@pytest.mark.parametrize("sent", ["text/plain", "application/octet-stream", "application/protobuf", "", "json"])
async def test_other_media_types_are_415(gateway: Gateway, sent: str) -> None:
    answer = await gateway.post("/v1/traces", traces(span()), {"Content-Type": sent})
    assert "Content-Type must be" in assert_refused(answer, 415, "unsupported_media_type", JSON)


@pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
async def test_another_charset_than_utf_8_is_415(gateway: Gateway, media_type: str) -> None:
    answer = await gateway.post("/v1/logs", b"{}", {"Content-Type": f"{media_type}; charset=iso-8859-1"})
    message = assert_refused(answer, 415, "unsupported_media_type", media_type)
    assert message == "Send UTF-8: omit `charset` in Content-Type or set it to utf-8."


async def test_repeated_keys_are_no_fault_of_otlp(gateway: Gateway) -> None:
    """The last one counts, as in protobuf. A fault beside them is reported alone."""
    body = b'{"more": 1, "more": 2, "resourceSpans": {}}'
    answer = await gateway.post("/v1/traces", body, {"Content-Type": JSON})
    assert_refused(answer, 400, "bad_request", JSON)
    assert [issue["path"] for issue in answer.json["error"]["details"]] == ["resourceSpans"]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zlib", zlib.compress),
        ("zstd", zstd.compress),
    ],
)
@pytest.mark.parametrize("media", [PROTOBUF, JSON])
async def test_accepted_encodings(
    start_gateway: StartGateway, encoding: str, pack: Callable[[bytes], bytes], media: str
) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store)
    body = traces(span()) if media == PROTOBUF else traces_json(span())
    answer = await gateway.post("/v1/traces", pack(body), {"Content-Type": media, "Content-Encoding": encoding})
    assert answer.status == 200
    await gateway.all_stored()
    assert store.tables()[0] == "spans"


@pytest.mark.parametrize("encoding", ["br", "snappy", "gzip, gzip", "gzip,identity"])
async def test_other_encodings_are_415(gateway: Gateway, encoding: str) -> None:
    answer = await gateway.post("/v1/traces", traces(span()), {"Content-Encoding": encoding})
    assert "Content-Encoding must be" in assert_refused(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(traces(span()))[:-1]),
        ("gzip", b"not gzip at all"),
        ("gzip", gzip.compress(traces(span())) + b"tail"),
        ("gzip", b""),
        ("deflate", zlib.compress(traces(span()))[:-1]),
        ("zstd", zstd.compress(traces(span()))[:-1]),
        ("identity", traces(span())[:-1]),
        ("identity", b"\x00\x01"),
        ("identity", b"\xff\xff\xff"),
    ],
)
async def test_corrupt_and_truncated_bodies_are_400(gateway: Gateway, encoding: str, body: bytes) -> None:
    answer = await gateway.post("/v1/traces", body, {"Content-Encoding": encoding})
    assert assert_refused(answer, 400, "bad_request")


@pytest.mark.parametrize(
    ("encoding", "body", "message"),
    [
        (
            "gzip",
            gzip.compress(b"{}", mtime=0) + b"{}",
            "The gzip body has 2 bytes after its end that are not another gzip member.",
        ),
        (
            "gzip",
            gzip.compress(b"{}", mtime=0) + b"\n",
            "The gzip body has 1 byte after its end that is not another gzip member.",
        ),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-1], "The gzip body is truncated."),
        ("deflate", zlib.compress(b"{}") + b"\n", "The deflate body is followed by other data."),
        (
            "zstd",
            zstd.compress(b"{}") + b"\0\0",
            "The zstd body has 2 bytes after its end that are not another zstd frame.",
        ),
    ],
)
async def test_what_is_wrong_with_a_compressed_body_is_named(
    gateway: Gateway, encoding: str, body: bytes, message: str
) -> None:
    headers = {"Content-Type": JSON, "Content-Encoding": encoding}
    answer = await gateway.post("/v1/traces", body, headers)
    assert (answer.status, answer.json["error"]["message"]) == (400, message)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"resourceSpans": 1}', b"\xff", b'{"resourceSpans": [{]}'])
async def test_json_that_is_not_otlp_is_400(gateway: Gateway, body: bytes) -> None:
    answer = await gateway.post("/v1/traces", body, {"Content-Type": JSON})
    assert assert_refused(answer, 400, "bad_request", JSON)


async def test_a_bad_json_field_is_named(gateway: Gateway) -> None:
    body = b'{"resourceSpans": [{"scopeSpans": [{"spans": "x"}]}]}'
    answer = await gateway.post("/v1/traces", body, {"Content-Type": JSON})
    assert_refused(answer, 400, "bad_request", JSON)
    (issue,) = answer.json["error"]["details"]
    assert issue["path"] == "resourceSpans[0].scopeSpans[0].spans"
    assert answer.json["details"][0]["fieldViolations"][0]["field"] == issue["path"]


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
    body = traces(span())
    missing = size - len(body) - 1
    for length_bytes in (1, 2, 3):
        content = missing - length_bytes
        length = _varint(content)
        if len(length) == length_bytes:
            return body + b"\x7a" + length + bytes(content)
    raise AssertionError(size)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def spaced(size: int) -> bytes:
    """A valid JSON request of exactly `size` bytes."""
    return traces_json(span()).ljust(size)


def crowded(parts: int) -> bytes:
    """A request of exactly `parts` parts: resource, scope, span and attributes."""
    one = span()
    base = 2 + 1 + 1 + 2  # ResourceSpans, ScopeSpans, the span, its attribute, two of the resource
    one.attributes.extend(text(f"k{number}", "v") for number in range(parts - base))
    return traces(one)


EMPTY = gzip.compress(b"")
BOUNDS: list[tuple[str, bytes, bytes, Mapping[str, str], int]] = [
    ("wire", sized(20_000), sized(20_001), {}, 413),
    ("inflated", gzip.compress(sized(40_000)), gzip.compress(sized(40_001)), {"Content-Encoding": "gzip"}, 413),
    (
        "json",
        gzip.compress(spaced(30_000)),
        gzip.compress(spaced(30_001)),
        {"Content-Encoding": "gzip", "Content-Type": JSON},
        413,
    ),
    ("json on the wire", spaced(19_000), spaced(20_001), {"Content-Type": JSON}, 413),
    ("items", traces(*map(span, range(1, 21))), traces(*map(span, range(1, 22))), {}, 413),
    ("parts", crowded(400), crowded(401), {}, 413),
    (
        "members",
        gzip.compress(sized(2_000)) + gzip.compress(b"") * 2,
        gzip.compress(b"") * 4,
        {"Content-Encoding": "gzip"},
        413,
    ),
    ("depth", nested(32), nested(33), {}, 400),
]


@pytest.mark.parametrize(("within", "beyond", "headers", "status"), [b[1:] for b in BOUNDS], ids=[b[0] for b in BOUNDS])
async def test_both_sides_of_each_cap(
    gateway: Gateway, within: bytes, beyond: bytes, headers: Mapping[str, str], status: int
) -> None:
    assert (await gateway.post("/v1/traces", within, headers)).status == 200
    answer = await gateway.post("/v1/traces", beyond, headers)
    code = "payload_too_large" if status == 413 else "bad_request"
    assert assert_refused(answer, status, code, headers.get("Content-Type", PROTOBUF))
    if status == 413:
        assert answer.headers["Connection"] == "close"


async def test_both_sides_of_the_zstd_window(gateway: Gateway) -> None:
    headers = {"Content-Encoding": "zstd"}
    for window_log, status in ((20, 200), (21, 413)):
        packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
        body = packer.compress(traces(span())) + packer.flush()
        assert (await gateway.post("/v1/traces", body, headers)).status == status


async def test_a_body_that_does_not_arrive_is_503(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore(), body_timeout_s=0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    query = f"legacy_key={gateway.projects[0].key}"
    head = f"POST /v1/traces?{query} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 9\r\n\r\n"
    writer.write(head.encode() + b"{")
    answer = await asyncio.wait_for(reader.read(), 10)  # until the server closes
    writer.close()
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"Retry-After: " in answer
    assert b'"code":"service_unavailable"' in answer


def chunked(body: bytes) -> Any:
    async def pieces() -> Any:
        yield body

    return pieces()


async def test_the_wire_cap_holds_for_a_body_of_unknown_length(gateway: Gateway) -> None:
    key = {"Content-Type": PROTOBUF, "X-Legacy-Auth": f"Legacy legacy_key={gateway.projects[0].key}"}
    answer = await gateway.request("POST", "/v1/traces", data=chunked(sized(20_000)), headers=key)
    assert answer.status == 200
    answer = await gateway.request("POST", "/v1/traces", data=chunked(sized(20_001)), headers=key)
    assert_refused(answer, 413, "payload_too_large")


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd.compress)]
)
async def test_a_bomb_is_413(gateway: Gateway, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(16 * 2**20))
    assert len(bomb) < 20_000
    assert_refused(await gateway.post("/v1/traces", bomb, {"Content-Encoding": encoding}), 413, "payload_too_large")
    assert gateway.metric("inflight_bytes") == 0


KEY_BOUNDS = [
    ("legacy_key", "k" * 128, 401),
    ("legacy_key", "k" * 129, 400),
    ("project_id", "1" * 64, 403),
    ("project_id", "1" * 65, 400),
]


@pytest.mark.parametrize(("name", "value", "status"), KEY_BOUNDS)
async def test_both_sides_of_the_bounds_of_the_query(gateway: Gateway, name: str, value: str, status: int) -> None:
    headers = {"Content-Type": PROTOBUF}
    if name == "project_id":
        headers["X-Legacy-Auth"] = f"Legacy legacy_key={gateway.projects[0].key}"
    answer = await gateway.request("POST", f"/v1/traces?{name}={value}", data=traces(span()), headers=headers)
    code = {400: "bad_request", 401: "unauthorized", 403: "forbidden"}[status]
    assert_refused(answer, status, code)
    assert answer.headers["Connection"] == "close"


async def test_the_three_places_of_a_key(gateway: Gateway) -> None:
    project = gateway.projects[0]
    headers = {"Content-Type": PROTOBUF}
    dsn = f"DSN http://{project.key}@127.0.0.1/{project.id}"
    legacy = f"Legacy legacy_key={project.key}"
    for path, given in (
        ("/v1/traces", {"X-Legacy-Auth": legacy}),
        ("/v1/traces", {"Authorization": dsn}),
        (f"/v1/traces?legacy_key={project.key}", {}),
        (
            f"/v1/traces?legacy_key={project.key}&project_id={project.id}",
            {"X-Legacy-Auth": legacy, "Authorization": dsn},
        ),
    ):
        answer = await gateway.request("POST", path, data=traces(span()), headers=headers | given)
        assert answer.status == 200, given


@pytest.mark.parametrize("media", [PROTOBUF, JSON])
async def test_refused_credentials(gateway: Gateway, media: str) -> None:
    mine, other = gateway.projects
    headers = {"Content-Type": media}
    legacy = {"X-Legacy-Auth": f"Legacy legacy_key={mine.key}"}
    for path, given, status, code in (
        ("/v1/traces", {}, 401, "unauthorized"),
        ("/v1/traces?legacy_key=unknown", {}, 401, "unauthorized"),
        (f"/v1/traces?legacy_key={other.key}", legacy, 401, "unauthorized"),
        ("/v1/traces", {"Authorization": "Bearer pat_x"}, 401, "unauthorized"),
        (f"/v1/traces?project_id={other.id}", legacy, 403, "forbidden"),
    ):
        answer = await gateway.request("POST", path, data=b"x" * 10_000, headers=headers | given)
        assert_refused(answer, status, code, media)
        assert answer.headers["Connection"] == "close"
        assert ("x-ratelimit-limit" in answer.headers) == (status == 403), "a good key is counted and told so"


@pytest.mark.parametrize("query", ["project_id=", "project_id", "legacy_key=unknown&project_id="])
async def test_an_empty_project_is_a_fault_of_the_query(gateway: Gateway, query: str) -> None:
    """It names no other project than the key's, which would be a 403."""
    headers = {"Content-Type": JSON, "X-Legacy-Auth": f"Legacy legacy_key={gateway.projects[0].key}"}
    answer = await gateway.request("POST", f"/v1/traces?{query}", data=b"{}", headers=headers)
    assert_refused(answer, 400, "bad_request", JSON)
    assert answer.json["error"]["details"] == [
        {"path": "query.project_id", "message": "Must have at least 1 character.", "code": "too_short"}
    ]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_other_methods_are_405(gateway: Gateway, path: str, method: str) -> None:
    answer = await gateway.request(method, path, headers={"Content-Type": PROTOBUF})
    assert_refused(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("media", [PROTOBUF, JSON, "text/plain"])
async def test_metrics_get_404_with_a_hint(gateway: Gateway, media: str) -> None:
    answer = await gateway.request("POST", "/v1/metrics", data=b"x" * 100_000, headers={"Content-Type": media})
    assert_refused(answer, 404, "not_found", PROTOBUF if media == PROTOBUF else JSON)
    assert b"Metrics are not supported. Set" in answer.body
    assert b"OTEL_METRICS_EXPORTER=none" in answer.body
    assert gateway.metric("requests_total") == 0, "no export was refused"


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_metrics_are_not_there_to_be_read_either(gateway: Gateway, method: str) -> None:
    assert_refused(await gateway.request(method, "/v1/metrics"), 405, "method_not_allowed", JSON)


async def test_an_expected_continue_comes_after_the_key_check(gateway: Gateway) -> None:
    """The interim answer is sent once the key is known, and not at all to one without."""
    body = traces(span())

    async def talk(key: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        head = (
            f"POST /v1/traces?legacy_key={key} HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\n"
            f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
        )
        writer.write(head.encode())
        first = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
        return first

    assert b"100 Continue" in await talk(gateway.projects[0].key)
    assert b"401" in await talk("unknown")


ORIGIN = "https://shop.example"
PREFLIGHT = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}


async def test_cors_is_off_by_default(gateway: Gateway) -> None:
    answer = await gateway.post("/v1/traces", traces(span()), {"Origin": ORIGIN})
    assert not [name for name in answer.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ((ORIGIN,), ORIGIN, ORIGIN),
        ((ORIGIN,), "https://evil.example", None),
        ((ORIGIN,), "null", None),
        (("*",), "https://any.example", "*"),
        (("*",), "*", "*"),
        (("*", ORIGIN), ORIGIN, ORIGIN),
        (("*", ORIGIN), "https://any.example", "*"),
    ],
)
async def test_cors_by_configured_origin(
    start_gateway: StartGateway, origins: tuple[str, ...], origin: str, allowed: str | None
) -> None:
    gateway = await start_gateway(RecordingStore(), cors_origins=origins)
    preflight = await gateway.request("OPTIONS", "/v1/logs", headers=PREFLIGHT | {"Origin": origin})
    assert preflight.status == 204
    assert preflight.headers.get("Access-Control-Allow-Origin") == allowed
    assert preflight.headers.get("Access-Control-Allow-Methods") == ("POST" if allowed else None)
    assert (preflight.headers.get("Vary") == "Origin") == (origins != ("*",))
    for answer in (
        await gateway.post("/v1/traces", traces_json(span()), {"Content-Type": JSON, "Origin": origin}),
        await gateway.post("/v1/traces", b"{", {"Content-Type": JSON, "Origin": origin}),
        await gateway.post("/v1/traces", b"{}", {"Content-Type": JSON, "Origin": origin, "X-Legacy-Auth": "x"}),
    ):
        assert answer.headers.get("Access-Control-Allow-Origin") == allowed
        assert answer.headers.get("Access-Control-Allow-Credentials") == ("true" if allowed == ORIGIN else None)
        assert (answer.headers.get("Vary") == "Origin") == (origins != ("*",))
    assert preflight.headers.get("Access-Control-Allow-Credentials") == ("true" if allowed == ORIGIN else None)


LISTED = ["content-type", "content-encoding", "authorization", "x-legacy-auth", "x-request-id"]


@pytest.mark.parametrize(
    ("requested", "added"),
    [
        ("", []),
        ("content-type,x-tenant", ["x-tenant"]),
        ("X-Tenant , b3,\tx-tenant,b3", ["x-tenant", "b3"]),
        ("cookie,host,x-forwarded-for,x-forwarded-,proxy-authorization,sec-fetch-site,sec-", []),
        (
            "cookies,hosts,x-forwarded,proxy,sec,cookie-x",
            ["cookies", "hosts", "x-forwarded", "proxy", "sec", "cookie-x"],
        ),
        ("x_a,x a,x.a,*,\u00e9,a:b,%61,-", ["-"]),
        ("a" * 64 + "," + "b" * 65, ["a" * 64]),
        (",".join(f"x-{number}" for number in range(40)), [f"x-{number}" for number in range(30)]),
        (",".join(["cookie"] * 100 + ["x-a"]), ["x-a"]),
    ],
)
async def test_a_page_of_a_named_origin_may_send_headers_of_its_own(
    start_gateway: StartGateway, requested: str, added: list[str]
) -> None:
    gateway = await start_gateway(RecordingStore(), cors_origins=(ORIGIN, "*"))
    asked = PREFLIGHT | {"Access-Control-Request-Headers": requested}
    answer = await gateway.request("OPTIONS", "/v1/traces", headers=asked)
    assert answer.headers["Access-Control-Allow-Headers"].split(", ") == [*LISTED, *added]
    answer = await gateway.request("OPTIONS", "/v1/traces", headers=asked | {"Origin": "https://any.example"})
    assert answer.headers["Access-Control-Allow-Headers"].split(", ") == LISTED
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


async def test_a_partial_success_in_json_has_numbers(gateway: Gateway) -> None:
    answer = await gateway.post("/v1/traces", traces_json(span(), span(2, start_ns=0)), {"Content-Type": JSON})
    assert answer.json == {
        "partialSuccess": {"rejectedSpans": 1, "errorMessage": "1 spans rejected: missing_start_time 1"}
    }


async def test_json_and_protobuf_leave_the_same_rows(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    gateway = await start_gateway(clickhouse)
    await gateway.post("/v1/traces", traces(span(1), span(2)))
    await gateway.post("/v1/traces", traces_json(span(1), span(2)), {"Content-Type": JSON})
    assert await rows("SELECT count(), uniqExact(tuple(* EXCEPT (batch_id))) FROM spans") == [(4, 2)]


async def test_large_bodies_take_the_way_off_the_loop(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    gateway = await start_gateway(clickhouse)
    spans = [span(number, name="n" * 500) for number in range(1, 3_001)]
    for body, headers in (
        (traces(*spans), {}),
        (gzip.compress(traces(*spans)), {"Content-Encoding": "gzip"}),
        (traces_json(*spans), {"Content-Type": JSON}),
        (gzip.compress(traces_json(*spans[:300])), {"Content-Type": JSON, "Content-Encoding": "gzip"}),
    ):
        assert (await gateway.post("/v1/traces", body, headers)).status == 200
    assert await rows("SELECT count(), uniqExact(trace_id) FROM spans") == [(9_300, 3_000)]


async def test_a_projects_own_words_are_scrubbed(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    gateway = await start_gateway(clickhouse)
    one = span()
    one.attributes.extend([text("car.plate", "B-XY 12"), text("password", "hunter2")])
    for project in (0, 1):
        await gateway.post("/v1/traces", traces(one), project=project)
    found = await rows("SELECT project_id, attributes['car.plate'], attributes['password'] FROM spans")
    shop, garage = gateway.projects
    assert sorted(found) == sorted([(shop.id, "B-XY 12", "[scrubbed]"), (garage.id, "[scrubbed]", "[scrubbed]")])


async def test_exceptions_become_error_occurrences(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    gateway = await start_gateway(clickhouse)
    trace = 'Traceback (most recent call last):\n  File "/srv/shop/cart.py", line {}, in add\n'
    one, two = span(1), span(2)
    one.events.append(exception_event("KeyError", "4711", trace.format(10)))
    two.events.append(exception_event("KeyError", "12", trace.format(99)))
    record = log(3)
    record.severity_number = SeverityNumber.SEVERITY_NUMBER_ERROR
    record.attributes.extend([text("exception.type", "OSError"), text("exception.message", "disk 7 is full")])
    await gateway.post("/v1/traces", traces(one, two))
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
    record = log(1, body="x" * 10)
    record.attributes.append(text("password", "hunter2"))
    await gateway.post("/v1/logs", logs(record))
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
    assert await rows(
        "SELECT sum(wire_bytes) FROM ingest_outcomes WHERE signal = 'traces' AND outcome = 'accepted'"
    ) == [(wire,)]
    assert await rows("SELECT modified FROM ingest_outcomes WHERE signal = 'logs'") == [({"scrubbed": 1},)]
    assert await rows("SELECT project_id FROM ingest_outcomes WHERE reason = 'unauthorized'") == [(0,)]
    assert await rows("SELECT count() FROM spans") == [(accepted,)]


async def test_refused_requests_are_stored_while_the_gateway_runs(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, outcomes_flush_s=0.05)
    await gateway.post("/v1/traces", b"\x00")
    await eventually(lambda: store.tables() == ["ingest_outcomes"])


async def test_a_head_that_cannot_be_parsed_is_refused_in_the_media_type_of_its_request(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"POST /v1/traces HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nBad Header\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 400")
    assert b"Content-Type: application/x-protobuf\r\n" in head
    assert Status.FromString(body).message == "The request head cannot be parsed."


async def test_beyond_a_project_s_allowance_large_resources_are_cut(
    start_gateway: StartGateway, clickhouse: ClickHouse, rows: Rows
) -> None:
    gateway = await start_gateway(clickhouse, large_origins_bytes=12_000)

    def from_pod(pod: str, number: int) -> bytes:
        request = ExportTraceServiceRequest.FromString(traces(span(number)))
        request.resource_spans[0].resource.attributes.extend([text("pod", pod), text("notes", pod.ljust(10_000, "."))])
        return request.SerializeToString()

    for number, pod in enumerate(("a", "a", "b", "a"), 1):
        assert (await gateway.post("/v1/traces", from_pod(pod, number))).status == 200
    found = await rows(
        "SELECT length(resource) > 10000, position(resource, 'pod') > 0,"
        " service_name, resource_dropped_attributes_count FROM spans ORDER BY reinterpretAsUInt64(reverse(span_id))"
    )
    assert found == [
        (1, 1, "shop", 0),
        (1, 1, "shop", 0),
        (0, 1, "shop", 1),
        (1, 1, "shop", 0),
    ]
