"""The OpenTelemetry SDK for JavaScript exports to Sluice unmodified: JSON, protobuf and gRPC, traces and logs."""

import json
from typing import Any

import pytest

from tests.e2e.agents import export_javascript, key_header, otel_environment
from tests.e2e.product import DEPLOYMENTS, Sluice
from tests.e2e.reading import logs_of, rfc3339, same, spans_of

LARGE = (600, 4)  # of spans and log records more than a batch of the SDK: two requests for each signal
SMALL = (20, 2)
ELSEWHERE = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "00f067aa0ba902b7"}
SAMPLED, KNOWN_LOCAL = 0x01, 0x100

# As `export.mjs` has them. JavaScript has one type of number: those without a fraction are integers to its SDK.
EVERY_KIND = {
    "text": 'grün \U0001f680 "quoted" \\ \n',
    "empty": "",
    "yes": True,
    "no": False,
    "zero": 0,
    "largest": 2**53 - 1,
    "negative": -17,
    "tenth": 0.1,
    "tiny": 5e-324,
    "texts": ["a", "", "ü"],
    "integers": [1, -2, 3],
    "floats": [0.5, -1.25],
    "booleans": [True, False],
}
RESOURCE = {
    "service.name": "shop",
    "service.version": "1.4.2",
    "deployment.environment.name": "staging",
    "process.pid": 41,
    "process.command_args": ["node", "shop.mjs"],
}


def origin(own: dict[str, Any], scope: str, version: str | None, schema_url: str | None) -> dict[str, Any]:
    """What an item has from its resource and scope, and its own attributes among theirs."""
    merged = {f"resource.{key}": value for key, value in RESOURCE.items()} | {"scope.name": scope} | own
    if version is not None:
        merged["scope.version"] = version
    return {
        "attributes": merged,
        "droppedAttributesCount": 0,
        "resource": {"attributes": RESOURCE, "droppedAttributesCount": 0, "schemaUrl": None, "entityRefs": []},
        "scope": {
            "name": scope,
            "version": version,
            "attributes": {},
            "droppedAttributesCount": 0,
            "schemaUrl": schema_url,
        },
        "truncations": [],
        "environment": "staging",
        "release": "1.4.2",
        "serviceName": "shop",
    }


CHECKOUT = ("checkout", "0.3.1", "https://shop.example/schema/scope")


def span(held: dict[str, Any], kind: str, **different: Any) -> dict[str, Any]:
    """The record of a span that the SDK held."""
    start, end = int(held["start"]), int(held["end"])
    return {
        "id": f"{held['traceId']}-{held['spanId']}",
        "traceId": held["traceId"],
        "spanId": held["spanId"],
        "parentSpanId": held["parentSpanId"],
        "name": held["name"],
        "kind": kind,
        "startTime": rfc3339(start),
        "endTime": rfc3339(end),
        "durationMs": (end - start) / 10**6,
        "statusCode": "UNSET",
        "statusMessage": None,
        "traceState": None,
        "flags": SAMPLED | KNOWN_LOCAL,
        "events": [],
        "droppedEventsCount": 0,
        "links": [],
        "droppedLinksCount": 0,
        "alternates": [],
        **origin({}, *CHECKOUT),
        **different,
    }


def event(held: dict[str, Any], name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    (time,) = held["events"]
    return {"time": rfc3339(int(time)), "name": name, "attributes": attributes, "droppedAttributesCount": 0}


def exception(stacktrace: str) -> dict[str, Any]:
    assert stacktrace.startswith("RangeError: card declined\n    at ")
    return {
        "exception.type": "RangeError",
        "exception.message": "card declined",
        "exception.stacktrace": stacktrace,
    }


def order(held: dict[str, Any]) -> list[dict[str, Any]]:
    """The four spans of the order."""
    root, charge, publish, work = (held[name] for name in ("POST /orders", "charge", "publish", "work"))
    link: dict[str, Any] = {
        "traceState": None,
        "attributes": {},
        "droppedAttributesCount": 0,
        "flags": SAMPLED | KNOWN_LOCAL,
    }
    return [
        span(
            root,
            "SERVER",
            events=[event(root, "cart read", {"items": 3, "total": 19.5})],
            **origin(EVERY_KIND, *CHECKOUT),
        ),
        span(
            charge,
            "CLIENT",
            statusCode="ERROR",
            statusMessage="declined",
            events=[event(charge, "exception", exception(*charge["stacktraces"]))],
        ),
        span(
            publish,
            "PRODUCER",
            links=[
                link | ELSEWHERE | {"traceState": "a=b", "attributes": {"reason": "retry", "attempt": 2}},
                link | {"traceId": charge["traceId"], "spanId": charge["spanId"]},
            ],
        ),
        span(work, "CONSUMER", statusCode="OK", **origin({}, "worker", None, None)),
    ]


def records(held: list[dict[str, Any]], spans: dict[str, Any]) -> list[dict[str, Any]]:
    """The two log records of the order, newest first."""
    low, failed = held
    stock = ("stock", "1.0", "https://shop.example/schema/logs")
    nested = {"map": {"deep": {"half": 0.5}, "list": [1, "b", True]}, "raw": {"bytesValue": "/w=="}}
    common = {"timeSource": "time", "traceId": spans["charge"]["traceId"], "flags": SAMPLED}
    return [
        {
            **common,
            "time": rfc3339(int(failed["time"])),
            "observedTime": rfc3339(int(failed["observed"])),
            "spanId": spans["charge"]["spanId"],
            "severityNumber": 17,
            "severityText": "ERROR",
            "eventName": None,
            "body": "charging failed",
            **origin(exception(failed["stacktrace"]), *stock),
        },
        {
            **common,
            "time": rfc3339(int(low["time"])),
            "observedTime": rfc3339(int(low["observed"])),
            "spanId": spans["POST /orders"]["spanId"],
            "severityNumber": 14,
            "severityText": "WARNING",
            "eventName": "stock.low",
            "body": {"sku": "A-17", "left": 3, "bins": ["x", 4, None], "raw": {"bytesValue": "AAH/"}},
            **origin(EVERY_KIND | nested, *stock),
        },
    ]


# What the gateway makes of an encoding, and tells its sender, does not depend on where it stores it.
ONE_DEPLOYMENT = pytest.mark.parametrize("deploy", DEPLOYMENTS[:1], indirect=True)


def endpoint(sluice: Sluice, encoding: str) -> str:
    """Where its exporters send."""
    return sluice.grpc_url if encoding == "grpc" else sluice.base_url


def named(value: str | tuple[int, int]) -> str:
    return value if isinstance(value, str) else str(value[0])


@pytest.mark.parametrize(
    ("encoding", "compression", "size"),
    [("json", "none", LARGE), ("protobuf", "gzip", LARGE), ("grpc", "gzip", LARGE)],
    ids=named,
)
def test_everything_comes_back_as_the_sdk_held_it(
    sluice: Sluice, encoding: str, compression: str, size: tuple[int, int]
) -> None:
    comes_back(sluice, encoding, compression, "options", size)


@pytest.mark.parametrize(
    ("encoding", "compression", "configured_by", "size"),
    [
        ("json", "gzip", "options", SMALL),
        ("protobuf", "none", "options", SMALL),
        ("json", "gzip", "environment", SMALL),
        ("protobuf", "none", "environment", SMALL),
        ("grpc", "none", "options", SMALL),
        ("grpc", "gzip", "environment", SMALL),
    ],
    ids=named,
)
@ONE_DEPLOYMENT
def test_however_the_sdk_is_configured_everything_comes_back(
    sluice: Sluice, encoding: str, compression: str, configured_by: str, size: tuple[int, int]
) -> None:
    comes_back(sluice, encoding, compression, configured_by, size)


def comes_back(sluice: Sluice, encoding: str, compression: str, configured_by: str, size: tuple[int, int]) -> None:
    """What the SDK says that it sent is what explore shows."""
    crowd_size, requests = size
    base_url = endpoint(sluice, encoding)
    if configured_by == "options":
        options = {"base": base_url, "headers": key_header(sluice.key), "compression": compression}
        client = export_javascript(encoding, crowd_size, options=options)
    else:
        environment = otel_environment(base_url, sluice.key, OTEL_EXPORTER_OTLP_COMPRESSION=compression)
        client = export_javascript(encoding, crowd_size, environment=environment)
    held = json.loads(client.output())
    assert held["failures"] == []
    success = ["Export succeeded after 0 retry attempts."] if encoding != "grpc" else []  # over gRPC it says nothing
    assert [said["text"] for said in held["said"]] == success * requests

    spans = {each["name"]: each for each in held["spans"] if each["name"] not in ("one", "all")}
    trace_id = spans["POST /orders"]["traceId"]
    expected = order(spans)
    seen = spans_of(sluice, trace_id, len(expected))
    assert {row["id"] for row in seen} == {each["id"] for each in expected}
    for each in expected:
        same(sluice.explore(f"/traces/{trace_id}/spans/{each['spanId']}"), each)
    logs = logs_of(sluice, trace_id, 2)
    assert all(isinstance(record.pop("id"), str) for record in logs)
    same(logs, records(held["logs"][:2], spans))

    crowd = [each for each in held["spans"] if each["name"] == "one"]
    seen = spans_of(sluice, crowd[0]["traceId"], crowd_size + 1)
    times = {row["spanId"]: (row["startTime"], row["endTime"]) for row in seen if row["name"] == "one"}
    assert times == {each["spanId"]: (rfc3339(int(each["start"])), rfc3339(int(each["end"]))) for each in crowd}
    assert {row["attributes"].get("number") for row in seen} == {None, *range(crowd_size)}
    assert {row["body"] for row in logs_of(sluice, crowd[0]["traceId"], crowd_size)} == set(range(crowd_size))


@pytest.mark.parametrize("encoding", ["json", "protobuf", "grpc"])
@ONE_DEPLOYMENT
def test_the_sdk_is_told_what_was_rejected(sluice: Sluice, encoding: str) -> None:
    environment = otel_environment(endpoint(sluice, encoding), sluice.key, TOO_OLD="1")
    held = json.loads(export_javascript(encoding, 3, environment=environment).output())
    assert held["failures"] == []
    (told,) = (said["text"] for said in held["said"] if said["level"] == "warn")
    opening = "Received Partial Success response: "
    assert told.startswith(opening)
    partial = json.loads(told.removeprefix(opening))
    assert partial["rejectedSpans"] == 1
    assert partial["errorMessage"] == "1 spans rejected: start_time_too_old 1"
    trace_id = next(span["traceId"] for span in held["spans"] if span["name"] == "one")
    assert {row["name"] for row in spans_of(sluice, trace_id, 4)} == {"all", "one"}


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
@ONE_DEPLOYMENT
def test_a_wrong_key_is_refused_and_not_tried_again(sluice: Sluice, encoding: str) -> None:
    options = {"base": sluice.base_url, "headers": key_header("0" * 32)}
    held = json.loads(export_javascript(encoding, 400, options=options).output())
    assert held["failures"] == ["OTLPExporterError: Unauthorized"]  # of the spans; that of the logs is only logged
    refused = "Export failed with non-retryable error: OTLPExporterError: Unauthorized"
    assert [said["text"] for said in held["said"] if said["level"] != "error"] == [refused] * 2
    (shown,) = (said["text"] for said in held["said"] if said["level"] == "error")
    assert "The project key is not valid." in shown
