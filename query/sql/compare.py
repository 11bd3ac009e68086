"""The SQL of a comparison: the number of spans of a cohort that have each pair of key and value.

Each cohort is read separately: first the spike, for pairs with enough spans; then the baseline, for these pairs only,
by their hashes. So only the spike is grouped completely, and a long baseline costs little.

    field_pairs       built-in fields and scope names, all low-cardinality: one read, a grouping set for each
    list_pairs        lists that are one text (docs/codec.md 2): grouped as a whole, then parsed, once per distinct list
    key_pairs, key_counts, key_cardinality
                      attributes of spans, or subjects: one row per attribute, grouped by hash
"""

from typing import Final

from proto.storage.attribute_encoding import AFTER_KEY, BEFORE_KEY
from query.request.filters import MAX_VALUE
from query.rows import SPANS
from query.sql.bindings import Bindings, Query, project_predicate, time_predicates
from query.sql.predicates import NEVER, ValueSql, condition_sql, field_sql, own_attribute_sql, value_sql
from query.statements import (
    Cohort,
    CohortSize,
    ConditionCounts,
    ExcludedSpans,
    FieldPairs,
    FrequentPairs,
    KeyCardinality,
    KeyCounts,
    KeyPairs,
    ListPairs,
    PairSelection,
)

MAX_PAIRS: Final = 5_000  # per statement; a server accepts 128 KiB of hashes as one parameter
MAX_KEYS: Final = 50_000  # of spans, resources and scopes together, including their pairs
MAX_VALUES_OF_KEY: Final = 1_000
MAX_NUMERIC_VALUES: Final = 50  # distinct values up to which numbers are compared as categories
FIELDS: Final = tuple(
    SPANS.fields[name] for name in ("name", "serviceName", "kind", "statusCode", "environment", "release")
)
SCOPE_FIELDS: Final = ("scope.name", "scope.version")
LIST_COLUMNS: Final = ("attribute_types", "resource", "scope")
_SCOPE_VALUES: Final = tuple(
    ValueSql(f"{column} != ''", column, "0", "0") for column in ("scope_name", "scope_version")
)

_Statement = CohortSize | FieldPairs | ListPairs | KeyPairs | KeyCounts | KeyCardinality | ConditionCounts


def cohort_size(statement: CohortSize) -> Query:
    """One row: (spans, whether one of them has an attribute of a condition in a location that is not read)."""
    bindings = Bindings(statement.existing_attributes)
    spans = _from_cohort(statement, bindings)
    return _query(
        f"SELECT count(), {f'max({bindings.recheck_condition})' if bindings.recheck_condition else NEVER}\n{spans}\n",
        bindings,
    )


def field_pairs(statement: FieldPairs) -> Query:
    """Rows: (key, value, hash, spans, whether the row is the total of a key), with totals only for scopes. Totals come
    first, then pairs in descending order of spans, at most MAX_PAIRS + 1.
    """
    bindings = Bindings(statement.existing_attributes)
    columns = [field.column for field in FIELDS] + [value.text for value in _SCOPE_VALUES]
    keys = [field.name for field in FIELDS] + list(SCOPE_FIELDS)
    values = [field_sql(field) for field in FIELDS] + list(_SCOPE_VALUES)
    masks = [(1 << len(columns)) - 1 - (1 << index) for index in reversed(range(len(columns)))]
    scopes = ", ".join(map(_literal, SCOPE_FIELDS))
    sets = ", ".join(f"({column})" for column in columns)
    return _query(
        f"""SELECT key, value, cityHash64(key, value) AS pair, sum(held) AS spans, grouping(value) AS whole
FROM (
SELECT grouping({", ".join(columns)}) AS place,
  {_by_grouping(masks, [_literal(key) for key in keys])} AS key,
  {_by_grouping(masks, [value.text for value in values])} AS value,
  {_by_grouping(masks, [value.present for value in values])} AS present,
  count() AS held
{_from_cohort(statement, bindings)}
GROUP BY GROUPING SETS ({sets}))
WHERE present
GROUP BY GROUPING SETS ((key, value), (key))
HAVING if(whole = 1, key IN ({scopes}), {_pair_predicate(statement.selection, bindings)})
ORDER BY whole DESC, spans DESC, key, value
LIMIT {len(SCOPE_FIELDS) + MAX_PAIRS + 1}
""",
        bindings,
    )


def list_pairs(statement: ListPairs) -> Query:
    """Rows: (index of the list in LIST_COLUMNS, key, value, hash, spans, whether the row is the total of a key,
    distinct values, type letters), totals first, then in descending order of spans, at most MAX_KEYS + 1. Keys and
    values are escaped as in a list.
    """
    bindings = Bindings(statement.existing_attributes)
    sets = ", ".join(f"({column})" for column in LIST_COLUMNS)
    before, after = _hex(BEFORE_KEY), _hex(AFTER_KEY)
    return _query(
        f"""SELECT place, key, value, cityHash64(place, key, value) AS pair, sum(held) AS spans,
  grouping(value) AS whole, uniqExact(value) AS distinct, arraySort(groupUniqArray(letter)) AS letters
FROM (
SELECT place, held,
  substring(entry, 1, position(entry, '{after}') - 1) AS key,
  substring(entry, position(entry, '{after}') + 1, 1) AS letter,
  substring(entry, position(entry, '{after}') + 2) AS value
FROM (
SELECT transform(grouping({", ".join(LIST_COLUMNS)}), [3, 5, 6], [0, 1, 2], 0) AS place,
  concat({", ".join(LIST_COLUMNS)}) AS list, count() AS held
{_from_cohort(statement, bindings)}
GROUP BY GROUPING SETS ({sets}))
ARRAY JOIN splitByChar('{before}', list) AS entry
WHERE entry != '')
GROUP BY GROUPING SETS ((place, key, value), (place, key))
HAVING whole OR (place > 0 AND {_pair_predicate(statement.selection, bindings)})
ORDER BY whole DESC, spans DESC, place, key, value
LIMIT {MAX_KEYS + 1}
""",
        bindings,
    )


def key_pairs(statement: KeyPairs) -> Query:
    """Rows: (source, occurrences, distinct values, values with enough spans as (hash, value, spans), in descending
    order of spans, at most MAX_VALUES_OF_KEY + 1).
    """
    bindings = Bindings(statement.existing_attributes)
    is_frequent = _pair_predicate(FrequentPairs(statement.min_spans), bindings)
    return _query(
        f"""SELECT source, sum(spans), count(),
  arraySlice(arraySort(p -> (-toInt64(p.3), p.2),
    groupArrayIf((pair, value, spans), {is_frequent})), 1, {MAX_VALUES_OF_KEY + 1})
FROM (
SELECT any(source) AS source, any(value) AS value, pair, count() AS spans
FROM (
{_source_rows(statement, bindings)})
GROUP BY pair)
GROUP BY source
ORDER BY source
""",
        bindings,
    )


def key_counts(statement: KeyCounts) -> Query:
    """Rows: (hash, spans), for the hashes that any span has."""
    bindings = Bindings(statement.existing_attributes)
    hashes = bindings.uint64s(statement.hashes)
    return _query(
        f"""SELECT pair, count()
FROM (
{_pair_hashes(statement, bindings)})
WHERE pair IN {hashes}
GROUP BY pair
""",
        bindings,
    )


def key_cardinality(statement: KeyCardinality) -> Query:
    """Rows: (source, number of distinct values, at most MAX_NUMERIC_VALUES + 1)."""
    bindings = Bindings(statement.existing_attributes)
    return _query(
        f"""SELECT source, uniqUpTo({MAX_NUMERIC_VALUES})(pair)
FROM (
{_source_rows(statement, bindings)})
GROUP BY source
ORDER BY source
""",
        bindings,
    )


def condition_counts(statement: ConditionCounts) -> Query:
    """One row with one number per condition."""
    bindings = Bindings(statement.existing_attributes)
    counts = ", ".join(f"countIf({condition_sql(condition, bindings)})" for condition in statement.conditions)
    return _query(f"SELECT {counts}\n{_from_cohort(statement, bindings)}\n", bindings)


def _source_rows(statement: KeyPairs | KeyCounts | KeyCardinality, bindings: Bindings) -> str:
    """One row per span and source that is present: the source (its key, or its index among subjects), its value, and
    the hash of both.
    """
    keys = tuple(each for each in statement.sources if isinstance(each, str))
    if keys and not (isinstance(statement, KeyCardinality) and statement.read_per_key):
        return f"""SELECT key AS source, value, cityHash64(key, value) AS pair
FROM (SELECT mapKeys(attributes) AS keys, mapValues(attributes) AS texts
{_from_cohort(statement, bindings)})
ARRAY JOIN keys AS key, texts AS value
WHERE key IN {bindings.texts(keys)}"""
    found = [
        own_attribute_sql(each, bindings) if isinstance(each, str) else value_sql(each, bindings)
        for each in statement.sources
    ]
    texts, present = ",\n  ".join(f"toString({each.text})" for each in found), ", ".join(each.present for each in found)
    return f"""SELECT source, value, cityHash64(source, value) AS pair
FROM (SELECT [{texts}] AS texts, [{present}] AS places
{_from_cohort(statement, bindings)})
ARRAY JOIN range({len(found)}) AS source, texts AS value, places AS present
WHERE present"""


def _pair_hashes(statement: KeyCounts, bindings: Bindings) -> str:
    """Only the hashes of pairs. The hashes of attributes are computed in their arrays, before there is a row for each
    attribute, which halves the cost.
    """
    keys = tuple(each for each in statement.sources if isinstance(each, str))
    if not keys:
        return _source_rows(statement, bindings)
    if statement.read_per_key:
        pairs = "[" + ",\n  ".join(_pair_hash(key, bindings) for key in keys) + "]"
    else:
        pairs = "arrayMap((key, value) -> cityHash64(key, value), mapKeys(attributes), mapValues(attributes))"
    return f"SELECT arrayJoin({pairs}) AS pair\n{_from_cohort(statement, bindings)}"


def _pair_hash(key: str, bindings: Bindings) -> str:
    """The hash of a span's own attribute and its key; 0, which matches no pair, if it is absent."""
    value = own_attribute_sql(key, bindings)
    return f"if({value.present}, cityHash64({bindings.text(key)}, {value.text}), 0)"


def _from_cohort(statement: _Statement, bindings: Bindings) -> str:
    """FROM and WHERE of a cohort."""
    cohort = statement.cohort
    where = [project_predicate(statement, bindings), _in_windows(cohort, bindings)]
    where += [condition_sql(condition, bindings) for condition in cohort.conditions]
    if cohort.excluded is not None:
        where.append(_not_excluded(cohort.excluded, bindings))
    if cohort.one_in > 1:
        where.append(f"cityHash64(trace_id, span_id, batch_id, row) % {bindings.uint64(cohort.one_in)} = 0")
    return "FROM spans\nWHERE " + "\n  AND ".join(where)


def _not_excluded(excluded: ExcludedSpans, bindings: Bindings) -> str:
    """The condition that a row is not excluded. It also holds for rows that need a recheck, because conditions always
    hold for these and would exclude them."""
    tests = time_predicates(SPANS, excluded.window, bindings)
    tests += [condition_sql(condition, bindings) for condition in excluded.conditions]
    recheck = f" OR {bindings.recheck_condition}" if bindings.recheck_condition else ""
    return f"(NOT ({' AND '.join(tests)}){recheck})"


def _in_windows(cohort: Cohort, bindings: Bindings) -> str:
    """The condition for the windows of a cohort, each with its buckets, so that the time between two windows is
    skipped."""
    return "(" + "\n    OR ".join(" AND ".join(time_predicates(SPANS, each, bindings)) for each in cohort.windows) + ")"


def _pair_predicate(selection: PairSelection, bindings: Bindings) -> str:
    if isinstance(selection, FrequentPairs):
        return f"(spans >= {bindings.uint64(selection.min_spans)} AND lengthUTF8(value) <= {MAX_VALUE})"
    return f"pair IN {bindings.uint64s(selection.hashes)}"


def _by_grouping(masks: list[int], values: list[str]) -> str:
    arms = ", ".join(f"place = {mask}, {value}" for mask, value in zip(masks[:-1], values[:-1], strict=True))
    return f"multiIf({arms}, {values[-1]})"


def _literal(key: str) -> str:
    """A constant of this package as an SQL literal."""
    return f"'{key}'"


def _hex(character: str) -> str:
    return f"\\x{ord(character):02x}"


def _query(sql: str, bindings: Bindings) -> Query:
    return Query(sql, bindings.used_parameters(sql))
