"""The SQL that rebuilds derived tables. Pure functions; ClickHouse binds parameters written `{name:Type}`."""

from typing import Final, NamedTuple

from proto.storage.tables import (
    ATTRIBUTE_KEYS,
    ERROR_OCCURRENCES,
    LOGS,
    SIGNAL_LOGS,
    SIGNAL_SPANS,
    SPANS,
    TRACE_INDEX,
    UNNAMED_KEYS,
)

_NO_TRACE: Final = r"unhex('00000000000000000000000000000000')"
HAS_TRACE: Final = f"trace_id != {_NO_TRACE}"
_INFINITE: Final = "('NaN', 'Infinity', '-Infinity')"


class Source(NamedTuple):
    """A table of items, and the column whose UTC day is the partition."""

    table: str
    time: str


ITEM_SOURCES: Final = (Source(SPANS.name, "start_time"), Source(LOGS.name, "time"))
SPAN_SOURCE, LOG_SOURCE = ITEM_SOURCES

# By derived table, a number for its content that does not depend on how far its rows are merged.
_TOTAL_COLUMNS: Final = {
    TRACE_INDEX.name: "sum(items)",
    ATTRIBUTE_KEYS.name: "sum(spans)",
    ERROR_OCCURRENCES.name: "count()",
}
_DAY_COLUMNS: Final = {
    TRACE_INDEX.name: "day",
    ATTRIBUTE_KEYS.name: "toDate(bucket)",
    ERROR_OCCURRENCES.name: "toDate(time)",
}


def _exception_text(name: str) -> str:
    """SQL for an attribute of an exception; empty without a value, whose stored text is `null`."""
    key = f"exception.{name}"
    return f"if(position(attribute_types, '\\x01{key}\\x02n') > 0, '', attributes['{key}'])"


# Selects spans and logs that may have an exception; whether they have one is decided by the stored attributes.
EXCEPTION_CONDITIONS: Final = {
    SPANS.name: """position(events, '"name":"exception"') > 0""",
    LOGS.name: f"severity_number >= 17 AND ({_exception_text('type')} != '' OR {_exception_text('message')} != '')",
}
_TEXT_BYTES: Final = {
    SPANS.name: "length(events)",
    LOGS.name: "length(attributes['exception.type']) + length(attributes['exception.message'])"
    " + length(attributes['exception.stacktrace'])",
}
_ROW_BYTES: Final = 300  # memory of a row in Python, excluding its texts

# The columns that identify an error occurrence. Row number and stored time are only its place, and its fingerprint
# follows from its texts and the fingerprint version. So rows that differ only in these columns are neither missing nor
# surplus.
_FINGERPRINT: Final = "fingerprint, fingerprint_version"
_OCCURRENCE: Final = ", ".join(
    name for name in ERROR_OCCURRENCES.column_names if name not in ("row", *_FINGERPRINT.split(", "))
)

EVERY_ROW: Final = "1"
ROW_WEIGHT: Final = "1"  # the weight of a row when chunks are sized by rows


def row_bytes(source: Source) -> str:
    """The weight of a row, in bytes, when its texts are read."""
    return f"{_TEXT_BYTES[source.table]} + {_ROW_BYTES}"


def weight_by_project(source: Source, condition: str, weight: str) -> str:
    """Projects of a day in order, with the total weight of their rows."""
    return (
        f"SELECT project_id, sum({weight}) FROM {source.table} WHERE {_on_day(source)} AND {condition}"
        " GROUP BY project_id ORDER BY project_id"
    )


def weight_by_bucket(source: Source, condition: str, weight: str) -> str:
    """Five-minute buckets of one project's day in order (seconds since 1970), with the total weight of their rows."""
    return (
        f"SELECT toUnixTimestamp(toStartOfFiveMinutes({source.time})) AS bucket, sum({weight}) FROM {source.table}"
        f" WHERE project_id = {{project:UInt64}} AND {_on_day(source)} AND {condition} GROUP BY bucket ORDER BY bucket"
    )


def rows_of_day(source: Source) -> str:
    """The number of items of the day."""
    return f"SELECT count() FROM {source.table} WHERE {_on_day(source)}"


def total_of_day(table: str, derived: str) -> str:
    """Number and total of a day's rows of `table`, which has the columns of the table `derived`."""
    return f"SELECT count(), {_TOTAL_COLUMNS[derived]} FROM {table} WHERE {_DAY_COLUMNS[derived]} = {{day:Date}}"


def trace_rows(source: Source, into: str) -> str:
    """Inserts the trace index of one chunk."""
    signal = SIGNAL_SPANS if source == SPAN_SOURCE else SIGNAL_LOGS
    time = source.time
    return (
        f"INSERT INTO {into} (project_id, trace_id, signal, day, min_time, max_time, items)"
        f" SELECT project_id, trace_id, {signal}, toDate({time}) AS day, min({time}), max({time}), count()"
        f" FROM {source.table} WHERE {_in_chunk(source)} AND {HAS_TRACE}"
        " GROUP BY project_id, trace_id, day"
    )


def key_rows(into: str) -> str:
    """Inserts the attribute keys of one chunk: how many spans have each key, under all its names, and how many have it
    as a number.

    Spans with the same lists of types, resource and scope are counted together before the lists are split.
    """
    return f"""INSERT INTO {into} (project_id, bucket, key, spans, numeric)
SELECT project_id, bucket, name.1 AS key, sum(alike), sum(alike * name.2)
FROM
(
    SELECT
        project_id,
        bucket,
        alike,
        {_own_names()} AS own,
        {_listed_names("resource", "resource.")} AS of_resource,
        {_listed_names("scope", "scope.")} AS of_scope,
        [('scope.name', scope_name != ''), ('scope.version', scope_version != '')] AS of_scope_itself,
        arrayJoin(arrayConcat(
            own,
            arrayFilter(name -> NOT has(own.1, name.1), arrayConcat(of_resource, of_scope)),
            arrayMap(
                name -> (name.1, 0),
                arrayFilter(name -> name.2 AND NOT has(own.1, name.1) AND NOT has(of_scope.1, name.1), of_scope_itself)
            )
        )) AS name
    FROM
    (
        SELECT
            project_id,
            toStartOfFiveMinutes(start_time) AS bucket,
            attribute_types, resource, scope, scope_name, scope_version,
            arraySort(mapKeys(mapFilter((key, text) -> text IN {_INFINITE}, attributes))) AS infinite,
            count() AS alike
        FROM {SPANS.name}
        WHERE {_in_chunk(SPAN_SOURCE)}
        GROUP BY project_id, bucket, attribute_types, resource, scope, scope_name, scope_version, infinite
    )
)
GROUP BY project_id, bucket, key"""


def named_key_rows(all_keys: str, into: str) -> str:
    """From a day's attribute keys in the table `all_keys`, inserts the keys with the most spans of each project, and
    the other keys as one key.
    """
    return f"""INSERT INTO {into} (project_id, bucket, key, spans, numeric)
SELECT
    project_id,
    bucket,
    if((project_id, toString(key)) IN
    (
        SELECT project_id, toString(key)
        FROM {all_keys}
        GROUP BY project_id, key
        ORDER BY sum(spans) DESC, key
        LIMIT {{most:UInt64}} BY project_id
    ), toString(key), unhex('{UNNAMED_KEYS.hex()}')) AS named,
    sum(spans),
    sum(numeric)
FROM {all_keys}
GROUP BY project_id, bucket, named"""


def missing_occurrences(rebuilt: str) -> str:
    """Inserts rows of the table `rebuilt` that the live table lacks on a day into the live table."""
    numbers = (
        "arraySlice(arrayFilter(number -> NOT has(groupArrayIf(row, is_live), number),"
        " arraySort(groupArrayIf(row, NOT is_live))),"
        " 1, greatest(toInt64(countIf(NOT is_live)) - toInt64(countIf(is_live)), 0))"
    )
    by_current_rules = "anyIf(fingerprint, NOT is_live) AS made, anyIf(fingerprint_version, NOT is_live) AS version"
    return (
        f"INSERT INTO {ERROR_OCCURRENCES.name} ({_OCCURRENCE}, {_FINGERPRINT}, row)"
        f" SELECT {_OCCURRENCE}, made, version, missing"
        f" FROM (SELECT {_OCCURRENCE}, {by_current_rules}, {numbers} AS numbers FROM ({_live_and(rebuilt)})"
        f" GROUP BY {_OCCURRENCE}) ARRAY JOIN numbers AS missing"
    )


def surplus_occurrences(rebuilt: str) -> str:
    """The number of surplus rows on a day: rows of the live table that the table `rebuilt` does not have."""
    surplus = "greatest(toInt64(countIf(is_live)) - toInt64(countIf(NOT is_live)), 0)"
    return f"SELECT sum(surplus) FROM (SELECT {surplus} AS surplus FROM ({_live_and(rebuilt)}) GROUP BY {_OCCURRENCE})"


def kept_occurrences(rebuilt: str, into: str) -> str:
    """Inserts a day's live rows, without surplus rows, into the table `into`. Each keeps its fingerprint and its place
    in storage order.
    """
    places = (
        f"arraySlice(arraySort(groupArrayIf((stored_time, row, {_FINGERPRINT}), is_live)),"
        " 1, toInt64(countIf(NOT is_live)))"
    )
    return (
        f"INSERT INTO {into} ({_OCCURRENCE}, stored_time, row, {_FINGERPRINT})"
        f" SELECT {_OCCURRENCE}, place.1, place.2, place.3, place.4"
        f" FROM (SELECT {_OCCURRENCE}, {places} AS places FROM ({_live_and(rebuilt)}) GROUP BY {_OCCURRENCE})"
        " ARRAY JOIN places AS place"
    )


def _live_and(rebuilt: str) -> str:
    """A day's rows of the live table and all rows of the table `rebuilt`."""
    columns = f"{_OCCURRENCE}, {_FINGERPRINT}, row, stored_time"
    return (
        f"SELECT {columns}, true AS is_live FROM {ERROR_OCCURRENCES.name}"
        f" WHERE {_DAY_COLUMNS[ERROR_OCCURRENCES.name]} = {{day:Date}}"
        f" UNION ALL SELECT {columns}, false FROM {rebuilt}"
    )


def spans_with_exceptions() -> str:
    """Spans of one chunk with an event that may be an exception."""
    return _rows_with_exceptions(SPAN_SOURCE, "events, '', ''")


def logs_with_exceptions() -> str:
    """Log records of one chunk that have an exception, with its texts."""
    texts = ", ".join(map(_exception_text, ("type", "message", "stacktrace")))
    return _rows_with_exceptions(LOG_SOURCE, texts)


def _rows_with_exceptions(source: Source, texts: str) -> str:
    return (
        f"SELECT project_id, toUnixTimestamp64Nano({source.time}), trace_id, span_id, service_name, environment,"
        f" release, batch_id, row, {texts} FROM {source.table}"
        f" WHERE {_in_chunk(source)} AND {EXCEPTION_CONDITIONS[source.table]}"
    )


def _on_day(source: Source) -> str:
    return f"toDate({source.time}) = {{day:Date}}"


def _in_chunk(source: Source) -> str:
    bucket = f"toStartOfFiveMinutes({source.time})"
    return (
        f"project_id BETWEEN {{first:UInt64}} AND {{last:UInt64}} AND {_on_day(source)}"
        f" AND {bucket} >= toDateTime({{since:UInt32}}, 'UTC') AND {bucket} < toDateTime({{until:UInt32}}, 'UTC')"
        " AND cityHash64(batch_id, row) % {shares:UInt32} = {share:UInt32}"
    )


def _own_names() -> str:
    """A span's own attributes: key, and whether the value is a finite number."""
    number = f"{_TYPE_TAG} = 'i' OR ({_TYPE_TAG} = 'd' AND NOT has(infinite, {_KEY}))"
    return f"arrayMap(entry -> ({_KEY}, {number}), {_entries('attribute_types')})"


def _listed_names(column: str, prefix: str) -> str:
    """The attributes of a resource or scope: key, and whether the value is a finite number. Their list also has the
    texts."""
    number = f"{_TYPE_TAG} = 'i' OR ({_TYPE_TAG} = 'd' AND substring(entry, {_AFTER_KEY} + 2) NOT IN {_INFINITE})"
    return f"arrayMap(entry -> (concat('{prefix}', {_KEY}), {number}), {_entries(column)})"


def _entries(column: str) -> str:
    """The entries of a list of proto.storage.attribute_encoding; none is empty."""
    return rf"arrayFilter(entry -> entry != '', splitByChar('\x01', {column}))"


def _unescape(text: str) -> str:
    """Reverses the escaping of `text` in such a list."""
    for escaped, plain in (("A", "01"), ("B", "02"), ("C", "03")):
        text = rf"replaceAll({text}, '\x03{escaped}', '\x{plain}')"
    return text


_AFTER_KEY: Final = r"position(entry, '\x02')"
_KEY: Final = _unescape(f"substring(entry, 1, {_AFTER_KEY} - 1)")
_TYPE_TAG: Final = f"substring(entry, {_AFTER_KEY} + 1, 1)"
