"""Redis, which processes share and none depends on: it holds what may be lost.

`Redis.run` runs one of our scripts and waits for a few hundredths of a second. Whoever gets a `RedisAway` instead goes
on by what the process knows itself; nobody is refused because Redis is away, unless his rule says so. The first
failure closes the door; a probe in the background, which writes as the scripts do, opens it again. So an outage costs
the requests that find out about it their wait, and all others nothing.

`Broadcast` tells all processes of something at once that they would find out a little later.

`client` is the driver; it is imported where an address is configured, and nowhere else.
"""

from chassis.redis.breaker import Redis, open_redis
from chassis.redis.broadcast import Broadcast
from chassis.redis.scripts import RedisUnavailable, Script

__all__ = ["Broadcast", "Redis", "RedisUnavailable", "Script", "open_redis"]
