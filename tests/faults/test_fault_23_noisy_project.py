"""Fault 23: one project sends far more than can be taken. Others lose nothing."""

import http.client
import itertools
import threading
from collections import Counter
from typing import Final, Self

from gateway.admission.concurrency import MIN_LIMIT
from tests.e2e.product import eventually
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Gateway, Site
from tests.faults.loading import loaded, more
from tests.faults.records import Export, body_of

CROWD: Final = 96  # connections that send without a pause, more than there are places
FEW_PLACES: Final = {"SLUICE_GATEWAY_TARGET_DELAY_S": "0.001"}  # no answer is that soon, so there are as few as may be


class Noise:
    """Exports of one project over many connections, each sending again as soon as it is answered. No two have the same
    text for a credential.
    """

    def __init__(self, gateway: Gateway, key: str) -> None:
        self._port = gateway.port
        self._body = body_of(Export(99, 0, 1, form="gzip"), "noise")
        self._credential = f"Legacy legacy_key={key}"
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self.statuses: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(CROWD)]

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
            varied = {"X-Legacy-Auth": f"{self._credential}, t={next(self._numbers)}"}
            connection.request("POST", self._body.path, self._body.content, self._body.headers | varied)
            answer = connection.getresponse()
            answer.read()
            self.statuses[answer.status] += 1
        connection.close()


def test_fault_23_noisy_project_that_varies_its_credential_takes_no_places_of_others(
    make_gateway: MakeGateway, site: Site, run: str
) -> None:
    gateway = make_gateway(settings=FEW_PLACES, layered=False)
    gateway.start()
    with Noise(gateway, site.another_key("varied")) as noise:
        eventually(lambda: gateway.metric("sluice_gateway_places") == MIN_LIMIT, "there are few places", 60)
        eventually(lambda: noise.statuses[503] > CROWD * 5, "and the noisy project has its share", 60)
        # One client has 16 requests under way at most, and so many places are always left to it.
        with loaded(gateway, site, run, clients=1) as load:
            more(load, 30)
            noise.end()
    assert set(noise.statuses) == {200, 503}
    assert {answer for export in load.exports for answer in export.answers} == {"200"}
