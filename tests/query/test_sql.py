"""Statements as SQL: a golden file per shape, and what must hold for every statement.

`SLUICE_UPDATE_GOLDEN=1` rewrites the files; a review reads their diff.
"""

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from hypothesis import given
from hypothesis import strategies as st

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.target import open_client, parse_url
from chassis.http.validation import Issues
from query import sql
from query import statements as q
from query.request.filters import Filter, Op, condition, conditions, parse_filters, resolve_key
from query.rows import ERRORS, LOGS, SPAN_KINDS, SPANS, STATUS_CODES, TelemetryTable
from query.statements import BUCKET, Fn, Listing, Statement, Window
from query.values import HOUR, MAX_NANOS
from tests.query.analysis import statements as analysis
from tests.query.error_groups import statements as errors

NOW_NS = time.time_ns()
GOLDEN = Path(__file__).parent / "sql"
NOW = 1_795_188_000_123_456_789
WINDOW = Window(NOW - HOUR, NOW)
TRACE = bytes(range(16))
SPAN = bytes(range(8))
AFTER = q.Position(NOW - 1, TRACE, SPAN, 2**64 - 1, 2**32 - 1)


def spans(*filters: str, **parts: Any) -> Listing:
    return _listing(SPANS, filters, parts)


def logs(*filters: str, **parts: Any) -> Listing:
    return _listing(LOGS, filters, parts)


def _listing(signal: TelemetryTable, filters: tuple[str, ...], parts: dict[str, Any]) -> Listing:
    """With filters as people write them, or in JSON."""
    issues = Issues()
    written = tuple(each for text in filters for each in parse_filters(text, "p", issues))
    tests = conditions(written, signal, NOW, "p", issues)
    issues.raise_if_any()
    return replace(Listing(project_id=7, signal=signal, window=WINDOW, conditions=tests, limit=51), **parts)


SHAPES: dict[str, Statement] = {
    "spans": spans(),
    "spans_after": spans(after=AFTER),
    "spans_of_trace": spans(trace_id=TRACE),
    "spans_own_fields": spans(
        'name:"GET /" kind:SERVER -serviceName:cart !has:release environment:[prod,staging] -statusCode:[OK,UNSET]',
        "statusMessage:*refused* name:GET* name:*/",
        '[{"key": "name", "op": "regex", "value": "^GET"}]',
        "name:>1",
    ),
    "spans_durations": spans(
        "durationMs:>100 durationMs:>=0.5 durationMs:<1e3 durationMs:<=0.0000015 durationMs:>=0 durationMs:<0",
        "durationMs:<1e300 durationMs:12.345678 -durationMs:x has:durationMs durationMs:12.*",
    ),
    "spans_times": spans("startTime:>=now-30m startTime:<now-10m startTime:now-20m startTime:*T15:*"),
    "spans_ids": spans(
        "traceId:00000000000000000000000000000ABC traceId:[0000000000000abc,xyz] -spanId:00000000000000ab",
        '!has:parentSpanId parentSpanId:"not an id" spanId:00AB*',
    ),
    "spans_attributes": spans(
        "http.route:/x -http.route:/x http.status_code:200 http.status_code:>=500 big:>9007199254740993",
        'has:user.id !has:user.id url:*a* url:*""* region:[eu,us] attr:name:x',
    ),
    "spans_group": spans("(-k:x or durationMs:>1 or has:l)", existing_attributes=frozenset({"k"})),
    "spans_resource_and_scope": spans("resource.host.name:h scope.name:otel has:scope.version scope.tier:<3"),
    "logs": logs(),
    "logs_own_fields": logs(
        "severityNumber:>=17 severityNumber:<21 severityNumber:17 !has:severityNumber severityText:ERROR",
        "body:*refused* body:200 body:>3 !has:body has:eventName !has:traceId spanId:00000000000000ab time:<=now-1m",
        'name:"an attribute here"',
    ),
    "ended_spans": q.EndedRows(project_id=7, signal=SPANS, window=WINDOW, after_ns=NOW - HOUR // 60, limit=51),
    "ended_spans_after": q.EndedRows(
        project_id=7,
        signal=SPANS,
        window=WINDOW,
        after_ns=NOW - HOUR // 60,
        conditions=spans("http.route:/x").conditions,
        existing_attributes=frozenset({"http.route", "resource.http.route"}),
        shown=((2**64 - 1, 0), (5, 2**32 - 1)),
        limit=51,
    ),
    "ended_logs": q.EndedRows(
        project_id=7, signal=LOGS, window=WINDOW, after_ns=WINDOW.from_ns - 1, shown=((1, 2),), limit=51
    ),
    "longest_spans": q.SpanRanking(project_id=7, window=WINDOW, conditions=spans("k:x").conditions, limit=51),
    "longest_spans_after": q.SpanRanking(
        project_id=7, window=WINDOW, trace_id=TRACE, after=replace(AFTER, duration_ns=5), limit=51
    ),
    "longest_spans_of_page": q.RankedSpans(
        project_id=7, positions=(replace(AFTER, duration_ns=5), q.Position(NOW - HOUR, TRACE, SPAN, 3, 4, 0)), limit=2
    ),
    "trace_bounds": q.TraceBounds(project_id=7, trace_id=TRACE),
    "trace_skeleton": q.TraceSpansBrief(project_id=7, trace_id=TRACE, window=WINDOW, limit=10_001),
    "trace_size": q.TraceSize(project_id=7, trace_id=TRACE, window=WINDOW),
    "trace_attributes": q.TraceAttributes(project_id=7, trace_id=TRACE, window=WINDOW, row_ids=((1, 0), (2, 5))),
    "trace_attributes_all": q.TraceAttributes(project_id=7, trace_id=TRACE, window=WINDOW, row_ids=()),
    "span_records": q.SpanRecords(project_id=7, trace_id=TRACE, span_id=SPAN, window=WINDOW, limit=20),
    "attribute_keys": q.AttributeKeys(
        project_id=7,
        whole_buckets=Window(WINDOW.from_ns // BUCKET * BUCKET + BUCKET, WINDOW.to_ns // BUCKET * BUCKET),
        partial_buckets=(
            Window(WINDOW.from_ns, WINDOW.from_ns // BUCKET * BUCKET + BUCKET),
            Window(WINDOW.to_ns // BUCKET * BUCKET, WINDOW.to_ns),
        ),
        limit=10_001,
    ),
    "attribute_keys_of_many": q.AttributeKeys(
        project_id=7,
        whole_buckets=Window(NOW // BUCKET * BUCKET - HOUR, NOW // BUCKET * BUCKET),
        partial_buckets=(),
        limit=10_001,
        estimated=True,
    ),
    "attribute_keys_of_whole_buckets": q.AttributeKeys(
        project_id=7,
        whole_buckets=Window(NOW // BUCKET * BUCKET - HOUR, NOW // BUCKET * BUCKET),
        partial_buckets=(),
        limit=10_001,
    ),
    "rolled_up_keys": q.RollupKeys(
        project_id=7, whole_buckets=Window(NOW // BUCKET * BUCKET - HOUR, NOW), limit=10_001
    ),
    "carried_lists": q.DistinctAttributeSets(project_id=7, windows=(WINDOW, Window(NOW, NOW + 1))),
    "not_finite": q.NonFiniteCounts(project_id=7, windows=(WINDOW,)),
    "tally": q.PresenceCounts(
        project_id=7,
        window=WINDOW,
        present=(SPANS.fields["statusMessage"], SPANS.fields["parentSpanId"], q.Attribute("host")),
        numbers=(q.Attribute("size"),),
    ),
    **errors.SHAPES,
    **analysis.SHAPES,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_sql_is_as_reviewed(shape: str) -> None:
    query = sql.emit(SHAPES[shape])
    bound = "".join(f"-- {name} = {value!r}\n" for name, value in query.parameters.items())
    file = GOLDEN / f"{shape}.sql"
    if os.environ.get("SLUICE_UPDATE_GOLDEN"):
        file.write_text(query.sql + bound, encoding="utf-8")
    assert query.sql + bound == file.read_text(encoding="utf-8")


def test_every_golden_file_has_its_shape() -> None:
    assert {file.stem for file in GOLDEN.glob("*.sql")} == set(SHAPES)


async def test_the_engine_runs_each(clickhouse: ClickHouse, subtests: pytest.Subtests) -> None:
    for shape, statement in SHAPES.items():
        with subtests.test(shape):
            query = sql.emit(statement)
            await clickhouse.query(query.sql, query.parameters, limits=QueryLimits())


@pytest.mark.parametrize("project_id", [0, -1])
def test_no_statement_without_its_project(project_id: int) -> None:
    for shape in SHAPES.values():
        with pytest.raises(ValueError, match="project"):
            replace(shape, project_id=project_id)


ODD = ["'", "\\", '"', "{p0:UInt64}", "{x:Identifier}", "; DROP TABLE spans", "' OR 1=1 --", "`", "%", "\0", "0", "*/"]
TEXTS = st.text(min_size=1, max_size=40) | st.sampled_from(ODD)
KEYS = TEXTS | st.sampled_from([*SPANS.fields, *ERRORS.fields, "resource.x", "scope.name", "attr:name"])
LITERALS = {
    *("\\x01", "\\x02", "\\x03", "\\x03A", "\\x03B", "\\x03C", "UTC", "", "n", "i", "d", "NaN", "Infinity"),
    *("-Infinity", ".", "0", " ", "T", "Z", "(?s)", "Nullable(Float64)", "UInt64", "UInt128"),
    *SPAN_KINDS,
    *STATUS_CODES,
}


def filtered(signal: TelemetryTable, key: str, op: Op, values: list[str]) -> list[Statement]:
    """A statement of each kind that takes filters on this table; none if the filter is refused."""
    issues = Issues()
    test = condition(Filter(key, op, tuple(values)), signal, NOW, "p", issues)
    assert (test is None) is (len(issues) > 0)
    if test is None:
        return []
    parts: dict[str, Any] = {"project_id": 7, "window": WINDOW, "conditions": (test,)}
    if signal is not ERRORS:
        return [Listing(signal=signal, limit=51, **parts)]
    assert key in ERRORS.fields
    facets = q.ErrorFacets(fingerprints=(TRACE,), limit=2, **parts)
    return [q.ErrorRanking(order=q.ErrorOrder.COUNT, limit=2, **parts), facets]


def grouped(fn: Fn, key: str, group_by: str, groups: list[str], guarded: bool) -> list[Statement]:
    parts: dict[str, Any] = {"project_id": 7, "window": WINDOW, "conditions": (), "fn": fn}
    parts |= {"subject": resolve_key(key, SPANS), "group_by": resolve_key(group_by, SPANS)}
    parts["existing_attributes"] = frozenset({key}) if guarded else None
    steps = q.TimeBuckets(0, HOUR)
    series = q.GroupSeries(buckets=steps, groups=(*groups, None), **parts)
    return [q.Aggregation(buckets=steps, limit=10, **parts), q.GroupRanking(limit=10, **parts), series]


STATEMENTS = st.builds(
    filtered, st.sampled_from([SPANS, LOGS, ERRORS]), KEYS, st.sampled_from(Op), st.lists(TEXTS, min_size=1, max_size=3)
) | st.builds(grouped, st.sampled_from(Fn), KEYS, KEYS, st.lists(TEXTS, min_size=1, max_size=3), st.booleans())


@given(STATEMENTS)
def test_no_text_of_a_request_reaches_the_statement(statements: list[Statement]) -> None:
    """The project comes first and what follows is built of a fixed vocabulary."""
    for query in map(sql.emit, statements):
        where = re.match(r"project_id = \{(p\d+):UInt64\}\n", query.sql.split("WHERE ", 1)[1])
        assert where is not None
        assert query.parameters[where[1]] == 7
        vocabulary = re.sub(r"\{p\d+:[A-Za-z0-9()]+\}", "", query.sql)
        assert re.fullmatch(r"[A-Za-z0-9_()\[\]=<>!*+\-/%.,' \n\\]*", vocabulary)
        assert set(re.findall(r"'([^']*)'", vocabulary)) <= LITERALS


@given(st.integers(0, MAX_NANOS - 1), st.integers(1, 720 * HOUR))
def test_every_window_has_its_buckets(from_ns: int, length: int) -> None:
    window = Window(from_ns, min(from_ns + length, MAX_NANOS))
    query = sql.emit(spans(window=window))
    assert query.sql.count("toStartOfFiveMinutes(start_time)") == 2
    buckets = [
        int(str(value)) for name, value in query.parameters.items() if f"toDateTime({{{name}:UInt32}}" in query.sql
    ]
    low, high = min(buckets), max(buckets)
    assert low % 300 == 0
    assert low * 10**9 <= from_ns
    assert high % 300 == 0
    assert (high + 300) * 10**9 >= min(window.to_ns, 2**32 * 10**9 // 300 * 300)


async def test_the_bucket_predicate_is_what_skips(clickhouse: ClickHouse, clickhouse_url: str, database: str) -> None:
    """With it a quarter of an hour of a day reads a fraction of the granules; without it all of them."""
    noon = (NOW_NS // (24 * HOUR) - 1) * 24 * HOUR + 12 * HOUR
    await clickhouse.command(
        "INSERT INTO spans (project_id, start_time, service_name, name)"  # ids and maps at their defaults
        f" SELECT 7, fromUnixTimestamp64Nano(toInt64({noon}) + toInt64(number) * 100000000, 'UTC'),"
        " toString(number % 5), toString(number % 7) FROM numbers(400000)"
    )
    engine = open_client(parse_url(clickhouse_url, database), 30)
    try:
        for statement in (spans(), analysis.aggregation(Fn.P95, "durationMs", "name")):
            query = sql.emit(replace(statement, window=Window(noon + HOUR, noon + HOUR + HOUR // 4)))
            bare = "\n".join(line for line in query.sql.splitlines() if "toStartOfFiveMinutes" not in line)
            read, of = granules(engine, query.sql, query.parameters)
            assert granules(engine, bare, query.parameters) == (of, of)
            assert (of >= 40, read <= 4) == (True, True), query.sql
    finally:
        engine.close()


def granules(engine: Client, statement: str, parameters: dict[str, object]) -> tuple[int, int]:
    """Granules that the primary key leaves, and those it had to choose from."""
    plan = engine.query(f"EXPLAIN indexes = 1 {statement}", parameters=parameters)
    text = "\n".join(line for (line,) in plan.result_rows)
    found = re.search(r"PrimaryKey.*?Granules: (\d+)/(\d+)", text, re.DOTALL)
    assert found, text
    return int(found[1]), int(found[2])


def test_integers_are_compared_as_such_where_floats_end() -> None:
    bounds = (str(2**53 - 1), str(2**53), str(-(2**53)), "1e200")
    texts = [sql.emit(spans(f"k:>{bound}")).sql for bound in bounds]
    assert ["toInt128OrNull" in text for text in texts] == [False, True, True, False]
