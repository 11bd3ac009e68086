"""The attribute keys of spans: for complete buckets from the roll-up, for partial buckets from the spans.

Both count in the same way (docs/codec.md 5), so that their counts can be added: each key of `attributes` of the API
counts once per span, with the value that the API shows for it.
"""

from collections.abc import Iterator
from typing import Final

from proto.storage.attribute_encoding import AFTER_KEY, BEFORE_KEY, ESCAPES
from proto.storage.tables import UNNAMED_KEYS
from query.request.filters import MAX_KEY
from query.rows import SPANS, TelemetryTable
from query.sql.bindings import Bindings, Query, project_predicate, select, time_predicates
from query.sql.predicates import value_sql
from query.statements import AttributeKeys, DistinctAttributeSets, NonFiniteCounts, PresenceCounts, RollupKeys, Window

_LIST_COLUMNS: Final = "attribute_types, resource, scope, scope_name, scope_version"
_NON_FINITE: Final = "('NaN', 'Infinity', '-Infinity')"
_RESOURCE: Final = "resource."
_UNNAMED: Final = f"unhex('{UNNAMED_KEYS.hex()}')"
_MAX_ESTIMATED: Final = 65_536  # ClickHouse's maximum for topK


def attribute_keys(statement: AttributeKeys) -> Query:
    """Rows: (name, spans that have it, spans where it is a number, and the same two counts for `resource.<name>`)."""
    bindings = Bindings()
    parts = "\nUNION ALL\n".join(_key_count_selects(statement, bindings))
    own = "(key, spans, numbers, 0, 0)"
    resource = f"(substring(key, {len(_RESOURCE) + 1}), 0, 0, spans, numbers)"
    return bindings.query(
        "SELECT place.1 AS name, sum(place.2) AS carried, sum(place.3), sum(place.4) AS beneath, sum(place.5)\n"
        f"FROM (\n{parts}\n)\n"
        f"ARRAY JOIN if(startsWith(key, '{_RESOURCE}'), [{own}, {resource}], [{own}]) AS place\n"
        "GROUP BY name\n"
        f"HAVING carried > 0 AND lengthUTF8(name) BETWEEN 1 AND {bindings.uint32(MAX_KEY)}\n"
        "ORDER BY carried + beneath DESC, name\n"
        f"LIMIT {bindings.uint64(statement.limit)}\n"
    )


def rollup_keys(statement: RollupKeys) -> Query:
    """Rows: (key, spans that have it, spans where it is a number). The key '' stands for keys that the roll-up does not
    list."""
    bindings = Bindings()
    where = [project_predicate(statement, bindings), *_buckets(statement.whole_buckets, bindings), "key != ''"]
    columns = (f"if(key = {_UNNAMED}, '', toString(key)) AS name", "sum(spans)", "sum(numeric)")
    tail = ("GROUP BY key", f"LIMIT {bindings.uint64(statement.limit)}")
    return select(columns, "attribute_keys", where, tail, bindings)


def distinct_attribute_sets(statement: DistinctAttributeSets) -> Query:
    """Rows: (attribute_types, resource, scope, whether the scope has a name, and a version, spans); resource and scope
    without the texts of their values, so that thousands of hosts give only as many lists as there are differences in
    keys and types.
    """
    bindings = Bindings()
    where = [project_predicate(statement, bindings), _in_any_window(statement.windows, bindings, statement.signal)]
    types = [f"{_types_only(column, bindings)} AS {column}_types" for column in ("resource", "scope")]
    columns = ("attribute_types", *types, "scope_name != '' AS named", "scope_version != '' AS versioned", "count()")
    tail = ("GROUP BY attribute_types, resource_types, scope_types, named, versioned",)
    return select(columns, statement.signal.name, where, tail, bindings)


def non_finite_counts(statement: NonFiniteCounts) -> Query:
    """Rows: (key, rows that have it). The Map is read only for rows with doubles."""
    bindings = Bindings()
    where = [
        project_predicate(statement, bindings),
        _in_any_window(statement.windows, bindings, statement.signal),
        _has_doubles(bindings),
    ]
    columns = (f"{_non_finite_keys(bindings)} AS name", "count()")
    return select(columns, statement.signal.name, where, ("GROUP BY name",), bindings)


def presence_counts(statement: PresenceCounts) -> Query:
    """One row: the number of rows in the window, then for each of `present` the number of rows that have it, then for
    each of `numbers` the number of rows where it is a number.
    """
    bindings = Bindings()
    columns = ["count()"]
    columns += [f"countIf({value_sql(subject, bindings).present})" for subject in statement.present]
    columns += [f"countIf({value_sql(subject, bindings).numeric})" for subject in statement.numbers]
    where = [project_predicate(statement, bindings), *time_predicates(statement.signal, statement.window, bindings)]
    return select(columns, statement.signal.name, where, (), bindings)


def _key_count_selects(statement: AttributeKeys, bindings: Bindings) -> Iterator[str]:
    """The selects whose rows of key, spans and numbers are summed."""
    project = project_predicate(statement, bindings)
    if statement.whole_buckets is not None:
        yield _rollup_select(project, statement.whole_buckets, statement.limit if statement.estimated else 0, bindings)
    if statement.partial_buckets:
        where = f"{project} AND {_in_any_window(statement.partial_buckets, bindings)}"
        yield _list_keys_select(where, bindings)
        yield _non_finite_select(where, bindings)


def _in_any_window(windows: tuple[Window, ...], bindings: Bindings, signal: TelemetryTable = SPANS) -> str:
    return "(" + " OR ".join(f"({' AND '.join(time_predicates(signal, each, bindings))})" for each in windows) + ")"


def _rollup_select(project: str, window: Window, limit: int, bindings: Bindings) -> str:
    """Select the keys of the roll-up, restricted to `limit` keys (0: all keys). The most frequent keys are estimated
    with three counters per key."""
    where = " AND ".join((project, *_buckets(window, bindings), f"attribute_keys.key != {_UNNAMED}"))
    in_estimate = ""
    if limit:
        estimate = f"topKWeighted({min(limit, _MAX_ESTIMATED)})(attribute_keys.key, spans)"
        in_estimate = f" AND attribute_keys.key IN (SELECT arrayJoin({estimate}) FROM attribute_keys WHERE {where})"
    return (
        "SELECT CAST(key, 'String') AS key, toInt64(sum(spans)) AS spans, toInt64(sum(numeric)) AS numbers\n"
        f"FROM attribute_keys WHERE {where}{in_estimate}\n"
        "GROUP BY attribute_keys.key"
    )


def _buckets(window: Window, bindings: Bindings) -> tuple[str, str]:
    return f"bucket >= {bindings.bucket(window.from_ns)}", f"bucket <= {bindings.bucket(window.to_ns - 1)}"


def _list_keys_select(where: str, bindings: Bindings) -> str:
    """Select the keys of attribute lists. Each distinct list is parsed once for all spans that share it. If keys are
    equal, the first counts, as in the API."""
    found = ",\n    ".join(
        (
            _entries("attribute_types", "", bindings),
            _entries("resource", _RESOURCE, bindings),
            _entries("scope", "scope.", bindings),
            "if(scope_name != '', [('scope.name', 0)], [])",
            "if(scope_version != '', [('scope.version', 0)], [])",
        )
    )
    return (
        "SELECT entry.1 AS key, toInt64(sum(rows)) AS spans, toInt64(sum(rows * entry.2)) AS numbers\n"
        f"FROM (SELECT arrayConcat(\n    {found}) AS found, rows\n"
        f"FROM (SELECT {_LIST_COLUMNS}, count() AS rows FROM spans\nWHERE {where}\nGROUP BY {_LIST_COLUMNS}))\n"
        "ARRAY JOIN arrayFilter((each, n) -> indexOf(found.1, each.1) = n, found, arrayEnumerate(found)) AS entry\n"
        "GROUP BY key"
    )


def _non_finite_select(where: str, bindings: Bindings) -> str:
    """A list of types does not show whether a double is finite: doubles that are not finite are subtracted again."""
    return (
        f"SELECT {_non_finite_keys(bindings)} AS key, 0 AS spans, -1 AS numbers\n"
        f"FROM spans WHERE {where} AND {_has_doubles(bindings)}"
    )


def _has_doubles(bindings: Bindings) -> str:
    return f"position(attribute_types, {_double_marker(bindings)}) > 0"


def _double_marker(bindings: Bindings) -> str:
    """The text that follows the key of a double in a list of types."""
    return bindings.text(f"{AFTER_KEY}d{BEFORE_KEY}")


def _non_finite_keys(bindings: Bindings) -> str:
    """One row for each key of a span's own attributes whose value is a double but not finite."""
    before, key = bindings.text(BEFORE_KEY), "name"
    for escaped, plain in reversed(ESCAPES):
        key = f"replaceAll({key}, {bindings.text(plain)}, {bindings.text(escaped)})"
    is_double = f"position(attribute_types, concat({before}, {key}, {_double_marker(bindings)})) > 0"
    return (
        "arrayJoin(arrayFilter(\n"
        f"    (name, text) -> text IN {_NON_FINITE} AND {is_double},\n"
        "    mapKeys(attributes), mapValues(attributes)))"
    )


def _types_only(column: str, bindings: Bindings) -> str:
    """Reduce the list of a resource or scope to a list of types; a double that is not finite gets the
    type of a text.
    """
    not_finite = bindings.text(f"{AFTER_KEY}d(?:NaN|-?Infinity){BEFORE_KEY}")
    as_text, value = bindings.text(f"{AFTER_KEY}s{BEFORE_KEY}"), bindings.text(f"{AFTER_KEY}(.)[^{BEFORE_KEY}]*")
    finite = f"replaceRegexpAll({column}, {not_finite}, {as_text})"
    return f"replaceRegexpAll({finite}, {value}, {bindings.text(AFTER_KEY + chr(92) + '1')})"


def _entries(column: str, prefix: str, bindings: Bindings) -> str:
    """The attributes of a list (`proto.storage.attribute_encoding`) as an array of (name, whether it is a number)."""
    name = "pair[1]"
    for escaped, plain in ESCAPES:
        name = f"replaceAll({name}, {bindings.text(escaped)}, {bindings.text(plain)})"
    finite = f"(startsWith(pair[2], 'd') AND substring(pair[2], 2) NOT IN {_NON_FINITE})"
    return (
        f"arrayMap(pair -> (concat('{prefix}', {name}), startsWith(pair[2], 'i') OR {finite}),\n"
        f"        arrayMap(entry -> splitByChar({bindings.text(AFTER_KEY)}, entry),\n"
        f"            arrayFilter(entry -> entry != '', splitByChar({bindings.text(BEFORE_KEY)}, {column}))))"
    )
