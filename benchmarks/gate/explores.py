"""p95 of ten shapes of explore: `sluice up` of both over copies of the same data, which the base has stored.

Both answer the same requests in turns, over connections that stay; no window is asked for twice, so that no answer
comes from a cache. A pair is the p95 of twenty answers of each. What the base has stored is not stored anew: a change
of how rows are laid out shows in `benchmarks.explore` and `benchmarks.storage`.
"""

import http.client
import itertools
import json
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from benchmarks.end_to_end.product import wait_until_quiet
from benchmarks.gate.sides import Bench, Measure, Pair, Pairs, at, in_turns
from benchmarks.gate.trees import Tree
from benchmarks.mixed.ingest import SPANS, Body
from benchmarks.processes import pid_of
from benchmarks.report import Void
from tests.e2e.product import Service, Sluice, eventually, started

_HOUR_NS: Final = 3_600 * 10**9
_REQUESTS: Final = 300  # of 512 spans, over the last hour
_BODIES: Final = 20
_ANSWERS: Final = 20  # of a side and shape in a pair
_SHIFT_NS: Final = 1_000_000  # of the window, from one request to the next
_TRACES: Final = 600
_STORED_S: Final = 120.0
_SETTINGS: Final = {"SLUICE_ANALYSIS_RATE": "0", "SLUICE_API_RATE": "0"}  # one client asks more than a principal may


class Ask(NamedTuple):
    """A request, below the project's explore; with a body a POST."""

    path: str
    body: Mapping[str, object] | None = None


class Place(NamedTuple):
    """What a request is about: nanoseconds, a trace, and the cursor of a page of this window."""

    since: int
    until: int
    trace: str
    cursor: str

    @property
    def window(self) -> dict[str, str]:
        return {"from": str(self.since), "to": str(self.until)}


Shape = Callable[[Place], Ask]


def _list(**filters: str) -> Shape:
    """`key="op value"`."""
    written = [
        {"key": key.replace("_", "."), "op": text.split()[0], "value": text.split()[1]} for key, text in filters.items()
    ]
    return lambda place: Ask(f"/spans?{urlencode({**place.window, 'filters': json.dumps(written)})}")


def _aggregate(**asked: object) -> Shape:
    return lambda place: Ask("/spans/aggregate", {**place.window, "intervalMinutes": 1, **asked})


def _compare(place: Place) -> Ask:
    spike = place.until - _HOUR_NS // 6
    return Ask(
        "/spans/compare",
        {
            "spike": {"from": str(spike), "to": str(place.until)},
            "baseline": {"from": str(place.since), "to": str(spike)},
        },
    )


SHAPES: Final[Mapping[str, Shape]] = {
    "explore-attributes": lambda place: Ask(f"/attributes?{urlencode(place.window)}"),
    "explore-list": _list(),
    "explore-list-page": lambda place: Ask(f"/spans?{urlencode({**place.window, 'cursor': place.cursor})}"),
    "explore-list-value": _list(http_route="eq /checkout"),
    "explore-list-absent": _list(http_route="eq /nowhere"),
    "explore-list-duration": _list(durationMs="gt 999.9"),
    "explore-count": _aggregate(fn="count"),
    "explore-p95-by-attribute": _aggregate(fn="p95", field="durationMs", groupBy="http.route"),
    "explore-compare": _compare,
    "explore-waterfall": lambda place: Ask(f"/traces/{place.trace}/waterfall"),
}
FIGURES: Final = dict.fromkeys(SHAPES, "ms, p95")


class _Client:
    """A connection to one side."""

    def __init__(self, sluice: Sluice) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", sluice.services["up"].port, timeout=60)
        self._path = f"/orgs/{sluice.org}/projects/{sluice.project}/explore"
        self._headers = {"Authorization": f"Bearer {sluice.token}", "Content-Type": "application/json"}

    def ask(self, asked: Ask) -> bytes:
        """The whole answer. Raises Void if it is an error."""
        body = None if asked.body is None else json.dumps(asked.body)
        method = "GET" if body is None else "POST"
        self._connection.request(method, self._path + asked.path, body, self._headers)
        answer = self._connection.getresponse()
        read = answer.read()
        if answer.status != 200:
            raise Void(f"{asked} was answered {answer.status} {read[:300]!r}")
        return read

    def page(self, place: Place, **more: object) -> Any:
        """The newest spans of a window."""
        return json.loads(self.ask(Ask(f"/spans?{urlencode({**place.window, **more})}")))


@contextmanager
def session(bench: Bench) -> Iterator[Measure]:
    """Both over their copies, warm."""
    directory = bench.directory / "explores"
    directory.mkdir()
    end = time.time_ns() // 10**9 * 10**9
    _store(bench.base, directory / "stored", end)
    with ExitStack() as stack:
        clients = {}
        for tree in bench.trees:
            shutil.copytree(directory / "stored", directory / tree.name, symlinks=True)
            clients[tree.name] = _Client(stack.enter_context(_up(tree, directory / tree.name)))
        contest = _Contest(clients, end)
        contest.pairs(0, SHAPES)
        yield contest.pairs


class _Contest:
    def __init__(self, clients: Mapping[str, _Client], end: int) -> None:
        self._clients = clients
        self._end = end
        self._shifts = itertools.count(_SHIFT_NS, _SHIFT_NS)
        self._traces = itertools.cycle(self._some_traces())

    def pairs(self, number: int, figures: Collection[str]) -> Pairs:
        """One of each figure. Raises Void."""
        return {figure: self._pair(number, figure) for figure in SHAPES if figure in figures}

    def _pair(self, number: int, figure: str) -> Pair:
        taken: dict[str, list[float]] = {name: [] for name in self._clients}
        for turn in range(_ANSWERS):
            place = self._place(figure)
            asked = SHAPES[figure](place)
            for name, client in in_turns(number + turn, self._clients):
                began = time.perf_counter()
                client.ask(asked)
                taken[name].append((time.perf_counter() - began) * 1e3)
        return Pair(*(sorted(taken[name])[ceil(0.95 * _ANSWERS) - 1] for name in ("base", "head")))

    def _place(self, figure: str) -> Place:
        until = self._end - next(self._shifts)
        place = Place(until - _HOUR_NS, until, next(self._traces), "")
        if figure != "explore-list-page":
            return place
        return place._replace(cursor=self._clients["base"].page(place)["nextCursor"])

    def _some_traces(self) -> list[str]:
        """From all over the hour."""
        found: dict[str, None] = {}
        for minute in range(60):
            until = self._end - minute * _HOUR_NS // 60
            page = self._clients["base"].page(Place(until - _HOUR_NS // 60, until, "", ""), limit=100)
            found.update(dict.fromkeys(span["traceId"] for span in page["data"]))
        if not found:
            raise Void("the stored spans are not found")
        return list(found)[:_TRACES]


@contextmanager
def _up(tree: Tree, directory: Path) -> Iterator[Sluice]:
    """`sluice up`, with nothing left to merge."""
    service = Service("up", directory / "data", directory / "log", _SETTINGS)
    try:
        with at(tree):
            sluice = started(service, service.data)
        wait_until_quiet(pid_of(service))
        yield sluice
        service.stop()
    finally:
        service.kill()


def _store(tree: Tree, directory: Path, end: int) -> None:
    """An hour of spans."""
    directory.mkdir()
    random = Random(1)
    made = [Body(random) for _ in range(_BODIES)]
    with _up(tree, directory) as sluice:
        for number in range(_REQUESTS):
            answer = sluice.export("traces", made[number % _BODIES].at(end - number * _HOUR_NS // _REQUESTS))
            if answer.status != 200:
                raise Void(f"{tree.name} answered {answer.status} {answer.body!r}")
        eventually(lambda: _count(sluice, end) == _REQUESTS * SPANS, "every span is a row", _STORED_S)
        wait_until_quiet(pid_of(sluice.writer))


def _count(sluice: Sluice, end: int) -> int:
    since = end - 2 * _HOUR_NS
    asked = {"from": str(since), "to": str(end + 10**9), "fn": "count"}
    answer = json.loads(_Client(sluice).ask(Ask("/spans/aggregate", asked)))
    return int(answer["groups"][0]["count"])
