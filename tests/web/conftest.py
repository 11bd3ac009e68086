"""The page in a browser: Debian's Chromium, on the real product with real spans."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright

from tests.chassis.conftest import serve
from tests.e2e.product import Service

__all__ = ("serve",)  # a fixture

ROOT = Path(__file__).parents[2]


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


def sluice(site: Site, *arguments: str) -> str:
    command = [sys.executable, "-m", "sluice", *arguments, "--data", str(site.service.data)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("site")
    service = Service("up", directory / "data", directory / "log", {"SLUICE_GRPC_PORT": ""})
    service.start()
    found = Site(service, "")
    found.trace_id = sluice(found, "send").split("/traces/")[1].split("/")[0]
    yield found
    service.stop()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    path = shutil.which("chromium") or str(ROOT / ".venv/bin/chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


class Tab:
    """A page of a browser, and what went wrong in it: errors in the console, violations of the policy, requests to
    another origin.
    """

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.wrong: list[str] = []
        self._origin = origin
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self._origin, "data:", "blob:")):
            self.wrong.append(f"request: {request.url}")


@pytest.fixture
async def context(site: Site) -> AsyncIterator[BrowserContext]:
    """A browser without any history."""
    async with chromium() as browser:
        yield await browser.new_context(viewport={"width": 1400, "height": 900})


@pytest.fixture
async def tab(context: BrowserContext, site: Site) -> AsyncIterator[Tab]:
    """A tab that is logged in. It fails the test if anything went wrong in it."""
    made = Tab(await context.new_page(), site.service.url)
    await made.page.goto(site.link())
    await made.page.wait_for_selector("h1")
    yield made
    assert made.wrong == []
