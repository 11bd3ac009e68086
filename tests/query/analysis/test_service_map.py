"""Service maps against a plain computation, of all traces and of a sample."""

import random
import zlib
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chassis.clickhouse import ClickHouse
from query.settings import QuerySettings
from query.values import format_timestamp
from tests.query.conftest import (
    HOUR,
    MS,
    NOW,
    ONE_ENGINE,
    OTHER_PROJECT,
    SECOND,
    Answer,
    Explore,
    Loader,
    span,
    trace_id,
)
from tests.selection import scaled

CALLED, CALLING = (2, 5), (3, 4)  # SERVER and CONSUMER, CLIENT and PRODUCER
ERROR = 2


@dataclass(frozen=True)
class Made:
    """A span as stored: `service` is that of its resource, "" for none; `batch` and `row` order equal times."""

    batch: int
    row: int
    service: str
    number: int
    parent: int
    trace: int
    start: int
    duration: int
    kind: int
    status: int
    tier: str

    @property
    def sent(self) -> dict[str, Any]:
        """As `span` takes it."""
        return {name: value for name, value in vars(self).items() if name not in ("batch", "row", "service", "tier")}


class Stored:
    """Traces of calls between a few services. Some spans have ids of other spans of the trace, and some of their
    callers lie in another trace, before the window, or nowhere.
    """

    def __init__(self, seed: int, traces: int) -> None:
        drawn = random.Random(seed)
        self.spans: list[Made] = []
        services = ["web", "cart", "payment", "", "it's"]
        drafts: dict[str, list[dict[str, Any]]] = {service: [] for service in services}
        for trace in range(1, traces + 1):
            for number in range(1, drawn.randrange(2, 9)):
                drafts[drawn.choice(services)].append(
                    {
                        "number": number if drawn.random() < 0.8 else max(1, number - 1),
                        "parent": drawn.choice([0, 1, 1, 1, drawn.randrange(2, 8)]),
                        "trace": trace,
                        "start": NOW - drawn.randrange(1, 75) * 60 * SECOND,
                        "duration": drawn.choice([-MS, 0, 1, 3 * MS, 5 * HOUR, 2**62]),
                        "kind": drawn.choice([3, 3, 4, 2] if number < 3 else [0, 1, 2, 2, 2, 3, 4, 5]),
                        "status": drawn.choice([0, 1, ERROR]),
                        "tier": drawn.choice(["gold", "tin"]),
                    }
                )
        for batch, (service, rows) in enumerate(drafts.items(), 1):  # a batch each, as `Loader` counts them
            self.spans += [Made(batch=batch, row=row, service=service, **each) for row, each in enumerate(rows)]

    async def load(self, loader: Loader) -> None:
        for batch in sorted({each.batch for each in self.spans}):
            rows = [each for each in self.spans if each.batch == batch]
            service = rows[0].service
            await loader.spans(
                *(span(**each.sent, attributes={"tier": each.tier}) for each in rows),
                resource={"service.name": service} if service else None,
            )

    def expected(self, from_ns: int, sample: int, tier: str | None = None) -> dict[str, Any]:
        """`nodes` and `edges` of spans from `from_ns` on."""
        found = [
            each for each in self.spans if each.start >= from_ns and zlib.crc32(trace_id(each.trace)) % sample == 0
        ]
        callers: dict[tuple[int, int], Made] = {}
        for each in sorted(found, key=lambda one: (one.start, one.batch, one.row)):
            if each.kind in CALLING:
                callers.setdefault((each.trace, each.number), each)
        calls: dict[tuple[str, str], list[Made]] = {}
        served: dict[str, list[Made]] = {}
        spans: Counter[str] = Counter()
        for each in found:
            if tier not in (None, each.tier):
                continue
            spans[each.service] += 1
            caller = callers.get((each.trace, each.parent))
            if each.kind in CALLED:
                served.setdefault(each.service, []).append(each)
                if caller is not None:
                    calls.setdefault((caller.service, each.service), []).append(each)
        names = set(spans) | {name for pair in calls for name in pair}
        return {
            "nodes": [
                {"serviceName": name or None, "spans": spans[name], **figures(served.get(name, []))}
                for name in sorted(names, key=lambda each: (-spans[each], each))
            ],
            "edges": [
                {"from": pair[0] or None, "to": pair[1] or None, **figures(calls[pair])}
                for pair in sorted(calls, key=lambda each: (-len(calls[each]), each))
            ],
        }


def figures(spans: list[Made]) -> dict[str, Any]:
    total, count = sum(max(each.duration, 0) for each in spans), len(spans)
    nanos = (2 * total + count) // (2 * count) if count else None
    return {
        "count": count,
        "errors": sum(each.status == ERROR for each in spans),
        "avgMs": None if nanos is None else float(f"{nanos // MS}.{nanos % MS:06d}"),
    }


def shown(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer.text
    return {name: answer.json[name] for name in ("nodes", "edges")}


STORED = Stored(5, 160)


@pytest.fixture
async def preloaded(loader: Loader, explore: Explore) -> Explore:
    await STORED.load(loader)
    await loader.spans(span(1, kind=3), span(2, parent=1), project=OTHER_PROJECT, resource={"service.name": "other"})
    return explore


@pytest.mark.both_stores
async def test_every_call_is_counted_once(preloaded: Explore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all traces, and of one in so many that about `largest` spans are joined."""
    in_window = sum(each.start >= NOW - HOUR for each in STORED.spans)
    for largest, tier in product((1_000_000, 100, 20), (None, "gold", "lead")):
        monkeypatch.setattr("query.analysis.service_map.MAX_JOINED_SPANS", largest)
        answer = await preloaded.get("/services/map", hours=1, filters=f"tier:{tier}" if tier else None)
        sample = -(-in_window // largest)
        assert shown(answer) == STORED.expected(NOW - HOUR, sample, tier)
        said = {name: answer.json[name] for name in ("sample", "scanned", "scanTruncated", "truncated")}
        assert said == {"sample": sample, "scanned": in_window, "scanTruncated": False, "truncated": False}
        assert answer.json["range"] == {"from": format_timestamp(NOW - HOUR), "to": format_timestamp(NOW)}


async def test_the_generated_spans_have_what_is_to_be_told_apart() -> None:
    expected = STORED.expected(NOW - HOUR, 1)
    assert len(expected["edges"]) > 15
    assert any(edge["from"] == edge["to"] for edge in expected["edges"])
    assert STORED.expected(NOW - HOUR, 4)["edges"]
    callers = Counter((each.trace, each.number) for each in STORED.spans if each.kind in CALLING)
    assert max(callers.values()) > 1
    earlier = STORED.expected(0, 1)["edges"]
    assert sum(edge["count"] for edge in earlier) > sum(edge["count"] for edge in expected["edges"]) > 50


@ONE_ENGINE
@pytest.mark.sized
@settings(max_examples=scaled(8, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(minutes=st.integers(1, 74), largest=st.integers(1, 300), tier=st.sampled_from([None, "gold", "tin"]))
async def test_any_window_and_sample(preloaded: Explore, minutes: int, largest: int, tier: str | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("query.analysis.service_map.MAX_JOINED_SPANS", largest)
        from_ns = NOW - minutes * 60 * SECOND
        answer = await preloaded.get(
            "/services/map", from_=format_timestamp(from_ns), filters=f"tier:{tier}" if tier else None
        )
    sample = max(1, -(-sum(each.start >= from_ns for each in STORED.spans) // largest))
    assert answer.json["sample"] == sample
    assert shown(answer) == STORED.expected(from_ns, sample, tier)


async def test_of_a_service_that_matches_its_callers_are_shown(loader: Loader, explore: Explore) -> None:
    await loader.spans(span(1, kind=3), resource={"service.name": "web"})
    await loader.spans(span(2, parent=1, duration=2 * MS), resource={"service.name": "cart"})
    answer = await explore.get("/services/map", filters="serviceName:cart")
    assert shown(answer) == {
        "nodes": [
            {"serviceName": "cart", "spans": 1, "count": 1, "errors": 0, "avgMs": 2},
            {"serviceName": "web", "spans": 0, "count": 0, "errors": 0, "avgMs": None},
        ],
        "edges": [{"from": "web", "to": "cart", "count": 1, "errors": 0, "avgMs": 2}],
    }


async def test_a_filter_finds_attributes_that_the_roll_up_lacks(
    loader: Loader, explore: Explore, clickhouse: ClickHouse
) -> None:
    await loader.spans(span(1, kind=3), resource={"service.name": "web"})
    await loader.spans(span(2, parent=1, attributes={"route": "/a"}), resource={"service.name": "cart"})
    await loader.spans(span(3, parent=1, attributes={"route": "/b"}), resource={"service.name": "cart"})
    await clickhouse.command("TRUNCATE TABLE attribute_keys")
    answer = await explore.get("/services/map", filters="route:/a")
    assert [edge["count"] for edge in answer.json["edges"]] == [1]
    assert [(node["serviceName"], node["spans"]) for node in answer.json["nodes"]] == [("cart", 1), ("web", 0)]


async def test_what_is_too_much_is_left_out_and_said(preloaded: Explore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every service at the end of an edge stays, with its figures."""
    expected = STORED.expected(NOW - HOUR, 1)
    for edges, nodes in ((3, 1), (100, 2), (2, 100)):
        monkeypatch.setattr("query.analysis.service_map.MAX_EDGES", edges)
        monkeypatch.setattr("query.analysis.service_map.MAX_NODES", nodes)
        answer = await preloaded.get("/services/map", hours=1)
        assert answer.json["truncated"] is True
        assert answer.json["edges"] == expected["edges"][:edges]
        ends = {edge[end] for edge in expected["edges"][:edges] for end in ("from", "to")}
        largest = [node["serviceName"] for node in expected["nodes"][:nodes]]
        assert answer.json["nodes"] == [
            node for node in expected["nodes"] if node["serviceName"] in ends.union(largest)
        ]


async def test_no_spans(explore: Explore) -> None:
    answer = await explore.get("/services/map", hours=1)
    assert shown(answer) == {"nodes": [], "edges": []}
    assert (answer.json["sample"], answer.json["scanned"], answer.json["truncated"]) == (1, 0, False)


class TestScanLimit:
    @pytest.fixture
    def query_settings(self) -> QuerySettings:
        return QuerySettings(max_scan_rows=50)

    async def test_of_more_spans_the_newest_are_read(self, preloaded: Explore) -> None:
        answer = await preloaded.get("/services/map", hours=2)
        body = answer.json
        assert body["scanTruncated"] is True
        assert 25 <= body["scanned"] <= 50
        newest = [each.start for each in STORED.spans if format_timestamp(each.start) >= body["range"]["from"]]
        assert len(newest) == body["scanned"]
        assert shown(answer) == STORED.expected(min(newest), 1)


async def test_many_long_names_of_services(loader: Loader, explore: Explore, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one parameter of a statement can hold."""
    monkeypatch.setattr("query.analysis.service_map.MAX_NODES", 1)
    for number in range(1, 41):
        name = f"{number:03}{'🦥' * 200}"
        spans = (span(number, kind=3), span(number + 100, parent=number, duration=number * MS))
        await loader.spans(*spans, resource={"service.name": name})
    body = (await explore.get("/services/map")).json
    assert body["truncated"] is True
    assert len({edge["from"] for edge in body["edges"]}) == len(body["edges"]) == 40
    assert [(node["serviceName"][:3], node["spans"], node["count"], node["avgMs"]) for node in body["nodes"]] == [
        (f"{number:03}", 2, 1, number) for number in range(1, 41)
    ]
