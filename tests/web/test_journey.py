"""What a person on call does by keys alone, with names that strangers chose: log in, find the trace, read its error.
And what the page does while the server is busy. The other tests of the browser are long.
"""

import re
import time

import pytest
from playwright.async_api import BrowserContext, Page, Route

from tests.web import painted
from tests.web.conftest import DEADLINE_MS, Site, Tab, refuse
from tests.web.shop import MILLI, Sent

pytestmark = pytest.mark.asyncio(loop_scope="session")

HEATMAP = "**/explore/spans/heatmap"
HOSTILE = "<img src=x onerror=alert(1)>\u202elive\u200b"
SHOWN = "<img src=x onerror=alert(1)>\\u202Elive\\u200B"
TRACE = "0" * 29 + "bad"


def hostile_trace() -> list[Sent]:
    """The newest trace: its second span failed."""
    start = time.time_ns()
    attributes = {
        HOSTILE: HOSTILE,
        "exact": 2**53 + 1,
        "double": 200.0,
        "none": float("nan"),
        "javascript": "javascript:alert(1)",
    }
    return [
        Sent(TRACE, "00000000000000a1", "", HOSTILE, HOSTILE, start, 9 * MILLI),
        Sent(TRACE, "00000000000000a2", "00000000000000a1", HOSTILE, HOSTILE, start + 1, 5 * MILLI, True, attributes),
    ]


async def test_from_the_login_to_an_attribute_by_keys_alone(context: BrowserContext, site: Site) -> None:
    site.send(hostile_trace())
    tab = Tab(await context.new_page(), site.service.url)
    tab.allowed = "status of 401"  # there is no session yet
    page = tab.page
    dialogs: list[object] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog))  # noqa: PLW0108 - Playwright marks what it is given
    await page.goto(site.url(""))
    await page.wait_for_selector(".login")
    await press_until_focused(page, "Tab", "Use an access token")
    await page.keyboard.press("Enter")
    await press_until_focused(page, "Shift+Tab", "Personal access token")
    await page.keyboard.type(site.secrets()["accessToken"])
    await page.keyboard.press("Enter")
    await page.wait_for_selector("h1:text('Overview')", timeout=DEADLINE_MS)
    await tab.settled()
    assert SHOWN in await page.inner_text("main")
    await page.evaluate("() => document.activeElement.blur()")
    for key in ("g", "e"):
        await page.keyboard.press(key)
    await page.wait_for_selector("tbody a")
    await tab.settled()
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".waterfall .row")
    assert f"/trace/{TRACE}" in page.url
    await page.keyboard.press("e")
    await page.wait_for_selector(".details dl")
    assert tab.query("span") == "00000000000000a2"
    assert SHOWN in await page.inner_text(".waterfall .row[aria-selected=true]")
    details = re.sub(r"\s+", " ", await page.inner_text(".details"))
    assert f"{SHOWN} {SHOWN}" in details
    assert "exact 9007199254740993 " in details
    assert "double 200.0 " in details
    assert "none NaN " in details
    assert await page.locator("img, a[href^=javascript]").count() == 0
    assert (dialogs, tab.wrong) == ([], [])


async def press_until_focused(page: Page, key: str, name: str) -> None:
    """Until what has the focus is called so."""
    for _ in range(10):
        await page.keyboard.press(key)
        label = "() => (document.activeElement.labels?.[0] ?? document.activeElement).textContent"
        if name in await page.evaluate(label):
            return
    raise AssertionError(f"{key} does not lead to {name}")


async def note_statuses(page: Page) -> None:
    """Keeps every text of a status that is shown, however short."""
    await page.evaluate(
        """() => {
            window.seen = [];
            const notices = () => [...document.querySelectorAll('.notice')].map((each) => each.textContent);
            const note = () => window.seen.push(...notices());
            new MutationObserver(note).observe(document, { subtree: true, childList: true, characterData: true });
        }"""
    )


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_once_more(failing: Tab, site: Site, status: int) -> None:
    page, asked = failing.page, []

    async def answer(route: Route) -> None:
        asked.append(route.request.post_data)
        await (refuse(route, status, "2") if len(asked) == 1 else route.continue_())

    await failing.open(site.url("explore?metric=rate"))
    await note_statuses(page)
    await page.route(HEATMAP, answer)
    await page.get_by_role("button", name="duration", exact=True).click()
    await page.wait_for_selector(".heatmap", timeout=DEADLINE_MS)
    seen = await page.evaluate("() => [...new Set(window.seen)].map((text) => text.replace(' Cancel', ''))")
    seen = [text for text in seen if "Still loading" not in text]  # where this machine is slow
    assert seen == [f"The server is busy. Retrying in {left} s." for left in (2, 1)]
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert await page.locator(".notice, .failure").count() == 0


async def test_each_row_of_a_small_trace_is_painted_once_and_selected_where_it_is(tab: Tab, site: Site) -> None:
    """The trace of the README: fewer spans than rows of the waterfall that are pooled."""
    await tab.open(site.url(f"trace/{site.trace_id}"))
    await tab.page.wait_for_selector(".waterfall .row")
    spans = site.ask("GET", f"/orgs/default/projects/default/explore/traces/{site.trace_id}/rows").json()
    rows = ["POST /orders ! error", "SELECT carts", "POST /charges ! error"]
    assert await painted.names(tab) == rows
    for name, span_id in zip(rows, spans["columns"]["spanId"], strict=True):
        await painted.click(tab, name)
        assert tab.query("span") == span_id
    await painted.click(tab, rows[0], toggle=True)
    assert await painted.names(tab) == [f"{rows[0]} (2 hidden)"]
