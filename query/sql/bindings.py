"""The parameters of one statement, and the time, id and bucket constants that are made of them."""

from typing import Final, NamedTuple

from query.asking.window import BUCKET

_MAX_UINT32: Final = 2**32 - 1
_BUCKET_SECONDS: Final = BUCKET // 10**9


class Query(NamedTuple):
    """SQL text and the values of its parameters by name.

    `guarded`: the last column of a row is true when an attribute is where the statement did not look; then the answer
    is void, and the statement is to be asked again with `known=None`.
    """

    sql: str
    parameters: dict[str, object]
    guarded: bool = False


class Bindings:
    """Binds values; each distinct value of a type is one parameter.

    `known` are the attributes that are worth looking for (`query.tree`), `overlooked` the SQL for rows that have one
    elsewhere, in order of appearance.
    """

    def __init__(self, known: frozenset[str] | None = None) -> None:
        self.known = known
        self.overlooked: dict[str, None] = {}
        self.values: dict[str, object] = {}
        self._places: dict[tuple[str, object], str] = {}

    def used(self, sql: str) -> dict[str, object]:
        """The values that `sql` has a place for: of an attribute more is bound than every test asks for."""
        return {name: value for name, value in self.values.items() if f"{{{name}:" in sql}

    @property
    def guard(self) -> str | None:
        """The last column of a guarded statement."""
        return f"({' OR '.join(self.overlooked)})" if self.overlooked else None

    def text(self, value: str) -> str:
        return self._bind("String", value)

    def texts(self, values: tuple[str, ...]) -> str:
        return self._bind("Array(String)", values)

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

    def instant(self, nanos: int) -> str:
        return f"fromUnixTimestamp64Nano({self.int64(nanos)}, 'UTC')"

    def bucket(self, nanos: int) -> str:
        """The five minutes that hold `nanos`; a DateTime ends in 2106, and later ones are held by its last."""
        seconds = min(nanos // 10**9, _MAX_UINT32) // _BUCKET_SECONDS * _BUCKET_SECONDS
        return f"toDateTime({self.uint32(seconds)}, 'UTC')"

    def id(self, value: bytes) -> str:
        return f"toFixedString(unhex({self.text(value.hex())}), {len(value)})"

    def _bind(self, type_: str, value: object) -> str:
        name = self._places.setdefault((type_, value), f"p{len(self._places)}")
        self.values[name] = list(value) if isinstance(value, tuple) else value
        return f"{{{name}:{type_}}}"
