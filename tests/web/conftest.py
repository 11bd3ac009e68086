"""The page in a browser: Debian's Chromium, on the real product with real spans."""

import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    Route,
    async_playwright,
    expect,
)

from tests.chassis.conftest import serve
from tests.e2e.product import Answer, Service, call, clean_environment, eventually
from tests.forks import Command
from tests.programs import PAGE, made, program
from tests.web.shop import SECOND, Sent, export, traffic

__all__ = ("serve",)  # a fixture

ROOT = Path(__file__).parents[2]
DEADLINE_MS = 30_000  # for anything that must happen; never a measure of speed


@dataclass
class Site:
    """A product that runs, with the spans of `sluice send`."""

    service: Service
    trace_id: str

    def link(self) -> str:
        """A link that logs its owner in, once."""
        return sluice(self, "open", "--print").strip()

    def url(self, path: str) -> str:
        return f"{self.service.url}/ui/default/default/{path}"

    def secrets(self) -> Any:
        return json.loads((self.service.data / "bootstrap.json").read_text())

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> Answer:
        """A call of the API, by default the owner's."""
        headers = {"Authorization": f"Bearer {token or self.secrets()['accessToken']}"}
        if body is None:
            return call(method, self.service.url + path, None, headers)
        headers["Content-Type"] = "application/json"
        return call(method, self.service.url + path, json.dumps(body).encode(), headers)

    def send(self, spans: list[Sent]) -> None:
        """Export spans and wait until all of them can be found."""
        headers = {
            "X-Legacy-Auth": f"Legacy legacy_key={self.secrets()['legacyKey']}",
            "Content-Type": "application/json",
        }
        for at in range(0, len(spans), 2_000):
            body = export(spans[at : at + 2_000])
            answer = call("POST", f"{self.service.url}/v1/traces", body, headers)
            assert answer.status == 200, answer
            assert not json.loads(answer.body).get("partialSuccess"), answer
        self.stored()
        window = {
            "from": str(min(each.start_ns for each in spans)),
            "to": str(max(each.start_ns for each in spans) + 1),
            "figures": [{"fn": "count"}],
        }
        answer = self.ask("POST", "/orgs/default/projects/default/explore/spans/figures", window)
        assert answer.json()["groups"][0]["count"] >= len(spans), answer

    def stored(self) -> None:
        """Wait until nothing that was accepted is missing."""
        eventually(lambda: self._pending() == 0, "everything stored", 60)

    def _pending(self) -> float:
        """Items that the gateway has taken and not stored."""
        metrics = call("GET", f"{self.service.url}/metrics").body.decode()
        told = re.findall(r"^sluice_gateway_pending_items(?:{.*})? (\S+)$", metrics, re.MULTILINE)
        assert told, "the gateway does not say"
        return sum(map(float, told))


def sluice(site: Site, *arguments: str) -> str:
    """What a command prints."""
    with site.service.log.open("ab") as log:
        command = Command([*arguments, "--data", str(site.service.data)], clean_environment({}), stderr=log)
        assert command.stdout is not None
        with command.stdout as output:
            printed = output.read()
    assert command.wait() == 0, site.service.log.read_text()
    return printed


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made(PAGE)
    directory = tmp_path_factory.mktemp("site")
    limits = ("API_RATE", "API_BURST", "ANALYSIS_RATE", "ANALYSIS_BURST", "REFRESH_RATE", "VISITOR_RATE")
    rates = {f"SLUICE_{name}": "100000" for name in limits}
    service = Service("up", directory / "data", directory / "log", rates)
    service.start()
    found = Site(service, "")
    found.trace_id = sluice(found, "send").split("/traces/")[1].split("/")[0]
    yield found
    service.stop()


@dataclass
class Shop:
    """Traffic of 40 minutes, three hours ago; nothing else is in this time."""

    spans: list[Sent]
    start_ns: int
    end_ns: int

    @property
    def times(self) -> str:
        return f"from={utc(self.start_ns)}&to={utc(self.end_ns)}&tz=utc"


@pytest.fixture(scope="session")
def shop(site: Site) -> Shop:
    start = (time.time_ns() // (60 * SECOND) - 180) * 60 * SECOND
    length = 2_400 * SECOND
    made = Shop(traffic(start, length, 400), start, start + length)
    site.send(made.spans)
    return made


def utc(nanos: int) -> str:
    """With nine digits where there are any."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanos // SECOND))
    return f"{whole}.{nanos % SECOND:09d}Z" if nanos % SECOND else f"{whole}Z"


# What Chromium writes to the console of an answer that is an error, and of a broken connection.
REFUSED = r"the server responded with a status of (401|429|503)|net::ERR_(CONNECTION_RESET|INTERNET_DISCONNECTED)"


async def refuse(route: Route, status: int, retry_after: str | None) -> None:
    """Answers a request as a service does that has too much to do."""
    error = {"code": "rate_limited", "message": "Too many requests.", "requestId": "of-this-test"}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    await route.fulfill(status=status, json={"error": error}, headers=headers)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program("chromium"), args=["--no-sandbox"])
        yield browser
        await browser.close()


class Tab:
    """A page of a browser, and what went wrong in it: errors in the console, violations of the policy, requests to
    another origin. `allowed`: what a test provokes. `calls`: what was asked of the APIs, but for the session's own.
    """

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.wrong: list[str] = []
        self.allowed: str | None = None
        self.calls: list[Request] = []
        self._origin = origin
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._note(f"error: {error}"))
        page.on("request", self._on_request)

    async def open(self, url: str) -> None:
        """Go there, and wait for all that the view asks for."""
        await self.page.goto(url)
        await self.settled()

    async def settled(self) -> None:
        await self.page.wait_for_selector("main :is(h1, .empty, .failure)", state="attached")
        await expect(self.page.locator(".skeleton, [aria-busy=true]")).to_have_count(0, timeout=DEADLINE_MS)

    async def press(self, key: str) -> None:
        """With what it changes in the view and in the address."""
        await self.page.keyboard.press(key)
        await self.drawn()

    async def drawn(self) -> None:
        """What was changed is drawn."""
        frame = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
        await self.page.evaluate(f"async () => {{ await {frame}; await {frame}; }}")

    async def picture(self) -> tuple[str, list[str]]:
        """What is to be seen: the text, and the canvases."""
        await self.drawn()
        canvases = "() => [...document.querySelectorAll('canvas')].map((each) => each.toDataURL())"
        return await self.page.inner_text("main"), await self.page.evaluate(canvases)

    def query(self, name: str) -> str | None:
        """A parameter of the address."""
        found = parse_qs(urlsplit(self.page.url).query).get(name)
        return None if found is None else found[0]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._note(f"{message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self._origin, "data:", "blob:")):
            self._note(f"request: {request.url}")
        if urlsplit(request.url).path.startswith("/orgs/"):
            self.calls.append(request)

    def _note(self, text: str) -> None:
        if self.allowed is None or not re.search(self.allowed, text):
            self.wrong.append(text)


async def fill(form: Page | Locator, values: dict[str, str], button: str = "") -> None:
    """Fill fields, which are found by their labels, and press a button."""
    for label, value in values.items():
        await form.get_by_label(label).fill(value)
    if button:
        await form.get_by_role("button", name=button).click()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser without any history."""
    made = await browser.new_context(viewport={"width": 1400, "height": 900}, timezone_id="America/St_Johns")
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def tab(context: BrowserContext, site: Site) -> AsyncIterator[Tab]:
    """A tab that is logged in. It fails the test if anything went wrong in it."""
    made = Tab(await context.new_page(), site.service.url)
    await made.page.goto(site.link())
    await made.page.wait_for_selector("h1")
    yield made
    assert made.wrong == []


@pytest_asyncio.fixture(loop_scope="session")
async def failing(tab: Tab) -> AsyncIterator[Tab]:
    """A tab whose requests may fail."""
    tab.allowed = REFUSED
    yield tab
    await tab.page.unroute_all()
