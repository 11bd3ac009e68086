"""Clients that send while something fails, and what they may have noticed of it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.e2e.product import eventually
from tests.faults.clients import Load
from tests.faults.deployment import Gateway, Site, settled
from tests.faults.proxy import Proxy, Seen
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
def loaded(gateway: Gateway, site: Site, run: str, *, quarantined: int = 0, **options: float) -> Iterator[Load]:
    """Clients send while the block runs; then all is stored, and every record accounted for. So many items of others
    are set aside meanwhile.
    """
    with sending(gateway, site, run, **options) as load:
        yield load
    records = settled(site, gateway, load.exports, run)
    assert (records.faults, records.unanswered) == ({}, 0), records
    assert gateway.metric("sluice_gateway_quarantined_items_total") == quarantined


def more(load: Load, requests: int = 20) -> None:
    """Wait until so many more are acknowledged."""
    seen = load.acknowledged
    eventually(lambda: load.acknowledged >= seen + requests, "acknowledgements go on")


def more_inserts(proxy: Proxy, such: Callable[[Seen], bool], count: int = 3) -> None:
    """Wait until so many more inserts have come by."""
    seen = sum(map(such, proxy.seen))
    eventually(lambda: sum(map(such, proxy.seen)) >= seen + count, "inserts come by")


def nobody_waited(load: Load) -> None:
    """ClickHouse was away, and no client has noticed."""
    assert Counter(answer for export in load.exports for answer in export.answers).keys() == {"200"}
