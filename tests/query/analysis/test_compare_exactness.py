"""Where the counts of a comparison might go wrong: bounds, spellings of one number, spans that arrive meanwhile."""

from typing import Any, Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

from chassis.clickhouse import ClickHouse
from query.read_store import ReadStore
from query.statements import FieldPairs, KeyCardinality, KeyCounts, Statement
from tests.query.conftest import NOW, SECOND, Explore, Loader, span

BODY: Final = {"spike": {"from": "-10m", "to": "now"}, "baseline": {"from": "-1h", "to": "-10m"}, "limit": 200}


async def test_scopes_that_nobody_asked_for_crowd_out_no_value_of_the_baseline(
    loader: Loader, explore: Explore
) -> None:
    """The baseline has 5 200 names and versions of scopes, all more frequent than the one value that counts."""
    await loader.spans(*(span(n, name="rare", start=NOW - SECOND) for n in range(1, 51)))
    request = ExportTraceServiceRequest()
    for n in range(2600):
        scope = InstrumentationScope(name=f"s{n}", version=f"v{n}")
        spans = [span(2 * n + each, start=NOW - 900 * SECOND) for each in (1, 2)]
        request.resource_spans.add().scope_spans.add(scope=scope, spans=spans)
    await loader.request("traces", request.SerializeToString())
    await loader.spans(span(9999, name="rare", start=NOW - 900 * SECOND))
    answer = (await explore.post("/spans/compare", BODY)).json
    (rare,) = answer["attributes"]
    assert (rare["key"], rare["value"], rare["spikeCount"], rare["baselineCount"]) == ("name", "rare", 50, 1)
    assert rare["lift"] is not None
    assert answer["truncated"] is False


@pytest.mark.parametrize("keys", [None, ["x", "big", "text"]])
async def test_a_number_of_several_spellings_is_one_value(
    keys: list[str] | None, loader: Loader, explore: Explore
) -> None:
    """Of `text` the spellings are texts, which are told apart. What one value of a key has too much its other values
    and its absence have too little.
    """
    values = [
        {"x": 0 if n % 2 else -0.0, "big": 10**16 if n % 3 else 1e16, "text": "0" if n % 2 else "-0"}
        for n in range(100)
    ]
    await loader.spans(*(span(n, start=NOW - SECOND, attributes=each) for n, each in enumerate(values, 1)))
    await loader.spans(*(span(n, start=NOW - 900 * SECOND, attributes={"x": n % 2}) for n in range(1, 401)))
    answer = (await explore.post("/spans/compare", {**BODY, "keys": keys})).json
    counts = {
        (each["key"], each["value"]): (each["spikeCount"], each["baselineCount"]) for each in answer["attributes"]
    }
    assert counts == {
        ("x", "0"): (100, 200),
        ("big", "10000000000000000"): (100, 0),
        ("text", "0"): (50, 0),
        ("text", "-0"): (50, 0),
    }
    assert answer["pairsConsidered"] == 4 + 4 * (keys is None)  # name, kind, status and environment
    for key, rest in (("x", -50), ("big", -100), ("text", -100)):
        surplus = sum(each["surplus"] for each in answer["attributes"] if each["key"] == key)
        assert surplus + rest == pytest.approx(0)


@pytest.mark.parametrize("side", ["spike", "baseline"])
async def test_spans_that_arrive_while_they_are_counted_leave_no_share_above_1(
    side: str, loader: Loader, explore: Explore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one side a fifth more arrives after its total was counted, and before its values are."""
    starts = {"spike": NOW - SECOND, "baseline": NOW - 900 * SECOND}
    for each, start in starts.items():
        await loader.spans(*(span(n, name=each, start=start, attributes={"k": "v"}) for n in range(1, 101)))
    await loader.spans(*(span(n, name="other", start=starts["baseline"]) for n in range(1, 101)))
    late, rows = (
        [span(n, name=side, start=starts[side], attributes={"k": "v"}) for n in range(101, 221)],
        ReadStore.rows,
    )

    async def rows_of_more(store: ReadStore, statement: Statement, *bounds: int) -> list[tuple[Any, ...]]:
        if isinstance(statement, FieldPairs) and late:
            await loader.spans(*late)
            late.clear()
        return await rows(store, statement, *bounds)

    monkeypatch.setattr(ReadStore, "rows", rows_of_more)
    answer = (await explore.post("/spans/compare", BODY)).json
    assert not late
    spike, baseline = answer["spike"]["total"], answer["baseline"]["total"]
    assert (spike, baseline) == ((220, 200) if side == "spike" else (100, 320))
    assert answer["attributes"]
    for each in answer["attributes"]:
        s, b = each["spikeCount"], each["baselineCount"]
        assert (each["spikeShare"], each["baselineShare"]) == (s / spike, b / baseline)
        assert 0 <= each["baselineShare"] < each["spikeShare"] <= 1
        assert each["expectedCount"] + each["surplus"] == pytest.approx(s)
        assert each["contribution"] == pytest.approx(each["surplus"] / spike)


@pytest.mark.parametrize("wide", [False, True])
async def test_keys_that_are_read_one_by_one_are_counted_alike(
    wide: bool, loader: Loader, explore: Explore, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts, numbers, an empty text, absence, keys that look like resource's; and one whose values are all different,
    which is not read.
    """
    odd, zero, sides = "a'\\\1", [0, -0.0, 2], {0: NOW - SECOND, 1: NOW - 900 * SECOND}
    for side, start in sides.items():
        values = [
            {"k": "" if n % (6 - 4 * side) else "x", odd: "é", "resource.r": zero[n % 3], "id": f"{side}{n}", "m": "a"}
            | {"many": n % 60 * side}
            for n in range(200)
        ]
        kept = [{key: value for key, value in each.items() if n % 5 or key != "k"} for n, each in enumerate(values)]
        await loader.spans(*(span(n, start=start, attributes=each) for n, each in enumerate(kept, 1)))
        await loader.spans(*(span(n, start=start) for n in range(201, 201 + 20 * side)))
    if wide:
        await clickhouse.command("ALTER TABLE spans MODIFY SETTING min_bytes_for_wide_part = 0")
        await clickhouse.command("OPTIMIZE TABLE spans FINAL")
    asked = recorded(monkeypatch)
    whole = (await explore.post("/spans/compare", BODY)).json
    monkeypatch.setattr("query.analysis.candidate_pairs.LARGE_DAY_SPANS", 1)
    apart = (await explore.post("/spans/compare", BODY)).json
    counts = [each for each in asked if isinstance(each, KeyCounts)]
    assert [each.read_per_key for each in counts] == [False, True]
    assert set(counts[1].sources) == {"k", odd, "resource.r", "m", "many"}
    again = [each for each in asked if isinstance(each, KeyCardinality)]
    assert [(each.read_per_key, each.sources) for each in again] == [(False, ("many",)), (True, ("many",))]
    assert {"k", "m"} <= {each["key"] for each in whole["attributes"]}
    assert "many" not in {each["key"] for each in whole["attributes"]}
    assert apart == whole


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Statement]:
    """What the store is asked from now on."""
    asked, rows = list[Statement](), ReadStore.rows

    async def rows_of(store: ReadStore, statement: Statement, *bounds: int) -> list[tuple[Any, ...]]:
        asked.append(statement)
        return await rows(store, statement, *bounds)

    monkeypatch.setattr(ReadStore, "rows", rows_of)
    return asked


@pytest.mark.parametrize("rolled_up", [True, False])
@pytest.mark.parametrize("keys", [None, ["m", "host"]])
async def test_filters_and_shared_keys_look_where_there_is_something(
    keys: list[str] | None,
    rolled_up: bool,
    loader: Loader,
    explore: Explore,
    clickhouse: ClickHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`host` and `m` stand on spans and on resources; what the roll-up of keys does not name is found all the same."""
    for start, own, of_all in ((NOW - SECOND, "a", "x"), (NOW - 900 * SECOND, "b", "y")):
        for resource in ({"host": own, "m": "r"}, {"host": "c", "m": of_all}, {}):
            attributes = {} if resource.get("host") == own else {"m": of_all}
            spans = [span(n, start=start, attributes=attributes) for n in range(1, 41)]
            await loader.spans(*spans, resource=resource)
        await loader.spans(
            *(span(n, start=start, attributes={"host": "c"}) for n in range(1, 11)), resource={"host": "d"}
        )
    if not rolled_up:
        await clickhouse.command("TRUNCATE TABLE attribute_keys")
    filters = [{"key": "host", "op": "in", "value": "a,b,c"}, {"key": "other", "op": "neq", "value": "x"}]
    asked = recorded(monkeypatch)
    answer = (await explore.post("/spans/compare", {**BODY, "filters": filters, "keys": keys})).json
    assert (answer["spike"]["total"], answer["baseline"]["total"]) == (90, 90)
    found = {(each["key"], each["value"]): (each["spikeCount"], each["baselineCount"]) for each in answer["attributes"]}
    assert {each: counts for each, counts in found.items() if each[0] in ("m", "host")} == {
        ("m", "x"): (40, 0),
        ("host", "a"): (40, 0),
    }
    narrow = {type(each).__name__ for each in asked if each.existing_attributes is not None} - {
        "SpanCount",
        "KnownKeys",
    }
    usual = {"CohortSize", "FieldPairs", "ListPairs", "KeyPairs", "KeyCounts"}
    assert narrow == ({"CohortSize"} if keys or not rolled_up else usual)
