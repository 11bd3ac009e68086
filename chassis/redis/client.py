"""The driver: a few connections to one Redis server, opened on demand."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Self

from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Redis as Driver
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionFailed
from redis.exceptions import NoPermissionError, NoScriptError, RedisError
from redis.exceptions import TimeoutError as NoAnswer
from redis.maint_notifications import MaintNotificationsConfig

from chassis.redis.scripts import RedisFailure, Script

MAX_CONNECTIONS: Final = 16  # at once; a further call waits for a free connection
SUBSCRIPTION_PING_S: Final = (
    10.0  # without a message before a subscription is checked with a ping, and without a reply before it counts as lost
)
SOCKET_TIMEOUT_S: Final = 1.0  # for a connection, and for a reply; the caller stops waiting long before


class RedisPyClient:
    """A client that uses redis-py. Every method raises RedisFailure."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Create a client without connecting. Raises ValueError or TypeError for an invalid URL or option."""
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=MAX_CONNECTIONS,
            timeout=SOCKET_TIMEOUT_S,
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),  # the caller has an alternative, so there is no second attempt
            protocol=2,  # this and the next two lines avoid handshake commands, which cost a round trip each
            driver_info=None,
            maint_notifications_config=MaintNotificationsConfig(enabled=False),
        )
        pool.connection_class(**pool.connection_kwargs)  # validates the options and opens no connection
        return cls(Driver.from_pool(pool))

    async def evaluate(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run the script by its hash, and send its text if Redis does not know it. Returns the script's result."""
        try:
            try:
                return await self._driver.evalsha(script.sha, len(keys), *keys, *arguments)
            except NoScriptError:  # Redis was restarted, or its scripts were flushed
                return await self._driver.eval(script.text, len(keys), *keys, *arguments)
        except Exception as error:  # no exception of the driver may fail a request
            raise _to_redis_failure(error) from error

    async def messages(self, channel: str) -> AsyncIterator[str | None]:
        """The messages published on the channel. Yields None whenever the subscription becomes active."""
        async with self._driver.pubsub() as subscription:
            try:
                await subscription.subscribe(channel)
                ping_sent = False
                while True:
                    message = await subscription.get_message(timeout=SUBSCRIPTION_PING_S)
                    if message is None and ping_sent:
                        raise RedisFailure("timeout", f"no response to a ping within {SUBSCRIPTION_PING_S:g} s")
                    ping_sent = message is None
                    if message is None:
                        await subscription.ping()
                    elif message["type"] == "subscribe":
                        yield None
                    elif message["type"] == "message":
                        yield message["data"].decode("utf-8", "replace")
            except Exception as error:
                raise _to_redis_failure(error) from error

    async def version(self) -> str:
        """The version of Redis, such as `7.0.15`. Empty if the user may not run INFO."""
        try:
            info = await self._driver.info("server")
        except NoPermissionError:
            return ""
        except Exception as error:
            raise _to_redis_failure(error) from error
        return str(info.get("redis_version", ""))

    async def close(self) -> None:
        """Close every connection."""
        await self._driver.aclose()


def _to_redis_failure(error: Exception) -> RedisFailure:
    if isinstance(error, RedisFailure):
        return error
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, (NoAnswer, TimeoutError)):
        return RedisFailure("timeout", reason)
    is_refused = isinstance(error, RedisError) and not isinstance(error, ConnectionFailed)
    return RedisFailure("refused" if is_refused else "connection", reason)
