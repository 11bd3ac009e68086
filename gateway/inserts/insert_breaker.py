"""A circuit breaker for inserts into ClickHouse: a failed insert opens it at once, a successful probe closes it.

A full or read-only ClickHouse answers the probe and refuses the next insert. Until an insert has succeeded into each
table that refused one, ClickHouse counts as unavailable, and each failure doubles the pause before the next attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Final, Protocol

import structlog

from chassis.clickhouse import StoreError, StoreUnavailable
from gateway.metrics import Metrics

FIRST_PROBE_S: Final = 0.05  # most failures are one lost connection
MAX_PAUSE_S: Final = 5.0  # between two attempts while the probe succeeds and inserts fail
PROBE_TIMEOUT_S: Final = 5.0
OUTAGE_S: Final = 0.5  # no server restarts faster; a lost connection recovers sooner


class InsertStore(Protocol):
    """The ClickHouse operations that inserts use. They raise StoreError."""

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None: ...

    async def probe(self) -> None: ...


class HealthListener(Protocol):
    """Is notified when ClickHouse becomes unavailable or available."""

    def on_down(self) -> None:
        """An insert failed, and ClickHouse was up before."""

    def on_up(self, *, lost: bool) -> None:
        """A probe succeeded, or a restart was detected. `lost`: ClickHouse may have restarted and lost rows."""


class InsertBreaker:
    """State of the circuit breaker. In mode `store` requests are admitted only while `is_up`, so that during an outage
    they cost no more than their refusal.
    """

    name = "clickhouse"

    def __init__(
        self,
        store: InsertStore,
        metrics: Metrics,
        log: structlog.stdlib.BoundLogger,
        probe_s: float = 1.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._log = log
        self._probe_s = probe_s
        self._sleep = sleep
        self._pause_s = FIRST_PROBE_S
        self._refusing: set[str] = set()  # tables, from a failed insert until one succeeds, even if `is_up`
        self._up = asyncio.Event()
        self._up.set()
        self._probing: asyncio.Task[None] | None = None
        self._listeners: list[HealthListener] = []
        self.possible_losses = 0  # how often ClickHouse may have lost rows that it had
        metrics.store_up.set(1)

    @property
    def is_up(self) -> bool:
        """Whether inserts are worth trying."""
        return self._up.is_set()

    def subscribe(self, listener: "HealthListener") -> Callable[[], None]:
        """Notify `listener` of every change; the function returned unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def restarted(self) -> None:
        """Report that ClickHouse has restarted, whether an insert failed meanwhile or not."""
        self._notify_up(lost=True)

    def failed(self, error: StoreUnavailable, table: str) -> None:
        """Report an insert into `table` that failed for no fault of its own, and start probing."""
        if not self.is_up:
            return
        self._up.clear()
        self._metrics.store_up.set(0)
        if not self._refusing:
            self._log.warning("clickhouse unavailable", table=table, error=error.message, code=error.code)
        self._set_refusing(table, now=True)
        for listener in self._listeners:
            listener.on_down()
        probing = self._probe_until_up(self._pause_s)
        self._probing = asyncio.get_running_loop().create_task(probing, context=Context())  # belongs to no request
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)

    def succeeded(self, table: str) -> None:
        """Report an insert that succeeded. While not `is_up` it is ignored: it began before the failure."""
        if table in self._refusing and self.is_up:
            self._set_refusing(table, now=False)
            if not self._refusing:
                self._pause_s = FIRST_PROBE_S
                self._log.warning("clickhouse recovered")

    async def wait_until_up(self, timeout_s: float) -> bool:
        """Wait until ClickHouse is available, at most `timeout_s`; returns whether it is."""
        if self.is_up:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._up.wait()
        except TimeoutError:
            return False
        return True

    async def probe(self) -> None:
        """For `/readyz`: raises StoreUnavailable while not `is_up`, else what a round trip raises."""
        if not self.is_up:
            raise StoreUnavailable("ClickHouse does not accept inserts.")
        await self._store.probe()

    async def close(self) -> None:
        """Stop probing."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    def _set_refusing(self, table: str, *, now: bool) -> None:
        (self._refusing.add if now else self._refusing.remove)(table)
        self._metrics.refusing_tables.set(len(self._refusing))

    async def _probe_until_up(self, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        down_at = loop.time()
        while True:
            await self._sleep(pause_s)
            pause_s = max(pause_s, self._probe_s)
            try:
                async with asyncio.timeout(PROBE_TIMEOUT_S):
                    await self._store.probe()
            except (StoreError, TimeoutError):
                continue
            except Exception as error:  # noqa: BLE001 (whatever it is, without probes inserts would stop for ever)
                self._log.warning("clickhouse probe failed", exc_info=error)
                continue
            self._metrics.store_up.set(1)
            self._up.set()
            self._notify_up(lost=loop.time() - down_at >= OUTAGE_S)
            return

    def _notify_up(self, *, lost: bool) -> None:
        self.possible_losses += lost
        for listener in self._listeners:
            listener.on_up(lost=lost)
