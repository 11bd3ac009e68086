"""The pictures of the documentation: the page with an hour of sample traffic, into `docs/images`.

make screenshots
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from playwright.async_api import Page, ViewportSize

from tests.e2e.product import Service
from tests.web.conftest import ROOT, Site, chromium, sluice

IMAGES: Final = ROOT / "docs" / "images"
SIZE: Final = ViewportSize(width=1280, height=800)


async def explore(page: Page) -> None:
    """With the slow orders in a box, and what they have in common."""
    plot = page.locator(".heatmap .plot")
    await plot.wait_for()
    box = await plot.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 4)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.985, box["y"] + 52, steps=4)
    await page.mouse.up()
    await page.get_by_role("region", name="Comparison").wait_for()


async def trace(page: Page) -> None:
    """The slowest order, with its critical path and the span that waits."""
    await page.locator("tbody a").first.click()
    await page.wait_for_selector(".waterfall .row")
    await page.get_by_text("acquire connection").first.click()
    await page.keyboard.press("c")
    await page.wait_for_selector(".details dl")


VIEWS: Final = {
    "overview": ("", None),
    "explore": ("explore", explore),
    "trace": ("explore?sort=duration", trace),
    "map": ("map", None),
}


async def take(site: Site) -> None:
    """A picture of each view."""
    async with chromium() as browser:
        context = await browser.new_context(viewport=SIZE, color_scheme="light", timezone_id="UTC")
        page = await context.new_page()
        await page.goto(site.link())
        await page.wait_for_selector("h1")
        for name, (view, prepare) in VIEWS.items():
            await page.goto(site.url(view))
            await page.wait_for_load_state("networkidle")
            if prepare is not None:
                await prepare(page)
            await page.wait_for_load_state("networkidle")
            await page.screenshot(path=IMAGES / f"{name}.png")


def main() -> None:
    """Start the product, send the traffic, take the pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sluice-screenshots-") as directory:
        service = Service("up", Path(directory) / "data", Path(directory) / "log", {"SLUICE_GRPC_PORT": ""})
        service.start()
        try:
            site = Site(service, "")
            sluice(site, "send", "--traffic")
            asyncio.run(take(site))
        finally:
            service.stop()


if __name__ == "__main__":
    main()
