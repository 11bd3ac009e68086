"""What is sent, and under which settings."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from benchmarks.parts.load import Stream

FRESH: Final = "new"
BACKFILL: Final = "old"

_TINY: Final = Stream(FRESH, rate=500, spans=1, projects=range(1))
_FRESH: Final = Stream(FRESH, rate=100, spans=20, projects=range(10))
_OLD_DAYS: Final = Stream(BACKFILL, rate=40, spans=250, projects=range(10, 11), days=range(29, 3, -1))
_ALONE: Final = {"SLUICE_GATEWAY_DERIVED_LINGER_S": "0"}
_NO_LANE: Final = {"SLUICE_GATEWAY_SLOW_AFTER_DAYS": "0"}


class Scenario(NamedTuple):
    """One run of the gateway."""

    name: str
    streams: Sequence[Stream]
    environment: Mapping[str, str] = {}

    @property
    def projects(self) -> int:
        """How many there are."""
        return max(stream.projects.stop for stream in self.streams)


SCENARIOS: Final = (
    Scenario("500 requests a second of one span", [_TINY]),
    Scenario("the same, derived rows inserted batch by batch", [_TINY], _ALONE),
    Scenario("50 projects at once", [Stream(FRESH, rate=200, spans=50, projects=range(50))]),
    Scenario("10 projects, no backfill", [_FRESH]),
    Scenario("10 projects, another's backfill of 26 old days", [_FRESH, _OLD_DAYS]),
    Scenario("the same without a slow lane", [_FRESH, _OLD_DAYS], _NO_LANE),
)
