"""What a person on call does: log in, find the slow trace, read its error. By mouse and by keys."""

import time
from typing import Any, Final, Literal

import pytest
from playwright.async_api import BrowserContext, Page

from tests.e2e.product import eventually
from tests.web.conftest import ROOT, Shop, Site, Tab, utc
from tests.web.shop import SECOND

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

AXE = ROOT / "web/page/node_modules/axe-core/axe.min.js"
MAX_CALLS = 3


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


async def test_a_link_that_is_pasted_over_the_login_logs_in(context: BrowserContext, site: Site) -> None:
    """Only its fragment differs from the address, so the browser loads nothing."""
    tab = Tab(await context.new_page(), site.service.url)
    tab.allowed = "status of 401"  # there is no session yet
    await tab.page.goto(f"{site.service.url}/ui/")
    await tab.page.wait_for_selector(".login")
    await tab.page.evaluate("(link) => { location.href = link; }", site.link())
    await tab.page.wait_for_selector("h1:text('Overview')")
    assert "#" not in tab.page.url
    assert await tab.page.locator(".login").count() == 0


def newest(site: Site, path: str) -> Any:
    """The first row of a list, as soon as there is one: errors are counted in the background."""
    found = eventually(lambda: site.ask("GET", f"/orgs/default/projects/default/{path}?limit=1").json()["data"], path)
    return found[0]


@pytest.fixture(scope="module")
def views(site: Site, shop: Shop) -> dict[str, str]:
    """The address of each view, some with all that an address can have."""
    times = f"from={utc(time.time_ns() // SECOND * SECOND - 3600 * SECOND)}&to={utc(time.time_ns() // SECOND * SECOND)}"
    error, issue = newest(site, "explore/errors"), newest(site, "issues")
    rows = site.ask("GET", f"/orgs/default/projects/default/explore/traces/{site.trace_id}/rows").json()
    spans = rows["columns"]["spanId"]
    width = -(-(shop.end_ns - shop.start_ns) // 90)
    box = f"{utc(shop.start_ns + 44 * width)},{utc(shop.start_ns + 69 * width)},1024.000000,4096.000000"
    trace = f"trace/{site.trace_id}"
    of_project = {
        "overview": f"?{shop.times}",
        "explore": f"explore?{shop.times}",
        "explore, a box": f"explore?{shop.times}&box={box}&q=region:eu",
        "explore, errors": f"explore?{shop.times}&metric=errors",
        "explore, rate": f"explore?{shop.times}&metric=rate&by=serviceName&sort=duration",
        "explore, nothing": f"explore?{shop.times}&q=serviceName:nobody",
        "trace": trace,
        "trace, a span": f"{trace}?span={spans[-1]}&zoom=1000000,9000000&find=a&critical=1&tz=utc",
        "trace, a subtree": f"{trace}?root={spans[1]}",
        "trace, flame": f"{trace}?tab=flame",
        "trace, logs": f"{trace}?tab=logs",
        "trace, table": f"{trace}?tab=table",
        "errors": f"errors?{times}&sort=count",
        "error": f"errors/{error['fingerprint']}?{times}",
        "logs": f"logs?{times}&severity=severityNumber:>=9",
        "map": f"map?{shop.times}",
        "issues": "issues",
        "issue": f"issues/{issue['id']}",
    }
    found = {name: site.url(path) for name, path in of_project.items()}
    found["approvals, approved"] = f"{site.service.url}/ui/default/approvals?status=APPROVED"
    return found | {name: f"{site.service.url}/ui/default/{name}" for name in ("approvals", "settings")}


async def test_views_reload_to_the_same_picture(tab: Tab, views: dict[str, str]) -> None:
    for name, url in views.items():
        await tab.open(url)
        first = await tab.picture()
        await tab.page.reload()
        await tab.settled()
        assert await tab.picture() == first, name
        assert tab.page.url == url.replace(">", "%3E")


async def test_a_view_asks_at_most_three_things(tab: Tab, views: dict[str, str]) -> None:
    asked = {}
    for name, url in views.items():
        tab.calls.clear()
        await tab.open(url)
        asked[name] = [each.url for each in tab.calls]
        assert 1 <= len(asked[name]) <= MAX_CALLS, (name, asked[name])
        assert len(set(asked[name])) == len(asked[name]) or name == "overview", asked[name]


async def test_a_resolved_issue_names_its_release(tab: Tab, site: Site) -> None:
    base = "/orgs/default/projects/default/issues"
    issue = newest(site, "issues")
    bar = tab.page.locator(".bar-row", has=tab.page.locator("button:text('Reopen')"))
    for change, text in (
        ({"resolvedInRelease": "1.5.0 (x)"}, "resolved in 1.5.0 (x)"),
        ({"resolvedInNextRelease": True}, "resolved in the release after "),
    ):
        changed = site.ask("PATCH", f"{base}/{issue['id']}", {"status": "resolved", **change}).json()
        await tab.open(site.url(f"issues/{issue['id']}"))
        shown = " ".join((await bar.inner_text()).split())
        assert shown.startswith(text + (changed["resolvedAfterRelease"] or ""))
    site.ask("PATCH", f"{base}/{issue['id']}", {"status": "unresolved"})


async def test_back_undoes_a_filter(tab: Tab, site: Site) -> None:
    await tab.open(site.url("explore"))
    await tab.page.fill('input[role="combobox"]', "serviceName:nobody")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_selector(".empty")
    await tab.page.go_back()
    await tab.page.wait_for_selector("tbody a")


SCHEMES: Final[tuple[tuple[Literal["light", "dark"], Literal["active", "none"]], ...]] = (
    ("light", "none"),
    ("dark", "none"),
    ("light", "active"),
    ("dark", "active"),
)


@pytest.mark.parametrize(("scheme", "forced"), SCHEMES)
async def test_nothing_is_in_the_way_of_assistive_technology(
    tab: Tab, views: dict[str, str], scheme: Literal["light", "dark"], forced: Literal["active", "none"]
) -> None:
    await tab.page.emulate_media(color_scheme=scheme, forced_colors=forced)
    found: dict[tuple[str, str], list[str]] = {}
    for name, url in views.items():
        await tab.open(url)
        found |= {(name, rule): nodes for rule, nodes in (await violations(tab.page)).items()}
    assert found == {}


@pytest.mark.parametrize(("scheme", "forced"), SCHEMES)
async def test_dialogs_are_not_in_the_way_either(
    tab: Tab, site: Site, scheme: Literal["light", "dark"], forced: Literal["active", "none"]
) -> None:
    """The keys, and the login."""
    await tab.page.emulate_media(color_scheme=scheme, forced_colors=forced)
    await tab.page.keyboard.press("?")
    await tab.page.wait_for_selector("dialog[open]")
    assert await violations(tab.page) == {}
    await tab.page.keyboard.press("Escape")
    await tab.page.locator("details.menu summary").last.click()
    assert await violations(tab.page) == {}
    await tab.page.get_by_role("button", name="Log out").click()
    await tab.page.wait_for_selector(".login")
    assert await violations(tab.page) == {}


async def violations(page: Page) -> dict[str, list[str]]:
    """What axe finds: the elements by rule."""
    await page.evaluate(AXE.read_text())
    result = await page.evaluate("() => axe.run()")
    return {each["id"]: [node["html"][:200] for node in each["nodes"]] for each in result["violations"]}
