"""The service map, live tails, saved views, severities over time, the way to another organization."""

import json
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from urllib.parse import unquote

import pytest
from playwright.async_api import BrowserContext, expect

from tests.e2e.product import call
from tests.web.conftest import DEADLINE_MS, Shop, Site, Tab, sluice, utc
from tests.web.shop import MILLI, Sent

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

BASE = "/orgs/default/projects/default"


async def cells(tab: Tab) -> list[list[str]]:
    """The texts of the table of the view."""
    read = (
        "() => [...document.querySelectorAll('main tbody tr')].map((row) => [...row.cells].map((one) => one.innerText))"
    )
    found: list[list[str]] = await tab.page.evaluate(read)
    return found


async def test_the_map_has_the_calls_of_the_spans(tab: Tab, site: Site) -> None:
    start = time.time_ns() - 7_200_000 * MILLI
    calls = Counter({("front", "back"): 5, ("front", "side"): 2, ("back", "side"): 3, ("side", "front"): 1})
    spans, failed = list[Sent](), {("front", "side")}
    for number, (caller, called) in enumerate(calls.elements()):
        trace, at = f"{number + 1:031x}f", start + number * MILLI
        inner = Sent(trace, f"{1:016x}", "", caller, "call", at, 4 * MILLI, kind=3)
        outer = Sent(trace, f"{2:016x}", inner.span_id, called, "serve", at, 2 * MILLI, (caller, called) in failed)
        spans += [inner, outer]
    site.send(spans)
    await tab.open(site.url(f"map?from={utc(start)}&to={utc(start + 1_000 * MILLI)}"))
    shown = {(row[0], row[1]): (row[2], row[3], row[4]) for row in await cells(tab)}
    assert shown == {pair: (str(many), "100 %" if pair in failed else "0 %", "2.00 ms") for pair, many in calls.items()}
    drawn = tab.page.locator(".service-map a")
    assert (
        await drawn.filter(has_text="back").get_attribute("aria-label")
        == "back: 5 calls, 0 % with errors, 2.00 ms on average"
    )
    await drawn.filter(has_text="back").focus()
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url(re.compile("/explore"))
    assert tab.query("q") == "serviceName:back"


def arriving(site: Site, name: str) -> None:
    """A span that ends now."""
    now = time.time_ns()
    site.send([Sent(f"{now:032x}", f"{now % 2**63:016x}", "", "live", name, now - MILLI, MILLI)])


async def test_spans_arrive_while_they_are_watched(tab: Tab, site: Site) -> None:
    await tab.open(site.url("explore?metric=rate&q=serviceName:live"))
    await tab.page.get_by_role("button", name="Live", exact=True).click()
    assert tab.query("live") == "1"
    arriving(site, "the first")
    row = tab.page.locator("tbody tr")
    await expect(row).to_have_count(1, timeout=DEADLINE_MS)
    assert "the first" in await row.inner_text()
    await tab.page.get_by_role("button", name="Pause").click()
    arriving(site, "the second")
    await tab.page.wait_for_selector("text=Paused: 1 new spans", timeout=DEADLINE_MS)
    assert await row.count() == 1
    await tab.page.get_by_role("button", name="Resume").click()
    await expect(row).to_have_count(2, timeout=DEADLINE_MS)
    assert "the second" in await row.first.inner_text()
    await row.first.get_by_role("link").click()
    await tab.page.wait_for_selector(".waterfall .row")


async def test_a_view_is_saved_shared_opened_and_deleted_by_keys(tab: Tab, site: Site, shop: Shop) -> None:
    page = tab.page
    await tab.open(site.url(f"explore?{shop.times}&q=serviceName:payment"))
    saved = unquote(page.url.removeprefix(site.service.url))
    await page.locator("summary", has_text="Saved").focus()
    await page.keyboard.press("Enter")
    await page.get_by_label("Save this view as").focus()
    await page.keyboard.type("Payments <b>")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Space")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    link = page.get_by_role("link", name="Payments <b>")
    await link.wait_for()
    (stored,) = site.ask("GET", f"{BASE}/views").json()["data"]
    assert (stored["name"], unquote(stored["path"]), stored["shared"]) == ("Payments <b>", saved, True)
    await page.keyboard.press("Escape")
    await tab.open(site.url("logs"))
    await page.locator("summary", has_text="Saved").focus()
    await page.keyboard.press("Enter")
    await link.focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile("/explore"))
    assert unquote(page.url.removeprefix(site.service.url)) == saved
    await page.locator("summary", has_text="Saved").focus()
    await page.keyboard.press("Enter")
    await page.get_by_label("Delete the view Payments <b>").focus()
    await page.keyboard.press("Enter")
    await page.get_by_text("Delete for all members?").wait_for()
    await page.keyboard.press("Enter")
    await page.wait_for_selector("text=There are no saved views yet.")
    assert site.ask("GET", f"{BASE}/views").json()["data"] == []


async def test_severities_over_time(tab: Tab, site: Site) -> None:
    start = (time.time_ns() // 60_000_000_000 - 300) * 60_000_000_000
    severities = Counter({9: 7, 13: 3, 17: 2, 21: 1, 0: 4})
    records = [
        {"timeUnixNano": str(start + 1 + at), "severityNumber": severity, "body": {"stringValue": f"record {at}"}}
        for at, severity in enumerate(severities.elements())
    ]
    body = {"resourceLogs": [{"resource": {}, "scopeLogs": [{"logRecords": records}]}]}
    headers = {
        "X-Legacy-Auth": f"Legacy legacy_key={site.secrets()['legacyKey']}",
        "Content-Type": "application/json",
    }
    assert call("POST", f"{site.service.url}/v1/logs", json.dumps(body).encode(), headers).status == 200
    site.stored()
    await tab.open(site.url(f"logs?from={utc(start)}&to={utc(start + 3_600_000 * MILLI)}"))
    caption = await tab.page.inner_text("figcaption")
    assert "17 records" in caption
    chart = tab.page.locator(".line-chart svg")
    await chart.focus()
    await tab.page.keyboard.press("ArrowRight")
    await expect(tab.page.locator("figcaption")).to_contain_text("errors 3, warnings 3, info 7, other 4")
    await tab.page.get_by_label("Severity").select_option("errors")
    await tab.settled()
    assert len(await cells(tab)) == 3
    assert "3 records" in await tab.page.inner_text("figcaption")


@pytest.fixture
def elsewhere(site: Site) -> str:
    """Another organization, with a project, whose owner the owner of the first one is, too."""
    sluice(site, "init", "--org", "elsewhere", "--project", "other")
    with closing(sqlite3.connect(site.service.data / "sluice.db", timeout=30)) as database, database:
        database.row_factory = sqlite3.Row
        (org_id,) = database.execute("SELECT id FROM organizations WHERE slug = 'elsewhere'").fetchone()
        found = database.execute(
            "SELECT memberships.* FROM memberships JOIN organizations ON organizations.id = org_id"
            " JOIN users ON users.principal_id = memberships.principal_id WHERE slug = 'default' AND role = 'OWNER'"
        ).fetchone()
        row = dict(found) | {"org_id": org_id}
        places = ", ".join("?" * len(row))
        database.execute(f"INSERT INTO memberships ({', '.join(row)}) VALUES ({places})", list(row.values()))
    return "elsewhere"


async def test_a_session_goes_on_in_another_organization(
    tab: Tab, site: Site, context: BrowserContext, elsewhere: str
) -> None:
    other = await context.new_page()
    await other.goto(site.url("errors"))
    await other.wait_for_selector("main h1")
    await tab.open(site.url("issues"))
    await tab.page.locator(".menu summary", has_text="Owner").click()
    await tab.page.get_by_role("button", name="Switch to").click()
    await tab.page.wait_for_url(f"**/ui/{elsewhere}/other/")
    await tab.settled()
    assert await tab.page.locator(".failure").count() == 0
    assert f"{elsewhere} / other" in await tab.page.inner_text("header")
    await tab.page.reload()
    await tab.settled()
    assert f"/ui/{elsewhere}/other/" in tab.page.url
    # The other tab follows the session: it never shows one organization and asks as a member of another.
    await expect(other.locator("header")).to_contain_text(f"{elsewhere} / other")


async def test_a_switch_that_is_refused_changes_nothing(tab: Tab, site: Site) -> None:
    """The list of organizations alone is made up: what the server says of the switch is shown."""
    own = {"id": "org_1", "slug": "default", "name": "Default", "role": "OWNER", "current": True}
    other = {"id": "org_2", "slug": "nowhere", "name": "No<b>where", "role": "VIEWER", "current": False}
    tab.allowed = "the server responded with a status of 40"
    await tab.page.route("**/auth/organizations", lambda route: route.fulfill(json={"data": [own, other]}))
    await tab.open(site.url("issues"))
    await tab.page.locator(".menu summary", has_text="Owner").click()
    async with tab.page.expect_request("**/auth/switch") as asked:
        await tab.page.get_by_role("button", name="Switch to No<b>where").click()
    assert (await asked.value).post_data_json == {"orgSlug": "nowhere", "cookie": True}
    await tab.page.wait_for_selector(".menu .failure")
    assert tab.page.url == site.url("issues")
    await tab.page.get_by_role("link", name="Errors").click()
    await tab.settled()
    assert await tab.page.locator(".login").count() == 0, "the session goes on"
