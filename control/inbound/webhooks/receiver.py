"""The steps before a signature is verified: limits, the body, and the integration that a request names.

Failures are limited by address. All customers of a platform send from the platform's addresses, however, so an address
is not one sender, and each customer decides what it sends and where. Failures are therefore also counted by the
integration that was named. Failures of an integration refuse only events of this integration, before their bodies are
read. Failures that name no integration refuse nothing else. For a platform that serves the whole deployment, every
request is verified, so failures of one sender never refuse a valid request of another sender.

The bodies that are being read at once are bounded. A sender of slow large bodies can use up this bound, but does not
block others: each address has its own limit, and the first bytes of each body, which are all that most bodies have, do
not count.

The integrations that requests name are cached for one second (`WebhookEndpoints`). An event is verified with the cached
integration, and applied only if the integration has not changed meanwhile (`control.inbound.webhooks.inbox`). After an
integration was disabled or deleted, or its secret was rotated, its events are therefore refused at once.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NoReturn

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from chassis.db.database import Database
from chassis.errors import NotFound, ServiceUnavailable, Unauthorized
from chassis.http.body import read_body
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from control.inbound.integrations import store
from control.inbound.integrations.tables import MAX_HOOK_ID_LENGTH, IntegrationKind, WebhookEndpoint
from control.secrets.secret_box import SecretBox


class WebhookOutcome(StrEnum):
    """The outcome of a request."""

    PROCESSED = "processed"
    DUPLICATE = "duplicate"  # answered with the stored result
    INVALID = "invalid"  # signed, but not as the platform documents
    FAILED = "failed"  # a fault of Sluice; the event is processed again if it is sent again
    UNSIGNED = "unsigned"  # no valid signature, or a time outside of the window
    UNKNOWN = "unknown"  # the integration does not exist


METRIC_SOURCES: Final = (
    *("github", "gitlab", "bitbucket", "gitea", "forgejo", "linear", "jira", "pagerduty", "generic"),
    *("chat-a", "chat-b", "payments", "unknown"),
)


class WebhookMetrics:
    """Counts requests by source and outcome."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._deliveries: Final = Counter(
            "sluice_webhook_deliveries",
            "Inbound webhook deliveries by source and outcome: processed, duplicate (the stored result was "
            "answered), invalid (signed, but malformed), failed (an error of Sluice), unsigned, unknown (the "
            "integration does not exist).",
            ("source", "outcome"),
            registry=registry,
        )
        for source in METRIC_SOURCES:
            for outcome in WebhookOutcome:
                self._deliveries.labels(source, outcome.value)

    def count(self, source: str, outcome: WebhookOutcome) -> None:
        """Count one request. `source`: one of METRIC_SOURCES."""
        self._deliveries.labels(source, outcome.value).inc()

    def count_processed(self, source: str, *, duplicate: bool) -> None:
        """Count a request that was answered with the result of its event."""
        self.count(source, WebhookOutcome.DUPLICATE if duplicate else WebhookOutcome.PROCESSED)


MAX_BODIES_BYTES: Final = 64 * 2**20  # of all unverified bodies at once, without the first UNCOUNTED_BYTES of each body
MAX_ADDRESS_BYTES: Final = 32 * 2**20  # of the bodies from one address
UNCOUNTED_BYTES: Final = 32 * 2**10  # about as much as a connection buffers anyway
MAX_EVENT_BYTES: Final = 2**20  # of chats and payments, which send small bodies to publicly known addresses
MIN_RATE: Final = 16 * 1_024  # bytes per second that extend the time to send a body


class WebhookReceiver:
    """Reads bodies and refuses requests."""

    def __init__(self, metrics: WebhookMetrics, max_body_bytes: int, body_timeout_s: float) -> None:
        self.metrics = metrics
        self._max_body_bytes = max_body_bytes
        self._body_timeout_s = body_timeout_s
        self._held: dict[str, int] = {}  # bytes by address
        self._all_held = 0

    async def admit(self, request: web.Request, integration_id: str) -> None:
        """Refuse an address that has sent too many unsigned events to the integration. Raises RateLimited."""
        holder = _holder(request, integration_id)
        await request.app[RATE_LIMITS].check_account(request, LimitClass.FAILED_WEBHOOK, holder)

    async def read(self, request: web.Request, most: int | None = None) -> bytes:
        """Read the body as it was sent, at most `most` bytes, by default the limit of the settings. Raises
        PayloadTooLarge, ServiceUnavailable, BadRequest.
        """
        allowed = self._max_body_bytes if most is None else min(most, self._max_body_bytes)
        held = _HeldBytes(self, request.app[RATE_LIMITS].address_key(request))
        try:
            return await read_body(request, allowed, self._body_timeout_s, held.grow, min_rate=MIN_RATE)
        finally:
            self.hold(held.address, -held.size)

    def hold(self, address: str, size: int) -> bool:
        """Count `size` more bytes, or fewer if it is negative. Returns False if there are too many now."""
        self._all_held += size
        held = self._held.pop(address, 0) + size
        if held:
            self._held[address] = held
        return self._all_held <= MAX_BODIES_BYTES and held <= MAX_ADDRESS_BYTES

    async def refuse_unsigned(self, request: web.Request, source: str, integration_id: str | None = None) -> NoReturn:
        """Refuse an unsigned event. Raises Unauthorized, with the same message for every reason. Raises RateLimited
        after too many such events from the address to the integration, or to a `source` that serves the whole
        deployment.
        """
        self.metrics.count(source, WebhookOutcome.UNSIGNED)
        holder = _holder(request, integration_id or source)
        await request.app[RATE_LIMITS].record_account_failure(request, LimitClass.FAILED_WEBHOOK, holder)
        raise Unauthorized("The signature is missing, invalid or expired.")

    async def refuse_unknown(self, request: web.Request, source: str = "unknown") -> NoReturn:
        """Refuse a request for an unknown provider or integration. Raises NotFound. Raises RateLimited after too many
        such requests from the address, so that ids cannot be guessed.
        """
        self.metrics.count(source, WebhookOutcome.UNKNOWN)
        await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_WEBHOOK)
        raise NotFound


def _holder(request: web.Request, name: str) -> str:
    """The rate limit bucket of an address for `name`."""
    return f"{request.app[RATE_LIMITS].address_key(request)} {name}"


class _HeldBytes:
    """The counted bytes of a body that is being read."""

    def __init__(self, receiver: WebhookReceiver, address: str) -> None:
        self._receiver = receiver
        self.address = address
        self.size = 0

    def grow(self, size: int) -> None:
        """Set the size of the body. Raises ServiceUnavailable."""
        counted = max(0, size - UNCOUNTED_BYTES)
        more, self.size = counted - self.size, counted
        if more and not self._receiver.hold(self.address, more):
            raise ServiceUnavailable("Too many webhooks are being received at once.")


KEPT_S: Final = 1.0
MAX_KEPT: Final = 1_000
_ID: Final = re.compile(r"int_[0-9a-z]{26}")
_HOOK_ID: Final = re.compile(rf"[!-~]{{1,{MAX_HOOK_ID_LENGTH}}}")


class WebhookEndpoints:
    """Finds enabled integrations."""

    def __init__(
        self, database: Database, secret_box: SecretBox, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._database = database
        self._secret_box = secret_box
        self._now = now
        self._kept: OrderedDict[str, tuple[float, WebhookEndpoint]] = OrderedDict()

    async def by_id(self, integration_id: str) -> WebhookEndpoint | None:
        """Find the integration with this id. Raises DatabaseUnavailable."""
        if _ID.fullmatch(integration_id) is None:
            return None
        kept = self._kept.get(integration_id)
        if kept is not None and time.monotonic() - kept[0] < KEPT_S:
            return kept[1]
        async with self._database.read() as connection:
            endpoint = await store.find_endpoint(connection, self._secret_box, integration_id, self._now())
        self.forget(integration_id)
        if endpoint is not None:
            self._kept[integration_id] = time.monotonic(), endpoint
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return endpoint

    async def by_header(self, kind: IntegrationKind, hook_id: str) -> list[WebhookEndpoint]:
        """Find the integrations whose webhook has this id in the platform's header. Raises DatabaseUnavailable."""
        if _HOOK_ID.fullmatch(hook_id) is None:
            return []
        async with self._database.read() as connection:
            return await store.find_endpoints_by_hook_id(connection, self._secret_box, kind, hook_id, self._now())

    def forget(self, integration_id: str) -> None:
        """Remove an integration from the cache."""
        self._kept.pop(integration_id, None)
