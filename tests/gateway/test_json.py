"""OTLP/JSON at the gateway: what is faulty costs its own item, and what a Collector sends at once is taken."""

import asyncio
import gzip
import json
from collections.abc import Sequence
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry

from chassis.clickhouse import ClickHouse
from gateway.admission.budgets import MemoryBudget
from gateway.inserts.pending_requests import redecode
from gateway.metrics import Metrics
from gateway.settings import GatewaySettings
from tests.gateway.conftest import Answer, Gateway, RecordingStore, Rows, StartGateway, eventually, holding
from tests.gateway.otlp import JSON, NOW_NS, span, traces
from tests.selection import scaled

MIB: Final = 2**20
BATCH: Final = 8_192  # spans, as a Collector sends them


def span_of(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": "work",
        "startTimeUnixNano": str(NOW_NS),
        "endTimeUnixNano": str(NOW_NS + 1),
        **fields,
    }


FAULTS: Final[list[dict[str, Any]]] = [
    {"kind": "SERVER"},
    {"name": 5},
    {"startTimeUnixNano": -1},
    {"attributes": [{"key": "k", "value": {"bytesValue": "!"}}]},
]


def request_of(*resources: Sequence[Any], **first: Any) -> bytes:
    """A request with these items in as many resources; `first` goes into the first."""
    sent: list[dict[str, Any]] = [{"scopeSpans": [{"spans": list(spans)}]} for spans in resources]
    sent[0] |= first
    return json.dumps({"resourceSpans": sent}).encode()


async def send(gateway: Gateway, body: bytes, **headers: str) -> Answer:
    return await gateway.post("/v1/traces", body, {"Content-Type": JSON, **headers})


async def test_one_faulty_item_of_each_kind_costs_its_neighbours_nothing(
    start_gateway: StartGateway, clickhouse: ClickHouse, rows: Rows
) -> None:
    gateway = await start_gateway(clickhouse)
    faulty = [span_of(100 + number, **fault) for number, fault in enumerate(FAULTS)]
    good = [span_of(number) for number in range(1, 6)]
    mixed = [item for pair in zip(good, faulty, strict=False) for item in pair] + good[4:]
    answer = await send(gateway, request_of(mixed))
    assert answer.status == 200
    success = answer.json["partialSuccess"]
    assert success["rejectedSpans"] == 4
    assert success["errorMessage"].startswith(
        "4 spans rejected: invalid_field 4 (first error: resourceSpans[0].scopeSpans[0].spans[1].kind: "
    )
    stored = await rows("SELECT hex(span_id) FROM spans ORDER BY span_id")
    assert [int(row[0], 16) for row in stored] == [1, 2, 3, 4, 5]
    assert gateway.metric("items_total", signal="traces", outcome="rejected", reason="invalid_field") == 4
    assert gateway.metric("items_total", signal="traces", outcome="accepted") == 5


async def test_a_faulty_resource_or_scope_costs_its_own_items_and_no_others(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store)
    answer = await send(gateway, request_of([{"name": 1}] * 3))
    assert (answer.status, answer.json["partialSuccess"]["rejectedSpans"]) == (200, 3)
    assert store.tables().count("spans") == 0
    answer = await send(gateway, request_of([span_of(1), span_of(2)], [span_of(3)], resource={"attributes": 5}))
    assert answer.json["partialSuccess"]["rejectedSpans"] == 2
    assert gateway.metric("items_total", outcome="rejected", reason="invalid_resource") == 2
    answer = await send(gateway, request_of([span_of(1)], [span_of(3)], scopeSpans=[{"scope": 5, "spans": [{}]}]))
    assert "1 spans rejected: invalid_scope 1" in answer.json["partialSuccess"]["errorMessage"]
    assert gateway.metric("items_total", outcome="accepted") == 2


def test_what_the_journal_holds_is_decoded_to_the_same_items_again() -> None:
    policy = GatewaySettings().policy(30)
    body = request_of([span_of(1), {"name": 5}, span_of(2)], [span_of(3)])
    again = redecode("traces", "json", "gzip", gzip.compress(body), 1, policy, NOW_NS)
    assert (again.accepted, dict(again.rejected)) == (3, {"invalid_field": 1})


class Counting(RecordingStore):
    """Counts the rows of spans, and keeps nothing."""

    spans = 0

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
        del columns, token
        if table == "spans":
            for at, byte in enumerate(bytes(pieces[0][1:12])):  # after the number of columns, a varint of rows
                self.spans += (byte & 0x7F) << 7 * at
                if byte < 0x80:
                    break


def collected(first: int, count: int) -> bytes:
    """What a Collector's exporter sends with `encoding: json`: spans of 2 kB, a resource for each service."""
    text = "x" * 1_700
    spans = ",".join(
        f'{{"traceId":"{number:032x}","spanId":"{number:016x}","parentSpanId":"","flags":1,"name":"GET /cart","kind":2,'
        f'"startTimeUnixNano":"{NOW_NS}","endTimeUnixNano":"{NOW_NS + 1}","attributes":'
        f'[{{"key":"http.request.method","value":{{"stringValue":"GET"}}}},'
        f'{{"key":"http.response.status_code","value":{{"intValue":"200"}}}},'
        f'{{"key":"db.query.text","value":{{"stringValue":"{text}"}}}}],"status":{{}}}}'
        for number in range(first, first + count)
    )
    resource = '{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]}'
    scope = '{"name":"library","version":"1.2.3"}'
    return (
        f'{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{"scope":{scope},"spans":[{spans}]}}]}}]}}'.encode()
    )


@pytest.mark.sized
async def test_no_batch_of_a_collector_that_sends_json_is_lost(start_gateway: StartGateway) -> None:
    store, batches = Counting(), scaled(3, 10)
    gateway = await start_gateway(store)
    for number in range(batches):
        body = collected(1 + number * BATCH, BATCH)
        assert len(body) > 16 * MIB
        answer = await send(gateway, gzip.compress(body, 1), **{"Content-Encoding": "gzip"})
        assert (answer.status, answer.body) == (200, b"{}")
    await gateway.all_stored()
    assert gateway.metric("items_total", outcome="accepted") == store.spans == batches * BATCH


def largest(number: int) -> bytes:
    """A legal body of 64 MiB: 30 000 spans of 2 kB."""
    body = collected(number, 30_000)
    assert len(body) < 64 * MIB
    return body.ljust(64 * MIB)


async def test_the_largest_bodies_are_served_one_after_the_other(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(Counting(), durability="store")  # the journal would hold the bodies, too
    sent = [asyncio.create_task(send(gateway, largest(number))) for number in (1, 100_000)]
    assert [answer.status for answer in await asyncio.gather(*sent)] == [200, 200]
    assert gateway.metric("items_total", outcome="accepted") == 60_000
    assert gateway.metric("inflight_bytes") == 0


@pytest.mark.parametrize("faulty", [200, 3_000])
async def test_a_large_body_with_faulty_items_is_read_beside_other_requests(
    start_gateway: StartGateway, faulty: int
) -> None:
    store = holding()
    gateway = await start_gateway(store, durability="store", ack_deadline_s=60.0)
    waiting = gateway.later(traces(span()), project=1)
    await eventually(lambda: gateway.metric("inflight_items") == 1)
    body = collected(1, 28_000).replace(b'"kind":2', b'"kind":"SERVER"', faulty)
    assert len(body) > 54 * MIB
    large = asyncio.create_task(send(gateway, body))
    await eventually(lambda: large.done() or gateway.metric("inflight_items") > 1)
    store.released.set()
    answer = await large
    assert (answer.status, answer.json["partialSuccess"]["rejectedSpans"]) == (200, faulty)
    assert await waiting == [200]
    assert gateway.metric("items_total", outcome="accepted") == 28_001 - faulty


async def test_what_the_kernel_leaves_as_a_whole_is_read(start_gateway: StartGateway) -> None:
    """A fault outside of items, and a faulty item of two megabytes."""
    store = Counting()
    gateway = await start_gateway(store)
    for number, faulty, reason in (
        (1, '"resource":5,"scopeSpans":[{"spans":[{}]}]', "invalid_resource"),
        (2, f'"scopeSpans":[{{"spans":[{{"name":5,"x":"{"x" * 2 * MIB}"}}]}}]', "invalid_field"),
    ):
        answer = await send(gateway, collected(1, 700)[:-2] + f",{{{faulty}}}]}}".encode())
        await gateway.all_stored()
        assert (answer.status, answer.json["partialSuccess"]["rejectedSpans"], store.spans) == (200, 1, 700 * number)
        assert gateway.metric("items_total", outcome="rejected", reason=reason) == 1


TOO_UNUSUAL = (
    "The body is larger than 8 MiB, and too much of it is invalid or unusual JSON, which is slow to read. Send field "
    "names in lowerCamelCase, each field only once, and values of the types that OTLP specifies. You can also send "
    "smaller batches, or protobuf."
)


async def test_more_than_python_may_read_is_refused(start_gateway: StartGateway) -> None:
    """Many faulty items, and a fault outside of items."""
    gateway = await start_gateway(Counting())
    for faulty, times in (('"kind":2', 5_000), ('"resource":{"attributes":[', 1)):
        name, _, value = faulty.partition(":")
        body = collected(1, 5_500).replace(faulty.encode(), f"{name}:5,{name}:{value}".encode(), times)
        assert len(body) > 10 * MIB
        answer = await send(gateway, body)
        assert (answer.status, answer.json["message"]) == (413, TOO_UNUSUAL)
        assert gateway.metric("inflight_bytes") == 0


async def test_without_memory_for_reading_json_it_is_503_and_alone_it_passes(start_gateway: StartGateway) -> None:
    store = holding()
    gateway = await start_gateway(store, durability="store", ack_deadline_s=60.0, max_inflight_bytes=20 * MIB)
    waiting = gateway.later(traces(span()), project=1)
    await eventually(lambda: gateway.metric("inflight_items") == 1)
    held = gateway.metric("inflight_bytes")
    body = collected(1, 1_000)
    refused = await send(gateway, body)
    assert (refused.status, gateway.metric("inflight_bytes")) == (503, held)
    assert 1 <= int(refused.headers["Retry-After"]) <= 5
    faulty = await send(gateway, body.replace(b'"flags":1', b'"flags":"x"'))  # and what is left to Python
    assert (faulty.status, gateway.metric("inflight_bytes")) == (503, held)
    store.released.set()
    assert await waiting == [200]
    assert (await send(gateway, body)).status == 200


def test_what_reading_takes_is_no_project_s_share() -> None:
    budget = MemoryBudget(100, 100, Metrics(CollectorRegistry()))
    with budget.reserve(1) as one, budget.reserve(2) as two:
        one.set(30)
        two.set(10)
        with two.reading(60):  # more than half of it, and more than what is left then
            pass
        one.set(40)
        with two.reading(50):
            pass
