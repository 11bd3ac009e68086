"""What the tests of the conveyor share: stores that misbehave, and looks at a gateway."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from chassis.clickhouse import StoreError, StoreUnavailable
from tests.gateway.conftest import Gateway, RecordingStore, eventually
from tests.gateway.otlp import NOW_NS, span, traces

AWAY = StoreUnavailable("away")
GONE = ("ingest_outcomes", "error_occurrences")  # counted like spans and logs
Start = Callable[..., Awaitable[Gateway]]


def refusing(name: str, error: StoreError) -> RecordingStore:
    """A store that refuses spans that have this name."""
    return RecordingStore(
        refuse=lambda insert: error if insert.table == "spans" and name.encode() in insert.body else None
    )


class Losing(RecordingStore):
    """Has lost the rows of everything that was inserted before `lose` was called: their tokens are still known.
    `started` is when it says that it began.
    """

    _gone: frozenset[str] = frozenset()
    started = 1_000

    def lose(self) -> None:
        self._gone = frozenset(insert.token.split(":")[0] for insert in self.taken)

    def anew(self) -> list[str]:
        """Tokens of blocks whose rows were gone, as they were before."""
        return [insert.token.rsplit(":", 1)[0] for insert in self.taken if insert.token.count(":") == 3]

    async def query(self, sql: str, parameters: Mapping[str, object], **_limits: object) -> list[tuple[object, ...]]:
        if self.away is not None:
            raise self.away
        if "uptime" in sql:
            return [("one", self.started)]
        asked = parameters.get("ids", [])
        assert isinstance(asked, list)
        anew = {token.split(":")[0] for token in self.anew()}
        there = {insert.token.split(":")[0] for insert in self.taken} - self._gone | anew
        return [(batch,) for batch in asked if str(batch) in there]


async def acknowledged(
    gateway: Gateway, *numbers: int, start_ns: int = NOW_NS, project: int = 0, name: str = "work"
) -> None:
    """Exports of one span each, all answered 200."""
    sent = [traces(span(n, start_ns=start_ns, name=name)) for n in numbers]
    assert set(await gateway.statuses(*sent, project=project)) == {200}


async def all_stored(gateway: Gateway, count: float) -> None:
    """Wait until so many items are."""
    await eventually(lambda: stored(gateway) == count)


async def acknowledged_and_stored(gateway: Gateway, *numbers: int) -> None:
    """Exports of one span each, one after the other: a batch for each."""
    for number in numbers:
        before = stored(gateway)
        await acknowledged(gateway, number)
        await all_stored(gateway, before + 1)


def damage_second(journals: Path) -> None:
    """Flip a bit of the ids of the span 2, in the one segment that is there."""
    (segment,) = (journals / "0").glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[data.index((2).to_bytes(16, "big") + b"\x12\x08" + (2).to_bytes(8, "big"))] ^= 1
    segment.write_bytes(data)


def stored(gateway: Gateway) -> float:
    return gateway.metric("stored_items_total")
