"""Events of the payment processor over HTTP, with their whole answers."""

import copy
import time
from random import Random
from typing import Any, Final

import msgspec
import pytest
import sqlalchemy as sa

from chassis.auth.tables import organizations
from control.audit.tables import audit_events
from control.governance.billing import store
from control.governance.billing.history import MAX_SUBSCRIPTIONS
from control.governance.billing.store import subscriptions
from control.identity.organizations import organization_store
from control.inbound.webhooks.platform_events import platform_events
from control.plans import Plans
from control.settings import ControlSettings
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control, serving
from tests.control.governance.billing.processor import (
    SECRET,
    Processor,
    encode,
    event,
    invoice,
    price,
    signature,
    subscription,
)
from tests.control.governance.billing.test_history import current_of
from tests.selection import scaled

PATH: Final = "/webhooks/payments"
SHOW: Final = "/orgs/acme/subscription"
PLANS: Final = (
    "price_team=Team:1000",
    "business=Business:50000",
    "price_business=Business:50000",
    "price_unlimited=Unlimited:0",
)
AT: Final = 1_790_000_000
CREATED, UPDATED, DELETED = (f"customer.subscription.{verb}" for verb in ("created", "updated", "deleted"))
SETTINGS: Final[dict[str, Any]] = {
    "payments_secrets": (SECRET, "previous_secret_of_tests"), "plans": PLANS, "free_plan": "Free:10",
}  # fmt: skip
pytestmark = pytest.mark.control_settings(**SETTINGS)
END: Final = "2026-10-14T17:46:40.000Z"  # of the period of `subscription`


async def link(control: Control, customer: str = "cus_1") -> None:
    async with control.checks.database.write() as connection:
        await store.link(connection, control.acme.organization.id, customer)


async def send(control: Control, body: bytes, **headers: str) -> tuple[int, Any]:
    given = {"Stripe-Signature": signature(body, int(time.time()))} | headers
    async with control.client.post(PATH, data=body, headers=given) as answer:
        return answer.status, msgspec.json.decode(await answer.read())


async def deliver(control: Control, one: dict[str, Any]) -> Any:
    status, answer = await send(control, encode(one))
    assert status == 200, answer
    return answer


def receipt(one: dict[str, Any], reason: str | None = None, *, duplicate: bool = False) -> dict[str, Any]:
    return {
        "received": True,
        "eventId": one["id"],
        "type": one["type"],
        "handled": reason is None,
        "duplicate": duplicate,
        "reason": reason,
    }


async def quota(control: Control) -> int:
    async with control.checks.database.read() as connection:
        found = sa.select(organizations.c.monthly_items).where(organizations.c.slug == "acme")
        return int(await connection.scalar(found) or 0)


async def stored(control: Control) -> Any:
    async with control.checks.database.read() as connection:
        columns = [one for one in subscriptions.c if one.name not in {"histories", "created_at", "updated_at"}]
        return (await connection.execute(sa.select(*columns))).mappings().one()


async def count_events(control: Control) -> int:
    async with control.checks.database.read() as connection:
        return int(await connection.scalar(sa.select(sa.func.count()).select_from(platform_events)) or 0)


async def test_a_customer_may_have_very_many_subscriptions(control: Control) -> None:
    """What is too old to be kept of them changes nothing."""
    await link(control)
    for number in range(MAX_SUBSCRIPTIONS):
        one = subscription() | {"id": f"sub_{number}"}
        await deliver(control, event(CREATED, one, at=AT + number, name=f"evt_{number}"))
    kept = dict(await stored(control))
    late = event(DELETED, subscription(status="canceled") | {"id": "sub_old"}, at=AT - 9, name="evt_old")
    paid = event("invoice.paid", invoice("sub_new"), at=AT - 9, name="evt_new")
    for one in (late, paid):
        assert await deliver(control, one) == receipt(one)
    assert (dict(await stored(control)), await quota(control)) == (kept, 1_000)


@pytest.mark.both_stores
async def test_a_subscription_from_its_beginning_to_its_end(control: Control) -> None:
    await link(control)
    team, business = subscription(), subscription(prices=[price("price_x", "business")], period_end=1_792_000_000)
    bought = {"customer": "cus_1", "subscription": "sub_1"}
    story = [
        (event("checkout.session.completed", bought, at=AT, name="evt_0"), 0, None),
        (event(CREATED, subscription(status="incomplete"), at=AT, name="evt_1"), 0, "incomplete"),
        (event("invoice.paid", invoice(), at=AT, name="evt_2"), 0, "incomplete"),
        (event(UPDATED, team, at=AT, name="evt_3", previous={"status": "incomplete"}), 1_000, "active"),
        (event(UPDATED, business, at=AT + 60, name="evt_4", previous={"items": team["items"]}), 50_000, "active"),
        (event("invoice.payment_failed", invoice(), at=AT + 120, name="evt_5"), 50_000, "past_due"),
        (event("invoice.paid", invoice(is_basil=False), at=AT + 180, name="evt_6"), 50_000, "active"),
        (event(UPDATED, subscription(status="unpaid", is_basil=False), at=AT + 240, name="evt_7"), 10, "unpaid"),
        (event("customer.subscription.resumed", team, at=AT + 300, name="evt_8"), 1_000, "active"),
        (event("customer.subscription.paused", subscription(status="paused"), at=AT + 360, name="evt_9"), 10, "paused"),
        (event(UPDATED, subscription(prices=[price("price_unlimited")]), at=AT + 420, name="evt_10"), 0, "active"),
        (event(DELETED, subscription(status="canceled"), at=AT + 480, name="evt_11"), 10, "canceled"),
    ]
    for one, items, status in story:
        assert await deliver(control, one) == receipt(one)
        assert (await quota(control), (await stored(control))["status"]) == (items, status), one["id"]
        assert await deliver(control, one) == receipt(one, duplicate=True)
        assert (await quota(control), (await stored(control))["status"]) == (items, status), one["id"]
    assert await count_events(control) == len(story)
    found = dict(await stored(control))
    times = [found.pop(name).timestamp() for name in ("current_period_end", "changed_at")]
    assert times == [1_792_000_000, AT + 480]
    assert found == {
        "org_id": control.acme.organization.id,
        "customer_id": "cus_1",
        "subscription_id": None,
        "plan": "Free",
        "status": "canceled",
        "monthly_items": 10,
        "last_event_id": "evt_11",
    }
    async with control.checks.database.read() as connection:
        query = sa.select(audit_events).order_by(audit_events.c.seq)
        audit = [row for row in (await connection.execute(query)).all() if row.action.startswith("subscription.")]
    assert {(row.org_id, row.actor_id, row.object_id) for row in audit} == {
        (control.acme.organization.id, None, control.acme.organization.id)
    }
    assert [row.action for row in audit] == ["subscription.checkout", *["subscription.update"] * 10]
    assert msgspec.json.decode(audit[2].data) == {
        "eventId": "evt_3",
        "type": UPDATED,
        "plan": "Team",
        "status": "active",
        "monthlyItems": 1_000,
        "before": {"plan": None, "status": "incomplete", "monthlyItems": None},
    }


async def test_what_is_not_handled(control: Control) -> None:
    """It is not stored, so that it can be sent again when the operator has named the customer or the plan."""
    started = event(CREATED, subscription(), at=AT, name="evt_1")
    other_price = event(CREATED, subscription("sub_2", prices=[price("price_mug")]), at=AT, name="evt_2")
    cases = [
        (event("customer.created", {"id": "cus_1", "object": "customer"}, at=AT, name="evt_3"), "unhandled_type"),
        ({"id": "evt_4", "type": "v1.billing.meter.error_report_triggered", "created": "2026-01-01"}, "unhandled_type"),
        (event("checkout.session.completed", {"customer": None}, at=AT, name="evt_5"), "unknown_customer"),
        (event("invoice.paid", invoice(customer="cus_2"), at=AT, name="evt_6"), "unknown_customer"),
        (started, "unknown_customer"),
        (started, "unknown_customer"),
    ]
    for one, reason in cases:
        assert await deliver(control, one) == receipt(one, reason)
    await link(control)
    one_off = event("invoice.paid", invoice(None), at=AT, name="evt_7")
    assert await deliver(control, one_off) == receipt(one_off, "no_subscription")
    assert await deliver(control, other_price) == receipt(other_price, "unknown_price")
    assert await count_events(control) == 0
    assert (await control.call("GET", SHOW))[0] == 404
    assert await deliver(control, started) == receipt(started)
    assert await quota(control) == 1_000
    mug_ended = event(
        DELETED, subscription("sub_2", status="canceled", prices=[price("price_mug")]), at=AT + 9, name="evt_8"
    )
    assert await deliver(control, mug_ended) == receipt(mug_ended, "unknown_price")
    upgrade = event(UPDATED, subscription(prices=[price("price_new")]), at=AT + 10, name="evt_9")
    assert await deliver(control, upgrade) == receipt(upgrade, "unknown_price")
    assert await quota(control) == 1_000


async def test_an_event_that_is_sent_again_after_the_plan_was_named(
    control: Control, migrated_url: str, tmp_path: Any
) -> None:
    await link(control)
    upgrade = event(UPDATED, subscription(prices=[price("price_new")]), at=AT, name="evt_1")
    assert await deliver(control, upgrade) == receipt(upgrade, "unknown_price")
    tenants = control.acme, control.globex
    settings = ControlSettings(**SETTINGS | {"plans": (*PLANS, "price_new=New:77")})
    async with serving(migrated_url, tmp_path, settings, tenants=tenants) as restarted:
        assert await deliver(restarted, upgrade) == receipt(upgrade)
        assert await quota(restarted) == 77
    async with serving(migrated_url, tmp_path, ControlSettings(), tenants=tenants) as unconfigured:
        assert (await send(unconfigured, b"{}"))[0] == 404


@pytest.mark.sized
@pytest.mark.both_stores
async def test_the_last_state_prevails_in_any_order_over_http(control: Control) -> None:
    """Random subscriptions, several events of a second, delivered in random order, some twice."""
    plans = Plans.parse(PLANS, "Free:10")
    for seed in range(scaled(2, 30)):
        random = Random(seed)
        processor = Processor(random)
        for _ in range(12):
            processor.step()
        customer = f"cus_{seed}"
        for one in processor.events:
            one["id"] += f"_{seed}"
            one["data"]["object"]["customer"] = customer
        events = processor.events[:16]
        async with control.checks.database.write() as connection:
            await store.unlink(connection, control.acme.organization.id)
            await organization_store.set_quota(connection, control.acme.organization.id, 777)
        await link(control, customer)
        delivered = [*events, *random.choices(events, k=6)]
        random.shuffle(delivered)
        seen: set[str] = set()
        for one in delivered:
            assert await deliver(control, one) == receipt(one, duplicate=one["id"] in seen)
            seen.add(one["id"])
        current = current_of(events, plans)
        if current is None:
            raise AssertionError
        found = await stored(control)
        items = None if current.plan is None else current.plan.monthly_items
        expected = current.status, current.id, items
        assert (found["status"], found["subscription_id"], found["monthly_items"]) == expected
        assert await quota(control) == (777 if items is None else items)


async def test_the_subscription_is_shown(control: Control) -> None:
    assert (await control.call("GET", SHOW))[0] == 404
    await link(control)
    assert (await control.call("GET", SHOW))[0] == 404
    await deliver(control, event(CREATED, subscription(), at=AT, name="evt_1"))
    shown = {"plan": "Team", "status": "active", "monthlyItems": 1_000, "currentPeriodEnd": END}
    _, billing = await new_member_token(control.checks.database, control.acme, Role.BILLING)
    for token in (None, billing):
        assert (await control.call("GET", SHOW, token=token))[:2] == (200, shown)
    assert (await control.call("GET", SHOW, token=control.globex.token.secret))[0] == 404
    assert (await control.call("GET", "/orgs/globex/subscription", token=control.globex.token.secret))[0] == 404
    status, organization, _ = await control.call("GET", "/orgs/acme")
    assert (status, organization["monthlyItems"]) == (200, 1_000)


async def test_signatures_over_http(control: Control) -> None:
    await link(control)
    now = int(time.time())
    body = encode(event(CREATED, subscription(), at=AT, name="evt_1"))
    right = signature(body, now)
    refused: list[dict[str, str] | list[tuple[str, str]]] = [
        {},
        {"Stripe-Signature": ""},
        {"Stripe-Signature": signature(body, now, "another_secret_of_tests")},
        {"Stripe-Signature": signature(body + b" ", now)},
        {"Stripe-Signature": signature(body, now - 302)},
        {"Stripe-Signature": signature(body, now + 310)},
        {"Stripe-Signature": right.replace("v1=", "v0=")},
        [("Stripe-Signature", right), ("Stripe-Signature", right)],
    ]
    messages = set()
    for headers in refused:
        async with control.client.post(PATH, data=body, headers=headers) as answer:
            assert answer.status == 401, headers
            messages.add((await answer.json())["error"]["message"])
    assert messages == {"The signature is missing, invalid or expired."}
    assert await count_events(control) == 0
    previous = signature(body, now, "previous_secret_of_tests")
    assert (await send(control, body, **{"Stripe-Signature": previous}))[0] == 200
    statuses = set()
    for _ in range(30):
        async with control.client.post(PATH, data=b"{", headers={}) as answer:
            statuses.add(answer.status)
    assert statuses == {401, 429}


HUGE: Final = 10**400
VALID: Final = event(CREATED, subscription(), at=AT, name="evt_1")

BAD_ITEMS: Final[tuple[Any, ...]] = (None, [], "x", {"data": {}}, {"data": [None]})
BAD_PRICES: Final[tuple[Any, ...]] = (5, {}, {"id": 5}, {"id": "x" * 300})
BAD_DATA: Final[tuple[Any, ...]] = (None, [], {}, {"object": None}, {"object": []})


def altered(path: str, value: Any) -> dict[str, Any]:
    found = copy.deepcopy(VALID)
    *parents, last = path.split(".")
    place: Any = found
    for name in parents:
        place = place[int(name) if isinstance(place, list) else name]
    place[last] = value
    return found


async def test_signed_bodies_that_the_processor_does_not_send(control: Control) -> None:
    """400, whatever they are, and nothing of them in the answer."""
    await link(control)
    bodies = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"{}" * 2,
        b'{"id":"evt_1"}',
        b"[" * 100_000,
        b'{"x":' * 50_000,
        b"\0",
    ]
    bodies += [b'{"id":"\\ud800","type":"a"}', encode(VALID).replace(b'"evt_1"', b'"evt\\u0000"')]
    one: Any
    wrong: tuple[Any, ...] = (None, 1, [], {}, True, "", "\x00", "ü", "a b", "x" * 300, "evt\n", "\ud800")
    for path in ("id", "type", "data.object.id", "data.object.customer"):
        bodies += [encode(altered(path, one)) for one in wrong if not (path == "data.object.customer" and one is None)]
    for one in (None, -1, 1.5, HUGE, "1", 253_402_300_800, []):
        bodies.append(encode(altered("created", one)))
        if one is not None:
            bodies.append(encode(altered("data.object.current_period_end", one)))
    bodies += [encode(altered("data.object.status", one)) for one in (None, 7, "", "Active", "a" * 33)]
    bodies += [encode(altered("data.object.items", one)) for one in BAD_ITEMS]
    bodies.append(encode(altered("data.object.items", {"data": [{"price": price("price_team")}] * 101})))
    bodies += [encode(altered("data.object.items.data.0.price", one)) for one in BAD_PRICES]
    bodies += [encode(altered("data", one)) for one in BAD_DATA]
    for body in bodies:
        status, answer = await send(control, body)
        assert status == 400, (body[:300], answer)
        assert answer["error"]["code"] == "bad_request"
        assert "x" * 30 not in str(answer)
    assert await count_events(control) == 0
    odd_previous: tuple[Any, ...] = ([], "x", 5, {"status": 7}, {"items": {"data": [{"price": 5}]}}, {"items": None})
    for number, one in enumerate(odd_previous):  # versions differ in them
        odd = event(UPDATED, subscription(), at=AT + number, name=f"evt_{number}")
        odd["data"]["previous_attributes"] = one
        assert await deliver(control, odd) == receipt(odd)


async def test_a_quota_of_the_operator_stays_until_the_plan_changes(control: Control) -> None:
    """The customer of a deleted organization is unknown."""
    await link(control)
    await deliver(control, event(CREATED, subscription(), at=AT, name="evt_1"))
    async with control.checks.database.write() as connection:
        await organization_store.set_quota(connection, control.acme.organization.id, 2_000)
    await deliver(control, event(UPDATED, subscription(period_end=1_794_000_000), at=AT + 1, name="evt_2"))
    assert await quota(control) == 2_000
    await deliver(control, event(UPDATED, subscription(prices=[price("price_business")]), at=AT + 2, name="evt_3"))
    assert await quota(control) == 50_000
    assert (await control.call("DELETE", "/orgs/acme?confirm=acme"))[0] == 202
    one = event(CREATED, subscription(), at=AT, name="evt_4")
    assert await deliver(control, one) == receipt(one, "unknown_customer")
