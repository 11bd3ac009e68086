"""ClickHouse fails in the ways that a proxy in front of it can stage: nothing acknowledged is lost or stored twice."""

import json
import threading
import time
from collections import Counter

import pytest

from tests.e2e.product import Answer, call, eventually
from tests.e2e.product import run as command
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Gateway, Site, settled
from tests.faults.loading import loaded, more, more_inserts, nobody_waited
from tests.faults.proxy import Delay, Proxy, Refuse, Reset, Seen, Unknown
from tests.faults.records import Body, Export, body_of, rejected_of
from tests.faults.zygote import Zygote

FLAPS = 12
DAY_NS = 86_400 * 10**9


@pytest.fixture
def gateway(make_gateway: MakeGateway, proxy: Proxy, zygote: Zygote) -> Gateway:
    """Running, with the proxy as its ClickHouse, of which it waits a second for an answer."""
    gateway = make_gateway(clickhouse_port=proxy.port, zygote=zygote, settings={"SLUICE_CLICKHOUSE_TIMEOUT_S": "1"})
    gateway.start()
    return gateway


def sent_again_as_it_was(proxy: Proxy, seen: Seen) -> None:
    """A token stands for the same rows, whenever it comes."""
    same = [other for other in proxy.seen if other.token == seen.token]
    assert len(same) > 1, seen
    assert {other.block for other in same} == {seen.block}


def failed_for_now(proxy: Proxy) -> bool:
    """Whether an insert that failed has not been passed on since."""
    in_now = {seen.token for seen in proxy.seen if seen.fault is None}
    return any(seen.token not in in_now for seen in proxy.seen if seen.fault is not None)


@pytest.mark.long
def test_fault_06_store_disk_full(gateway: Gateway, proxy: Proxy, site: Site, run: str) -> None:
    with loaded(gateway, site, run) as load:
        more(load)
        proxy.every(Refuse(243))
        more_inserts(proxy, lambda seen: seen.fault == Refuse(243))
        more(load)
        proxy.every(None)
    nobody_waited(load)


def test_fault_09_clickhouse_down_for_an_hour_scaled_to_seconds(
    gateway: Gateway, proxy: Proxy, site: Site, run: str
) -> None:
    with loaded(gateway, site, run, rate=60.0) as load:
        more(load)
        proxy.refuse()
        before = load.acknowledged_records
        more(load, 300)
        taken = load.acknowledged_records - before
        waiting = gateway.metric("sluice_gateway_pending_items")
        assert waiting >= taken
        proxy.pass_on()
        # It is faster than what comes in: the backlog goes while clients send on.
        eventually(lambda: gateway.metric("sluice_gateway_pending_items") < waiting / 4, "the backlog is stored", 60)
    nobody_waited(load)


@pytest.mark.long
def test_fault_10_clickhouse_flapping_for_half_an_hour_scaled_to_seconds(
    gateway: Gateway, proxy: Proxy, site: Site, run: str
) -> None:
    with loaded(gateway, site, run) as load:
        for turn in range(FLAPS):
            (proxy.refuse, proxy.hang)[turn % 2]()
            more(load, 10)
            proxy.pass_on()
            more_inserts(proxy, lambda seen: seen.table in ("spans", "logs"), 1)
    nobody_waited(load)
    most = max(Counter(seen.token for seen in proxy.seen).values())
    assert most <= 2 * FLAPS


def test_fault_11_reset_after_the_insert_was_applied(gateway: Gateway, proxy: Proxy, site: Site, run: str) -> None:
    with loaded(gateway, site, run) as load:
        more(load)
        for fault in (Reset(), Reset(applied=False), Unknown(319), Refuse()) * 3:
            proxy.next(fault)
            more_inserts(proxy, lambda seen, fault=fault: seen.fault == fault, 1)  # type: ignore[misc]
            eventually(lambda: not failed_for_now(proxy), "it is sent again")
    nobody_waited(load)
    for seen in proxy.seen:
        if seen.fault is not None:
            sent_again_as_it_was(proxy, seen)


def test_fault_12_insert_exceeds_the_timeout_and_succeeds_later(
    gateway: Gateway, proxy: Proxy, site: Site, run: str
) -> None:
    late, again = threading.Event(), threading.Event()
    with loaded(gateway, site, run) as load:
        more(load)
        proxy.next(Delay(late), Delay(again))
        more_inserts(proxy, lambda seen: isinstance(seen.fault, Delay), 2)
        # Both are given up; the third is stored, before the first of them is applied after all.
        eventually(lambda: not failed_for_now(proxy), "the inserts are sent a third time")
        late.set()
        again.set()
        more(load)
    nobody_waited(load)
    for seen in proxy.seen:
        if seen.fault is not None:
            sent_again_as_it_was(proxy, seen)


def is_refused(seen: Seen) -> bool:
    return isinstance(seen.fault, Refuse)


def test_fault_13_too_many_parts(gateway: Gateway, proxy: Proxy, site: Site, run: str) -> None:
    with loaded(gateway, site, run) as load:
        more_inserts(proxy, lambda seen: seen.table == "spans")
        usual = max(len(seen.block) for seen in proxy.seen if seen.table == "spans")
        proxy.every(Refuse(252))
        more_inserts(proxy, is_refused, 4)
        more(load, 60)
        proxy.every(None)
        # What has waited goes in fewer, larger blocks.
        more_inserts(proxy, lambda seen: seen.table == "spans" and len(seen.block) > 2 * usual, 1)
    nobody_waited(load)
    for seen in filter(is_refused, proxy.seen):
        sent_again_as_it_was(proxy, seen)


def test_fault_15_table_read_only(gateway: Gateway, proxy: Proxy, site: Site, run: str) -> None:
    with loaded(gateway, site, run) as load:
        more(load)
        proxy.every(Refuse(242))
        began, before = time.monotonic(), len(proxy.seen)
        more_inserts(proxy, lambda seen: seen.fault == Refuse(242), 6)
        more(load, 60)
        attempts, seconds = len(proxy.seen) - before, time.monotonic() - began
        proxy.every(None)
    assert attempts <= 40 + 10 * seconds  # it does not spin: on loopback that would be thousands
    nobody_waited(load)


OTHERS_ITEMS = 5
REFUSALS = {
    "overflow": Refuse(117),
    "partitions": Refuse(252, "Too many partitions for single INSERT block (more than 100). (TOO_MANY_PARTS)"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_fault_14_rows_of_one_project_are_refused_for_good(
    gateway: Gateway, proxy: Proxy, site: Site, run: str, refusal: str
) -> None:
    """They are found among those that share a batch, and set aside with the reason."""
    poison, key = f"{run}-poison", site.another_key(f"others-{refusal}")
    proxy.poison, proxy.poisoned = poison.encode(), REFUSALS[refusal]
    refused, beside = (Export(client, 0, OTHERS_ITEMS, answers=["200"]) for client in (0, 1))
    with loaded(gateway, site, run, quarantined=OTHERS_ITEMS) as load:
        more(load)
        for export, whose in ((refused, poison), (beside, f"{run}-beside")):
            assert post(gateway, key, body_of(export, whose)).status == 200
        eventually(lambda: gateway.metric("sluice_gateway_quarantined_items_total") == OTHERS_ITEMS, "it is set aside")
        more(load)
    nobody_waited(load)
    assert settled(site, gateway, [beside], f"{run}-beside").stored == OTHERS_ITEMS
    (note,) = (json.loads(path.read_text()) for path in gateway.journal.glob("quarantine/*.json"))
    assert note["items"] == OTHERS_ITEMS
    assert f"Code: {REFUSALS[refusal].code}." in note["reason"]
    assert site.stored(poison) == ({}, 0)


def test_fault_14_what_was_set_aside_is_stored_when_it_is_put_back(
    gateway: Gateway, proxy: Proxy, site: Site, run: str
) -> None:
    export = Export(0, 0, OTHERS_ITEMS, answers=["200"])
    proxy.poison = run.encode()
    assert post(gateway, site.key, body_of(export, run)).status == 200
    eventually(lambda: gateway.metric("sluice_gateway_quarantined_items_total") == OTHERS_ITEMS, "it is set aside")
    proxy.poison = b""
    gateway.stop()
    command("journal", "--data", str(gateway.journal.parent), "requeue", "--all", environment={})
    gateway.start()
    records = settled(site, gateway, [export], run)
    assert (records.faults, records.stored) == ({}, OTHERS_ITEMS), records


DAYS = 101  # one more than ClickHouse takes in a block


def test_fault_14_request_of_too_many_days(make_gateway: MakeGateway, zygote: Zygote, site: Site, run: str) -> None:
    """Each day is a block of its own; what no table can hold is rejected by itself. Nobody else notices."""
    gateway = make_gateway(zygote=zygote, settings={"SLUICE_RETENTION_DAYS": "0"})
    gateway.start()
    now, exports = time.time_ns(), [Export(client, 0, 1, "logs", answers=["200"]) for client in range(DAYS + 1)]
    days = [body_of(export, f"{run}-days", start_ns=now - export.client * DAY_NS) for export in exports[:DAYS]]
    overflow = body_of(exports[DAYS], f"{run}-days", start_ns=2**63 + now)
    content = b"".join(body.content for body in (*days, overflow))  # of protobuf that is one message
    with loaded(gateway, site, run) as load:
        answer = post(gateway, site.another_key("historian"), days[0]._replace(content=content))
        assert (answer.status, rejected_of(exports[0], answer.body)) == (200, 1)
        more(load)
    nobody_waited(load)
    records = settled(site, gateway, exports[:DAYS], f"{run}-days")
    assert (records.faults, records.stored) == ({}, DAYS), records


def post(gateway: Gateway, key: str, body: Body) -> Answer:
    headers = {**body.headers, "X-Legacy-Auth": f"Legacy legacy_key={key}"}
    return call("POST", gateway.url + body.path, body.content, headers)
