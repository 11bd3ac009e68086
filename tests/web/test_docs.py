"""The reference at /docs, for people who do not see it or use no mouse. axe would take minutes for its 60 000 elements:
for what is alike in every area, one area stands.
"""

from typing import Final, Literal

import pytest
from playwright.async_api import BrowserContext

from tests.web.conftest import Site, Tab
from tests.web.test_views import AXE, SCHEMES

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

FOUND: Final = "found.violations.map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))])"
PARTS: Final = "{ include: [['header'], ['nav'], ['main > section:first-of-type']] }"


async def opened(context: BrowserContext, site: Site) -> Tab:
    tab = Tab(await context.new_page(), site.service.url)
    await tab.page.goto(f"{site.service.url}/docs")
    await tab.page.wait_for_selector("h1")
    return tab


@pytest.mark.parametrize(("scheme", "forced"), SCHEMES)
async def test_nothing_is_in_the_way_of_assistive_technology(
    context: BrowserContext, site: Site, scheme: Literal["light", "dark"], forced: Literal["active", "none"]
) -> None:
    tab = await opened(context, site)
    await tab.page.emulate_media(color_scheme=scheme, forced_colors=forced)
    await tab.page.evaluate(AXE.read_text())
    assert await tab.page.evaluate(f"async () => {{ const found = await axe.run({PARTS}); return {FOUND}; }}") == []
    assert tab.wrong == []


@pytest.mark.parametrize("width", [400, 1400])
async def test_nothing_scrolls_that_keys_do_not_reach(context: BrowserContext, site: Site, width: int) -> None:
    tab = await opened(context, site)
    await tab.page.set_viewport_size({"width": width, "height": 900})
    await tab.page.evaluate(AXE.read_text())
    rule = "{ runOnly: ['scrollable-region-focusable'] }"
    found = await tab.page.evaluate(f"async () => {{ const found = await axe.run(document, {rule}); return {FOUND}; }}")
    assert found == []
