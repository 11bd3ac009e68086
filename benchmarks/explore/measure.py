"""Contestants in turn, each time with a new window, so that no cache of exact repeats helps."""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.explore import statements
from benchmarks.explore.data import END_NS, HOUR_NS
from benchmarks.explore.layouts import CONTRIB, SIGNOZ, SLUICE
from benchmarks.explore.served import PROJECT, Served
from benchmarks.explore.shapes import LONG, NEWEST, PAGE, Facts, Places, Shape
from query.rows import SPAN_SELECT
from query.values import parse_timestamp

ENDPOINT: Final = "endpoint"
LAYOUTS: Final = (SLUICE, CONTRIB, SIGNOZ)
_MINUTES: Final = {1: 1, 6: 10, 24: 30}  # a bucket of the series, by the hours of the window
_SPIKE_NS: Final = 10 * 60 * 10**9
# A list is read in slices of so many hours, newest first, until the page is full: as HyperDX and SigNoz do it, and by
# hand as somebody would who looks for fifty rows among some hundred a second.
_SLICES: Final = {SLUICE: (0.25, 2, 22), CONTRIB: (0.25, 6, 6, 12), SIGNOZ: (1, 2, 4, 8, 16)}
_FEW_RUNS: Final = 3
_ENOUGH_MS: Final = 20_000  # of one contestant in one row of the table
_SHIFT_NS: Final = 250_000_000  # of the window, from one run to the next
_APART_NS: Final = 1_000_000  # and from one row of the table to the next


class Run(NamedTuple):
    """Milliseconds: until the last byte, and of CPU in this process, which holds caller, service and engine."""

    wall: float
    cpu: float


class Timed(NamedTuple):
    """The runs of each contestant, and what did not agree with the endpoint (or why it was not asked)."""

    shape: Shape
    hours: int
    runs: Mapping[str, Sequence[Run]]
    remarks: Sequence[str]


class Missing(Exception):
    """The endpoint is not there."""


class Contest:
    """Measures shapes over one service. The facts of the data are looked up once."""

    def __init__(self, served: Served, runs: int) -> None:
        self._served = served
        self._runs = runs
        self._sql = {layout: statements.named(layout) for layout in LAYOUTS}
        self._rows_of_table = itertools.count(1)
        self._shifts: Iterator[int] = iter(())
        self._traces = {size: itertools.cycle(self._found(_TRACES.format(size=size))) for size in LONG}
        self._orders = itertools.cycle(self._found(_ORDERS.format(since=END_NS - HOUR_NS)))

    def measure(self, shape: Shape, hours: int) -> Timed:
        """One row of the table."""
        self._shifts = itertools.count(next(self._rows_of_table) * _APART_NS, _SHIFT_NS)
        remarks: list[str] = []
        asked = [ENDPOINT, *LAYOUTS]
        try:
            remarks += self._disagreements(shape, hours)
        except Missing as missing:
            remarks.append(str(missing))
            asked.remove(ENDPOINT)
        runs: dict[str, list[Run]] = {name: [] for name in asked}
        for run in range(self._runs):
            for name in asked[run % len(asked) :] + asked[: run % len(asked)]:
                if run < _FEW_RUNS or sum(done.wall for done in runs[name]) < _ENOUGH_MS:
                    runs[name].append(self._timed(name, shape, hours))
        return Timed(shape, hours, runs, remarks)

    def _timed(self, name: str, shape: Shape, hours: int) -> Run:
        places = self._places(shape, hours, next(self._shifts))
        ask = self._asker(name, shape, places)
        wall, cpu = time.perf_counter(), time.process_time()
        ask()
        return Run((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3)

    def _asker(self, name: str, shape: Shape, places: Places) -> Callable[[], object]:
        if name != ENDPOINT:
            return lambda: self._rows(name, shape, places)
        request = shape.request(places)
        return lambda: self._served.ask(request)

    def _disagreements(self, shape: Shape, hours: int) -> list[str]:
        """Which statements give other figures than the endpoint, over one window."""
        places = self._places(shape, hours, 0)
        status, body = self._served.ask(shape.request(places))
        if status in (404, 405):
            raise Missing("missing")
        if status != 200:
            raise Missing(f"{status} {body[:300].decode()}")
        ours = shape.of_answer(json.loads(body))
        found = (_difference(each, ours, shape.of_rows(self._rows(each, shape, places))) for each in LAYOUTS)
        return [difference for difference in found if difference]

    def _rows(self, layout: str, shape: Shape, places: Places) -> list[tuple[Any, ...]]:
        known = self._sql[layout]
        filter_ = known.get(shape.sql, "1")
        if shape.group != "spans" or shape.trace:
            return self._served.run(statements.filled(known[shape.sql], window=known["window"], **places))
        rows: list[tuple[Any, ...]] = []
        for part in _parts(_SLICES[layout], places):
            page = statements.filled(known["page"], window=known["window"], filter=filter_, **{**places, **part})
            rows += self._served.run(page)
            if len(rows) > PAGE:
                break
        return rows

    def _places(self, shape: Shape, hours: int, shift: int) -> dict[str, Any]:
        to = END_NS - shift
        places: dict[str, Any] = {
            "columns": ", ".join(SPAN_SELECT),
            "from": to - hours * HOUR_NS,
            "to": to,
            "spike": to - _SPIKE_NS,
            "minutes": _MINUTES.get(hours, 30),
            "order": next(self._orders),
        }
        if shape.trace:
            places["trace"] = next(self._traces[shape.trace])
        return places | self._first_page(places) if shape.name == "list second page" else places

    def _first_page(self, places: Places) -> dict[str, Any]:
        status, body = self._served.ask(NEWEST.request(places))
        if status != 200:
            raise Missing(f"{status} {body[:300].decode()}")
        page = json.loads(body)
        last = page["data"][-1]
        return {
            "cursor": page["nextCursor"],
            "last_ns": parse_timestamp(last["startTime"], 0),
            "last_trace": last["traceId"],
            "last_span": last["spanId"],
        }

    def _found(self, sql: str) -> list[str]:
        return [str(row[0]) for row in self._served.run(sql)]


_TRACES: Final = (
    f"SELECT lower(hex(trace_id)) FROM trace_index WHERE project_id = {PROJECT} AND items = {{size}} ORDER BY 1"
)
_ORDERS: Final = (
    f"SELECT attributes['app.order.id'] FROM spans WHERE project_id = {PROJECT}"
    " AND start_time < fromUnixTimestamp64Nano({since}, 'UTC') ORDER BY cityHash64(span_id) LIMIT 40"
)


def _parts(slices: Sequence[float], places: Places) -> Iterator[dict[str, int]]:
    """The window in slices, newest first."""
    upper = places["to"]
    for hours in slices:
        lower = max(places["from"], upper - int(hours * HOUR_NS))
        yield {"from": lower, "to": upper}
        upper = lower
        if upper <= places["from"]:
            return


def _difference(layout: str, ours: Facts, theirs: Facts) -> str:
    shared = ours.keys() & theirs.keys()
    if bool(ours) != bool(theirs) or (ours and not shared):
        return f"{layout}: {len(theirs)} figures, the endpoint {len(ours)}"
    wrong = {key: (ours[key], theirs[key]) for key in sorted(shared) if ours[key] != theirs[key]}
    return f"{layout}: {len(wrong)} of {len(shared)} differ, {next(iter(wrong.items()))}" if wrong else ""
