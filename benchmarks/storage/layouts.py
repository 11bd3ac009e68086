"""The candidates: how each lays out spans or logs, and how its users spell what the explore API asks.

Sluice's own table is read from its migration; most candidates are that table with one thing changed, so that a row of
the report tells what the one thing costs and brings. `maps` is what Sluice's tables would be without their texts of
whole lists: resource and numbers in Maps of their own.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
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
_TEXT_MAP: Final = "Map(LowCardinality(String), String) CODEC(ZSTD(1))"
_ORDER: Final = "ORDER BY (project_id, toStartOfFiveMinutes(start_time), service_name, name, start_time)"
_INDEX: Final = "    INDEX trace_id_bloom "
_BLOOM: Final = f"{_INDEX}trace_id TYPE bloom_filter(0.001) GRANULARITY 1,\n"
_TRACE_PROJECTION: Final = "    PROJECTION by_trace (SELECT trace_id, _part_offset ORDER BY trace_id),\n"
_STATE: Final = "    trace_state "
_COUNT: Final = "    dropped_attributes_count "
_TIME: Final = "start_time                        DateTime64(9, 'UTC') CODEC("
_DURATION: Final = "duration                          Int64 CODEC("
_UNSPLIT: Final[Change] = ("map_serialization_version = 'with_buckets'", "map_serialization_version = 'basic'")
_BUCKETS: Final = "map_buckets_strategy = 'linear', max_buckets_in_map = 32"
_HOT: Final = (
    *("http.request.method", "http.route", "http.response.status_code"),
    *("app.tenant", "app.flag", "server.address"),
)
_PROMOTED: Final = "".join(
    f"    `{key}` LowCardinality(String) MATERIALIZED attributes['{key}'] CODEC(ZSTD(1)),\n" for key in _HOT
)


def _value_index(name: str, kind: str) -> Change:
    return _INDEX, f"    INDEX {name} mapValues(attributes) TYPE {kind},\n{_INDEX}"


_MAPS: Final[Sequence[Change]] = (
    (_RESOURCE, f"    resource_attributes {_TEXT_MAP},"),
    (_COUNT, f"    numbers Map(LowCardinality(String), Float64) CODEC(ZSTD(1)),\n{_COUNT}"),
    _UNSPLIT,
)
# Sluice's table with one thing changed: what it is, and what is written in the place of what.
_CHANGED: Final[Mapping[str, tuple[str, Sequence[Change]]]] = {
    "sluice": ("as Sluice's migration has it", ()),
    "whole maps": ("no buckets on merged parts", (_UNSPLIT,)),
    "8 buckets": (
        "always 8 buckets, for any keys",
        ((_BUCKETS, "map_buckets_strategy = 'constant', max_buckets_in_map = 8"),),
    ),
    "json": (
        "attributes as JSON, 64 paths",
        (_UNSPLIT, (_TEXTS, "attributes JSON(max_dynamic_paths = 64) CODEC(ZSTD(1))")),
    ),
    "text index": ("on the values of the Map", (_value_index("value_text", "text(tokenizer = 'array')"),)),
    "value bloom": (
        "on the values of the Map",
        (_value_index("value_bloom", "bloom_filter(0.01) GRANULARITY 1"),),
    ),
    "zstd 1": ("attributes compressed less", ((_TEXTS, _TEXTS.replace("ZSTD(3)", "ZSTD(1)")),)),
    "lz4": ("no ZSTD anywhere", (("ZSTD(1)", "LZ4"), ("ZSTD(3)", "LZ4"))),
}
_CHANGED_SPANS: Final[Mapping[str, tuple[str, Sequence[Change]]]] = {
    "promoted": ("6 hot attributes as columns too", ((_STATE, f"{_PROMOTED}{_STATE}"),)),
    "by trace": (
        "sorted by trace within five minutes",
        ((_ORDER, "ORDER BY (project_id, toStartOfFiveMinutes(start_time), trace_id, start_time)"),),
    ),
    "by service": (
        "sorted by service and name before time",
        ((_ORDER, "ORDER BY (project_id, service_name, name, toStartOfFiveMinutes(start_time), start_time)"),),
    ),
    "by hour": ("hours instead of five minutes", ((_ORDER, _ORDER.replace("FiveMinutes", "Hour")),)),
    "projection": ("traces found by a projection instead of a bloom filter", ((_BLOOM, _TRACE_PROJECTION),)),
    "no bloom": ("no index of trace ids", ((_BLOOM, ""),)),
    "delta codecs": (
        "DoubleDelta for time, T64 for duration",
        ((f"{_TIME}Delta,", f"{_TIME}DoubleDelta,"), (f"{_DURATION}ZSTD(1))", f"{_DURATION}T64, ZSTD(1))")),
    ),
}
# The others are decided by what they cost.
READ: Final[Mapping[Signal, Collection[str]]] = {
    "spans": (
        *("maps", "sluice", "whole maps", "json", "promoted"),
        *("value bloom", "by trace", "by service", "contrib"),
    ),
    "logs": ("maps", "sluice", "whole maps", "json", "contrib"),
}


def layouts(signal: Signal) -> list[Layout]:
    """All candidates; the first is the plainest that holds what Sluice holds, the last is the rival."""
    ours, plain = _ours(signal), _spelling(signal, _in_map)
    spellings = {
        "json": _spelling(signal, lambda key: f"toString(attributes.`{key}`)", pairs=""),
        "promoted": _spelling(signal, lambda key: f"`{key}`" if key in _HOT else _in_map(key)),
    }
    contrib = sql_file(f"contrib_{signal}").replace("CREATE TABLE contrib", "CREATE TABLE {table}")
    whole = sql_file(f"contrib_{signal}_select")
    maps = _changed(ours, *_MAPS)
    return [
        Layout("maps", "Maps for resource and numbers, nothing split", maps, _maps_spelling(signal)),
        *(
            Layout(
                name,
                what,
                _changed(ours, *changes),
                spellings.get(name, plain),
                {"attributes": "source.attributes"} if name == "json" else {},
            )
            for name, (what, changes) in ({**_CHANGED, **_CHANGED_SPANS} if signal == "spans" else _CHANGED).items()
        ),
        Layout("contrib", "the contrib exporter's layout", contrib, _contrib_spelling(signal), whole_select=whole),
    ]
