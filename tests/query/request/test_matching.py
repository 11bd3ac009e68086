"""What each filter finds: a table to read, and random filters against a plain model of the rules."""

import json
import random
import re
from fractions import Fraction
from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

from chassis.clickhouse import ClickHouse, QueryLimits
from query.values import format_timestamp
from tests.query.conftest import (
    NOW,
    ONE_ENGINE,
    OTHER_PATH,
    OTHER_PROJECT,
    SECOND,
    Explore,
    Loader,
    issues,
    key_values,
    record,
    span,
)
from tests.query.model import as_shown, is_number, text_of, value_of
from tests.selection import scaled

BIG = 2**53


async def load(loader: Loader) -> None:
    scope = InstrumentationScope(name="otel", version="1.2", attributes=key_values({"tier": 3}))
    await loader.spans(
        span(1, name="int", attributes={"v": 200, "route": "/a"}, kind=2, duration=12_345_678, status=1),
        span(2, name="double", attributes={"v": 200.0, "route": "/ab"}, kind=3, parent=1),
        span(3, name="string", attributes={"v": "200", "route": ""}, kind=1, message="refused: a%b_c\\d"),
        span(4, name="bool", attributes={"v": True, "host": "own"}, kind=0, status=2, duration=-5),
        span(5, name="nan", attributes={"v": float("nan"), "name": "shadow"}),
        span(6, name="big", attributes={"v": BIG + 1}),
        span(7, name="list", attributes={"v": [1, "x"]}, start=NOW - 1800 * SECOND),
        resource={"service.name": "cart", "service.version": "1.0", "host": "resource", "size": 5},
        scope=scope,
    )
    await loader.spans(
        span(8, name="none", trace=2, duration=0),
        span(9, name="fraction", attributes={"v": 0.1, "resource.host": "claimed", "scope.name": "mine"}),
        resource={"deployment.environment": "prod"},
    )
    await loader.spans(span(1, name="foreign", attributes={"v": 200}), project=OTHER_PROJECT)


ALL = {"int", "double", "string", "bool", "nan", "big", "list", "none", "fraction"}
SHOP = ALL - {"none", "fraction"}  # those with the first resource and scope


FINDS: list[tuple[str, set[str]]] = [
    ("", ALL),
    # canonical text, and numerically when both are numbers
    ("v:200", {"int", "double", "string"}),
    ("v:200.0", {"int", "double"}),
    ("v:2e2", {"int", "double"}),
    ("-v:200", ALL - {"int", "double", "string"}),
    ("v:true", {"bool"}),
    ("v:NaN", {"nan"}),
    ("v:0.1", {"fraction"}),
    ("v:.10", {"fraction"}),
    (f"v:{BIG + 1}", {"big"}),
    (f"v:{BIG}", set()),
    ('v:"[1,\\"x\\"]"', {"list"}),
    ("v:[200,true]", {"int", "double", "string", "bool"}),
    ("-v:[200,true]", ALL - {"int", "double", "string", "bool"}),
    # phrases, with wildcards outside of their quotes
    ('statusMessage:*"d: a%b"*', {"string"}),
    ('statusMessage:"refused: a"*', {"string"}),
    ('statusMessage:*": a%b_c\\\\d"', {"string"}),
    ('statusMessage:"*d: a%b*"', set()),
    ('-statusMessage:*"d: a%b"*', ALL - {"string"}),
    ('(v:true or statusMessage:*"d: a"*)', {"string", "bool"}),
    # order is for numbers
    ("v:>100", {"int", "double", "big"}),
    ("v:>=200 v:<=200", {"int", "double"}),
    ("v:<1", {"fraction"}),
    (f"v:>{BIG}", {"big"}),
    (f"v:>{BIG + 1}", set()),
    (f"v:>={BIG + 1}", {"big"}),
    (f"v:<{BIG + 1}", {"int", "double", "fraction"}),
    (f"v:<={BIG + 1}.5", {"int", "double", "fraction", "big"}),
    # presence partitions; an empty text is there
    ("has:route", {"int", "double", "string"}),
    ("!has:route", ALL - {"int", "double", "string"}),
    ('route:""', {"string"}),
    ('-route:""', ALL - {"string"}),
    ("route:/a", {"int"}),
    ("route:/a*", {"int", "double"}),
    ("route:*b", {"double"}),
    ("route:*a*", {"int", "double"}),
    ("-route:*a*", ALL - {"int", "double"}),
    # a key absent on the span is looked for on its resource
    ("host:own", {"bool"}),
    ("host:resource", SHOP - {"bool"}),
    ("host:claimed", {"fraction"}),
    ("size:>4", SHOP),
    ("resource.host:resource", SHOP),
    ("resource.host:claimed", {"fraction"}),
    ("resource.size:5.0", SHOP),
    ("!has:host", {"none"}),
    ("scope.name:otel", SHOP),
    ("scope.name:mine", {"fraction"}),
    ("scope.version:1.2", SHOP),
    ("!has:scope.version", {"none", "fraction"}),
    ("scope.tier:<=3", SHOP),
    # own fields come first
    ("name:int", {"int"}),
    ("attr:name:shadow", {"nan"}),
    ("has:attr:name", {"nan"}),
    ("name:shadow", set()),
    ("kind:SERVER", {"int", "nan", "big", "list", "none", "fraction"}),
    ("kind:server", {"int", "nan", "big", "list", "none", "fraction"}),
    ("-kind:Server", {"double", "string", "bool"}),
    ("kind:[unspecified,Internal]", {"string", "bool"}),
    ("kind:*lie*", set()),
    ("attr:kind:foo", set()),
    ("kind:*LIE*", {"double"}),
    ("kind:[UNSPECIFIED,INTERNAL]", {"string", "bool"}),
    ("statusCode:ERROR", {"bool"}),
    ("-statusCode:UNSET", {"int", "bool"}),
    ("serviceName:cart", SHOP),
    ("!has:serviceName", {"none", "fraction"}),
    ('-serviceName:""', ALL),
    ('serviceName:""', set()),
    ("release:1.0", SHOP),
    ("environment:prod", {"none", "fraction"}),
    ("environment:unknown has:environment", SHOP),
    ("has:statusMessage", {"string"}),
    ("statusMessage:*a%b_c*", {"string"}),
    ("statusMessage:*a_b*", set()),
    (r'statusMessage:"refused: a%b_c\\d"', {"string"}),
    ("name:>1", set()),
    # durations in milliseconds, never negative
    ("durationMs:12.345678", {"int"}),
    ("durationMs:>12.345677", {"int"}),
    ("durationMs:>12.345678", set()),
    ("durationMs:>=1", ALL - {"bool", "none"}),
    ("durationMs:0", {"bool", "none"}),
    ("durationMs:<0.000001", {"bool", "none"}),
    ("durationMs:>=0", ALL),
    ("durationMs:<0", set()),
    ("durationMs:12.*", {"int"}),
    ("-durationMs:1", {"int", "bool", "none"}),
    # times
    ("startTime:>-10m", ALL - {"list"}),
    (f"startTime:{format_timestamp(NOW - 1800 * SECOND)}", {"list"}),
    (f"-startTime:{(NOW - 1800 * SECOND) // SECOND}", ALL - {"list"}),
    (f"startTime:<={NOW - 1800 * SECOND}", {"list"}),
    (f"startTime:<{NOW - 1800 * SECOND}", set()),
    (f"startTime:{format_timestamp(NOW - 1800 * SECOND)[:19]}*", {"list"}),
    # ids in either case and length
    ("traceId:" + "0" * 31 + "2", {"none"}),
    ("traceId:" + "0" * 15 + "2", {"none"}),
    ("-traceId:" + "0" * 31 + "2", ALL - {"none"}),
    ("traceId:zz", set()),
    ("-traceId:zz", ALL),
    ("spanId:000000000000000" + "8", {"none"}),
    ("parentSpanId:0000000000000001", {"double"}),
    ("!has:parentSpanId", ALL - {"double"}),
    ("parentSpanId:0000000000000000", set()),
    ("parentSpanId:*0000*", {"double"}),
    ("traceId:*2", {"none"}),
    # all must hold
    ("v:200 kind:SERVER", {"int"}),
]


async def test_finds_spans(loader: Loader, explore: Explore) -> None:
    await load(loader)
    assert await explore.names(base=OTHER_PATH) == ["foreign"]
    for filters, expected in FINDS:
        assert await explore.names(filters=filters) == sorted(expected), filters


async def test_regular_expressions_match_anywhere_and_bad_ones_are_named(loader: Loader, explore: Explore) -> None:
    await load(loader)

    def regex(pattern: str) -> str:
        return json.dumps([{"key": "v", "op": "exists"}, {"key": "name", "op": "regex", "value": pattern}])

    assert await explore.names(filters=regex("^(int|double)$")) == ["double", "int"]
    assert await explore.names(filters=regex("n.*g")) == ["string"]
    for bad, code in (("(", "format"), ("(?=x)", "format"), (r"(a)\1", "format"), ("(a{20}){20}", "too_expensive")):
        answer = await explore.get("/spans", filters=regex(bad), from_="now-1m", to=NOW)
        assert issues(answer) == [("query.filters[1].value", code)], bad


VALUES = [
    *("", "200", "200.0", "a", "/a", "0", "-0", "1e+16", "é😀", "true", "x%", "\\", "NaN", "3", str(BIG), str(BIG + 1)),
    "a\1k\2s\3A",
]
TYPED = [
    *(*VALUES, 0, 3, 200, BIG, BIG + 1, -1, 0.0, -0.0, 0.1, 200.0, 1e16, 1e300, float("inf"), True, False, None, b"ab"),
    [1],
]
KEYS = [
    *("k", "l", "resource.", "scope.", "host", "resource.host", "resource.k", "scope.name", "scope.k", "name"),
    "resource.\1\2",
]
NEGATED = ("neq", "not_contains", "not_exists", "not_in")
OPS = dict.fromkeys(("eq", "contains", "starts_with", "ends_with", "gt", "gte", "lt", "lte", "exists", "in"), False)
OPS |= dict.fromkeys(NEGATED, True)
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?")


@pytest.mark.sized
@ONE_ENGINE
async def test_random_filters_find_what_a_plain_model_finds(
    loader: Loader, explore: Explore, clickhouse: ClickHouse
) -> None:
    """In parts as inserts leave them, and in a merged one, whose Maps are split by key."""
    rng = random.Random(20)
    stored: dict[str, dict[str, Any]] = {}
    for batch in range(12):
        resource = _some(rng, ["k", "host", "resource.host", "\1\2", ""])
        scope_name, scope = rng.choice(["", "a", "otel"]), _some(rng, ["k", "name", ""])
        spans = []
        for n in range(6):
            name, own = f"{batch}-{n}", _some(rng, [*KEYS])
            spans.append(span(batch * 10 + n + 1, name=name, attributes=own))
            stored[name] = as_shown(own, resource, ({"name": scope_name} if scope_name else {}) | scope)
        pb_scope = InstrumentationScope(name=scope_name, attributes=key_values(scope))
        await loader.spans(*spans, resource=resource, scope=pb_scope)
    await _check_random_filters(rng, explore, stored)
    await clickhouse.command("ALTER TABLE spans MODIFY SETTING min_bytes_for_wide_part = 0")
    await clickhouse.command("OPTIMIZE TABLE spans FINAL")
    assert await _map_buckets(clickhouse) > 1
    await _check_random_filters(rng, explore, stored)


async def _check_random_filters(rng: random.Random, explore: Explore, stored: dict[str, dict[str, Any]]) -> None:
    for _ in range(scaled(30, 80)):
        filter_ = _filter(rng)
        wanted = sorted(name for name, shown in stored.items() if _holds(filter_, shown))
        assert await explore.names(filters=json.dumps([filter_]), from_="-2m") == wanted, filter_


async def _map_buckets(clickhouse: ClickHouse) -> int:
    sql = (
        "SELECT toInt64(max(arrayCount(name -> position(name, 'bucket') > 0, substreams))) FROM system.parts_columns"
        " WHERE active AND database = currentDatabase() AND table = 'spans' AND column = 'attributes'"
    )
    ((count,),) = await clickhouse.query(sql, {}, limits=QueryLimits())
    return int(str(count))


def _some(rng: random.Random, keys: list[str]) -> dict[str, Any]:
    return {key: rng.choice(TYPED) for key in keys if rng.random() < 0.4}


def _filter(rng: random.Random) -> dict[str, Any]:
    op = rng.choice([*OPS])
    filter_: dict[str, Any] = {"key": "attr:" + rng.choice(KEYS), "op": op}
    if op in ("gt", "gte", "lt", "lte"):
        filter_["value"] = rng.choice(["0", "200", "199.5", "-1", "0.1", str(BIG), str(BIG + 1), "1e16", "1e300"])
    elif op in ("in", "not_in"):
        filter_["value"] = rng.sample(VALUES, rng.randint(1, 3))
    elif "exists" not in op:
        filter_["value"] = rng.choice(VALUES)
    return filter_


def _holds(filter_: dict[str, Any], shown: dict[str, Any]) -> bool:
    try:
        found = _matches(filter_["op"], value_of(shown, filter_["key"]), filter_.get("value"))
    except KeyError:
        found = False
    return found != OPS[filter_["op"]]


def _matches(op: str, value: Any, wanted: Any) -> bool:
    text = text_of(value)
    if "exists" in op:
        return True
    if "contains" in op:
        return wanted in text
    if op == "starts_with":
        return text.startswith(wanted)
    if op == "ends_with":
        return text.endswith(wanted)
    if op in ("gt", "gte", "lt", "lte"):
        return _ordered(op, value, wanted)
    candidates = wanted if isinstance(wanted, list) else [wanted]
    return any(text == each or _equal(value, each) for each in candidates)


def _ordered(op: str, value: Any, wanted: str) -> bool:
    """Integers compare exactly, doubles with the double that the bound means; nothing else is ordered."""
    if not is_number(value):
        return False
    bound = float(wanted) if isinstance(value, float) else Fraction(wanted)
    orders: dict[str, bool] = {"gt": value > bound, "gte": value >= bound, "lt": value < bound, "lte": value <= bound}
    return orders[op]


def _equal(value: Any, text: str) -> bool:
    if not is_number(value) or NUMBER.fullmatch(text) is None:
        return False
    if isinstance(value, int) or text.lstrip("-").isdigit():
        return Fraction(value) == Fraction(text)
    return bool(value == float(text))


FINDS_LOGS: list[tuple[str, set[str]]] = [
    ("severityNumber:>=17", {"error"}),
    ("severityNumber:9 severityNumber:<10", {"number"}),
    ("!has:severityNumber", {"empty", "map"}),
    ("-severityNumber:9", {"error", "empty", "map"}),
    ("severityText:ERROR", {"error"}),
    ("body:*refused*", {"error"}),
    ("body:200", {"number"}),
    ("body:200.0", {"number"}),
    ("body:>199", {"number"}),
    ("!has:body", {"empty"}),
    ('body:"{\\"a\\":1}"', {"map"}),
    ("eventName:click", {"map"}),
    ("has:traceId", {"error"}),
    ("traceId:000000000000000000000000000000AB", {"error"}),
    ("!has:traceId !has:spanId", {"number", "empty", "map"}),
    ("traceId:" + "0" * 32, set()),
    ("serviceName:cart", {"error", "number", "empty", "map"}),
    ("time:<-30m", {"empty"}),
    ("which:[error,map]", {"error", "map"}),
]


async def test_finds_log_records(loader: Loader, explore: Explore) -> None:
    await loader.logs(
        record(
            body="connection refused",
            severity=17,
            severity_text="ERROR",
            trace=171,
            number=5,
            attributes={"which": "error"},
        ),
        record(body=200, severity=9, attributes={"which": "number"}),
        record(attributes={"which": "empty"}, at=NOW - 3000 * SECOND),
        record(body={"a": 1}, event_name="click", attributes={"which": "map"}),
        resource={"service.name": "cart"},
    )
    for filters, expected in FINDS_LOGS:
        rows = await explore.data("/logs", filters=filters)
        assert {row["attributes"]["which"] for row in rows} == expected, filters
