"""What all inbound webhooks have in common before their signature is verified: limits, and the body.

Nothing is known of the sender yet: an address with too many failures is refused before its body is read, and the bodies
that are being read at once are bounded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from aiohttp import web

from chassis.errors import NotFound, ServiceUnavailable, Unauthorized
from chassis.http.body import read_body
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from control.webhooks.metrics import DeliveryOutcome, WebhookMetrics

MAX_BODIES_BYTES: Final = 64 * 2**20  # of all unverified bodies at once
MIN_RATE: Final = 16 * 1_024  # bytes per second that extend the time to send a body


class WebhookReceiver:
    """Reads bodies and refuses requests."""

    def __init__(self, metrics: WebhookMetrics, max_body_bytes: int, body_timeout_s: float) -> None:
        self.metrics = metrics
        self._max_body_bytes = max_body_bytes
        self._body_timeout_s = body_timeout_s
        self._held = 0

    async def admit(self, request: web.Request) -> None:
        """Raises RateLimited for an address with too many failures."""
        await request.app[RATE_LIMITS].check_address(request, LimitClass.FAILED_WEBHOOK)

    @contextmanager
    def _counted(self) -> Iterator["_HeldBytes"]:
        held = _HeldBytes()
        try:
            yield held
        finally:
            self._held -= held.size

    async def read(self, request: web.Request) -> bytes:
        """The body as received. Raises PayloadTooLarge, ServiceUnavailable, BadRequest."""
        with self._counted() as held:

            def grow(size: int) -> None:
                self._held += size - held.size
                held.size = size
                if self._held > MAX_BODIES_BYTES:
                    raise ServiceUnavailable("Too many webhooks are being received at once.")

            return await read_body(request, self._max_body_bytes, self._body_timeout_s, grow, min_rate=MIN_RATE)

    async def refuse_unsigned(self, request: web.Request, source: str) -> NoReturn:
        """Raises Unauthorized, the same for every reason."""
        self.metrics.count(source, DeliveryOutcome.UNSIGNED)
        await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_WEBHOOK)
        raise Unauthorized("The signature is missing, invalid or expired.")

    async def refuse_unknown(self, request: web.Request, source: str = "unknown") -> NoReturn:
        """Raises NotFound: no such provider or integration. It counts as a failure: ids are not to be guessed."""
        self.metrics.count(source, DeliveryOutcome.UNKNOWN)
        await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_WEBHOOK)
        raise NotFound


class _HeldBytes:
    size = 0
