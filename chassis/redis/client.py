"""The driver: a few connections to one Redis, made when they are needed."""

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

MAX_CONNECTIONS: Final = 16  # at once; a call for which there is none waits
SUBSCRIPTION_PING_S: Final = (
    10.0  # without a message, until a subscription is tried out, and again until it counts as lost
)
SOCKET_TIMEOUT_S: Final = 1.0  # to connect, and for an answer: whoever asked has stopped waiting long before


class RedisPyClient:
    """Every method raises RedisFailure."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Not connected yet. ValueError or TypeError for a URL, or options in it, that are none."""
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=MAX_CONNECTIONS,
            timeout=SOCKET_TIMEOUT_S,
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),  # who calls has something better to do than to wait for a second attempt
            protocol=2,  # and nothing else is said at the start of a connection: a round trip each
            driver_info=None,
            maint_notifications_config=MaintNotificationsConfig(enabled=False),
        )
        pool.connection_class(**pool.connection_kwargs)  # which looks at the options; it is not opened
        return cls(Driver.from_pool(pool))

    async def evaluate(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """What the script returns."""
        try:
            try:
                return await self._driver.evalsha(script.sha, len(keys), *keys, *arguments)
            except NoScriptError:  # a fresh Redis, or one that was told to forget
                return await self._driver.eval(script.text, len(keys), *keys, *arguments)
        except Exception as error:  # whatever the driver raises: nobody's request is to fail of it
            raise _to_redis_failure(error) from error

    async def messages(self, channel: str) -> AsyncIterator[str | None]:
        """What is published there; None each time that it can be heard from now on."""
        async with self._driver.pubsub() as subscription:
            try:
                await subscription.subscribe(channel)
                silent = False
                while True:
                    found = await subscription.get_message(timeout=SUBSCRIPTION_PING_S)
                    if found is None and silent:
                        raise RedisFailure("timeout", f"not even an answer to a ping within {SUBSCRIPTION_PING_S:g} s")
                    silent = found is None
                    if found is None:
                        await subscription.ping()
                    elif found["type"] == "subscribe":
                        yield None
                    elif found["type"] == "message":
                        yield found["data"].decode("utf-8", "replace")
            except Exception as error:
                raise _to_redis_failure(error) from error

    async def version(self) -> str:
        """`7.0.15`; empty where this user may not ask."""
        try:
            found = await self._driver.info("server")
        except NoPermissionError:
            return ""
        except Exception as error:
            raise _to_redis_failure(error) from error
        return str(found.get("redis_version", ""))

    async def close(self) -> None:
        """Close every connection."""
        await self._driver.aclose()


def _to_redis_failure(error: Exception) -> RedisFailure:
    if isinstance(error, RedisFailure):
        return error
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, (NoAnswer, TimeoutError)):
        return RedisFailure("timeout", reason)
    refused = isinstance(error, RedisError) and not isinstance(error, ConnectionFailed)
    return RedisFailure("refused" if refused else "connection", reason)
