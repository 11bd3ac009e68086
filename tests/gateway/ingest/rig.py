"""What the tests of the conveyor share: stores that misbehave, and looks at a gateway."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from chassis.clickhouse import QueryLimits, StoreUnavailable
from gateway.ingest.wiring import TelemetryStore
from tests.gateway.conftest import Gateway, Insert, RecordingStore
from tests.gateway.otlp import NOW_NS, span, traces

AWAY = StoreUnavailable("away")
GONE = ("ingest_outcomes", "error_occurrences")  # counted like spans and logs
Rows = Callable[..., Awaitable[list[tuple[Any, ...]]]]
Start = Callable[..., Awaitable[Gateway]]


class Gate(RecordingStore):
    """Holds the inserts into one table until it is opened."""

    def __init__(self, behind: TelemetryStore | None = None, table: str = "spans") -> None:
        super().__init__(behind)
        self._table = table
        self.open = asyncio.Event()

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
        if table == self._table:
            self.asked.append(Insert(table, token, b"".join(pieces)))
            await self.open.wait()
        await super().insert(table, columns, pieces, token=token)


class Losing(RecordingStore):
    """Has lost the rows of everything that was inserted before `lost` was called: their tokens are still known."""

    def __init__(self) -> None:
        super().__init__()
        self._gone: set[str] = set()

    def lose(self) -> None:
        self._gone = {insert.token.split(":")[0] for insert in self.taken}

    def anew(self) -> list[str]:
        """Tokens of blocks whose rows were gone."""
        return [insert.token for insert in self.taken if insert.token.count(":") == 3]

    async def query(
        self,
        sql: str,  # noqa: ARG002
        parameters: Mapping[str, object],
        *,
        limits: QueryLimits,  # noqa: ARG002
    ) -> list[tuple[object, ...]]:
        if self.away is not None:
            raise self.away
        asked = parameters.get("ids", [])
        assert isinstance(asked, list)
        anew = {token.split(":")[0] for token in self.anew()}
        there = {insert.token.split(":")[0] for insert in self.taken} - self._gone | anew
        return [(batch,) for batch in asked if str(batch) in there]


async def acknowledged(gateway: Gateway, *numbers: int, start_ns: int = NOW_NS, project: int = 0) -> None:
    """Exports of one span each, all answered 200."""
    sent = [gateway.post("/v1/traces", traces(span(n, start_ns=start_ns)), project=project) for n in numbers]
    assert {answer.status for answer in await asyncio.gather(*sent)} == {200}


def stored(gateway: Gateway) -> float:
    return gateway.metric("stored_items_total")
