"""ClickHouse fails in the ways that a proxy in front of it can stage: nothing acknowledged is lost or stored twice."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e.product import Answer, call, eventually
from tests.e2e.product import run as command
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Gateway, Site, settled
from tests.faults.loading import loaded, more, more_inserts, nobody_waited
from tests.faults.proxy import Delay, Proxy, Refuse, Reset, Unknown
from tests.faults.records import Body, Export, body_of, rejected_of
from tests.faults.zygote import Zygote

FLAPS = 12
DAY_NS = 86_400 * 10**9


@pytest.fixture(scope="module")
def started(site: Site, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Proxy]]:
    """A gateway with a proxy as its ClickHouse, of which it waits a second for an answer. It serves one test after the
    other: at the end of each all is stored.
    """
    settings = {"SLUICE_CLICKHOUSE_TIMEOUT_S": "1"}
    with Proxy(site.engine.port) as proxy:
        directory = tmp_path_factory.mktemp("clickhouse") / "gateway"
        gateway = Gateway(site, directory, clickhouse_port=proxy.port, zygote=zygote, settings=settings)
        gateway.start()
        yield gateway, proxy
        gateway.kill()


@pytest.fixture
def gateway(started: tuple[Gateway, Proxy]) -> Gateway:
    return started[0]


@pytest.fixture
def proxy(started: tuple[Gateway, Proxy]) -> Proxy:
    """All is well, and nothing was seen yet."""
    started[1].reset()
    return started[1]


def sent_again_as_they_were(proxy: Proxy) -> None:
    """What failed was: a token stands for the same rows, whenever it comes."""
    for seen in [seen for seen in proxy.seen if seen.fault is not None]:
        same = [other.block for other in proxy.seen if other.token == seen.token]
        assert (len(same) > 1, {*same}) == (True, {seen.block}), seen


def failed_for_now(proxy: Proxy) -> bool:
    """Whether an insert that failed has not been passed on since."""
    in_now = {seen.token for seen in proxy.seen if seen.fault is None}
    return any(seen.token not in in_now for seen in proxy.seen if seen.fault is not None)


def test_while_clickhouse_refuses_inserts_no_client_waits(gateway: Gateway, proxy: Proxy, site: Site, run: str) -> None:
    """Its disk is full, or a table is read-only. The gateway does not spin: on loopback that would be thousands."""
    with loaded(gateway, site, run) as load:
        more(load)
        for refusal in (Refuse(243), Refuse(242)):
            proxy.every(refusal)
            began, before = time.monotonic(), len(proxy.seen)
            more_inserts(proxy, lambda seen, refusal=refusal: seen.fault == refusal, 6)  # type: ignore[misc]
            more(load)
            attempts, seconds = len(proxy.seen) - before, time.monotonic() - began
            proxy.every(None)
            assert attempts <= 40 + 10 * seconds
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
    sent_again_as_they_were(proxy)


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
    sent_again_as_they_were(proxy)


def test_fault_13_too_many_parts(gateway: Gateway, proxy: Proxy, site: Site, run: str) -> None:
    with loaded(gateway, site, run) as load:
        more_inserts(proxy, lambda seen: seen.table == "spans")
        usual = max(len(seen.block) for seen in proxy.seen if seen.table == "spans")
        proxy.every(Refuse(252))
        more_inserts(proxy, lambda seen: seen.fault == Refuse(252), 4)
        more(load, 60)
        proxy.every(None)
        # What has waited goes in fewer, larger blocks.
        more_inserts(proxy, lambda seen: seen.table == "spans" and len(seen.block) > 2 * usual, 1)
    nobody_waited(load)
    sent_again_as_they_were(proxy)


OTHERS_ITEMS = 5
REFUSALS = {
    "overflow": Refuse(117),
    "partitions": Refuse(252, "Too many partitions for single INSERT block (more than 100). (TOO_MANY_PARTS)"),
}


def test_fault_14_rows_of_one_project_are_refused_for_good_and_stored_when_they_are_put_back(
    gateway: Gateway, proxy: Proxy, site: Site, run: str
) -> None:
    """They are found among those that share a batch, and set aside with the reason."""
    key, poison, exports = site.another_key("others"), f"{run}-poison", list[Export]()
    proxy.poison = poison.encode()
    for name, refusal in REFUSALS.items():
        proxy.poisoned = refusal
        refused, beside = (
            Export(client, len(exports) * OTHERS_ITEMS, OTHERS_ITEMS, answers=["200"]) for client in (0, 1)
        )
        exports.append(refused)
        with loaded(gateway, site, f"{run}-{name}", quarantined=OTHERS_ITEMS) as load:
            more(load)
            for export, whose in ((refused, poison), (beside, f"{run}-{name}-beside")):
                assert post(gateway, key, body_of(export, whose)).status == 200
            aside = len(exports) * OTHERS_ITEMS
            eventually(lambda: gateway.metric("sluice_gateway_quarantined_items_total") == aside, "it is set aside")  # noqa: B023
            more(load)
        nobody_waited(load)
        assert settled(site, gateway, [beside], f"{run}-{name}-beside").stored == OTHERS_ITEMS
    notes = [json.loads(path.read_text()) for path in gateway.journal.glob("quarantine/*.json")]
    assert [note["items"] for note in notes] == [OTHERS_ITEMS] * len(REFUSALS)
    assert all(any(f"Code: {one.code}." in note["reason"] for note in notes) for one in REFUSALS.values())
    assert site.stored(poison) == ({}, 0)
    proxy.poison = b""
    gateway.stop()
    command("journal", "--data", str(gateway.journal.parent), "requeue", "--all", environment={})
    gateway.start()
    records = settled(site, gateway, exports, poison)
    assert (records.faults, records.stored) == ({}, len(exports) * OTHERS_ITEMS), records


DAYS = 101  # one more than ClickHouse takes in a block


def test_fault_14_request_of_too_many_days(make_gateway: MakeGateway, site: Site, run: str) -> None:
    """Each day is a block of its own; what no table can hold is rejected by itself. Nobody else notices."""
    gateway = make_gateway(layered=False, settings={"SLUICE_RETENTION_DAYS": "0"})
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
