"""The circuit breaker in front of Redis: closed while Redis replies in time.

`Broadcast` sends short messages from one process to all others through Redis. Messages may be lost: receivers then
notice the change a little later.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge

from chassis.errors import StartupError
from chassis.redis.scripts import RedisFailure, RedisUnavailable, Script

PROBE_S: Final = 0.5  # between two probes while Redis is unavailable
CONNECT_S: Final = 1.0  # for a probe that has to connect first
GRACE_LOOP_TURNS: Final = 12  # event loop turns that a reply needs at most: 4, plus 8 to open a connection
MAX_REASON: Final = 300  # characters of Redis's error, in the log

# The probe writes, so that a Redis that is full, read-only or forbidden for this user does not count as available.
_PROBE: Final = Script("return redis.call('SET', KEYS[1], 1, 'PX', 1000)")
_PROBE_KEYS: Final = ("sluice:probe",)

log = structlog.get_logger(__name__)


class RedisClient(Protocol):
    """The client behind the breaker."""

    async def evaluate(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Any: ...

    def messages(self, channel: str) -> AsyncIterator[str | None]: ...

    async def version(self) -> str: ...

    async def close(self) -> None: ...


class Redis:
    """Runs scripts while Redis is available, and fails immediately while it is not. `running` starts and closes it."""

    name = "redis"

    def __init__(
        self, client: RedisClient, address: str, timeout_s: float, registry: CollectorRegistry | None = None
    ) -> None:
        """`address` is for messages and contains no password. `timeout_s` is the maximum wait of a caller."""
        self.address = address
        self._client = client
        self._timeout_s = timeout_s
        self._is_up = False
        self._outage_logged = False
        self._last_refusal = ""
        self._probing: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Future[Any]] = set()
        self._failures = Counter("sluice_redis_failures", "Failed Redis calls, by kind.", ("kind",), registry=registry)
        Gauge("sluice_redis_up", "1 while Redis is available, 0 otherwise.", registry=registry).set_function(
            lambda: self._is_up
        )

    @property
    def is_up(self) -> bool:
        """Whether calls are attempted."""
        return self._is_up

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Probe once, start without Redis if that fails, and close the client at shutdown."""
        await self.start()
        yield
        await self.close()

    async def start(self) -> None:
        """Probe once. A failure starts the background probe and raises nothing."""
        try:
            await self._connect_and_probe()
        except RedisFailure as failure:
            self._trip_breaker(failure)
        else:
            self._is_up = True

    async def close(self) -> None:
        """Cancel pending calls and close the client."""
        self._is_up = False
        pending = [*self._calls] if self._probing is None else [*self._calls, self._probing]
        for call in pending:
            call.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await self._client.close()

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run the script and return its result. Raises RedisUnavailable, immediately while the breaker is open. When it
        is raised, the script may have run nevertheless.
        """
        if not self._is_up:
            raise RedisUnavailable
        # The call continues after its caller has stopped waiting: the next call can use a connection that it opens.
        call = self._start_call(script, keys, arguments)
        try:
            return await _wait_for_reply(call, self._timeout_s)
        except RedisFailure as failure:
            self._trip_breaker(failure)
            raise RedisUnavailable from failure

    def messages(self, channel: str) -> AsyncIterator[str | None]:
        """The messages published on the channel until the connection ends, received on a separate connection. Yields
        None whenever the subscription becomes active. Raises RedisFailure.
        """
        return self._client.messages(channel)

    async def probe(self) -> None:
        """Probe Redis for `/readyz`. Raises while the breaker is open, or when Redis does not reply."""
        if not self._is_up:
            raise RedisUnavailable("Redis does not respond in time")
        await self._client.evaluate(_PROBE, _PROBE_KEYS, ())

    async def inspect(self) -> str:
        """Connect and probe, for `sluice doctor`. Returns the version. Raises StartupError with the reason."""
        try:
            await self._connect_and_probe()
            return await self._client.version()
        except RedisFailure as failure:
            raise StartupError(f"{self.address} cannot be used: {str(failure).rstrip('.')}.") from failure

    def _start_call(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> "asyncio.Future[Any]":
        """Start a call and track it until it ends."""
        call = asyncio.ensure_future(self._client.evaluate(script, keys, arguments))
        self._calls.add(call)
        call.add_done_callback(self._on_call_done)
        return call

    def _on_call_done(self, call: "asyncio.Future[Any]") -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # retrieved here, because no caller may be waiting any more

    def _trip_breaker(self, failure: RedisFailure) -> None:
        self._failures.labels(failure.kind).inc()
        if failure.kind == "refused" and str(failure) != self._last_refusal:
            self._last_refusal = str(failure)
            log.warning("redis call rejected", address=self.address, reason=self._last_refusal[:MAX_REASON])
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
        """Connect, with a longer timeout, and then check that Redis replies within the normal timeout."""
        for timeout_s in (CONNECT_S, self._timeout_s):
            call = self._start_call(_PROBE, _PROBE_KEYS, ())
            try:
                await _wait_for_reply(call, timeout_s)
            finally:
                call.cancel()

    def _log_down(self, failure: RedisFailure) -> None:
        """Log once per outage, and not for a single late reply."""
        if not self._outage_logged:
            self._outage_logged = True
            log.warning("redis unavailable", address=self.address, reason=str(failure)[:MAX_REASON])

    def _log_up(self) -> None:
        if self._outage_logged:
            self._outage_logged = False
            log.warning("redis recovered", address=self.address)


async def _wait_for_reply(call: "asyncio.Future[Any]", timeout_s: float) -> Any:
    """The call's result. Raises RedisFailure if there is no result after `timeout_s` and GRACE_LOOP_TURNS turns of the
    event loop. In an idle process these turns take no time. In a busy process the timeout may have passed during other
    work, so that the timeout alone says nothing about Redis.
    """
    await asyncio.wait((call,), timeout=timeout_s)
    for _ in range(GRACE_LOOP_TURNS):
        if call.done():
            break
        await asyncio.sleep(0)
    if not call.done():
        raise RedisFailure("timeout", f"no response within {timeout_s:g} s")
    return call.result()


def open_redis(url: str, timeout_s: float, registry: CollectorRegistry | None = None) -> Redis:
    """Create a Redis that is not started. Raises StartupError for an invalid URL, or when the driver is not
    installed.
    """
    address = redacted_url(url)
    try:
        from chassis.redis.client import RedisPyClient  # noqa: PLC0415 - the driver may not be installed

        return Redis(RedisPyClient.from_url(url), address, timeout_s, registry)
    except ModuleNotFoundError as error:
        raise StartupError(
            f"SLUICE_REDIS_URL needs the Python package {error.name}, which is not installed: "
            "pip install 'sluice[redis]'."
        ) from error
    except (TypeError, ValueError) as error:  # an invalid option in the URL
        raise _invalid_url() from error


def redacted_url(url: str) -> str:
    """The URL for messages: scheme, host, port and database. Raises StartupError, which shows no part of the URL, if
    the URL has no host, or if a character of the password that is not percent-encoded cuts it short.
    """
    parts = urlsplit(url)
    try:
        is_valid = bool(parts.hostname) and parts.port != 0 and "@" not in parts.path + parts.query + parts.fragment
    except ValueError:  # an invalid port
        is_valid = False
    if not is_valid:
        raise _invalid_url()
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _invalid_url() -> StartupError:
    return StartupError(
        "SLUICE_REDIS_URL must have the form redis://user:password@host:port/0, with the password percent-encoded.",
        exit_code=2,
    )


RESUBSCRIBE_S: Final = 0.5  # from the end of a subscription to the next attempt
MAX_IN_FLIGHT: Final = 64  # messages being sent; further messages are dropped
MAX_LENGTH: Final = 200  # characters; longer messages, which Sluice does not send, are cut

_PUBLISH: Final = Script("return redis.call('PUBLISH', KEYS[1], ARGV[1])")


class Broadcast:
    """One channel. Calls `on_message` with messages of other processes, and `on_gap` when messages may have been
    missed.
    """

    def __init__(
        self, redis: Redis, channel: str, on_message: Callable[[str], None], on_gap: Callable[[], None]
    ) -> None:
        self._redis = redis
        self._channel = channel
        self._on_message = on_message
        self._on_gap = on_gap
        self._sender_id = secrets.token_hex(8)
        self._listener: asyncio.Task[None] | None = None
        self._in_flight: set[asyncio.Task[None]] = set()

    def publish(self, message: str) -> None:
        """Send in the background. The caller does not wait and does not learn the result."""
        if self._redis.is_up and len(self._in_flight) < MAX_IN_FLIGHT:
            task = asyncio.get_running_loop().create_task(self._send(message))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Subscribe as soon as Redis is available. At shutdown wait for messages in flight."""
        self._listener = asyncio.get_running_loop().create_task(self._listen())
        yield
        self._listener.cancel()
        await asyncio.gather(self._listener, *self._in_flight, return_exceptions=True)

    async def _send(self, message: str) -> None:
        try:
            await self._redis.run(_PUBLISH, (self._channel,), (f"{self._sender_id} {message}",))
        except RedisUnavailable:
            pass  # logged by the breaker

    async def _listen(self) -> None:
        while True:
            try:
                async for message in self._redis.messages(self._channel):
                    self._dispatch(message)
            except RedisFailure as failure:
                log.debug("subscription ended", channel=self._channel, reason=str(failure))
            await asyncio.sleep(RESUBSCRIBE_S)

    def _dispatch(self, message: str | None) -> None:
        if message is None:  # the subscription became active
            self._on_gap()
            return
        sender, _, text = message[:MAX_LENGTH].partition(" ")
        if sender != self._sender_id:
            self._on_message(text)
