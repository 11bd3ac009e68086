"""Occurrences of an error, and one of them whole: stack trace, span, log records around it."""

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from chassis.clickhouse import ClickHouse
from gateway.inserts.blocks import occurrence_blocks
from proto.otlp import codec
from proto.otlp.policy import Policy, Signal
from proto.storage.tables import ERROR_OCCURRENCES
from query.settings import QuerySettings
from query.values import HOUR, MINUTE, format_timestamp
from tests.query.conftest import (
    NOW,
    OTHER_PATH,
    OTHER_PROJECT,
    PROJECT,
    SECOND,
    Explore,
    Loader,
    key_values,
    record,
    span,
)
from tests.query.error_groups.conftest import Occurrences, Raised, fingerprint

LIST = f"/errors/{fingerprint(1)}/occurrences"
AT = NOW - 600 * SECOND
CART = {"service.name": "cart"}


async def test_occurrences_are_listed_newest_first(occurrences: Occurrences, explore: Explore) -> None:
    stored = await occurrences.store(
        Raised(1, AT, trace=5, span=6, service="cart", environment="prod", release="1.0"),
        Raised(1, AT + 1, type="", message="", source="log"),
        Raised(1, AT, trace=5, span=6, stacktrace="a trace"),
        Raised(2, AT),
    )
    await occurrences.store(Raised(1, AT), project=OTHER_PROJECT)
    ours = sorted((each for each in stored if each.error == 1), key=lambda each: each.order, reverse=True)
    assert (await explore.get(LIST)).json == {
        "data": [each.shown for each in ours],
        "nextCursor": None,
        "hasMore": False,
    }
    assert [each["id"] for each in await explore.data(LIST, filters="source:log")] == [stored[1].id]


async def test_occurrences_page_through_ties_and_arrivals(occurrences: Occurrences, explore: Explore) -> None:
    stored = await occurrences.store(*(Raised(1, AT - n % 4 * HOUR, trace=n % 3) for n in range(60)))
    found, cursor = list[str](), None
    while True:
        page = (await explore.get(LIST, limit=7, cursor=cursor)).json
        found += [each["id"] for each in page["data"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
        await occurrences.store(Raised(1, NOW - 1), Raised(2, AT - 5 * HOUR))
    assert found == [each.id for each in sorted(stored, key=lambda each: each.order, reverse=True)]


async def test_an_occurrence_comes_with_its_span_and_the_log_records_of_its_trace(
    loader: Loader, occurrences: Occurrences, explore: Explore
) -> None:
    await loader.spans(span(6, trace=5, start=AT - SECOND, name="buy"), span(7, trace=5), resource=CART)
    await loader.logs(
        *(record(at=AT + n * SECOND, trace=5, body=n) for n in range(-5, 6)),
        record(at=AT, trace=9, body="another trace"),
        record(at=AT, body="no trace"),
        resource=CART,
    )
    (stored,) = await occurrences.store(
        Raised(1, AT, trace=5, span=6, stacktrace="File a.py\n  b()", service="cart", source="log")
    )
    found = (await explore.get(f"{LIST}/{stored.id}", logs=3)).json
    (shown,) = [each for each in await explore.data("/spans") if each["spanId"] == f"{6:016x}"]
    logs = {each["body"]: each for each in await explore.data("/logs", filters=f"traceId:{5:032x}")}
    assert found == {
        **stored.shown,
        "stacktrace": "File a.py\n  b()",
        "resolvedStacktrace": None,
        "raisedAt": format_timestamp(AT),
        "span": shown,
        "logs": {
            "of": "trace",
            "before": {"data": [logs[-2], logs[-1], logs[0]], "hasMore": True},
            "after": {"data": [logs[1], logs[2], logs[3]], "hasMore": True},
        },
    }
    whole = (await explore.get(f"{LIST}/{stored.id}")).json["logs"]
    assert [each["body"] for each in whole["before"]["data"]] == [*range(-5, 1)]
    assert [each["body"] for each in whole["after"]["data"]] == [*range(1, 6)]
    assert (whole["before"]["hasMore"], whole["after"]["hasMore"]) == (False, False)


@pytest.mark.parametrize("trace", [0, 5])
async def test_without_records_of_a_trace_those_of_the_service_are_shown(
    trace: int, loader: Loader, occurrences: Occurrences, explore: Explore
) -> None:
    prod = {**CART, "deployment.environment.name": "prod"}
    seconds = (-3700, -3500, -700, -1, 0, 1, 700, 3500, 3700)
    await loader.logs(*(record(at=AT - HOUR + n * SECOND, body=n) for n in seconds), resource=prod)
    await loader.logs(record(at=AT - HOUR, body="another environment"), resource=CART)
    await loader.logs(record(at=AT - HOUR, body="another service"), resource={"service.name": "till"})
    await loader.logs(record(at=AT - HOUR, body="another project"), resource=prod, project=OTHER_PROJECT)
    (stored,) = await occurrences.store(Raised(1, AT - HOUR, trace=trace, span=6, service="cart", environment="prod"))
    found = (await explore.get(f"{LIST}/{stored.id}")).json
    assert (found["span"], found["stacktrace"], found["logs"]["of"]) == (None, None, "service")
    assert [each["body"] for each in found["logs"]["before"]["data"]] == [-3500, -700, -1, 0]
    assert [each["body"] for each in found["logs"]["after"]["data"]] == [1, 700, 3500][: 2 if AT > NOW else 3]


async def test_without_trace_and_service_there_is_no_context(
    loader: Loader, occurrences: Occurrences, explore: Explore
) -> None:
    await loader.logs(record(at=AT))
    (stored,) = await occurrences.store(Raised(1, AT))
    found = (await explore.get(f"{LIST}/{stored.id}")).json
    bare = {"stacktrace": None, "resolvedStacktrace": None, "span": None, "logs": None}
    assert found == {**stored.shown, **bare, "raisedAt": format_timestamp(AT)}


async def test_what_is_not_there_is_not_found(loader: Loader, occurrences: Occurrences, explore: Explore) -> None:
    (ours,) = await occurrences.store(Raised(1, AT))
    (theirs,) = await occurrences.store(Raised(1, AT), project=OTHER_PROJECT)
    (other,) = await occurrences.store(Raised(2, AT))
    assert (await explore.get(f"{LIST}/{ours.id}")).status == 200
    assert (await explore.get(f"{LIST}/{ours.id.upper()}")).status == 200
    assert (await explore.get(f"{LIST}/{theirs.id}", base=OTHER_PATH)).status == 200
    unknown = [
        *(theirs.id, other.id, ours.id[:-1] + "1", "f" * 40, "0" * 40, ours.id[:-1], ours.id + "0"),
        *("x", "%20" * 40, "%D9%A3" * 40, "-" + ours.id[1:], ours.id[:16] + "+" + ours.id[17:], "x" * 64),
    ]
    answers = [await explore.get(f"{LIST}/{each}") for each in unknown]
    answers.append(await explore.get(f"{LIST}/{ours.id}", base=OTHER_PATH))
    answers.append(await explore.get(f"/errors/{fingerprint(2)}/occurrences/{ours.id}"))
    answers.append(await explore.get(f"/errors/x/occurrences/{ours.id}"))
    assert [(answer.status, answer.json["error"]["message"]) for answer in answers] == [(404, "Not found.")] * len(
        answers
    )


class TestContextOfFewBytes:
    """With pages of 128 KiB, so 64 KiB of log records on each side."""

    @pytest.fixture
    def query_settings(self) -> QuerySettings:
        return QuerySettings(max_page_bytes=2**17)

    async def test_long_log_records_are_cut_off_and_that_is_said(
        self, loader: Loader, occurrences: Occurrences, explore: Explore
    ) -> None:
        long = [record(at=AT + n * MINUTE, trace=5, body="x" * 20_000 + str(n)) for n in range(-6, 7) if n]
        await loader.logs(*long, record(at=AT + 7 * MINUTE, trace=5, body="x" * 500_000))
        (stored,) = await occurrences.store(Raised(1, AT, trace=5))
        logs = (await explore.get(f"{LIST}/{stored.id}")).json["logs"]
        bodies = {side: [int(each["body"].strip("x")) for each in logs[side]["data"]] for side in ("before", "after")}
        assert 1 <= len(bodies["before"]) <= 3
        assert bodies["before"] == [*range(-len(bodies["before"]), 0)]
        assert 1 <= len(bodies["after"]) <= 3
        assert bodies["after"] == [*range(1, 1 + len(bodies["after"]))]
        assert (logs["before"]["hasMore"], logs["after"]["hasMore"]) == (True, True)
        assert len(json.dumps(logs)) < 2**17

    async def test_a_record_larger_than_that_comes_alone(
        self, loader: Loader, occurrences: Occurrences, explore: Explore
    ) -> None:
        await loader.logs(record(at=AT - 1, trace=5, body="x" * 500_000), record(at=AT - 2, trace=5, body="small"))
        (stored,) = await occurrences.store(Raised(1, AT, trace=5))
        logs = (await explore.get(f"{LIST}/{stored.id}")).json["logs"]
        assert ([len(each["body"]) for each in logs["before"]["data"]], logs["before"]["hasMore"]) == ([500_000], True)


async def test_what_was_sent_as_spans_and_logs_is_found_as_one_error(
    loader: Loader, clickhouse: ClickHouse, explore: Explore
) -> None:
    """Through the decoder and the gateway's fingerprints: an exception as an event, and the same one logged."""
    raised = {"exception.type": "KeyError", "exception.message": "'id'", "exception.stacktrace": "Traceback\n  x"}
    failed = span(6, trace=5, start=AT)
    failed.events.append(Span.Event(time_unix_nano=AT + 5, name="exception", attributes=key_values(raised)))
    traces, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
    resource = Resource(attributes=key_values({**CART, "service.version": "1.0"}))
    traces.resource_spans.add(resource=resource).scope_spans.add(spans=[failed])
    logged = record(at=AT + 9, trace=5, number=6, severity=17, body="failed", attributes=raised)
    logs.resource_logs.add(resource=resource).scope_logs.add(log_records=[logged])
    for n, (signal, request) in enumerate(
        {"traces": traces.SerializeToString(), "logs": logs.SerializeToString()}.items()
    ):
        await loader.request(signal, request)  # type: ignore[arg-type]  # the keys are signals
        await store_exceptions(clickhouse, signal, request, n)  # type: ignore[arg-type]
    (found,) = await explore.data("/errors")
    assert (found["type"], found["message"], found["count"], found["traces"]) == ("KeyError", "'id'", 2, 1)
    assert [each["source"] for each in found["sources"]] == ["log", "span"]
    path = f"/errors/{found['fingerprint']}/occurrences"
    listed = await explore.data(path)
    assert [(each["time"], each["source"]) for each in listed] == [
        (format_timestamp(AT + 9), "log"),
        (format_timestamp(AT), "span"),
    ]
    assert listed[0]["id"] == found["latestOccurrenceId"]
    whole: Any = (await explore.get(f"{path}/{listed[0]['id']}")).json
    assert whole["stacktrace"] == "Traceback\n  x"
    assert (whole["span"]["name"], whole["span"]["serviceName"]) == ("op", "cart")
    assert [each["body"] for each in whole["logs"]["before"]["data"]] == ["failed"]
    of_span = (await explore.get(f"{path}/{listed[1]['id']}")).json
    assert of_span["raisedAt"] == format_timestamp(AT + 5)
    assert [each["body"] for each in of_span["logs"]["after"]["data"]] == ["failed"]


async def test_the_log_records_stand_around_the_event_not_around_the_start_of_its_span(
    loader: Loader, occurrences: Occurrences, explore: Explore
) -> None:
    failed = span(6, trace=5, start=AT, duration=20 * SECOND)
    for ago, message in ((1, "other"), (7, "broken"), (9, "broken")):
        attributes = key_values({"exception.type": "ValueError", "exception.message": message})
        failed.events.append(Span.Event(time_unix_nano=AT + ago * SECOND, name="exception", attributes=attributes))
    await loader.spans(failed)
    await loader.logs(*(record(at=AT + n * SECOND, trace=5, body=n) for n in range(12)))
    (stored, unknown) = await occurrences.store(Raised(trace=5, span=6, at=AT), Raised(trace=5, span=8, at=AT))
    found = (await explore.get(f"{LIST}/{stored.id}", logs=2)).json
    assert (found["time"], found["raisedAt"]) == (format_timestamp(AT), format_timestamp(AT + 7 * SECOND))
    assert [each["body"] for each in found["logs"]["before"]["data"]] == [6, 7]
    assert [each["body"] for each in found["logs"]["after"]["data"]] == [8, 9]
    found = (await explore.get(f"{LIST}/{unknown.id}", logs=2)).json
    assert (found["raisedAt"], found["span"]) == (format_timestamp(AT), None)


async def store_exceptions(clickhouse: ClickHouse, signal: Signal, request: bytes, batch: int) -> None:
    decoded = codec.decode(signal, request, PROJECT, Policy(sensitive_words=()), NOW)
    for block in occurrence_blocks([decoded], batch):
        await clickhouse.insert(
            block.table, ERROR_OCCURRENCES.column_names, block.pieces, token=f"{batch}:{block.table}:{block.day}"
        )
