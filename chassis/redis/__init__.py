"""Redis, shared by processes and optional: it holds only data that may be lost.

`Redis.run` runs a script and waits for a few hundredths of a second. If it raises RedisUnavailable, the caller
continues with the data of its own process. No request is rejected because Redis is unavailable, unless the policy of
its limit class says so. `breaker.Redis` is a circuit breaker. The first failure opens the breaker, so that calls fail
immediately. A probe in the background, which writes like the scripts, closes the breaker again. So an outage delays
only the requests that discover it.

`Broadcast` publishes changes to all processes, which would otherwise notice the changes a little later.

`client` is the driver. It is imported only if a URL is configured.
"""

from chassis.redis.breaker import Broadcast, Redis, open_redis
from chassis.redis.scripts import RedisUnavailable, Script

__all__ = ["Broadcast", "Redis", "RedisUnavailable", "Script", "open_redis"]
