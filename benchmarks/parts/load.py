"""The requests that are sent, and the settings."""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from benchmarks.gateway.bodies import Kind, message
from tests.proto.otlp.realistic import request

_KIND: Final = Kind("traces", "protobuf")
_DAY_NS: Final = 86_400 * 10**9
_VARIANTS: Final = 20  # of a body; more would only be memory


class Stream(NamedTuple):
    """Requests of `spans` spans, `rate` a second, in turn by `projects`, in turn `days` ago."""

    name: str
    rate: float
    spans: int
    projects: range
    days: range = range(1)

    def requests(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Without an end; `keys` are those of all projects."""
        random = Random(self.name)
        made = [
            message(_KIND, keys[project], _body(random, self.spans, day))
            for day in self.days
            for project in self.projects
            for _ in range(max(1, _VARIANTS // len(self.projects) // len(self.days)))
        ]
        random.shuffle(made)
        return itertools.cycle(made)


class Scenario(NamedTuple):
    """One run of the gateway."""

    name: str
    streams: Sequence[Stream]
    settings: Mapping[str, str] = {}

    @property
    def projects(self) -> int:
        """How many there are."""
        return max(stream.projects.stop for stream in self.streams)


_TINY: Final = Stream("new", rate=500, spans=1, projects=range(1))
_FRESH: Final = Stream("new", rate=100, spans=20, projects=range(10))
_OLD_DAYS: Final = Stream("old", rate=40, spans=250, projects=range(10, 11), days=range(29, 3, -1))

SCENARIOS: Final = (
    Scenario("10 projects, no backfill", [_FRESH]),
    Scenario("10 projects, another's backfill of 26 old days", [_FRESH, _OLD_DAYS]),
    Scenario("the same without a slow lane", [_FRESH, _OLD_DAYS], {"SLUICE_GATEWAY_SLOW_AFTER_DAYS": "0"}),
    Scenario("50 projects at once", [Stream("new", rate=200, spans=50, projects=range(50))]),
    Scenario("500 requests a second of one span", [_TINY]),
    Scenario("the same, derived rows inserted batch by batch", [_TINY], {"SLUICE_GATEWAY_DERIVED_LINGER_S": "0"}),
)


def _body(random: Random, spans: int, days_ago: int) -> bytes:
    start_ns = time.time_ns() - days_ago * _DAY_NS
    made = request("traces", spans, random.getrandbits(32))
    for resource_spans in made.resource_spans:  # type: ignore[union-attr]  # traces were asked for
        for span in resource_spans.scope_spans[0].spans:
            duration = span.end_time_unix_nano - span.start_time_unix_nano
            span.trace_id = random.randbytes(16)
            span.start_time_unix_nano = start_ns - random.randrange(60 * 10**9)
            span.end_time_unix_nano = span.start_time_unix_nano + duration
    return made.SerializeToString()
