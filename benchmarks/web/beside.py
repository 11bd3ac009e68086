"""Exports alone, and beside an open dashboard: the live tail of Explore, which asks every two seconds."""

import gzip
import http.client
import time
from typing import Final
from urllib.parse import urlsplit

from playwright.sync_api import Page

from benchmarks.report import Table, quantiles_ms
from tests.proto.otlp.realistic import request
from tests.web.conftest import Site

_ROUNDS: Final = 3
_SECONDS: Final = 8
_PAUSE_S: Final = 0.02  # between exports of 512 spans


def measure(page: Page, site: Site) -> None:
    """Print both, in turns: milliseconds to the acknowledgement, median and 99th percentile, and exports a second."""
    table = Table({"exports of 512 spans": "", "p50, p99 ms": ".1f", "exports/s": ".1f"})
    body = gzip.compress(request("traces").SerializeToString())
    _sent(site, body, 2)
    for _ in range(_ROUNDS):
        page.goto("about:blank")
        time.sleep(1.5)
        table.row("alone", *_sent(site, body, _SECONDS))
        page.goto(site.url("explore?live=1&metric=rate"))
        page.wait_for_selector(".notice")
        table.row("beside a dashboard", *_sent(site, body, _SECONDS))


def _sent(site: Site, body: bytes, seconds: float) -> tuple[tuple[float, ...], float]:
    url = urlsplit(site.service.url)
    headers = {
        "X-Legacy-Auth": f"Legacy legacy_key={site.secrets()['legacyKey']}",
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "gzip",
    }
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    taken, end = list[float](), time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        connection.request("POST", "/v1/traces", body, headers)
        response = connection.getresponse()
        response.read()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{response.status} {response.reason}")
        taken.append(time.perf_counter() - began)
        time.sleep(_PAUSE_S)
    connection.close()
    return quantiles_ms(taken, 0.5, 0.99), len(taken) / seconds
