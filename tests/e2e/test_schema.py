"""Requests made from `/openapi.json`, good and bad, to a running Sluice: nothing breaks, whatever is asked, and every
answer is one that the document announces, to the last field.

The requests are the same in every run: schemathesis draws them from a fixed seed.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import schemathesis
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

from tests.e2e.product import Sluice, eventually, running
from tests.e2e.reading import SECOND, settled
from tests.e2e.test_every_field import every_kind_of_value

EXAMPLES = 3  # of each operation, beside those at the bounds of every parameter
LEAST_OPERATIONS = 12
KNOWN = 0.7  # how often a value that occurs is taken where any text would do
SELF_DESTRUCTIVE = ["revokeToken", "revokeTokenOfPrincipal"]  # the token that asks is among those that lists show
TRACES = [f"{number:032x}" for number in (1, 2)]
SPANS = [f"{number:016x}" for number in (1, 2, 3)]
FILTERS = ["serviceName:shop", "environment:unknown -release:2", '[{"key": "text", "op": "starts_with", "value": "g"}]']
KEYS = ["serviceName", "durationMs", "text", "whole", "attr:largest", "list"]


def text(**values: str) -> list[KeyValue]:
    return [KeyValue(key=key.replace("_", "."), value=AnyValue(string_value=value)) for key, value in values.items()]


def store(sluice: Sluice) -> None:
    """Two traces with everything in them, log records and an error."""
    now = time.time_ns()
    spans, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
    resource = Resource(attributes=text(service_name="shop", service_version="1.2", host_name="one"))
    group = spans.resource_spans.add(resource=resource).scope_spans.add()
    records = logs.resource_logs.add(resource=resource).scope_logs.add()
    for trace in TRACES:
        for number, span in enumerate(SPANS):
            raised = text(exception_type="KeyError", exception_message=f"no {number}", exception_stacktrace="at main")
            group.spans.add(
                trace_id=bytes.fromhex(trace),
                span_id=bytes.fromhex(span),
                parent_span_id=bytes.fromhex(SPANS[0]) if number else b"",
                name=f"step {number}",
                kind=2,
                start_time_unix_nano=now - 60 * SECOND + number,
                end_time_unix_nano=now - 60 * SECOND + number * 5_000_001,
                attributes=every_kind_of_value(),
                events=[Span.Event(name="exception", time_unix_nano=now - 59 * SECOND, attributes=raised)],
                links=[Span.Link(trace_id=bytes.fromhex(TRACES[0]), span_id=bytes.fromhex(span))],
            )
        for body in every_kind_of_value():
            records.log_records.add(
                time_unix_nano=now - 58 * SECOND,
                trace_id=bytes.fromhex(trace),
                span_id=bytes.fromhex(SPANS[1]),
                body=body.value,
            )
    assert sluice.export("traces", spans.SerializeToString()).status == 200
    assert sluice.export("logs", logs.SerializeToString()).status == 200
    settled(sluice)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sluice]:
    """A Sluice with telemetry in it, and without a limit on how often it may be asked."""
    directory: Path = tmp_path_factory.mktemp("described")
    limits = ("API", "ANALYSIS", "FAILED_BEARER", "FAILED_KEY", "FAILED_LOGIN", "OTLP", "APPROVAL", "CHANNEL_TEST")
    unlimited = {f"SLUICE_{name}_RATE": "0" for name in limits}
    sluice = running(directory / "data", directory / "log", **unlimited)
    store(sluice)
    yield sluice
    sluice.stop()


class Run(NamedTuple):
    """What came of all requests: answers by operation and status, and what was wrong with any."""

    answers: Counter[tuple[str, int]]
    faults: list[str]


@pytest.fixture(scope="module")
def run(product: Sluice) -> Run:
    """All requests, made and checked."""
    known = stored(product)
    document = exemplified(product.get("/openapi.json").json(), known)
    schema = schemathesis.openapi.from_dict(document, config=configured(product, known))
    schema.config.update(base_url=product.base_url)
    seen = Run(Counter(), [])
    asked = schema.include(path_regex="^/(orgs|auth)/").exclude(operation_id=SELF_DESTRUCTIVE)
    for event in from_schema(asked).execute():
        if isinstance(event, events.ScenarioFinished):
            seen.answers.update(answered(event))
            seen.faults.extend(wrong(event))
        elif isinstance(event, events.NonFatalError | events.FatalError):
            seen.faults.append(str(event))
    return seen


def stored(product: Sluice) -> dict[str, list[str]]:
    """What to ask for, so that something is found."""
    (error,) = eventually(lambda: product.explore("/errors")["data"], "an error")
    (occurrence, *_) = product.explore(f"/errors/{error['fingerprint']}/occurrences")["data"]
    return {
        "path.traceId": TRACES,
        "path.spanId": SPANS,
        "path.fingerprint": [error["fingerprint"]],
        "path.occurrenceId": [occurrence["id"]],
        "query.traceId": TRACES,
        "query.filters": FILTERS,
        "query.from": ["now-1h", "-30m", "2026-01-01"],
        "query.to": ["now", "now+1h"],
        "body.field": KEYS,
        "body.groupBy": KEYS,
    }


def exemplified(document: Any, known: dict[str, list[str]]) -> Any:
    """The document with known values as examples: what requests at the bounds of one parameter have for the others.

    Cursors are left to one list: where any text but one is refused, every other fault would hide behind it.
    """
    for item in document["paths"].values():
        for operation in item.values():
            parameters = operation["parameters"]
            for each in parameters:
                values = known.get(f"{each['in']}.{each['name']}")
                if values:
                    each["example"] = values[0]
            if operation["operationId"] != "listLogs":
                parameters[:] = [each for each in parameters if each["name"] != "cursor"]
    return document


def configured(product: Sluice, known: dict[str, list[str]]) -> SchemathesisConfig:
    """How much to ask, and what to ask for."""
    return SchemathesisConfig.from_dict(
        {
            "seed": 1,
            "continue-on-failure": True,
            "headers": {"Authorization": f"Bearer {product.token}"},
            "generation": {"deterministic": True, "no-shrink": True, "max-examples": EXAMPLES},
            "phases": {"coverage": {"unexpected-methods": ["DELETE"]}, "stateful": {"enabled": False}},
            # What a schema allows may still be refused: a time after its end, a cursor that nobody gave out.
            "checks": {"positive_data_acceptance": {"enabled": False}},
            "dictionaries": {name: {"values": values} for name, values in known.items()},
            "parameters": {
                "path.orgSlug": product.org,
                "path.projectSlug": product.project,
                **{name: {"dictionary": name, "probability": KNOWN} for name in known},
            },
        }
    )


def answered(event: events.ScenarioFinished) -> Iterator[tuple[str, int]]:
    for interaction in event.recorder.interactions.values():
        if interaction.response is not None:
            yield event.recorder.label, interaction.response.status_code


def wrong(event: events.ScenarioFinished) -> Iterator[str]:
    for case, checks in event.recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                request = event.recorder.interactions[case].request
                asked = f"{request.method} {request.uri} {(request.body or b'')!r}"
                yield f"{check.name}: {asked}\n{check.failure_info.failure}"


def test_every_answer_is_announced(run: Run) -> None:
    assert not run.faults, "\n\n".join(run.faults)


def test_every_operation_was_asked_well_and_badly(run: Run) -> None:
    """Otherwise the test above would say little."""
    statuses: dict[str, set[int]] = {}
    for operation, status in run.answers:
        statuses.setdefault(operation, set()).add(status)
    explored = {operation: seen for operation, seen in statuses.items() if "/explore/" in operation}
    assert len(explored) >= LEAST_OPERATIONS
    assert {operation: seen for operation, seen in explored.items() if not {200, 400, 401} <= seen} == {}
