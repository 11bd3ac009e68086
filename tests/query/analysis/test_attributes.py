"""The keys of spans: counted like filters find them, whether by the roll-up or from the spans."""

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

from query.analysis import attributes
from query.analysis.attributes import split_buckets
from query.read_store import ReadStore
from query.rows import SPANS
from query.settings import QuerySettings
from query.statements import (
    BUCKET,
    AttributeKeys,
    DistinctAttributeSets,
    NonFiniteCounts,
    PresenceCounts,
    RollupKeys,
    Statement,
    Window,
)
from tests.query.conftest import (
    HOUR,
    NOW,
    ONE_ENGINE,
    OTHER_PATH,
    OTHER_PROJECT,
    SECOND,
    Explore,
    Loader,
    key_values,
    span,
)
from tests.query.model import as_shown, is_number
from tests.selection import scaled

EDGE = NOW // BUCKET * BUCKET - 6 * BUCKET
ALWAYS = ("name", "kind", "environment", "statusCode", "durationMs", "startTime", "traceId", "spanId")


async def listed(explore: Explore, **query: Any) -> dict[str, tuple[int, bool]]:
    """Spans and numeric by key."""
    rows = await explore.data("/attributes", **query)
    assert all(list(row) == ["key", "spans", "numeric"] for row in rows)
    assert rows == sorted(rows, key=lambda row: (-row["spans"], row["key"]))
    return {row["key"]: (row["spans"], row["numeric"]) for row in rows}


async def test_the_keys_of_a_few_spans(loader: Loader, explore: Explore) -> None:
    scope = InstrumentationScope(name="otel", attributes=key_values({"tier": 3}))
    await loader.spans(
        span(1, attributes={"http.route": "/a", "size": 1}, message="refused"),
        span(2, attributes={"http.route": "", "size": 0.5}, parent=1),
        span(3, attributes={"size": math.nan, "name": "shadow", "attr:x": True}),
        resource={"service.name": "cart", "pid": 7},
        scope=scope,
    )
    await loader.spans(span(4, attributes={"foreign": 1}), project=OTHER_PROJECT)
    found = (await explore.get("/attributes")).json
    assert found == {
        "data": [
            {"key": key, "spans": spans, "numeric": numeric}
            for key, spans, numeric in [
                ("durationMs", 3, True),
                ("environment", 3, False),
                ("kind", 3, False),
                ("name", 3, False),
                ("resource.pid", 3, True),
                ("resource.service.name", 3, False),
                ("scope.name", 3, False),
                ("scope.tier", 3, True),
                ("serviceName", 3, False),
                ("size", 3, False),
                ("spanId", 3, False),
                ("startTime", 3, False),
                ("statusCode", 3, False),
                ("traceId", 3, False),
                ("http.route", 2, False),
                ("attr:attr:x", 1, False),
                ("attr:name", 1, False),
                ("parentSpanId", 1, False),
                ("statusMessage", 1, False),
            ]
        ]
    }


async def test_no_spans_have_no_keys(loader: Loader, explore: Explore) -> None:
    await loader.spans(span(attributes={"k": 1}))
    nowhere: list[dict[str, Any]] = [{"base": OTHER_PATH}, {"to": "now-2h"}, {"from_": NOW, "to": NOW + SECOND}]
    for query in nowhere:
        answer = await explore.get("/attributes", **query)
        assert (answer.status, answer.json) == (200, {"data": []})


async def test_the_window_is_half_open_in_parts_of_buckets(loader: Loader, explore: Explore) -> None:
    starts = (EDGE - 1, EDGE, EDGE + BUCKET - 1, EDGE + BUCKET, EDGE + BUCKET + 1)
    await loader.spans(*(span(n, start=start, attributes={f"k{n}": n}) for n, start in enumerate(starts, 1)))

    async def keys(start: int, end: int) -> str:
        return "".join(sorted(key[1:] for key in await listed(explore, from_=start, to=end) if key[1:].isdigit()))

    assert await keys(EDGE, EDGE + BUCKET) == "23"
    assert await keys(EDGE - 1, EDGE + BUCKET + 1) == "1234"
    assert await keys(EDGE + 1, EDGE + BUCKET + 2) == "345"
    assert await keys(EDGE + 1, EDGE + BUCKET) == "3"
    assert await keys(EDGE, EDGE + BUCKET - 1) == "2"
    assert await keys(EDGE + 1, EDGE + BUCKET - 1) == ""
    assert await keys(EDGE - HOUR, EDGE + HOUR) == "12345"


@given(st.integers(0, 10**18), st.integers(1, 48 * HOUR))
def test_whole_buckets_and_edges_are_the_window(start: int, length: int) -> None:
    window = Window(start, start + length)
    whole, edges = split_buckets(window)
    parts = sorted([*edges, *([whole] if whole else [])], key=lambda part: part.from_ns)
    assert [part.to_ns for part in parts[:-1]] == [part.from_ns for part in parts[1:]]
    assert (parts[0].from_ns, parts[-1].to_ns) == (window.from_ns, window.to_ns)
    assert whole is None or whole.from_ns % BUCKET == whole.to_ns % BUCKET == 0
    assert all(edge.to_ns - edge.from_ns < BUCKET for edge in edges) or whole is None


async def test_a_key_of_span_and_resource_counts_what_a_filter_finds(loader: Loader, explore: Explore) -> None:
    """`both` is on the resource of all, `size` a number on spans and a text on the resource, `only` on resources."""
    await loader.spans(
        span(1, attributes={"both": 1, "size": 1, "resource.own": 1}),
        span(2, attributes={"size": 2}),
        span(3),
        resource={"both": 2, "only": 3},
    )
    await loader.spans(span(4, attributes={"size": 3, "own": 1}), resource={"size": "large"})
    for window in ({}, {"from_": NOW - NOW % BUCKET - HOUR, "to": NOW - NOW % BUCKET + BUCKET}):
        found = await listed(explore, **window)
        assert found["both"] == (3, True)
        assert found["size"] == (3, True)
        assert found["own"] == (2, True)
        assert "only" not in found
    await loader.spans(span(5), resource={"size": "large"})
    assert (await listed(explore))["size"] == (4, False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[type[Statement]]:
    """The statements that were sent, by type."""
    sent, rows = list[type[Statement]](), ReadStore.rows

    async def recorded(store: ReadStore, statement: Statement, *limits: Any) -> list[tuple[Any, ...]]:
        sent.append(type(statement))
        return await rows(store, statement, *limits)

    monkeypatch.setattr(ReadStore, "rows", recorded)
    return sent


async def test_any_number_of_shared_keys_takes_as_many_statements(
    loader: Loader, explore: Explore, asked: list[type[Statement]]
) -> None:
    for group in range(25):
        names = [f"k{group}.{n}" for n in range(120)]
        own = dict.fromkeys(names[:100], 1)
        await loader.spans(
            span(1, attributes=own), span(2, attributes=own), span(3), resource=dict.fromkeys(names, "text")
        )
    window = {"from_": EDGE - HOUR, "to": EDGE + HOUR + BUCKET // 2}
    found = await listed(explore, **window)
    assert all(found[f"k{group}.{n}"] == (3, False) for group in range(25) for n in range(100))
    assert found["resource.k24.119"] == (3, False)
    assert sorted(each.__name__ for each in asked) == ["DistinctAttributeSets"] * 2 + ["PresenceCounts", "RollupKeys"]


async def test_what_is_not_there_is_not_asked_for(
    loader: Loader, explore: Explore, asked: list[type[Statement]]
) -> None:
    await loader.spans(span(1, start=EDGE + 1, attributes={"a": 1}), resource={"b": 1})
    await listed(explore, from_=EDGE, to=EDGE + BUCKET)
    assert asked == [RollupKeys, PresenceCounts]
    asked.clear()
    await loader.spans(span(2, start=EDGE + 2, attributes={"c": 0.5}))
    await listed(explore, from_=EDGE, to=EDGE + BUCKET // 2)
    assert asked == [DistinctAttributeSets, NonFiniteCounts, PresenceCounts]


@pytest.mark.parametrize("max_tallied", [0, 16])
async def test_a_double_spelled_like_one_of_the_resource_is_looked_at(
    max_tallied: int, loader: Loader, explore: Explore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attributes, "_MAX_QUERIED_SUBJECTS", max_tallied)
    await loader.spans(span(1, attributes={"a": 1, "b": 1}), resource={"a": "text", "b": "text"})
    await loader.spans(span(2, attributes={"resource.a": math.nan, "resource.b": 0.5}))
    found = await listed(explore)
    assert (found["a"], found["b"]) == ((2, False), (2, True))


async def test_of_too_many_lists_a_few_shared_keys_are_counted(
    loader: Loader, explore: Explore, asked: list[type[Statement]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attributes, "_MAX_QUERIED_SUBJECTS", 2)
    resource = {"a": 1, "b": 1, "c": 1}
    await loader.spans(span(1, attributes={"a": 1, "b": 1}), span(2, attributes={"b": 1, "c": 1}), resource=resource)
    await loader.spans(span(3, attributes={"a": 1}))
    window: dict[str, Any] = {"from_": EDGE, "to": NOW}
    assert "X-Sluice-Truncated" not in (await explore.get("/attributes", **window)).headers
    asked.clear()
    monkeypatch.setattr(attributes, "MAX_ATTRIBUTE_SETS", 1)
    answer = await explore.get("/attributes", **window)
    assert answer.headers["X-Sluice-Truncated"] == "keys"
    found = {row["key"]: row["spans"] for row in answer.json["data"]}
    assert (found["a"], found["b"], found.get("c"), found["resource.c"]) == (3, 2, None, 2)
    assert {AttributeKeys, DistinctAttributeSets, PresenceCounts} >= set(asked) - {RollupKeys}


class TestTwoKeys:
    """With two attributes at most."""

    @pytest.fixture
    def query_settings(self) -> QuerySettings:
        return QuerySettings(max_attribute_keys=2)

    async def test_the_most_frequent_are_listed_and_the_rest_is_named(self, loader: Loader, explore: Explore) -> None:
        await loader.spans(span(1, attributes={"a": 1, "b": 1}), span(2, attributes={"b": 1}))
        answer = await explore.get("/attributes")
        assert "X-Sluice-Truncated" not in answer.headers
        await loader.spans(span(3, attributes={"c": 1}), span(4, attributes={"c": 1}), span(5, attributes={"c": 1}))
        answer = await explore.get("/attributes")
        assert answer.headers["X-Sluice-Truncated"] == "keys"
        assert [row["key"] for row in answer.json["data"] if len(row["key"]) == 1] == ["c", "b"]
        assert len(answer.json["data"]) == len(ALWAYS) + 2


# --- generated spans against a plain model ----------------------------------------------------------------------------

KEYS = st.sampled_from(
    [
        *("a", "b", "resource.a", "resource.resource.a", "scope.a", "resource.scope.a", "resource.b"),
        *("", "resource.", "scope.", "name", "version", "scope.name", "scope.version", "resource.scope.name"),
        *("durationMs", "serviceName", "attr:", "attr:a", "attr:attr:name", "resource.attr:a"),
        *("\1", "\2", "\3", "\3A\1a\2i\1", "a\2d\1", "\0", "'", "\\", "%", "{p0:String}", "𝄞é", "x" * 256, "y" * 250),
    ]
)
VALUES = st.sampled_from([1, -(2**63), True, "", "1", "NaN", "Infinity", 0.5, 1e300, math.nan, math.inf, -math.inf]) | (
    st.sampled_from([None, b"\1\2", [1, "x"], {"k": 1.0}, "\1\2\3", "d\1"])
)
LISTS = st.dictionaries(KEYS, VALUES, max_size=6)
STARTS = st.sampled_from(
    [0, 1, BUCKET // 2, BUCKET - 1, BUCKET, BUCKET + 1, 2 * BUCKET - 1, 2 * BUCKET, 3 * BUCKET - 1]
)


@dataclass
class Sent:
    """Spans of one resource and scope, as (start, attributes)."""

    resource: Mapping[str, Any]
    scope: Mapping[str, Any]
    scope_name: str
    scope_version: str
    spans: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)

    def merged(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """What the API shows as `attributes`."""
        named = {"name": self.scope_name, "version": self.scope_version}
        return as_shown(own, self.resource, {key: text for key, text in named.items() if text} | {**self.scope})


SENT = st.builds(
    Sent,
    LISTS,
    LISTS,
    st.sampled_from(["", "otel"]),
    st.sampled_from(["", "1"]),
    st.lists(st.tuples(STARTS, LISTS), min_size=1, max_size=4),
)
PLACES = itertools.count(1)  # each example has a stretch of time to itself


def expected(groups: list[Sent], low: int, high: int) -> dict[str, tuple[int, bool]]:
    spans = [group.merged(own) for group in groups for start, own in group.spans if low <= start < high]
    if not spans:
        return {}
    found = {name: (len(spans), name == "durationMs") for name in ALWAYS}
    for name in {name for each in spans for name in each if 1 <= len(name) <= 256}:
        values = [
            each.get(name, each.get(f"resource.{name}")) for each in spans if name in each or f"resource.{name}" in each
        ]
        key = f"attr:{name}" if name in SPANS.fields or name.startswith("attr:") else name
        found[key] = (len(values), all(map(is_number, values)))
    return found


@pytest.fixture(params=["few", "many shared", "many lists"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bounds that lead there: each way of counting has to come to the same."""
    if request.param == "many shared":
        monkeypatch.setattr(attributes, "_MAX_QUERIED_SUBJECTS", 0)
    if request.param == "many lists":
        monkeypatch.setattr(attributes, "_MAX_QUERIED_SUBJECTS", 1_000)
        monkeypatch.setattr(attributes, "MAX_ATTRIBUTE_SETS", 1)


async def load(loader: Loader, groups: list[Sent]) -> int:
    """Where the examples' stretch of time begins."""
    base = EDGE - next(PLACES) * 4 * BUCKET
    numbers = itertools.count(1)
    for group in groups:
        scope = InstrumentationScope(
            name=group.scope_name, version=group.scope_version, attributes=key_values(group.scope)
        )
        spans = (span(next(numbers), start=base + start, attributes=own) for start, own in group.spans)
        await loader.spans(*spans, resource=group.resource, scope=scope)
    return base


@ONE_ENGINE
@pytest.mark.usefixtures("way")
@pytest.mark.sized
@settings(max_examples=scaled(6, 40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=st.lists(SENT, min_size=1, max_size=3), edges=st.tuples(STARTS, STARTS))
async def test_roll_up_and_spans_count_alike(
    groups: list[Sent], edges: tuple[int, int], loader: Loader, explore: Explore
) -> None:
    base = await load(loader, groups)
    low, high = min(edges), max(edges) + 1
    windows = ((low, high), (0, 3 * BUCKET), (0, BUCKET // 2), (1, 3 * BUCKET - 1))
    for start, end in windows:
        found = await listed(explore, from_=base + start, to=base + end)
        assert found == expected(groups, start, end)


@ONE_ENGINE
@pytest.mark.sized
@settings(max_examples=scaled(3, 15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=st.lists(SENT, min_size=1, max_size=2))
async def test_every_listed_key_finds_its_spans(groups: list[Sent], loader: Loader, explore: Explore) -> None:
    base = await load(loader, groups)
    window: dict[str, Any] = {"from_": base, "to": base + 3 * BUCKET}
    for key, (spans, _) in (await listed(explore, **window)).items():
        filters = json.dumps([{"key": key, "op": "exists"}])
        assert len(await explore.data(filters=filters, limit=200, **window)) == spans, key
        body = {"fn": "count", "field": key, "groupBy": key, "limit": 100, "from": base, "to": base + 3 * BUCKET}
        shown = (await explore.post("/spans/aggregate", body)).json["groups"]
        assert sum(group["value"] for group in shown if group["group"] is not None) == spans, key
