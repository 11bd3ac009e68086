"""Redis, shared by processes and optional: it holds only data that may be lost.

`Redis.run` runs one of our scripts and waits for a few hundredths of a second. On RedisUnavailable the caller continues
with what the process knows itself; no request is rejected because Redis is unavailable, unless the policy of its limit
class says so. `breaker.Redis` is a circuit breaker: the first failure opens it, so that calls fail at once; a probe in
the background, which writes as the scripts do, closes it again. So an outage delays only the requests that discover it.

`Broadcast` publishes changes to all processes, which would otherwise notice them a little later.

`client` is the driver; it is imported only where a URL is configured.
"""

from chassis.redis.breaker import Broadcast, Redis, open_redis
from chassis.redis.scripts import RedisUnavailable, Script

__all__ = ["Broadcast", "Redis", "RedisUnavailable", "Script", "open_redis"]
