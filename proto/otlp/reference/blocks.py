"""Insert blocks of a batch of decoded requests: items by day, and derived rows (docs/codec.md 5).

`NamedKeys` has the rules, for both decoders, that select the attribute keys that the roll-up names per project and day.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from proto.otlp.native import write_block
from proto.otlp.policy import NANOS_PER_DAY, Block, RaisedException, RequestWarning, Signal
from proto.otlp.reference.items import Row
from proto.storage.tables import (
    ATTRIBUTE_KEYS,
    LOGS,
    SIGNAL_LOGS,
    SIGNAL_SPANS,
    SPANS,
    TRACE_INDEX,
    UNNAMED_KEYS,
    Table,
)

MAX_REMEMBERED_KEYS: Final = 1_000_000  # keys in all


class NamedKeys:
    """Names at most `per_day` keys per project and day, and at most `per_batch` new keys per batch (0: no limit). Keys
    in the most spans come first, then keys in the order of their bytes. A named key stays named.

    When there are more than `most` keys, the least recently used day is evicted. Thread-safe.
    """

    def __init__(self, per_batch: int, per_day: int, most: int = MAX_REMEMBERED_KEYS) -> None:
        self._per_batch = per_batch
        self._per_day = per_day
        self._max_remembered = most
        self._days: OrderedDict[tuple[int, int], set[bytes]] = OrderedDict()
        self._remembered = 0
        self._lock = Lock()

    def select(self, project_id: int, day: int, spans: Mapping[bytes, int]) -> frozenset[bytes]:
        """Select the named keys of a batch. `spans`: the number of spans per key."""
        if not self._per_batch and not self._per_day:
            return frozenset(spans)
        with self._lock:
            named = self._days.get((project_id, day), set())
            new_keys = sorted((key for key in spans if key not in named), key=lambda key: (-spans[key], key))
            added = new_keys[: self._remaining(len(named))]
            if self._per_day:
                named.update(added)
                self._days[project_id, day] = named
                self._days.move_to_end((project_id, day))
                self._remembered += len(added)
                self._evict()
            return frozenset(named.intersection(spans).union(added))

    def _remaining(self, named_count: int) -> int | None:
        limits = []
        if self._per_batch:
            limits.append(self._per_batch)
        if self._per_day:
            limits.append(max(self._per_day - named_count, 0))
        return min(limits)

    def _evict(self) -> None:
        while self._remembered > self._max_remembered and len(self._days) > 1:
            _, oldest = self._days.popitem(last=False)
            self._remembered -= len(oldest)


_BUCKET_S: Final = 300
_NANOS_PER_BUCKET: Final = _BUCKET_S * 10**9
_SECONDS_PER_DAY: Final = 86_400
_NO_TRACE: Final = bytes(16)
_RESOURCE_SCOPE_INDEXES: Final[Mapping[Signal, tuple[int, int]]] = {
    "traces": (SPANS.column_names.index("resource"), SPANS.column_names.index("scope")),
    "logs": (LOGS.column_names.index("resource"), LOGS.column_names.index("scope")),
}
_ATTRIBUTES: Final[Mapping[Signal, int]] = {
    "traces": SPANS.column_names.index("attributes"),
    "logs": LOGS.column_names.index("attributes"),
}

# Project, bucket, key -> spans with the key, spans where its value is a number.
_Counts = dict[tuple[Any, int, bytes], list[int]]


@dataclass(frozen=True)
class DecodedRequest:
    """The `proto.otlp.policy.DecodedPayload` of this decoder, with the rows of the accepted items."""

    signal: Signal
    project_id: int
    rows: Sequence[Row]
    rejected: Mapping[str, int]
    first_fault: str
    warnings: Sequence[RequestWarning]
    modified: Mapping[str, int]
    exceptions: Sequence[RaisedException]
    exceptions_over_limit: int
    nbytes: int

    @property
    def accepted(self) -> int:
        return len(self.rows)

    @property
    def symbols(self) -> int:
        lists: Iterable[Any] = (row.cells[_ATTRIBUTES[self.signal]] for row in self.rows)
        return len({key for attributes in lists for key in attributes})

    def large_origins(self, over: int) -> dict[int, int]:
        texts: Iterable[Any] = (
            row.cells[column] for row in self.rows for column in _RESOURCE_SCOPE_INDEXES[self.signal]
        )
        return {hash(text): len(text) for text in dict.fromkeys(texts) if len(text) > over}

    @property
    def days(self) -> list[int]:
        return sorted({row.time_ns // NANOS_PER_DAY for row in self.rows})


def build_blocks(decoded: Sequence[Any], batch_id: int, named: NamedKeys | None = None) -> list[Block]:
    """The blocks of one batch: spans, logs, trace index, attribute keys. Each has blocks by day, with days ascending
    and no empty block.
    """
    requests = [_require_own(request) for request in decoded]
    spans = [row for request in requests if request.signal == "traces" for row in request.rows]
    logs = [row for request in requests if request.signal == "logs" for row in request.rows]
    return [
        *_item_blocks(SPANS, spans, batch_id),
        *_item_blocks(LOGS, logs, batch_id),
        *_blocks(TRACE_INDEX, _trace_index(spans, logs)),
        *_blocks(ATTRIBUTE_KEYS, _attribute_keys(spans, named)),
    ]


def _require_own(request: Any) -> DecodedRequest:
    if not isinstance(request, DecodedRequest):
        raise TypeError(f"not decoded by this decoder: {type(request).__name__}")
    return request


def _blocks(table: Table, rows_by_day: Mapping[int, Sequence[Sequence[object]]]) -> Iterable[Block]:
    for day in sorted(rows_by_day):
        rows = rows_by_day[day]
        yield Block(table.name, day, len(rows), write_block(table, rows))


def _item_blocks(table: Table, rows: Sequence[Row], batch_id: int) -> Iterable[Block]:
    by_day = defaultdict(list)
    for row in rows:
        by_day[row.time_ns // NANOS_PER_DAY].append(row.cells)
    numbered: dict[int, list[tuple[object, ...]]] = {}
    number = 0
    for day in sorted(by_day):
        numbered[day] = [(*cells, batch_id, number + index) for index, cells in enumerate(by_day[day])]
        number += len(by_day[day])
    return _blocks(table, numbered)


def _trace_index(spans: Sequence[Row], logs: Sequence[Row]) -> Mapping[int, list[list[object]]]:
    """The rows of the trace index by day: project, trace, signal, day, first and last time, items. Rows are in the
    order of first appearance.
    """
    ranges: dict[tuple[int, Any, Any, int], list[int]] = {}
    for signal, table, rows in ((SIGNAL_SPANS, SPANS, spans), (SIGNAL_LOGS, LOGS, logs)):
        trace_at = table.column_names.index("trace_id")
        for row in rows:
            trace_id = row.cells[trace_at]
            if trace_id == _NO_TRACE:
                continue
            day = row.time_ns // NANOS_PER_DAY
            times_and_count = ranges.setdefault((day, row.cells[0], trace_id, signal), [row.time_ns, row.time_ns, 0])
            times_and_count[0] = min(times_and_count[0], row.time_ns)
            times_and_count[1] = max(times_and_count[1], row.time_ns)
            times_and_count[2] += 1
    by_day = defaultdict(list)
    for (day, project_id, trace_id, signal), times_and_count in ranges.items():
        by_day[day].append([project_id, trace_id, signal, day, *times_and_count])
    return by_day


def _attribute_keys(spans: Sequence[Row], named: NamedKeys | None) -> Mapping[int, list[list[object]]]:
    """The rows of attribute keys by day: project, bucket, key, spans with the key, spans in which the value of the key
    is a number. Rows are sorted.
    """
    found: _Counts = defaultdict(lambda: [0, 0])
    for row in spans:
        bucket = row.time_ns // _NANOS_PER_BUCKET * _BUCKET_S
        for name, numeric in row.names.items():
            counts = found[row.cells[0], bucket, name]
            counts[0] += 1
            counts[1] += numeric
    by_day = defaultdict(list)
    for (project_id, bucket, key), counts in sorted((found if named is None else _limit_keys(found, named)).items()):
        by_day[bucket // _SECONDS_PER_DAY].append([project_id, bucket, key, *counts])
    return by_day


def _limit_keys(found: "_Counts", named: NamedKeys) -> "_Counts":
    """`found` with one row per bucket for all keys that are not named."""
    spans: dict[tuple[int, Any], Counter[bytes]] = defaultdict(Counter)
    for (project_id, bucket, key), (carried, _) in found.items():
        spans[bucket // _SECONDS_PER_DAY, project_id][key] += carried
    kept = {of: named.select(of[1], of[0], spans[of]) for of in sorted(spans)}
    limited: _Counts = defaultdict(lambda: [0, 0])
    for (project_id, bucket, key), (carried, numbers) in found.items():
        known = key in kept[bucket // _SECONDS_PER_DAY, project_id]
        counts = limited[project_id, bucket, key if known else UNNAMED_KEYS]
        counts[0] += carried
        counts[1] += numbers
    return limited
