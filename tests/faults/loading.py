"""Clients that send while something fails, and what they may have noticed of it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.e2e.product import VISIBLE_SECONDS, Sluice, eventually
from tests.faults.clients import Load
from tests.faults.deployment import Gateway, Site, engine_of, has_stored_all, settled
from tests.faults.proxy import Proxy, Seen
from tests.faults.reconciliation import Reconciliation, reconcile
from tests.selection import scaled


@contextmanager
def sending(gateway: Gateway, site: Site, run: str, **options: float) -> Iterator[Load]:
    """Clients send while the block runs; then each has its last answer."""
    load = Load(gateway.url, site.key, run, **{"clients": 2, "rate": scaled(15.0, 30.0), **options})  # type: ignore[arg-type]
    load.start()
    patience = 0.0
    try:
        yield load
        patience = 60.0
    finally:
        load.finish(patience)


@contextmanager
def sending_to(sluice: Sluice, run: str, *, clients: int = 2, rate: float = 20.0) -> Iterator[Load]:
    """The same to `sluice up`."""
    load = Load(sluice.gateway_url, sluice.key, run, clients=clients, rate=rate)
    load.start()
    patience = 0.0
    try:
        yield load
        patience = 60.0
    finally:
        load.finish(patience)


def accounted_for(sluice: Sluice, load: Load, seconds: float = VISIBLE_SECONDS) -> Reconciliation:
    """Stop `sluice up` once all is stored, unless it has ended, and read its tables with an engine of their own."""
    if not sluice.writer.ended():
        eventually(lambda: has_stored_all(sluice.gateway_url), "all is stored", seconds)
        sluice.stop()
    with engine_of(sluice.data) as tables:
        return reconcile(load.exports, *tables.stored(load.run))


@contextmanager
def loaded(gateway: Gateway, site: Site, run: str, *, quarantined: int = 0, **options: float) -> Iterator[Load]:
    """Clients send while the block runs; then all is stored, and every record accounted for. So many items of others
    are set aside meanwhile.
    """
    aside = gateway.metric("sluice_gateway_quarantined_items_total")
    with sending(gateway, site, run, **options) as load:
        yield load
    records = settled(site, gateway, load.exports, run)
    assert (records.faults, records.unanswered) == ({}, 0), records
    assert gateway.metric("sluice_gateway_quarantined_items_total") - aside == quarantined


def more(load: Load, requests: int = 20, seconds: float = VISIBLE_SECONDS) -> None:
    """Wait until so many more are acknowledged."""
    seen = load.acknowledged
    eventually(lambda: load.acknowledged >= seen + requests, "acknowledgements go on", seconds)


def more_inserts(proxy: Proxy, such: Callable[[Seen], bool], count: int = 3) -> None:
    """Wait until so many more inserts have come by."""
    seen = sum(map(such, proxy.seen))
    eventually(lambda: sum(map(such, proxy.seen)) >= seen + count, "inserts come by")


def nobody_waited(load: Load) -> None:
    """ClickHouse was away, and no client has noticed."""
    assert Counter(answer for export in load.exports for answer in export.answers).keys() == {"200"}
