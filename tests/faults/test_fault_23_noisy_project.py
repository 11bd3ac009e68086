"""Fault 23: one project sends far beyond its rate, or far more than can be taken. Others lose nothing."""

import http.client
import itertools
import threading
from collections import Counter
from typing import Final, Self

import pytest

from gateway.admission.concurrency import MIN_LIMIT
from tests.e2e.product import eventually
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Gateway, Site
from tests.faults.loading import loaded, more
from tests.faults.records import Export, body_of
from tests.selection import scaled

RATE: Final = 100  # requests a second of each key; who behaves sends 60
NOISY: Final = 12  # connections that send without a pause
CROWD: Final = 96  # of them, more than there are places
RATED: Final = {
    "SLUICE_OTLP_RATE": str(RATE),
    "SLUICE_OTLP_BURST": str(RATE),
    "SLUICE_GATEWAY_TARGET_DELAY_S": "0",  # what the machine can take is not the question
}
FEW_PLACES: Final = {"SLUICE_GATEWAY_TARGET_DELAY_S": "0.001"}  # no answer is that soon, so there are as few as may be


class Noise:
    """Exports of one project over many connections, each sending again as soon as it is answered. No two have the same
    text for a credential if it `varies`.
    """

    def __init__(
        self, gateway: Gateway, key: str, items: int, *, connections: int = NOISY, varies: bool = False
    ) -> None:
        self._port = gateway.port
        self._body = body_of(Export(99, 0, items, form="gzip"), "noise")
        self._credential = f"Legacy legacy_key={key}"
        self._numbers = itertools.count() if varies else None
        self._ended = threading.Event()
        self.statuses: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(connections)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Have each its last answer. To say it again has no effect."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        while not self._ended.is_set():
            connection.request("POST", self._body.path, self._body.content, self._body.headers | self._told())
            answer = connection.getresponse()
            answer.read()
            self.statuses[answer.status] += 1
        connection.close()

    def _told(self) -> dict[str, str]:
        number = "" if self._numbers is None else f", t={next(self._numbers)}"
        return {"X-Legacy-Auth": self._credential + number}


@pytest.mark.sized
def test_fault_23_noisy_project_beyond_its_rate(make_gateway: MakeGateway, site: Site, run: str) -> None:
    gateway = make_gateway(settings=RATED, layered=False)
    gateway.start()
    with loaded(gateway, site, run) as load, Noise(gateway, site.another_key("noisy"), 5) as noise:
        eventually(lambda: noise.statuses[429] > RATE * scaled(5, 20), "it is told many times", 60)
        more(load, scaled(20, 60))
    assert set(noise.statuses) == {200, 429}
    assert {answer for export in load.exports for answer in export.answers} == {"200"}
    assert gateway.metric("sluice_gateway_requests_total", reason="rate_limited") == noise.statuses[429]


def test_fault_23_noisy_project_that_varies_its_credential_takes_no_places_of_others(
    make_gateway: MakeGateway, site: Site, run: str
) -> None:
    gateway = make_gateway(settings=FEW_PLACES, layered=False)
    gateway.start()
    with Noise(gateway, site.another_key("varied"), 1, connections=CROWD, varies=True) as noise:
        eventually(lambda: gateway.metric("sluice_gateway_places") == MIN_LIMIT, "there are few places", 60)
        eventually(lambda: noise.statuses[503] > CROWD * 5, "and the noisy project has its share", 60)
        # One client has 16 requests under way at most, and so many places are always left to it.
        with loaded(gateway, site, run, clients=1) as load:
            more(load, 30)
            noise.end()
    assert set(noise.statuses) == {200, 503}
    assert {answer for export in load.exports for answer in export.answers} == {"200"}
