"""Statements on error occurrences: groups by fingerprint, and single occurrences.

Facets are computed in two steps: rows are grouped into cells of equal release, environment, service and source (a few
cells per error group), and cells into facets. So each row is read once, and expensive steps run per cell.
"""

from typing import Final

from query.rows import ERRORS, OCCURRENCE_RECORD_SELECT
from query.sql.bindings import Bindings, Query, select
from query.sql.predicates import matching_rows
from query.statements import (
    ErrorFacets,
    ErrorGroupType,
    ErrorOrder,
    ErrorRanking,
    ErrorRecord,
    ErrorSeries,
    ErrorSparklines,
    ErrorTraces,
    FirstOccurrences,
    LatestOccurrences,
    Window,
)
from query.values import MAX_NANOS

WindowedErrorStatement = ErrorRanking | ErrorFacets | ErrorTraces | LatestOccurrences | ErrorSeries | ErrorSparklines

_TIME: Final = "toUnixTimestamp64Nano({})"
_RANKS: Final = {
    ErrorOrder.LAST_SEEN: _TIME.format("max(time)"),
    ErrorOrder.COUNT: "toInt64(count())",
    ErrorOrder.FIRST_SEEN: _TIME.format("min(time)"),
}
_HAS_TRACE: Final = "trace_id != toFixedString('', 16)"
_TRACES: Final = {
    True: f"uniqExactIf(reinterpretAsUInt128(trace_id), {_HAS_TRACE})",
    False: f"uniqCombined64If(trace_id, {_HAS_TRACE})",
}
_NEWEST: Final = "trace_id DESC, span_id DESC, batch_id DESC, row DESC"  # within one fingerprint and time
_FACET_COLUMNS: Final = "fingerprint, release, environment, service_name, source"
_KINDS: Final = ", ".join(
    f"({kind}, {value})"
    for kind, value in enumerate(
        ("''", *(f"toString({column})" for column in ("release", "environment", "service_name", "source")))
    )
)
_FACETS: Final = (
    "fingerprint",
    "tupleElement(facet, 1) AS kind",
    "tupleElement(facet, 2) AS value",
    "sum(occurrences) AS total",
    _TIME.format("min(first)"),
    _TIME.format("max(last)"),
    "count() OVER (PARTITION BY fingerprint, kind)",
    "argMinIf(value, (min(first), value), value != '') OVER (PARTITION BY fingerprint, kind)",
    "argMaxIf(value, (max(last), value), value != '') OVER (PARTITION BY fingerprint, kind)",
)
_KINDS_ESTIMATED: Final = (
    "fingerprint",
    "tupleElement(facet, 1) AS kind",
    "topK({limit})(tupleElement(facet, 2)) AS frequent",
    "uniqCombined64(14)(tupleElement(facet, 2)) AS values",
    "argMinIf(tupleElement(facet, 2), (time, tupleElement(facet, 2)), tupleElement(facet, 2) != '') AS first_value",
    "argMaxIf(tupleElement(facet, 2), (time, tupleElement(facet, 2)), tupleElement(facet, 2) != '') AS last_value",
)
_FREQUENT: Final = (
    "fingerprint",
    "tupleElement(facet, 1) AS kind",
    "tupleElement(facet, 2) AS value",
    "count() AS total",
    f"{_TIME.format('min(time)')} AS first",
    f"{_TIME.format('max(time)')} AS last",
)
_ALL_TIME: Final = Window(0, MAX_NANOS)


def ranking(statement: ErrorRanking) -> Query:
    """Rows: (rank, fingerprint)."""
    bindings = Bindings()
    where = _where(statement, bindings)
    columns = (f"{_RANKS[statement.order]} AS rank", "fingerprint")
    tail = ["GROUP BY fingerprint"]
    if statement.after is not None:
        rank, fingerprint = statement.after
        tail.append(f"HAVING (rank, fingerprint) < ({bindings.int64(rank)}, {bindings.id(fingerprint)})")
    tail += ["ORDER BY rank DESC, fingerprint DESC", f"LIMIT {bindings.uint64(statement.limit)}"]
    return select(columns, ERRORS.name, where, tail, bindings)


def facets(statement: ErrorFacets) -> Query:
    """Rows: (group, kind, value, count, first time, last time; for the kind: number of values, the first value, the
    last value). Kind 0 is the group as a whole.
    """
    if not statement.exact:
        return _estimated_facets(statement)
    bindings = Bindings()
    where = "\n    AND ".join([*_where(statement, bindings), _in_fingerprints(statement.fingerprints, bindings)])
    return bindings.query(
        f"SELECT {', '.join(_FACETS)}\n"
        f"FROM (\n  SELECT {_FACET_COLUMNS}, count() AS occurrences, min(time) AS first, max(time) AS last\n"
        f"  FROM {ERRORS.name}\n  WHERE {where}\n  GROUP BY {_FACET_COLUMNS}\n)\n"
        f"ARRAY JOIN [{_KINDS}] AS facet\n"
        "GROUP BY fingerprint, kind, value\n"
        "ORDER BY fingerprint, kind, total DESC, value\n"
        f"LIMIT {bindings.uint64(statement.limit)} BY fingerprint, kind\n"
    )


def _estimated_facets(statement: ErrorFacets) -> Query:
    """The same columns as `facets`. One pass finds the most frequent values and another pass counts them, so that only
    these are kept in memory. GLOBAL: on a table with several shards, ClickHouse requires that the values are found once
    and sent to the shards.
    """
    bindings = Bindings()
    where = "\n  AND ".join([*_where(statement, bindings), _in_fingerprints(statement.fingerprints, bindings)])
    rows = f"FROM {ERRORS.name}\nARRAY JOIN [{_KINDS}] AS facet\nWHERE {where}"
    kinds = ", ".join(_KINDS_ESTIMATED).format(limit=int(statement.limit))
    return bindings.query(
        f"WITH kinds AS (\nSELECT {kinds}\n{rows}\nGROUP BY fingerprint, kind\n), found AS (\n"
        f"SELECT {', '.join(_FREQUENT)}\n{rows}\n"
        "  AND (fingerprint, tupleElement(facet, 1), tupleElement(facet, 2))"
        " GLOBAL IN (SELECT fingerprint, kind, arrayJoin(frequent) FROM kinds)\n"
        "GROUP BY fingerprint, kind, value\n)\n"
        "SELECT fingerprint, kind, value, total, first, last, values, first_value, last_value\n"
        "FROM found INNER JOIN kinds USING (fingerprint, kind)\n"
        "ORDER BY fingerprint, kind, total DESC, value\n"
    )


def traces(statement: ErrorTraces) -> Query:
    """Rows: (group, number of traces)."""
    bindings = Bindings()
    where = [*_where(statement, bindings), _in_fingerprints(statement.fingerprints, bindings)]
    columns = ("fingerprint", _TRACES[statement.exact])
    return select(columns, ERRORS.name, where, ("GROUP BY fingerprint",), bindings)


def latest(statement: LatestOccurrences) -> Query:
    """Rows: (group, type, message, batch, row). Buckets and times are lists of constants, because ClickHouse uses the
    sort key for these but not for an array.
    """
    bindings = Bindings()
    where = _where(statement, bindings)
    buckets = dict.fromkeys(bindings.bucket(time_ns) for _, time_ns in statement.fingerprint_times)
    fingerprint_times = (
        f"({bindings.id(each)}, {bindings.timestamp(time_ns)})" for each, time_ns in statement.fingerprint_times
    )
    where.append(f"toStartOfFiveMinutes(time) IN ({', '.join(buckets)})")
    where.append(f"(fingerprint, time) IN ({', '.join(fingerprint_times)})")
    tail = (f"ORDER BY fingerprint, {_NEWEST}", "LIMIT 1 BY fingerprint")
    return select(("fingerprint", "type", "message", "batch_id", "row"), ERRORS.name, where, tail, bindings)


def series(statement: ErrorSeries) -> Query:
    """Rows: (number of the interval, count)."""
    bindings = Bindings()
    where = [*_where(statement, bindings), _in_fingerprints((statement.fingerprint,), bindings)]
    interval = f"intDiv({_TIME.format('time')}, {bindings.int64(statement.interval_ns)})"
    return select((f"{interval} AS number", "count()"), ERRORS.name, where, ("GROUP BY number",), bindings)


def sparklines(statement: ErrorSparklines) -> Query:
    """Rows: (group, number of the part, count). The time is multiplied before it is divided: so parts are equal to the
    nanosecond, for windows of any length.
    """
    bindings, window = Bindings(), statement.window
    where = [*_where(statement, bindings), _in_fingerprints(statement.fingerprints, bindings)]
    since = f"({_TIME.format('time')} - {bindings.int64(window.from_ns)}) * {bindings.int64(statement.parts)}"
    part = f"intDiv({since}, {bindings.int64(window.to_ns - window.from_ns)})"
    columns = ("fingerprint", f"{part} AS number", "count()")
    return select(columns, ERRORS.name, where, ("GROUP BY fingerprint, number",), bindings)


def first_occurrences(statement: FirstOccurrences) -> Query:
    """Rows: (group, first time)."""
    bindings = Bindings()
    where = [
        *matching_rows(statement, ERRORS, _ALL_TIME, (), bindings),
        _in_fingerprints(statement.fingerprints, bindings),
    ]
    columns = ("fingerprint", _TIME.format("min(time)"))
    return select(columns, ERRORS.name, where, ("GROUP BY fingerprint",), bindings)


def group_type(statement: ErrorGroupType) -> Query:
    """One row with the type, or no row."""
    bindings = Bindings()
    where = [
        *matching_rows(statement, ERRORS, _ALL_TIME, (), bindings),
        _in_fingerprints((statement.fingerprint,), bindings),
    ]
    return select(("type",), ERRORS.name, where, ("LIMIT 1",), bindings)


def record(statement: ErrorRecord) -> Query:
    """The complete row."""
    bindings = Bindings()
    where = [
        *matching_rows(statement, ERRORS, Window(statement.time_ns, statement.time_ns + 1), (), bindings),
        _in_fingerprints((statement.fingerprint,), bindings),
        f"batch_id = {bindings.uint64(statement.batch_id)}",
        f"row = {bindings.uint32(statement.row)}",
    ]
    return select(OCCURRENCE_RECORD_SELECT, ERRORS.name, where, ("LIMIT 1",), bindings)


def _where(statement: WindowedErrorStatement, bindings: Bindings) -> list[str]:
    return matching_rows(statement, ERRORS, statement.window, statement.conditions, bindings)


def _in_fingerprints(fingerprints: tuple[bytes, ...], bindings: Bindings) -> str:
    return f"fingerprint IN ({', '.join(bindings.id(each) for each in fingerprints)})"
