"""The parameters of one statement, constants of times, ids and buckets built from them, and clauses that statements
share: the project, the time window, and the layout of a statement.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from query.rows import TelemetryTable
from query.statements import BUCKET, Statement, Window

_MAX_UINT32: Final = 2**32 - 1
_BUCKET_SECONDS: Final = BUCKET // 10**9
# Characters of one parameter. A server accepts 128 KiB (http_max_field_value_size), and a character is at most four
# bytes, or two with its escape. All parameters together are sent as a form, whose limit no query reaches.
_MAX_CHARACTERS: Final = 2**14
_TEXTS: Final = "Array(String)"


class Query(NamedTuple):
    """SQL text and the values of its parameters by name.

    `needs_recheck`: the last column of a row is true if an attribute is in a location that the statement did not read.
    Then the result is invalid, and the statement must be repeated with `existing_attributes=None`.
    """

    sql: str
    parameters: dict[str, object]
    needs_recheck: bool = False


class Bindings:
    """Binds values; each distinct value of a type is one parameter.

    `existing_attributes` are the attributes that may exist (`query.statements.predicates`), `missed_attributes` are the
    SQL conditions for rows that have an attribute in another location, in order of appearance.
    """

    def __init__(self, existing_attributes: frozenset[str] | None = None) -> None:
        self.existing_attributes = existing_attributes
        self.missed_attributes: dict[str, None] = {}
        self.values: dict[str, object] = {}
        self._names: dict[tuple[str, object], str] = {}

    def used_parameters(self, sql: str) -> dict[str, object]:
        """The values of the parameters that occur in `sql`: more parameters are bound for an attribute than a predicate
        may use."""
        return {name: value for name, value in self.values.items() if f"{{{name}:" in sql}

    def query(self, sql: str) -> Query:
        """A complete statement. Its last column is the recheck condition, if there is one."""
        return Query(sql, self.used_parameters(sql), needs_recheck=self.recheck_condition is not None)

    @property
    def recheck_condition(self) -> str | None:
        """The last column of a statement that needs a recheck; None if it needs none."""
        return f"({' OR '.join(self.missed_attributes)})" if self.missed_attributes else None

    def text(self, value: str) -> str:
        """A text. If it is too long for one parameter, it is split, and ClickHouse concatenates it once per
        statement."""
        if len(value) <= _MAX_CHARACTERS:
            return self._bind("String", value)
        starts = range(0, len(value), _MAX_CHARACTERS)
        pieces = (self._bind("String", value[start : start + _MAX_CHARACTERS]) for start in starts)
        return f"concat({', '.join(pieces)})"

    def texts(self, values: tuple[str, ...]) -> str:
        """An array. If it is too long for one parameter, it is split into several arrays."""
        arrays = [
            f"[{self.text(part[0])}]" if max(map(len, part), default=0) > _MAX_CHARACTERS else self._bind(_TEXTS, part)
            for part in _split_by_length(values)
        ]
        return arrays[0] if len(arrays) == 1 else f"arrayConcat({', '.join(arrays)})"

    def int64(self, value: int) -> str:
        return self._bind("Int64", value)

    def int64s(self, values: tuple[int, ...]) -> str:
        return self._bind("Array(Int64)", values)

    def int128(self, value: int) -> str:
        return self._bind("Int128", value)

    def uint32(self, value: int) -> str:
        return self._bind("UInt32", value)

    def uint32s(self, values: tuple[int, ...]) -> str:
        return self._bind("Array(UInt32)", values)

    def uint64(self, value: int) -> str:
        return self._bind("UInt64", value)

    def uint64s(self, values: tuple[int, ...]) -> str:
        return self._bind("Array(UInt64)", values)

    def float64(self, value: float) -> str:
        return self._bind("Float64", value)

    def float64s(self, values: tuple[float, ...]) -> str:
        return self._bind("Array(Float64)", values)

    def timestamp(self, nanos: int) -> str:
        return f"fromUnixTimestamp64Nano({self.int64(nanos)}, 'UTC')"

    def bucket(self, nanos: int) -> str:
        """The five-minute bucket that contains `nanos`; a DateTime ends in 2106, so later times are clamped to its last
        bucket.
        """
        seconds = min(nanos // 10**9, _MAX_UINT32) // _BUCKET_SECONDS * _BUCKET_SECONDS
        return f"toDateTime({self.uint32(seconds)}, 'UTC')"

    def id(self, value: bytes) -> str:
        return f"toFixedString(unhex({self.text(value.hex())}), {len(value)})"

    def _bind(self, type_: str, value: object) -> str:
        name = self._names.setdefault((type_, value), f"p{len(self._names)}")
        self.values[name] = list(value) if isinstance(value, tuple) else value
        return f"{{{name}:{type_}}}"


def _split_by_length(values: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """`values` in order, in parts that each fit one parameter; a longer text is a part of its own."""
    part, length = list[str](), 0
    for value in values:
        size = len(value) + 1  # and its quotes and comma
        if part and length + size > _MAX_CHARACTERS:
            yield tuple(part)
            part, length = [], 0
        part.append(value)
        length += size
    if part or not values:
        yield tuple(part)


def select(columns: Iterable[str], table: str, where: Iterable[str], tail: Iterable[str], bindings: Bindings) -> Query:
    """A complete statement; `tail` follows WHERE. Its rows end with the recheck condition, if there is one."""
    selected = [*columns, bindings.recheck_condition] if bindings.recheck_condition else columns
    lines = [f"SELECT {', '.join(selected)}", f"FROM {table}", "WHERE " + "\n  AND ".join(where), *tail]
    return bindings.query("\n".join(lines) + "\n")


def project_predicate(statement: Statement, bindings: Bindings) -> str:
    """The first predicate of every statement."""
    return f"project_id = {bindings.uint64(statement.project_id)}"


def time_predicates(signal: TelemetryTable, window: Window, bindings: Bindings) -> list[str]:
    """The window's bounds on the time column, and on the five-minute bucket of the sort key."""
    bucket = f"toStartOfFiveMinutes({signal.time_column})"
    return [
        f"{bucket} >= {bindings.bucket(window.from_ns)}",
        f"{bucket} <= {bindings.bucket(window.to_ns - 1)}",
        f"{signal.time_column} >= {bindings.timestamp(window.from_ns)}",
        f"{signal.time_column} < {bindings.timestamp(window.to_ns)}",
    ]
