"""`POST /webhooks/scm/{provider}` and `POST /webhooks/integrations/{integrationId}` (specification 4.5)."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import BadRequest, ServiceUnavailable, Unauthorized
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from control.inbound.integrations.delivery_repository import new_delivery_id, pack_body
from control.inbound.integrations.model import Hook, Integration, IntegrationKind, StoredInboundDelivery
from control.inbound.webhooks.body_allowance import BodyAllowance
from control.inbound.webhooks.hooks import Hooks
from control.inbound.webhooks.inbox import ApplyTogether, HookChanged, Inbox, ProcessedDelivery, VerifiedDelivery
from control.inbound.webhooks.metrics import DeliveryOutcome
from control.inbound.webhooks.platform import Headers, PayloadError, Platform
from control.inbound.webhooks.receiver import WebhookReceiver
from control.secrets.secret_box import SecretBox

_ATTEMPTS: Final = 2  # the second with an integration that was changed meanwhile
MAX_WAITING_BYTES: Final = 64 * 2**20  # of large bodies
_MAX_PARSED_AT_ONCE: Final = 256 * 1_024  # bytes; parsing more would keep other requests waiting


@dataclass(frozen=True, slots=True)
class WebhookSource:
    """A platform, and what its events do."""

    platform: Platform[Any]
    apply: Callable[[AsyncConnection, Integration, Any, datetime], Awaitable[msgspec.Struct]]
    apply_together: ApplyTogether | None = None


class IntegrationReceiver:
    """Verifies and processes what is sent to integrations."""

    def __init__(self, receiver: WebhookReceiver, hooks: Hooks, inbox: Inbox, secret_box: SecretBox) -> None:
        self._receiver = receiver
        self._hooks = hooks
        self._inbox = inbox
        self._secret_box = secret_box
        self._parsing = asyncio.Semaphore(1)  # of large bodies: threads share one interpreter
        self._waiting_bytes = 0  # of those that are parsed, or wait for it
        self._body_allowance = BodyAllowance()

    async def receive(
        self,
        request: web.Request,
        kind: IntegrationKind,
        source: WebhookSource,
        find: Callable[[], Awaitable[Sequence[Hook]]],
    ) -> ProcessedDelivery:
        """Read, verify and process one request. `find`: the integrations that it may be for.

        Raises RateLimited, NotFound, Unauthorized, BadRequest and what reading a body raises.
        """
        hooks, body = await find(), None
        for _ in range(_ATTEMPTS):
            if not hooks:
                await self._receiver.refuse_unknown(request, kind.value)
            if body is None:
                await self._receiver.admit(request, hooks[0].integration.id)
                body = await self._receiver.read(request)
            signed = (one for one in hooks if source.platform.verify(request.headers, body, one, time.time()))
            hook = next(signed, None)
            if hook is None:
                await self._receiver.refuse_unsigned(request, kind.value, hooks[0].integration.id)
            await request.app[RATE_LIMITS].take(request, LimitClass.WEBHOOK, hook.integration.id)
            try:
                return await self._process(hook, source, request, body)
            except HookChanged:
                self._hooks.forget(hook.integration.id)
                hooks = await find()
        raise Unauthorized("The integration has just been changed.")

    async def redeliver(
        self, hook: Hook, source: WebhookSource, stored: StoredInboundDelivery, body: bytes
    ) -> ProcessedDelivery:
        """Process a stored delivery again. Raises as `receive`, and HookChanged."""
        try:
            parsed = await asyncio.to_thread(source.platform.parse, stored.event, body, stored.received_at)
            apply = _applying(source, hook, parsed)
        except PayloadError as error:
            apply = _refusing(error)
        delivery = VerifiedDelivery(stored.id, hook, stored.delivery_key, stored.event, None, apply, stored)
        return await self._inbox.process(delivery)

    async def _process(self, hook: Hook, source: WebhookSource, request: web.Request, body: bytes) -> ProcessedDelivery:
        metrics, kind = self._receiver.metrics, hook.integration.kind.value
        try:
            delivery = await self._delivery(hook, source, request.headers, body)
            if delivery.body is not None and not self._body_allowance.take(hook.integration.org_id, len(delivery.body)):
                delivery = replace(delivery, body=None)
            processed = await self._inbox.process(delivery)
        except PayloadError as error:
            metrics.count(kind, DeliveryOutcome.INVALID)
            raise BadRequest(str(error)) from error
        except HookChanged:
            raise
        except Exception:
            metrics.count(kind, DeliveryOutcome.FAILED)
            raise
        metrics.count(kind, DeliveryOutcome.DUPLICATE if processed.duplicate else DeliveryOutcome.PROCESSED)
        return processed

    async def _delivery(self, hook: Hook, source: WebhookSource, headers: Headers, body: bytes) -> VerifiedDelivery:
        """Raises as `_parsed`, and ServiceUnavailable if too much waits to be parsed."""
        if len(body) <= _MAX_PARSED_AT_ONCE:
            return self._parsed(hook, source, headers, body)
        if self._waiting_bytes + len(body) > MAX_WAITING_BYTES:
            raise ServiceUnavailable("Too many large webhooks wait to be processed.")
        self._waiting_bytes += len(body)
        try:
            async with self._parsing:
                return await asyncio.to_thread(self._parsed, hook, source, headers, body)
        finally:
            self._waiting_bytes -= len(body)

    def _parsed(self, hook: Hook, source: WebhookSource, headers: Headers, body: bytes) -> VerifiedDelivery:
        """Raises PayloadError for a body without event: there is nothing to store of it."""
        platform, integration = source.platform, hook.integration
        event = platform.event_name(headers, body)
        delivery_id = new_delivery_id()
        key = platform.delivery_id(headers) or hashlib.sha256(body).hexdigest()
        sealed = pack_body(self._secret_box, integration.org_id, delivery_id, body)
        try:
            parsed = platform.parse(event, body, datetime.now(UTC))
        except PayloadError as error:
            return VerifiedDelivery(delivery_id, hook, key, event, sealed, _refusing(error))
        apply = _applying(source, hook, parsed)
        return VerifiedDelivery(
            delivery_id, hook, key, event, sealed, apply, apply_together=source.apply_together, content=parsed
        )


def _applying(
    source: WebhookSource, hook: Hook, parsed: Any
) -> Callable[[AsyncConnection, datetime], Awaitable[msgspec.Struct]]:
    async def apply(connection: AsyncConnection, now: datetime) -> msgspec.Struct:
        return await source.apply(connection, hook.integration, parsed, now)

    return apply


def _refusing(error: PayloadError) -> Callable[[AsyncConnection, datetime], Awaitable[msgspec.Struct]]:
    async def apply(_connection: AsyncConnection, _now: datetime) -> msgspec.Struct:
        raise error

    return apply
