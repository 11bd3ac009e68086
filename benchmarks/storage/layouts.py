"""The candidates: how each lays out spans or logs, and how its users spell what the explore API asks.

Sluice's own table is read from its migration; most candidates are that table with one thing changed, so that a row of
the report tells what the one thing costs and brings. `maps` is what Sluice's tables would be without their texts of
whole lists: resource and numbers in Maps of their own.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from benchmarks.storage.engine import sql_file
from chassis.clickhouse import migrations
from chassis.http.validation import Issues
from query.request.filters import Filter, Op, condition
from query.rows import LOGS, SPANS
from query.sql.bindings import Bindings
from query.sql.predicates import condition_sql

Signal = Literal["spans", "logs"]
Change = tuple[str, str]

RESOURCE_KEY: Final = "host.name"
_PLACE: Final = re.compile(r"\{(p\d+):[A-Za-z0-9()]+\}")
_ATTRIBUTE: Final = re.compile(r"attributes\['([^']*)'\]")


class Spelling(NamedTuple):
    """SQL for what is asked of a row; attributes and resource by key."""

    project: str
    time: str
    service: str
    duration: str
    trace_id: str
    text: Callable[[str], str]
    number: Callable[[str], str]
    resource: Callable[[str], str]
    matches: Callable[[str, Op, str], str]  # a filter of the explore API
    pairs: str  # the Map of all attributes; empty where there is none
    bucketed: bool = True  # whether the sort key starts with five minutes


class Layout(NamedTuple):
    """A table and what it is filled with. `select` has the columns that are not those of the source."""

    name: str
    what: str
    ddl: str
    spelling: Spelling
    select: Mapping[str, str] = {}
    whole_select: str = ""


def _ours(signal: Signal) -> str:
    first = next(
        statement
        for migration in migrations.migrations()
        for statement in migration.statements
        if f"CREATE TABLE IF NOT EXISTS {signal}\n" in statement
    )
    # No TTL: the rows are those of a fixed day. No fsync: it is the disk's time, the same for all.
    sql = migrations.render(first, embedded=False, retention_days=0)
    return sql.replace(f"CREATE TABLE IF NOT EXISTS {signal}", "CREATE TABLE {table}")


def _changed(ddl: str, *changes: Change) -> str:
    for old, new in changes:
        if old not in ddl:
            raise ValueError(f"nothing to change: {old}")
        ddl = ddl.replace(old, new)
    return ddl


def _unsplit(ddl: str) -> str:
    return ddl.replace("map_serialization_version = 'with_buckets'", "map_serialization_version = 'basic'")


def _from_list(column: str, key: str) -> str:
    pattern = key.replace(".", "\\\\.")
    return f"extract({column}, '\\x01{pattern}\\x02.([^\\x01]*)')"


def _filter_sql(signal: Signal, key: str, op: Op, value: str) -> str:
    """What the query service makes of a filter, with the values in place."""
    issues = Issues()
    test = condition(Filter(key, op, (value,)), SPANS if signal == "spans" else LOGS, 0, "filter", issues)
    if test is None:
        raise ValueError(f"no filter: {key} {op} {value}")
    bindings = Bindings()
    sql = condition_sql(test, bindings)
    return _PLACE.sub(lambda place: _literal(bindings.values[place[1]]), sql)


def _literal(value: object) -> str:
    if not isinstance(value, str):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + re.sub("[\0-\x1f]", lambda odd: f"\\x{ord(odd[0]):02x}", escaped) + "'"


def _spelling(signal: Signal, text: Callable[[str], str], pairs: str = "attributes") -> Spelling:
    """Filters as the query service sends them, with `text` for an attribute of the item."""

    def matches(key: str, op: Op, value: str) -> str:
        return _ATTRIBUTE.sub(lambda found: text(found[1]), _filter_sql(signal, key, op, value))

    return Spelling(
        project="project_id",
        time="start_time" if signal == "spans" else "time",
        service="service_name",
        duration="duration" if signal == "spans" else "length(body)",
        trace_id="trace_id = unhex('{id}')",
        text=text,
        number=lambda key: f"toFloat64OrNull({text(key)})",
        resource=lambda key: _from_list("resource", key),
        matches=matches,
        pairs=pairs,
    )


def _in_map(key: str) -> str:
    return f"attributes['{key}']"


def _simple(text: str, number: str, present: str, op: Op, value: str) -> str:
    """A filter on one place."""
    match op:
        case Op.EQ:
            return f"{text} = '{value}'"
        case Op.CONTAINS:
            return f"position({text}, '{value}') > 0"
        case Op.GTE:
            return f"{number} >= {value}"
        case Op.EXISTS:
            return present
    raise ValueError(f"no filter of the benchmark: {op}")


def _maps_spelling(signal: Signal) -> Spelling:
    def matches(key: str, op: Op, value: str) -> str:
        places = (("attributes", key), ("attributes", f"resource.{key}"), ("resource_attributes", key))
        present = [f"has({column}.keys, '{name}')" for column, name in places]
        if op is Op.EXISTS:
            return f"({' OR '.join(present)})"
        number = f"has(numbers.keys, '{key}') AND numbers['{key}']"
        tests = [_simple(f"{column}['{name}']", number, "", op, value) for column, name in places]
        arms = ", ".join(f"{there}, {test}" for there, test in zip(present, tests, strict=True))
        return f"multiIf({arms}, 0)"

    return _spelling(signal, _in_map)._replace(
        number=lambda key: f"numbers['{key}']",
        resource=lambda key: f"resource_attributes['{key}']",
        matches=matches,
    )


def _contrib_spelling(signal: Signal) -> Spelling:
    """One place by its name, as its users write it: a key of the resource is asked of the resource."""
    column = "SpanAttributes" if signal == "spans" else "LogAttributes"

    def text(key: str) -> str:
        return f"{column}['{key}']"

    def matches(key: str, op: Op, value: str) -> str:
        own, name = (column, key) if key != RESOURCE_KEY else ("ResourceAttributes", key)
        cell = f"{own}['{name}']"
        return _simple(cell, f"toFloat64OrNull({cell})", f"mapContains({own}, '{name}')", op, value)

    return Spelling(
        project="ProjectId",
        time="Timestamp",
        service="ServiceName",
        duration="Duration" if signal == "spans" else "length(Body)",
        trace_id="TraceId = '{id}'",
        text=text,
        number=lambda key: f"toFloat64OrNull({text(key)})",
        resource=lambda key: f"ResourceAttributes['{key}']",
        matches=matches,
        pairs=column,
        bucketed=signal == "logs",
    )


_TEXTS: Final = "attributes                        Map(LowCardinality(String), String) CODEC(ZSTD(3))"
_RESOURCE: Final = "    resource                          LowCardinality(String) CODEC(ZSTD(1)),"
_HOT: Final = (
    "http.request.method",
    "http.route",
    "http.response.status_code",
    "app.tenant",
    "app.flag",
    "server.address",
)


_PROJECTION: Final = "PROJECTION by_trace (SELECT trace_id, _part_offset ORDER BY trace_id)"


def _maps(signal: Signal) -> str:
    text_map = "Map(LowCardinality(String), String) CODEC(ZSTD(1))"
    return _unsplit(
        _changed(
            _ours(signal),
            (_RESOURCE, f"    resource_attributes {text_map},"),
            (
                "    dropped_attributes_count ",
                "    numbers Map(LowCardinality(String), Float64) CODEC(ZSTD(1)),\n    dropped_attributes_count ",
            ),
        )
    )


def _order(expression: str) -> Change:
    return (
        "ORDER BY (project_id, toStartOfFiveMinutes(start_time), service_name, name, start_time)",
        f"ORDER BY {expression}",
    )


def _index(name: str, expression: str) -> Change:
    bloom = "    INDEX trace_id_bloom "
    return (bloom, f"    INDEX {name} {expression},\n{bloom}")


def _without_index(name: str, expression: str) -> Change:
    return (f"    INDEX {name} {expression},\n", "")


def layouts(signal: Signal) -> list[Layout]:
    """All candidates; the first is the plainest that holds what Sluice holds, the last is the rival."""
    ours, spelling = _ours(signal), _spelling(signal, _in_map)
    found = [
        Layout("maps", "Maps for resource and numbers, nothing split", _maps(signal), _maps_spelling(signal)),
        Layout("sluice", "as Sluice's migration has it", ours, spelling),
        Layout("whole maps", "no buckets on merged parts", _unsplit(ours), spelling),
        Layout(
            "8 buckets",
            "8 of them whatever the keys",
            _changed(
                ours,
                (
                    "map_buckets_strategy = 'linear', max_buckets_in_map = 32",
                    "map_buckets_strategy = 'constant', max_buckets_in_map = 8",
                ),
            ),
            spelling,
        ),
        Layout(
            "json",
            "attributes as JSON, 64 paths",
            _changed(_unsplit(ours), (_TEXTS, "attributes JSON(max_dynamic_paths = 64) CODEC(ZSTD(1))")),
            _spelling(signal, lambda key: f"toString(attributes.`{key}`)", pairs=""),
            select={"attributes": "source.attributes"},
        ),
        Layout(
            "text index",
            "on the values of the Map",
            _changed(ours, _index("value_text", "mapValues(attributes) TYPE text(tokenizer = 'array')")),
            spelling,
        ),
        Layout(
            "value bloom",
            "on the values of the Map",
            _changed(ours, _index("value_bloom", "mapValues(attributes) TYPE bloom_filter(0.01) GRANULARITY 1")),
            spelling,
        ),
        Layout(
            "zstd 1",
            "attributes compressed less",
            _changed(ours, (_TEXTS, _TEXTS.replace("ZSTD(3)", "ZSTD(1)"))),
            spelling,
        ),
        Layout("lz4", "no ZSTD anywhere", ours.replace("ZSTD(1)", "LZ4").replace("ZSTD(3)", "LZ4"), spelling),
    ]
    if signal == "spans":
        found += _span_layouts(ours, spelling)
    contrib = sql_file(f"contrib_{signal}").replace("CREATE TABLE contrib", "CREATE TABLE {table}")
    select = sql_file(f"contrib_{signal}_select")
    return [
        *found,
        Layout("contrib", "the contrib exporter's", contrib, _contrib_spelling(signal), whole_select=select),
    ]


def _span_layouts(ours: str, spelling: Spelling) -> list[Layout]:
    promoted = "".join(
        f"    `{key}` LowCardinality(String) MATERIALIZED attributes['{key}'] CODEC(ZSTD(1)),\n" for key in _HOT
    )
    hot = _spelling("spans", lambda key: f"`{key}`" if key in _HOT else _in_map(key))
    return [
        Layout(
            "promoted",
            "6 hot attributes as columns too",
            _changed(ours, ("    trace_state ", f"{promoted}    trace_state ")),
            hot,
        ),
        Layout(
            "by trace",
            "sorted by trace within five minutes",
            _changed(ours, _order("(project_id, toStartOfFiveMinutes(start_time), trace_id, start_time)")),
            spelling,
        ),
        Layout(
            "by service",
            "sorted by service and name before time",
            _changed(ours, _order("(project_id, service_name, name, toStartOfFiveMinutes(start_time), start_time)")),
            spelling,
        ),
        Layout(
            "by hour",
            "hours in the place of five minutes",
            _changed(ours, _order("(project_id, toStartOfHour(start_time), service_name, name, start_time)")),
            spelling,
        ),
        Layout(
            "projection",
            "traces found by a projection in the place of a bloom filter",
            _changed(
                ours,
                _without_index("trace_id_bloom", "trace_id TYPE bloom_filter(0.001) GRANULARITY 1"),
                (
                    "    INDEX duration_minmax",
                    f"    {_PROJECTION},\n    INDEX duration_minmax",
                ),
            ),
            spelling,
        ),
        Layout(
            "no bloom",
            "no index of trace ids",
            _changed(ours, _without_index("trace_id_bloom", "trace_id TYPE bloom_filter(0.001) GRANULARITY 1")),
            spelling,
        ),
        Layout(
            "delta codecs",
            "DoubleDelta for time, T64 for duration",
            _changed(
                ours,
                (
                    "start_time                        DateTime64(9, 'UTC') CODEC(Delta,",
                    "start_time                        DateTime64(9, 'UTC') CODEC(DoubleDelta,",
                ),
                (
                    "duration                          Int64 CODEC(ZSTD(1))",
                    "duration                          Int64 CODEC(T64, ZSTD(1))",
                ),
            ),
            spelling,
        ),
    ]
