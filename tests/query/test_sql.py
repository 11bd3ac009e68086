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
from query.fields import LOGS, SPANS, TelemetryTable
from query.request.filters import Filter, Op, condition
from query.statements import (
    Aggregation,
    Attribute,
    AttributeKeys,
    DistinctAttributeSets,
    EndedRows,
    Fn,
    Listing,
    NonFiniteCounts,
    Position,
    PresenceCounts,
    RankedSpans,
    RollupKeys,
    SpanRanking,
    SpanRecords,
    Statement,
    TraceAttributes,
    TraceBounds,
    TraceSize,
    TraceSpansBrief,
)
from query.statements.window import BUCKET, Window
from query.timestamps import HOUR, MAX_NANOS
from tests.query.analysis import aggregate_statements as aggregate
from tests.query.analysis import compare_statements as compare
from tests.query.analysis import figure_statements as figures
from tests.query.analysis import heatmap_statements as heatmaps
from tests.query.analysis import service_map_statements as service_maps
from tests.query.error_groups import statements as errors
from tests.query.logs import statements as log_counts

NOW_NS = time.time_ns()
GOLDEN = Path(__file__).parent / "sql"
NOW = 1_795_188_000_123_456_789
WINDOW = Window(NOW - HOUR, NOW)
TRACE = bytes(range(16))
SPAN = bytes(range(8))
AFTER = Position(NOW - 1, TRACE, SPAN, 2**64 - 1, 2**32 - 1)


def spans(*filters: tuple[Any, ...], **parts: Any) -> Listing:
    return _listing(SPANS, filters, parts)


def logs(*filters: tuple[Any, ...], **parts: Any) -> Listing:
    return _listing(LOGS, filters, parts)


def _listing(signal: TelemetryTable, filters: tuple[tuple[Any, ...], ...], parts: dict[str, Any]) -> Listing:
    issues = Issues()
    tests = [condition(Filter(key, op, tuple(values)), signal, NOW, "p", issues) for key, op, *values in filters]
    issues.raise_if_any()
    found = tuple(each for each in tests if each is not None)
    return replace(Listing(project_id=7, signal=signal, window=WINDOW, conditions=found, limit=51), **parts)


SHAPES: dict[str, Statement] = {
    "spans": spans(),
    "spans_after": spans(after=AFTER),
    "spans_of_trace": spans(trace_id=TRACE),
    "spans_own_fields": spans(
        ("name", Op.EQ, "GET /"),
        ("kind", Op.EQ, "SERVER"),
        ("serviceName", Op.NEQ, "cart"),
        ("release", Op.NOT_EXISTS),
        ("environment", Op.IN, "prod", "staging"),
        ("statusCode", Op.NOT_IN, "OK", "UNSET"),
        ("statusMessage", Op.CONTAINS, "refused"),
        ("name", Op.STARTS_WITH, "GET"),
        ("name", Op.ENDS_WITH, "/"),
        ("name", Op.REGEX, "^GET"),
        ("name", Op.GT, "1"),
    ),
    "spans_durations": spans(
        ("durationMs", Op.GT, "100"),
        ("durationMs", Op.GTE, "0.5"),
        ("durationMs", Op.LT, "1e3"),
        ("durationMs", Op.LTE, "0.0000015"),
        ("durationMs", Op.GTE, "0"),
        ("durationMs", Op.LT, "0"),
        ("durationMs", Op.LT, "1e300"),
        ("durationMs", Op.EQ, "12.345678"),
        ("durationMs", Op.NEQ, "x"),
        ("durationMs", Op.EXISTS),
        ("durationMs", Op.STARTS_WITH, "12."),
    ),
    "spans_times": spans(
        ("startTime", Op.GTE, "now-30m"),
        ("startTime", Op.LT, "now-10m"),
        ("startTime", Op.EQ, "now-20m"),
        ("startTime", Op.CONTAINS, "T15:"),
    ),
    "spans_ids": spans(
        ("traceId", Op.EQ, "00000000000000000000000000000ABC"),
        ("traceId", Op.IN, "0000000000000abc", "xyz"),
        ("spanId", Op.NEQ, "00000000000000ab"),
        ("parentSpanId", Op.NOT_EXISTS),
        ("parentSpanId", Op.EQ, "not an id"),
        ("spanId", Op.STARTS_WITH, "00AB"),
    ),
    "spans_attributes": spans(
        ("http.route", Op.EQ, "/x"),
        ("http.route", Op.NEQ, "/x"),
        ("http.status_code", Op.EQ, "200"),
        ("http.status_code", Op.GTE, "500"),
        ("big", Op.GT, "9007199254740993"),
        ("user.id", Op.EXISTS),
        ("user.id", Op.NOT_EXISTS),
        ("url", Op.CONTAINS, "a"),
        ("url", Op.CONTAINS, ""),
        ("region", Op.IN, "eu", "us"),
        ("attr:name", Op.EQ, "x"),
    ),
    "spans_group": replace(
        spans(("name", Op.EQ, "x")),
        existing_attributes=frozenset({"k"}),
        conditions=(
            replace(
                spans(("k", Op.NEQ, "x")).conditions[0],
                alternatives=spans(("durationMs", Op.GT, "1"), ("l", Op.EXISTS)).conditions,
            ),
        ),
    ),
    "spans_resource_and_scope": spans(
        ("resource.host.name", Op.EQ, "h"),
        ("scope.name", Op.EQ, "otel"),
        ("scope.version", Op.EXISTS),
        ("scope.tier", Op.LT, "3"),
    ),
    "logs": logs(),
    "logs_own_fields": logs(
        ("severityNumber", Op.GTE, "17"),
        ("severityNumber", Op.LT, "21"),
        ("severityNumber", Op.EQ, "17"),
        ("severityNumber", Op.NOT_EXISTS),
        ("severityText", Op.EQ, "ERROR"),
        ("body", Op.CONTAINS, "refused"),
        ("body", Op.EQ, "200"),
        ("body", Op.GT, "3"),
        ("body", Op.NOT_EXISTS),
        ("eventName", Op.EXISTS),
        ("traceId", Op.NOT_EXISTS),
        ("spanId", Op.EQ, "00000000000000ab"),
        ("time", Op.LTE, "now-1m"),
        ("name", Op.EQ, "an attribute here"),
    ),
    "ended_spans": EndedRows(project_id=7, signal=SPANS, window=WINDOW, after_ns=NOW - HOUR // 60, limit=51),
    "ended_spans_after": EndedRows(
        project_id=7,
        signal=SPANS,
        window=WINDOW,
        after_ns=NOW - HOUR // 60,
        conditions=spans(("http.route", Op.EQ, "/x")).conditions,
        existing_attributes=frozenset({"http.route", "resource.http.route"}),
        shown=((2**64 - 1, 0), (5, 2**32 - 1)),
        limit=51,
    ),
    "ended_logs": EndedRows(
        project_id=7, signal=LOGS, window=WINDOW, after_ns=WINDOW.from_ns - 1, shown=((1, 2),), limit=51
    ),
    "longest_spans": SpanRanking(project_id=7, window=WINDOW, conditions=spans(("k", Op.EQ, "x")).conditions, limit=51),
    "longest_spans_after": SpanRanking(
        project_id=7, window=WINDOW, trace_id=TRACE, after=replace(AFTER, duration_ns=5), limit=51
    ),
    "longest_spans_of_page": RankedSpans(
        project_id=7, positions=(replace(AFTER, duration_ns=5), Position(NOW - HOUR, TRACE, SPAN, 3, 4, 0)), limit=2
    ),
    "trace_bounds": TraceBounds(project_id=7, trace_id=TRACE),
    "trace_skeleton": TraceSpansBrief(project_id=7, trace_id=TRACE, window=WINDOW, limit=10_001),
    "trace_size": TraceSize(project_id=7, trace_id=TRACE, window=WINDOW),
    "trace_attributes": TraceAttributes(project_id=7, trace_id=TRACE, window=WINDOW, row_ids=((1, 0), (2, 5))),
    "trace_attributes_all": TraceAttributes(project_id=7, trace_id=TRACE, window=WINDOW, row_ids=()),
    "span_records": SpanRecords(project_id=7, trace_id=TRACE, span_id=SPAN, window=WINDOW, limit=20),
    "attribute_keys": AttributeKeys(
        project_id=7,
        whole_buckets=Window(WINDOW.from_ns // BUCKET * BUCKET + BUCKET, WINDOW.to_ns // BUCKET * BUCKET),
        partial_buckets=(
            Window(WINDOW.from_ns, WINDOW.from_ns // BUCKET * BUCKET + BUCKET),
            Window(WINDOW.to_ns // BUCKET * BUCKET, WINDOW.to_ns),
        ),
        limit=10_001,
    ),
    "attribute_keys_of_many": AttributeKeys(
        project_id=7,
        whole_buckets=Window(NOW // BUCKET * BUCKET - HOUR, NOW // BUCKET * BUCKET),
        partial_buckets=(),
        limit=10_001,
        estimated=True,
    ),
    "attribute_keys_of_whole_buckets": AttributeKeys(
        project_id=7,
        whole_buckets=Window(NOW // BUCKET * BUCKET - HOUR, NOW // BUCKET * BUCKET),
        partial_buckets=(),
        limit=10_001,
    ),
    "rolled_up_keys": RollupKeys(project_id=7, whole_buckets=Window(NOW // BUCKET * BUCKET - HOUR, NOW), limit=10_001),
    "carried_lists": DistinctAttributeSets(project_id=7, windows=(WINDOW, Window(NOW, NOW + 1))),
    "not_finite": NonFiniteCounts(project_id=7, windows=(WINDOW,)),
    "tally": PresenceCounts(
        project_id=7,
        window=WINDOW,
        present=(SPANS.fields["statusMessage"], SPANS.fields["parentSpanId"], Attribute("host")),
        numbers=(Attribute("size"),),
    ),
    **errors.SHAPES,
    **compare.SHAPES,
    **aggregate.SHAPES,
    **figures.SHAPES,
    **heatmaps.SHAPES,
    **log_counts.SHAPES,
    **service_maps.SHAPES,
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


@pytest.mark.parametrize("shape", SHAPES)
async def test_the_engine_runs_it(shape: str, clickhouse: ClickHouse) -> None:
    query = sql.emit(SHAPES[shape])
    await clickhouse.query(query.sql, query.parameters, limits=QueryLimits())


@pytest.mark.parametrize("project_id", [0, -1])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_statement_without_its_project(shape: str, project_id: int) -> None:
    with pytest.raises(ValueError, match="project"):
        replace(SHAPES[shape], project_id=project_id)


TEXTS = st.text(min_size=1, max_size=40) | st.sampled_from(
    [
        "'",
        "\\",
        '"',
        "{p0:UInt64}",
        "{x:Identifier}",
        "; DROP TABLE spans",
        "' OR 1=1 --",
        "`",
        "%",
        "\0",
        "\\N",
        "0",
        "*/",
    ]
)
KEYS = TEXTS | st.sampled_from([*SPANS.fields, "resource.x", "scope.name", "attr:name"])


@given(KEYS, st.sampled_from(Op), st.lists(TEXTS, min_size=1, max_size=3), st.booleans())
def test_no_text_of_a_request_reaches_the_statement(key: str, op: Op, values: list[str], of_logs: bool) -> None:
    """The project comes first and what follows is built of a fixed vocabulary."""
    signal = LOGS if of_logs else SPANS
    issues = Issues()
    test = condition(Filter(key, op, tuple(values)), signal, NOW, "p", issues)
    if test is None:
        assert len(issues)
        return
    query = sql.emit(Listing(project_id=7, signal=signal, window=WINDOW, conditions=(test,), limit=51))
    where = query.sql.split("\nWHERE ", 1)[1]
    assert where.startswith("project_id = {p0:UInt64}\n  AND ")
    assert query.parameters["p0"] == 7
    vocabulary = re.sub(r"\{p\d+:[A-Za-z0-9()]+\}", "", query.sql)
    assert set(vocabulary) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_()[]=<>!*+-%.,' \n\\")
    assert set(re.findall(r"'([^']*)'", vocabulary)) <= CONSTANTS


CONSTANTS = {
    *("\\x01", "\\x02", "\\x03", "\\x03A", "\\x03B", "\\x03C"),
    *("UTC", "", "n", "i", "d", "NaN", "Infinity", "-Infinity", ".", "0", " ", "T", "Z"),
    *SPANS.fields["kind"].names,
    *SPANS.fields["statusCode"].names,
}


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


@pytest.mark.parametrize(
    "statement", [spans(), aggregate.aggregation(Fn.P95, "durationMs", "name")], ids=["list", "aggregate"]
)
async def test_the_bucket_predicate_is_what_skips(
    statement: Listing | Aggregation, clickhouse: ClickHouse, clickhouse_url: str, database: str
) -> None:
    """With it a quarter of an hour of a day reads a fraction of the granules; without it all of them."""
    noon = (NOW_NS // (24 * HOUR) - 1) * 24 * HOUR + 12 * HOUR
    await clickhouse.command(
        "INSERT INTO spans (project_id, start_time, service_name, name)"  # ids and maps at their defaults
        f" SELECT 7, fromUnixTimestamp64Nano(toInt64({noon}) + toInt64(number) * 100000000, 'UTC'),"
        " toString(number % 5), toString(number % 7) FROM numbers(400000)"
    )
    query = sql.emit(replace(statement, window=Window(noon + HOUR, noon + HOUR + HOUR // 4)))
    bare = "\n".join(line for line in query.sql.splitlines() if "toStartOfFiveMinutes" not in line)
    engine = open_client(parse_url(clickhouse_url, database), 30)
    try:
        read, of = granules(engine, query.sql, query.parameters)
        read_bare, of_bare = granules(engine, bare, query.parameters)
    finally:
        engine.close()
    assert of == of_bare == read_bare >= 40
    assert read <= 4


def granules(engine: Client, statement: str, parameters: dict[str, object]) -> tuple[int, int]:
    """Granules that the primary key leaves, and those it had to choose from."""
    plan = engine.query(f"EXPLAIN indexes = 1 {statement}", parameters=parameters)
    text = "\n".join(line for (line,) in plan.result_rows)
    found = re.search(r"PrimaryKey.*?Granules: (\d+)/(\d+)", text, re.DOTALL)
    assert found, text
    return int(found[1]), int(found[2])


def test_integers_are_compared_as_such_where_floats_end() -> None:
    bounds = (str(2**53 - 1), str(2**53), str(-(2**53)), "1e200")
    texts = [sql.emit(spans(("k", Op.GT, bound))).sql for bound in bounds]
    assert ["toInt128OrNull" in text for text in texts] == [False, True, True, False]
