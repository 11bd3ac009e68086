"""Look-ups remembered for a few seconds: bounded, one fetch at a time per key, and honest about an absent source.

Known and unknown keys are kept apart, so that a flood of made-up keys can only push out other made-up keys. An entry is
fresh for `fresh_s`, or until somebody says that it was changed (`forget_where`); after that the source is asked again.
While the source is away, entries younger than `stale_s` are served as they are (0: none is), and the source is tried
again in the background, at most once per `RETRY_S`.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from chassis.errors import ServiceUnavailable

FETCH_TIMEOUT_S: Final = 2.0
RETRY_S: Final = 1.0
MAX_FETCHES: Final = 64  # keys being looked up at once; one more is served as it was, or waits its turn
MAX_UNKNOWN_FETCHES: Final = 32  # of them; made-up keys must leave room for refreshing real ones
OUTDATED: Final = -math.inf

log = structlog.get_logger(__name__)

K = TypeVar("K")
V = TypeVar("V")


class CacheMetrics:
    """What every cache of one process counts; the label `cache` tells them apart."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.lookups = Counter(
            "sluice_identity_lookups",
            "Credential look-ups by how they were answered: hit, unknown_hit, fetched, stale, unavailable.",
            ("cache", "result"),
            registry=registry,
        )
        self.entries = Gauge(
            "sluice_identity_cache_entries", "Entries held, known and unknown.", ("cache", "kind"), registry=registry
        )


class CacheLimits(NamedTuple):
    """How long and how many. Times in seconds, counts in entries."""

    fresh_s: float = 5.0
    stale_s: float = 0.0
    max_known: int = 10_000
    max_unknown: int = 10_000


class _Entry(NamedTuple, Generic[V]):
    value: V | None
    fetched_at: float
    fresh_until: float  # OUTDATED: somebody said that it was changed


class LookupCache(Generic[K, V]):
    """`recall` answers at once or not at all; `get` asks the source when it must."""

    def __init__(
        self,
        name: str,
        fetch: Callable[[K], Awaitable[V | None]],
        limits: CacheLimits,
        clock: Callable[[], float],
        metrics: CacheMetrics,
    ) -> None:
        self._name = name
        self._fetch = fetch
        self._limits = limits
        self._clock = clock
        self._known: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._unknown: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._fetches: dict[K, asyncio.Task[V | None]] = {}  # those that nothing has overtaken
        self._running: set[asyncio.Task[V | None]] = set()
        self._unknown_fetches = 0  # of them, of keys that nobody knew
        self._fetch_slots = asyncio.Semaphore(MAX_FETCHES)
        self._retry_at: float | None = None  # set while the source is away
        self._hits = metrics.lookups.labels(name, "hit")
        self._unknown_hits = metrics.lookups.labels(name, "unknown_hit")
        self._fetched = metrics.lookups.labels(name, "fetched")
        self._stale = metrics.lookups.labels(name, "stale")
        self._unavailable = metrics.lookups.labels(name, "unavailable")
        metrics.entries.labels(name, "known").set_function(lambda: len(self._known))
        metrics.entries.labels(name, "unknown").set_function(lambda: len(self._unknown))

    def peek(self, key: K) -> V | None:
        """The value when it is known and fresh; costs two dictionary operations and never waits."""
        entry = self._known.get(key)
        if entry is None or self._clock() >= entry.fresh_until:
            return None
        self._known.move_to_end(key)
        self._hits.inc()
        return entry.value

    def contains(self, key: K) -> bool:
        """Whether there is a value in memory, however old."""
        return key in self._known

    async def get(self, key: K) -> V | None:
        """The value, None when the source does not have it. Raises ServiceUnavailable when the source is away."""
        value = self.peek(key)
        if value is not None:
            return value
        entry = self._unknown.get(key)
        if entry is not None and self._clock() < entry.fresh_until:
            self._unknown_hits.inc()
            return None
        if self._retry_at is not None:
            return await self._get_during_outage(key)
        try:
            return await self._await_fetch(key)
        except ServiceUnavailable:
            return self._serve_stale(key)

    def invalidate(self, key: K) -> None:
        """Drop one key now, and what a fetch under way would still bring of it."""
        self._known.pop(key, None)
        self._unknown.pop(key, None)
        self._fetches.pop(key, None)

    def invalidate_where(self, matches: Callable[[K, V | None], bool]) -> None:
        """Ask the source again for all that matches, a key with its value (None: it is unknown, or looked up for the
        first time). What is known stays so: while the source is away it is served as it was, if that is allowed.
        """
        for key, entry in self._known.items():
            if matches(key, entry.value):
                self._known[key] = entry._replace(fresh_until=OUTDATED)
        for key in [key for key in self._unknown if matches(key, None)]:
            del self._unknown[key]
        for key in [key for key in self._fetches if matches(key, self._value(key))]:
            del self._fetches[key]

    def invalidate_all(self) -> None:
        """Ask the source again for everything."""
        self.invalidate_where(lambda _key, _value: True)

    async def close(self) -> None:
        """End the fetches under way."""
        running = list(self._running)
        for fetch in running:
            fetch.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _value(self, key: K) -> V | None:
        entry = self._known.get(key)
        return None if entry is None else entry.value

    async def _get_during_outage(self, key: K) -> V | None:
        """Now and then a caller finds out whether the source is back; one with nothing to serve waits for it."""
        if self._retry_at is None or self._clock() < self._retry_at:
            return self._serve_stale(key)
        self._retry_at = self._clock() + RETRY_S
        if self._stale_entry(key) is not None:
            self._start_fetch(key)
            return self._serve_stale(key)
        return await asyncio.shield(self._start_fetch(key))

    def _serve_stale(self, key: K) -> V | None:
        entry = self._stale_entry(key)
        if entry is None:
            self._unavailable.inc()
            raise ServiceUnavailable("The credential cannot be checked now.")
        self._stale.inc()
        return entry.value

    def _stale_entry(self, key: K) -> _Entry[V] | None:
        """What is known of the key, if it may be served while the source is away."""
        entry = self._known.get(key)
        young = entry is not None and self._clock() - entry.fetched_at < self._limits.stale_s
        return entry if young else None

    async def _await_fetch(self, key: K) -> V | None:
        """Wait for the one fetch of this key; a caller that gives up leaves it to the others."""
        task = self._fetches.get(key)
        if task is None:
            self._check_capacity(key)
            task = self._start_fetch(key)
        return await asyncio.shield(task)

    def _check_capacity(self, key: K) -> None:
        """ServiceUnavailable for one stranger too many, and where all turns are taken for what has merely grown old."""
        entry = self._known.get(key)
        if entry is None:
            full = self._unknown_fetches >= MAX_UNKNOWN_FETCHES
        else:
            full = self._fetch_slots.locked() and entry.fresh_until != OUTDATED and self._stale_entry(key) is not None
        if full:
            raise ServiceUnavailable("The credential cannot be checked now.")

    def _start_fetch(self, key: K) -> asyncio.Task[V | None]:
        stranger = key not in self._known
        task = asyncio.ensure_future(self._refresh(key))
        self._fetches[key] = task
        self._running.add(task)
        self._unknown_fetches += stranger
        task.add_done_callback(lambda done: self._on_fetch_done(key, done, stranger))
        return task

    async def _refresh(self, key: K) -> V | None:
        await self._acquire_fetch_slot()
        try:
            asked_at = self._clock()  # what is answered is as old as the question
            value = await self._fetch_from_source(key)
        finally:
            self._fetch_slots.release()
        if self._fetches.get(key) is asyncio.current_task():
            self._store(key, _Entry(value, asked_at, asked_at + self._limits.fresh_s))
        return value

    async def _acquire_fetch_slot(self) -> None:
        """Wait for it, so long as a look-up may take."""
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_S):
                await self._fetch_slots.acquire()
        except TimeoutError as error:
            raise ServiceUnavailable("The credential cannot be checked now.") from error

    async def _fetch_from_source(self, key: K) -> V | None:
        """What the source says; whether it is away is known from then on."""
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_S):
                value = await self._fetch(key)
        except Exception as error:  # whatever the driver raises: the credential could not be looked up
            if self._retry_at is None:
                log.warning("credential store away", cache=self._name, reason=str(error) or type(error).__name__)
            self._retry_at = self._clock() + RETRY_S
            raise ServiceUnavailable("The credential cannot be checked now.") from error
        self._retry_at = None
        self._fetched.inc()
        return value

    def _store(self, key: K, entry: _Entry[V]) -> None:
        kept, other, limit = self._known, self._unknown, self._limits.max_known
        if entry.value is None:
            kept, other, limit = self._unknown, self._known, self._limits.max_unknown
        other.pop(key, None)
        kept[key] = entry
        kept.move_to_end(key)
        while len(kept) > limit:
            kept.popitem(last=False)

    def _on_fetch_done(self, key: K, task: asyncio.Task[V | None], stranger: bool) -> None:
        self._running.discard(task)
        self._unknown_fetches -= stranger
        if self._fetches.get(key) is task:
            del self._fetches[key]
        if not task.cancelled():
            task.exception()  # looked at here: nobody may be waiting for a background refresh
