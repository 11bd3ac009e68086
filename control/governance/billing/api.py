"""`POST /webhooks/payments` and `GET /orgs/{orgSlug}/subscription`: plan and quota follow the customer's subscription.

    receiver            applies limits, reads the body, verifies the signature over it      -> 429, 413, 503, 401
    parse_event         parses the event                                                    -> 400
    customer            is named by the operator (`sluice billing`), never by a payload
    history             computes the current subscription from this event and the earlier ones
    one transaction     stores the subscription, the quota, an audit event and the answer

An event that is not handled is not stored. If it is delivered again, it is processed again. The operator can therefore
name the customer or the plan, and then have the event sent again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import BadRequest, NotFound
from chassis.http.access import bearer, public
from chassis.http.declaration import route
from chassis.http.route import Tag
from chassis.http.web import RATE_LIMITS, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.governance.billing import store
from control.governance.billing.events import CHECKOUT_COMPLETED, PaymentEvent, parse_event
from control.governance.billing.history import (
    CurrentSubscription,
    SubscriptionEvent,
    add_event,
    find_current,
    has_unknown_price,
)
from control.http.field_types import Timestamp
from control.identity.organizations import organization_store
from control.inbound.webhooks.platform import PayloadError, header
from control.inbound.webhooks.platform_events import EventResult, EventSource, apply_once
from control.inbound.webhooks.receiver import MAX_EVENT_BYTES, WebhookOutcome, WebhookReceiver
from control.inbound.webhooks.signatures import verify_payments
from control.plans import Plans
from control.routing.arguments import Handlers
from control.routing.resource import shown_as
from proto.identity import Scope

SOURCE: Final = EventSource.PAYMENTS.value
SIGNATURE_HEADER: Final = "Stripe-Signature"
Reason = Literal["unhandled_type", "unknown_customer", "unknown_price", "no_subscription"]


class PaymentReceipt(msgspec.Struct, frozen=True, rename="camel"):
    """The result of an event. `duplicate`: the event was handled before, and nothing was changed now. `reason`: why the
    event was not handled.
    """

    received: bool
    event_id: str
    type: str
    handled: bool
    duplicate: bool
    reason: Reason | None


@dataclass(eq=False)
class NotHandled(Exception):
    """The event has no effect, for this reason."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Payments(Handlers):
    """The handler of payment events, and its dependencies. `secrets`: if there are none, the endpoint answers 404."""

    TAG: ClassVar = Tag("webhooks", "Events that other systems send. Every request is authenticated by its signature.")
    receiver: WebhookReceiver
    secrets: Sequence[bytes]
    plans: Plans
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @route("POST", "/webhooks/payments", public(), errors=(400, 401, 404, 413, 429, 503))
    async def receive_payment_event(self, request: web.Request) -> PaymentReceipt:
        """Receive an event of the payment processor.

        The operator names a customer for an organization. The organization's plan and quota follow the subscription of
        this customer. Events may arrive more than once and in any order.
        """
        if not self.secrets:
            await self.receiver.refuse_unknown(request, SOURCE)
        body = await self.receiver.read(request, MAX_EVENT_BYTES)
        signature = header(request.headers, SIGNATURE_HEADER)
        if not verify_payments(self.secrets, body, signature, self.now().timestamp()):
            await self.receiver.refuse_unsigned(request, SOURCE)
        await request.app[RATE_LIMITS].take(request, LimitClass.WEBHOOK, SOURCE)
        try:
            receipt = await self._process(parse_event(body), request_id(request))
        except PayloadError as error:
            self.receiver.metrics.count(SOURCE, WebhookOutcome.INVALID)
            raise BadRequest(str(error)) from error
        except Exception:
            self.receiver.metrics.count(SOURCE, WebhookOutcome.FAILED)
            raise
        self.receiver.metrics.count(SOURCE, WebhookOutcome.DUPLICATE if receipt.duplicate else WebhookOutcome.PROCESSED)
        return receipt

    async def _process(self, event: PaymentEvent, request: str) -> PaymentReceipt:
        """Process an event. Raises DatabaseUnavailable."""
        now = self.now()
        try:
            if not event.is_handled:
                raise NotHandled("unhandled_type")
            # Most processor accounts also have customers of other products, for whom nothing is written.
            async with self.context.database.read() as connection:
                await _find(connection, event)
        except NotHandled as error:
            return _receipt(event, error.reason)
        async with self.context.database.write() as connection:

            async def follow() -> EventResult:
                org_id = await self._follow(connection, event, request, now)
                return EventResult(msgspec.to_builtins(_receipt(event, None)), org_id)

            try:
                applied = await apply_once(connection, EventSource.PAYMENTS, event.id, now, follow)
            except NotHandled as error:  # values that were stored nevertheless are committed
                return _receipt(event, error.reason)
        return msgspec.structs.replace(msgspec.convert(applied.answer, PaymentReceipt), duplicate=applied.duplicate)

    async def _follow(self, connection: AsyncConnection, event: PaymentEvent, request: str, now: datetime) -> str:
        """Update the subscription and the quota. Returns the id of the organization. Raises NotHandled."""
        stored = await _find(connection, event)
        if event.type == CHECKOUT_COMPLETED:
            data = {"eventId": event.id, "subscriptionId": event.subscription_id}
            await record(connection, Actor(stored.org_id), "subscription.checkout", stored.org_id, data, request)
            return stored.org_id
        if event.change is None or event.subscription_id is None:
            raise NotHandled("no_subscription")
        histories = add_event(stored.histories, event.subscription_id, event.change, self.plans)
        changed = replace(_with_event(stored, event.change), histories=histories)
        current = find_current(histories, self.plans)
        if current is not None:
            changed = _with_current(changed, current)
        await store.save(connection, changed, now)
        await _set_quota(connection, stored, changed, event, request)
        # None if the customer has too many subscriptions and this is the oldest.
        kept = histories.get(event.subscription_id)
        if kept is not None and has_unknown_price(kept, self.plans):
            raise NotHandled("unknown_price")
        return stored.org_id


async def _find(connection: AsyncConnection, event: PaymentEvent) -> store.StoredSubscription:
    """Find the organization of the event's customer. Raises NotHandled."""
    found = None
    if event.customer_id is not None:
        found = await store.find_by_customer(connection, event.customer_id)
    if found is None:
        raise NotHandled("unknown_customer")
    return found


def _with_event(stored: store.StoredSubscription, event: SubscriptionEvent) -> store.StoredSubscription:
    """The subscription with the event as its last event, unless a later one is known."""
    made_at = datetime.fromtimestamp(event.at, UTC)
    if stored.changed_at is not None and stored.changed_at > made_at:
        return stored
    return replace(stored, changed_at=made_at, last_event_id=event.id)


def _with_current(stored: store.StoredSubscription, current: CurrentSubscription) -> store.StoredSubscription:
    changed = replace(
        stored,
        subscription_id=current.id,
        status=current.status,
        current_period_end=None if current.period_end is None else datetime.fromtimestamp(current.period_end, UTC),
    )
    if current.plan is None:
        return changed
    return replace(changed, plan=current.plan.name, monthly_items=current.plan.monthly_items)


async def _set_quota(
    connection: AsyncConnection,
    before: store.StoredSubscription,
    after: store.StoredSubscription,
    event: PaymentEvent,
    request: str,
) -> None:
    """Set the quota if the quota of the plan has changed, so that a quota that the operator sets is kept until then.
    Record the change in the audit log.
    """
    if after.monthly_items is not None and after.monthly_items != before.monthly_items:
        await organization_store.set_quota(connection, after.org_id, after.monthly_items)
    if (after.plan, after.status, after.monthly_items) == (before.plan, before.status, before.monthly_items):
        return
    data = {
        "eventId": event.id,
        "type": event.type,
        "plan": after.plan,
        "status": after.status,
        "monthlyItems": after.monthly_items,
        "before": {"plan": before.plan, "status": before.status, "monthlyItems": before.monthly_items},
    }
    await record(connection, Actor(after.org_id), "subscription.update", after.org_id, data, request)


def _receipt(event: PaymentEvent, reason: Reason | None) -> PaymentReceipt:
    return PaymentReceipt(True, event.id, event.type, reason is None, False, reason)


class Subscription(msgspec.Struct, frozen=True, rename="camel"):
    """The organization's subscription at the payment processor."""

    plan: Annotated[str | None, Meta(description="Name of the plan. `null` if the organization has had none so far.")]
    status: Annotated[str, Meta(description="Status at the payment processor, such as `active` or `past_due`.")]
    monthly_items: Annotated[
        int | None, Meta(description="Monthly quota of the plan. 0: unlimited. `null`: no plan has set a quota so far.")
    ]
    current_period_end: Annotated[Timestamp | None, Meta(description="When the paid period ends.")]


class OrganizationSubscription(Handlers):
    """The handler of subscriptions, and its dependencies."""

    TAG: ClassVar = Tag("billing", "The organization's subscription at the payment processor.")

    # This scope, because members who see the quota may also see its source. The role BILLING is one of them.
    @route("GET", "/orgs/{orgSlug}/subscription", bearer(Scope.PROJECTS_READ), errors=(404,))
    async def show_subscription(self, caller: AuthorizationContext, connection: AsyncConnection) -> Subscription:
        """Show the subscription. 404 if the organization has none."""
        found = await store.find_by_organization(connection, caller.org_id)
        if found is None or found.status is None:
            raise NotFound
        return shown_as(Subscription, found)
