"""What a person on call does: log in, find the slow trace, read its error. By mouse and by keys."""

import asyncio
import json
import re
from typing import Any

import pytest
from playwright.async_api import BrowserContext

from tests.e2e.product import call
from tests.web.conftest import ROOT, Site, Tab

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

AXE = ROOT / "web/page/node_modules/axe-core/axe.min.js"
HOSTILE = "<img src=x onerror=alert(1)>\u202elive\u200b"


async def test_a_code_logs_in_once_and_leaves_the_address(context: BrowserContext, site: Site) -> None:
    link = site.link()
    tab = Tab(await context.new_page(), site.service.url)
    await tab.page.goto(link)
    await tab.page.wait_for_selector("h1")
    assert "#" not in tab.page.url
    await tab.page.goto(site.url("explore"))  # the cookie keeps the session
    await tab.page.wait_for_selector(".heatmap")
    assert tab.wrong == []
    assert context.browser is not None
    other = await (await context.browser.new_context()).new_page()
    await other.goto(link)
    await other.wait_for_selector("text=Log in")


async def test_from_the_overview_to_an_attribute_by_keys_alone(tab: Tab, site: Site) -> None:
    page = tab.page
    await page.keyboard.press("g")
    await page.keyboard.press("e")
    await page.wait_for_selector("tbody a")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".waterfall .row")
    assert f"/trace/{site.trace_id}" in page.url
    await page.keyboard.press("e")
    await page.wait_for_selector(".details dl")
    assert "span=" in page.url
    assert await page.get_by_text("http.route").count() > 0
    picture = await page.inner_text(".waterfall")
    await page.reload()
    await page.wait_for_selector(".details dl")
    assert await page.inner_text(".waterfall") == picture


async def test_views_reload_to_the_same_picture(tab: Tab, site: Site) -> None:
    for view in ("", "explore", "errors", "logs", "issues"):
        await tab.page.goto(site.url(view))
        await tab.page.wait_for_selector('[aria-busy="false"]')
        await tab.page.wait_for_load_state("networkidle")
        first = await tab.page.inner_text("main")
        await tab.page.reload()
        await tab.page.wait_for_selector('[aria-busy="false"]')
        await tab.page.wait_for_load_state("networkidle")
        assert await tab.page.inner_text("main") == first, view


async def test_back_undoes_a_filter(tab: Tab, site: Site) -> None:
    await tab.page.goto(site.url("explore"))
    await tab.page.fill('input[role="combobox"]', "serviceName:nobody")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_selector(".empty")
    await tab.page.go_back()
    await tab.page.wait_for_selector("tbody a")


async def test_hostile_names_stay_text(tab: Tab, site: Site) -> None:
    secrets: Any = json.loads((site.service.data / "bootstrap.json").read_text())
    trace_id = "00000000000000000000000000000bad"
    now = 1_000_000_000 * (await tab.page.evaluate("() => Math.floor(Date.now() / 1000)"))
    span = {
        "traceId": trace_id,
        "spanId": "00000000000000a1",
        "name": HOSTILE,
        "startTimeUnixNano": str(now),
        "endTimeUnixNano": str(now + 5_000_000),
        "attributes": [
            {"key": HOSTILE, "value": {"stringValue": HOSTILE}},
            {"key": "exact", "value": {"intValue": "9007199254740993"}},
            {"key": "double", "value": {"doubleValue": 200.0}},
        ],
    }
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    headers = {"X-Legacy-Auth": f"Legacy legacy_key={secrets['legacyKey']}", "Content-Type": "application/json"}
    answer = await asyncio.to_thread(call, "POST", f"{site.service.url}/v1/traces", body, headers)
    assert answer.status == 200, answer
    await tab.page.goto(site.url(f"trace/{trace_id}"))
    wait = tab.page.get_by_text("Wait for it")
    await tab.page.wait_for_selector(".waterfall .row, .empty button")
    if await wait.count():
        await wait.click()
    await tab.page.wait_for_selector(".waterfall .row")
    await tab.page.keyboard.press("j")
    await tab.page.wait_for_selector(".details dl")
    text = await tab.page.inner_text("main")
    assert "<img src=x onerror=alert(1)>\\u202Elive\\u200B" in text
    assert "9007199254740993" in text
    assert re.search(r"double\s+200\.0\b", text)
    assert await tab.page.locator("main img").count() == 0
    tab.wrong = [each for each in tab.wrong if "404" not in each]  # the trace may not have arrived


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_is_in_the_way_of_assistive_technology(tab: Tab, site: Site, scheme: Any) -> None:
    await tab.page.emulate_media(color_scheme=scheme)
    found = {}
    for view in ("", "explore", f"trace/{site.trace_id}", "errors", "logs", "issues"):
        await tab.page.goto(site.url(view))
        await tab.page.wait_for_selector('[aria-busy="false"]')
        await tab.page.wait_for_load_state("networkidle")
        await tab.page.evaluate(AXE.read_text())
        result = await tab.page.evaluate("() => axe.run()")
        for each in result["violations"]:
            found[view, each["id"]] = [node["html"][:200] for node in each["nodes"]]
    assert found == {}
