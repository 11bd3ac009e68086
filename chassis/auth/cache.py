"""A bounded cache that keeps lookups for a few seconds, runs one fetch at a time per key, and serves stale entries
during an outage.

Known and unknown keys are stored separately, so that a flood of invented keys evicts only other invented keys. An entry
is fresh for `fresh_s`, or until it is invalidated (`invalidate`, `invalidate_where`). After that the source is read
again. While the source is unavailable, entries younger than `stale_s` are served unchanged (with `stale_s` 0 no entry
is), and the source is retried in the background, at most once per `RETRY_S`.
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
MAX_FETCHES: Final = 64  # concurrent fetches; beyond that a stale entry is served, or the fetch waits for a slot
MAX_UNKNOWN_FETCHES: Final = 32  # concurrent fetches of keys not in memory: leaves room for refreshing known ones
OUTDATED: Final = -math.inf

log = structlog.get_logger(__name__)

K = TypeVar("K")
V = TypeVar("V")


class CacheMetrics:
    """Metrics of all caches of a process, with the label `cache`."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.lookups = Counter(
            "sluice_identity_lookups",
            "Credential lookups, by result: hit (found in the cache), unknown_hit (the cache knows that the credential "
            "does not exist), fetched (read from the database), stale (an expired entry was used because the database "
            "is unavailable), unavailable (no entry, and the database is unavailable).",
            ("cache", "result"),
            registry=registry,
        )
        self.entries = Gauge(
            "sluice_identity_cache_entries",
            "Cache entries, by kind of credential: known (it exists), unknown (it does not exist).",
            ("cache", "kind"),
            registry=registry,
        )


class CacheLimits(NamedTuple):
    """Times in seconds, counts in entries."""

    fresh_s: float = 5.0
    stale_s: float = 0.0
    max_known: int = 10_000
    max_unknown: int = 10_000


class _Entry(NamedTuple, Generic[V]):
    value: V | None
    fetched_at: float
    fresh_until: float  # OUTDATED: invalidated


class LookupCache(Generic[K, V]):
    """`peek` never waits; `get` fetches from the source if necessary."""

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
        self._fetches: dict[K, asyncio.Task[V | None]] = {}  # without fetches that an invalidation superseded
        self._running: set[asyncio.Task[V | None]] = set()
        self._unknown_fetches = 0  # running fetches of keys that were not in memory
        self._fetch_slots = asyncio.Semaphore(MAX_FETCHES)
        self._retry_at: float | None = None  # set while the source is unavailable
        self._hits = metrics.lookups.labels(name, "hit")
        self._unknown_hits = metrics.lookups.labels(name, "unknown_hit")
        self._fetched = metrics.lookups.labels(name, "fetched")
        self._stale = metrics.lookups.labels(name, "stale")
        self._unavailable = metrics.lookups.labels(name, "unavailable")
        metrics.entries.labels(name, "known").set_function(lambda: len(self._known))
        metrics.entries.labels(name, "unknown").set_function(lambda: len(self._unknown))

    def peek(self, key: K) -> V | None:
        """The value, if it is known and fresh. Costs two dictionary operations and never waits."""
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
        """The value, or None if the source does not have the key. Raises ServiceUnavailable when the source is
        unavailable and there is no stale entry to serve.
        """
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
        """Drop one key, and the result of a pending fetch of it."""
        self._known.pop(key, None)
        self._unknown.pop(key, None)
        self._fetches.pop(key, None)

    def invalidate_where(self, matches: Callable[[K, V | None], bool]) -> None:
        """Mark matching entries as outdated, so that they are fetched again. `matches` gets a key with its value (None
        if the key is unknown or is being fetched for the first time). Known entries are kept: while the source is
        unavailable they are served stale, if `stale_s` allows it.
        """
        for key, entry in self._known.items():
            if matches(key, entry.value):
                self._known[key] = entry._replace(fresh_until=OUTDATED)
        for key in [key for key in self._unknown if matches(key, None)]:
            del self._unknown[key]
        for key in [key for key in self._fetches if matches(key, self._value(key))]:
            del self._fetches[key]

    def drop_where(self, matches: Callable[[K, V | None], bool]) -> None:
        """Remove matching entries, so that they are not served stale either while the source is unavailable."""
        for key in [key for key, entry in self._known.items() if matches(key, entry.value)]:
            del self._known[key]
        self.invalidate_where(matches)

    def invalidate_all(self) -> None:
        """Mark all entries as outdated."""
        self.invalidate_where(lambda _key, _value: True)

    async def close(self) -> None:
        """Cancel the pending fetches."""
        running = list(self._running)
        for fetch in running:
            fetch.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _value(self, key: K) -> V | None:
        entry = self._known.get(key)
        return None if entry is None else entry.value

    async def _get_during_outage(self, key: K) -> V | None:
        """Start a fetch at most once per RETRY_S, to detect recovery. A caller without a stale entry waits for it."""
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
            raise ServiceUnavailable("Authentication is temporarily unavailable.")
        self._stale.inc()
        return entry.value

    def _stale_entry(self, key: K) -> _Entry[V] | None:
        """The entry of the key, if it may be served while the source is unavailable."""
        entry = self._known.get(key)
        is_servable = entry is not None and self._clock() - entry.fetched_at < self._limits.stale_s
        return entry if is_servable else None

    async def _await_fetch(self, key: K) -> V | None:
        """Wait for the one fetch of this key. A cancelled caller does not cancel the fetch for other callers."""
        task = self._fetches.get(key)
        if task is None:
            self._check_capacity(key)
            task = self._start_fetch(key)
        return await asyncio.shield(task)

    def _check_capacity(self, key: K) -> None:
        """Raises ServiceUnavailable when MAX_UNKNOWN_FETCHES fetches of unknown keys are running. Also raises it when
        all slots are in use and this entry is only expired, so that the caller can serve the stale entry.
        """
        entry = self._known.get(key)
        if entry is None:
            is_full = self._unknown_fetches >= MAX_UNKNOWN_FETCHES
        else:
            is_full = (
                self._fetch_slots.locked() and entry.fresh_until != OUTDATED and self._stale_entry(key) is not None
            )
        if is_full:
            raise ServiceUnavailable("Authentication is temporarily unavailable.")

    def _start_fetch(self, key: K) -> asyncio.Task[V | None]:
        is_unknown = key not in self._known
        task = asyncio.ensure_future(self._refresh(key))
        self._fetches[key] = task
        self._running.add(task)
        self._unknown_fetches += is_unknown
        task.add_done_callback(lambda done: self._on_fetch_done(key, done, is_unknown))
        return task

    async def _refresh(self, key: K) -> V | None:
        await self._acquire_fetch_slot()
        try:
            requested_at = self._clock()  # a response is as old as its request
            value = await self._fetch_from_source(key)
        finally:
            self._fetch_slots.release()
        if self._fetches.get(key) is asyncio.current_task():
            self._store(key, _Entry(value, requested_at, requested_at + self._limits.fresh_s))
        return value

    async def _acquire_fetch_slot(self) -> None:
        """Wait for a slot, for at most FETCH_TIMEOUT_S."""
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_S):
                await self._fetch_slots.acquire()
        except TimeoutError as error:
            raise ServiceUnavailable("Authentication is temporarily unavailable.") from error

    async def _fetch_from_source(self, key: K) -> V | None:
        """Fetch the value, and record whether the source is available."""
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_S):
                value = await self._fetch(key)
        except Exception as error:  # the lookup failed, and drivers raise errors of many types
            if self._retry_at is None:
                log.warning("credential store unavailable", cache=self._name, reason=str(error) or type(error).__name__)
            self._retry_at = self._clock() + RETRY_S
            raise ServiceUnavailable("Authentication is temporarily unavailable.") from error
        self._retry_at = None
        self._fetched.inc()
        return value

    def _store(self, key: K, entry: _Entry[V]) -> None:
        target, other, limit = self._known, self._unknown, self._limits.max_known
        if entry.value is None:
            target, other, limit = self._unknown, self._known, self._limits.max_unknown
        other.pop(key, None)
        target[key] = entry
        target.move_to_end(key)
        while len(target) > limit:
            target.popitem(last=False)

    def _on_fetch_done(self, key: K, task: asyncio.Task[V | None], is_unknown: bool) -> None:
        self._running.discard(task)
        self._unknown_fetches -= is_unknown
        if self._fetches.get(key) is task:
            del self._fetches[key]
        if not task.cancelled():
            task.exception()  # retrieved: a background refresh may have no waiting caller
