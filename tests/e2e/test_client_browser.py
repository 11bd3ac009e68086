"""Pages of another origin export from a real browser: by beacons, as exporters without custom headers do, and by
requests with any header, as those with a configured one do.
"""

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Page

from tests.e2e.conftest import Deploy
from tests.e2e.product import DEPLOYMENTS, Sluice
from tests.e2e.reading import arrived, listed
from tests.ports import free_port
from tests.web.conftest import chromium

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("deploy", DEPLOYMENTS[:1], indirect=True, scope="session"),
]
LISTED, UNLISTED = f"http://localhost:{free_port()}", f"http://localhost:{free_port()}"
# A beacon as the SDK sends it, whose answer no script sees; whether the browser has taken it.
BEACON = "([url, body]) => navigator.sendBeacon(url, new Blob([body], {type: 'application/json'}))"
FETCH = """([url, body, headers]) => fetch(url, {method: 'POST', body, headers})
    .then((answer) => answer.status, (error) => error.name)"""


@pytest.fixture(scope="module")
def listening(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sluice]:
    """A Sluice that knows the page, and another one."""
    origins = f"https://other.example,{LISTED}"
    sluice = deploy(tmp_path_factory.mktemp("sluice"), SLUICE_GATEWAY_CORS_ORIGINS=origins)
    yield sluice
    sluice.stop()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def page() -> AsyncIterator[Page]:
    """A tab of a browser, and the sites that it can open."""

    async def shown(_request: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>shop</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", shown)
    runner = web.AppRunner(app)
    await runner.setup()
    for origin in (LISTED, UNLISTED):
        await web.TCPSite(runner, "127.0.0.1", int(origin.rpartition(":")[2])).start()
    async with chromium() as browser:
        yield await browser.new_page()
    await runner.cleanup()


def spans(name: str) -> str:
    start = str(time.time_ns())
    span = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "00f067aa0ba902b7", "name": name}
    span |= {"startTimeUnixNano": start, "endTimeUnixNano": start}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})


def exported(sluice: Sluice, name: str) -> None:
    """One span of this name is there."""
    arrived(sluice, f"/spans?hours=1&filters=name:{name}", 1)


def named(sluice: Sluice, name: str) -> list[Any]:
    """The spans of this name."""
    return listed(sluice, f"/spans?hours=1&filters=name:{name}")


async def test_a_beacon_is_stored(listening: Sluice, page: Page) -> None:
    await page.goto(LISTED)
    url = f"{listening.base_url}/v1/traces?legacy_key={listening.key}"
    assert await page.evaluate(BEACON, [url, spans("beacon")])
    exported(listening, "beacon")


async def test_requests_with_headers_of_their_own_are_stored(listening: Sluice, page: Page) -> None:
    await page.goto(LISTED)
    url = f"{listening.base_url}/v1/traces"
    headers = {"Content-Type": "application/json", "X-Legacy-Auth": f"Legacy legacy_key={listening.key}"}
    assert await page.evaluate(FETCH, [url, spans("header"), headers]) == 200
    assert await page.evaluate(FETCH, [url, spans("extra"), headers | {"X-Tenant": "a", "b3": "0"}]) == 200
    assert await page.evaluate(FETCH, [url, spans("refused"), headers | {"X-Forwarded-For": "10.0.0.1"}]) == "TypeError"
    exported(listening, "header")
    exported(listening, "extra")
    assert named(listening, "refused") == []


async def test_pages_of_other_origins_export_nothing(listening: Sluice, page: Page) -> None:
    await page.goto(UNLISTED)
    url = f"{listening.base_url}/v1/traces?legacy_key={listening.key}"
    await page.evaluate(BEACON, [url, spans("stranger")])
    answer = await page.evaluate(FETCH, [url, spans("stranger"), {"Content-Type": "application/json"}])
    assert answer == "TypeError"
    await page.goto(LISTED)
    assert await page.evaluate(BEACON, [url, spans("friend")])
    exported(listening, "friend")
    assert named(listening, "stranger") == []
