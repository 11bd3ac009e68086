"""Who may send through a channel on demand, and how often."""

from typing import Final

from aiohttp import web

from chassis.auth.model import AuthorizationContext
from chassis.errors import Forbidden
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from proto.identity import Role

_ADMINISTRATORS: Final = frozenset({Role.ADMIN, Role.OWNER})


def require_administrator(caller: AuthorizationContext) -> None:
    """Required for channels of the whole organization. Raises Forbidden."""
    if caller.role not in _ADMINISTRATORS:
        raise Forbidden("Channels of the whole organization require the role ADMIN or OWNER.")


async def check_channel_rate_limit(request: web.Request, channel_id: str) -> None:
    """Limits the messages sent on demand through one channel, by all callers together. Raises RateLimited."""
    await request.app[RATE_LIMITS].take_secondary(request, LimitClass.CHANNEL_TEST, f"channel {channel_id}")
