"""The door to Redis: open while it answers in time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge

from chassis.errors import StartupError
from chassis.redis.scripts import RedisFailure, RedisUnavailable, Script

PROBE_S: Final = 0.5  # between two probes while it is away
CONNECT_S: Final = 1.0  # for a probe that has to connect first
GRACE_LOOP_TURNS: Final = 12  # of the loop that an answer needs at most: 4, and 8 more where there is no connection yet
MAX_REASON: Final = 300  # characters of what Redis says, in the log

# It writes, so that a Redis which is full, read-only or closed to this user does not pass for one that is there.
_PROBE: Final = Script("return redis.call('SET', KEYS[1], 1, 'PX', 1000)")
_PROBE_KEYS: Final = ("sluice:probe",)

log = structlog.get_logger(__name__)


class RedisClient(Protocol):
    """What is behind the door."""

    async def evaluate(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Any: ...

    def messages(self, channel: str) -> AsyncIterator[str | None]: ...

    async def version(self) -> str: ...

    async def close(self) -> None: ...


class Redis:
    """Started and closed by `running`."""

    name = "redis"

    def __init__(
        self, client: RedisClient, address: str, timeout_s: float, registry: CollectorRegistry | None = None
    ) -> None:
        """`address` is for messages, without a password; `timeout_s` is what a caller waits at most."""
        self.address = address
        self._client = client
        self._timeout_s = timeout_s
        self._is_up = False
        self._outage_logged = False
        self._last_refusal = ""
        self._probing: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Future[Any]] = set()
        self._failures = Counter(
            "sluice_redis_failures", "Calls of Redis that failed, by how.", ("kind",), registry=registry
        )
        Gauge("sluice_redis_up", "Whether Redis is used.", registry=registry).set_function(lambda: self._is_up)

    @property
    def is_up(self) -> bool:
        """Whether a call is worth trying."""
        return self._is_up

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Have a first look, start without it if need be, and close it at the end."""
        await self.start()
        yield
        await self.close()

    async def start(self) -> None:
        """Find out whether it is there; it need not be."""
        try:
            await self._connect_and_probe()
        except RedisFailure as failure:
            self._trip_breaker(failure)
        else:
            self._is_up = True

    async def close(self) -> None:
        """Give up calls under way."""
        self._is_up = False
        pending = [*self._calls] if self._probing is None else [*self._calls, self._probing]
        for call in pending:
            call.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await self._client.close()

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """What the script returns. Raises RedisAway, at once while the door is closed. The script may have run all the
        same.
        """
        if not self._is_up:
            raise RedisUnavailable
        # The call goes on when nobody waits for it any more: a connection that it is about to have made is of use to
        # the next one.
        call = self._start_call(script, keys, arguments)
        try:
            return await _wait_for_reply(call, self._timeout_s)
        except RedisFailure as failure:
            self._trip_breaker(failure)
            raise RedisUnavailable from failure

    def messages(self, channel: str) -> AsyncIterator[str | None]:
        """What is published there until the connection ends, on a connection of its own; None each time that it can be
        heard from now on. Raises RedisFailure.
        """
        return self._client.messages(channel)

    async def probe(self) -> None:
        """For `/readyz`: raises while it is not used, else when it does not answer."""
        if not self._is_up:
            raise RedisUnavailable("it does not answer in time")
        await self._client.evaluate(_PROBE, _PROBE_KEYS, ())

    async def inspect(self) -> str:
        """Connect and try it out, for `sluice doctor`; its version. Raises StartupError, with what is wrong."""
        try:
            await self._connect_and_probe()
            return await self._client.version()
        except RedisFailure as failure:
            raise StartupError(f"{self.address} cannot be used: {str(failure).rstrip('.')}.") from failure

    def _start_call(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> "asyncio.Future[Any]":
        """A call under way."""
        call = asyncio.ensure_future(self._client.evaluate(script, keys, arguments))
        self._calls.add(call)
        call.add_done_callback(self._on_call_done)
        return call

    def _on_call_done(self, call: "asyncio.Future[Any]") -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # looked at: nobody may be waiting any more

    def _trip_breaker(self, failure: RedisFailure) -> None:
        self._failures.labels(failure.kind).inc()
        if failure.kind == "refused" and str(failure) != self._last_refusal:
            self._last_refusal = str(failure)
            log.warning("redis refuses", address=self.address, reason=self._last_refusal[:MAX_REASON])
        self._is_up = False
        if self._probing is None:
            self._probing = asyncio.get_running_loop().create_task(self._probe_until_up())

    async def _probe_until_up(self) -> None:
        while not self._is_up:
            try:
                await self._connect_and_probe()
            except RedisFailure as failure:
                self._log_down(failure)
                await asyncio.sleep(PROBE_S)
            else:
                self._is_up = True
        self._probing = None
        self._log_up()

    async def _connect_and_probe(self) -> None:
        """Connect, which may take its time, and then see whether it answers as fast as it must."""
        for timeout_s in (CONNECT_S, self._timeout_s):
            call = self._start_call(_PROBE, _PROBE_KEYS, ())
            try:
                await _wait_for_reply(call, timeout_s)
            finally:
                call.cancel()

    def _log_down(self, failure: RedisFailure) -> None:
        """Once, and not for a single late answer."""
        if not self._outage_logged:
            self._outage_logged = True
            log.warning("redis is away", address=self.address, reason=str(failure)[:MAX_REASON])

    def _log_up(self) -> None:
        if self._outage_logged:
            self._outage_logged = False
            log.warning("redis is back", address=self.address)


async def _wait_for_reply(call: "asyncio.Future[Any]", timeout_s: float) -> Any:
    """Its result. Raises RedisFailure when that is not there by then and in TURNS turns of the loop, which are over at
    once in a process that is idle: in a busy one the time is spent on other things, and says nothing of Redis.
    """
    await asyncio.wait((call,), timeout=timeout_s)
    for _ in range(GRACE_LOOP_TURNS):
        if call.done():
            break
        await asyncio.sleep(0)
    if not call.done():
        raise RedisFailure("timeout", f"no answer within {timeout_s:g} s")
    return call.result()


def open_redis(url: str, timeout_s: float, registry: CollectorRegistry | None = None) -> Redis:
    """Not started. Raises StartupError for a URL that will not do, and without the driver."""
    address = redacted_url(url)
    try:
        from chassis.redis.client import RedisPyClient  # noqa: PLC0415 - the driver is there only where a server is used

        return Redis(RedisPyClient.from_url(url), address, timeout_s, registry)
    except ModuleNotFoundError as error:
        raise StartupError(
            f"SLUICE_REDIS_URL needs the Python package {error.name}, which is not installed: "
            "pip install 'sluice[redis]'."
        ) from error
    except (TypeError, ValueError) as error:  # an option of the URL
        raise _invalid_url() from error


def redacted_url(url: str) -> str:
    """The URL for people: scheme, host, port and database. Raises StartupError for one that has no host or that is cut
    short by what a password should have percent-encoded: nothing of it is shown then.
    """
    parts = urlsplit(url)
    try:
        fits = bool(parts.hostname) and parts.port != 0 and "@" not in parts.path + parts.query + parts.fragment
    except ValueError:  # a port that is none
        fits = False
    if not fits:
        raise _invalid_url()
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _invalid_url() -> StartupError:
    return StartupError(
        "SLUICE_REDIS_URL must read redis://user:password@host:port/0, its password percent-encoded.", exit_code=2
    )
