"""What the page does when something fails: it says what in words, keeps what it shows, and asks once more at most."""

import asyncio
import json
import re
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, Route, expect

from tests.e2e.product import call
from tests.web.conftest import DEADLINE_MS, REFUSED, Shop, Site, Tab, fill, refuse

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

HEATMAP = "**/explore/spans/heatmap"
COOKIE = "__Secure-sluice"


@pytest.mark.parametrize(("retry_after", "times"), [("1", 2), (None, 1)])
async def test_a_server_that_stays_busy_is_left_alone(
    failing: Tab, site: Site, shop: Shop, retry_after: str | None, times: int
) -> None:
    """After the second answer, or one without Retry-After, nothing is asked before somebody presses the button; the
    rest of the view works.
    """
    page, asked = failing.page, []

    async def answer(route: Route) -> None:
        asked.append(route.request.url)
        await refuse(route, 503, retry_after)

    await page.route(HEATMAP, answer)
    await failing.open(site.url(f"explore?{shop.times}"))
    failure = page.locator(".failure")
    await expect(failure).to_contain_text("Too many requests.", timeout=DEADLINE_MS)
    await expect(failure).to_contain_text("Request of-this-test")
    assert len(asked) == times
    assert await page.locator("tbody a").count() == 50
    await page.unroute(HEATMAP)
    await page.get_by_role("button", name="Try again").click()
    await page.wait_for_selector(".heatmap")
    await expect(failure).to_have_count(0)


async def test_a_cut_connection_keeps_the_picture(failing: Tab, site: Site, shop: Shop) -> None:
    page = failing.page
    await failing.open(site.url(f"explore?{shop.times}"))
    text = await page.inner_text("tbody")
    await page.route("**/explore/traces?*", lambda route: route.abort("connectionreset"))
    await page.get_by_role("button", name="slowest").click()
    await expect(page.locator(".failure")).to_contain_text("The server cannot be reached.")
    assert await page.inner_text("tbody") == text
    await page.unroute_all()
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator(".failure")).to_have_count(0)
    await failing.settled()
    assert await page.inner_text("tbody") != text


async def test_a_slow_query_can_be_cancelled(failing: Tab, site: Site, shop: Shop) -> None:
    """The request ends, so that the engine stops."""
    page, begun = failing.page, asyncio.Event()

    async def stall(_route: Route) -> None:
        begun.set()  # and no answer

    await failing.open(site.url(f"explore?{shop.times}&metric=rate"))
    await page.route(HEATMAP, stall)
    await page.get_by_role("button", name="duration", exact=True).click()
    await begun.wait()
    await expect(page.locator(".notice")).to_contain_text(
        re.compile(r"^Still loading after \d+ s\."), timeout=DEADLINE_MS
    )
    async with page.expect_event("requestfailed") as ended:
        await page.get_by_role("button", name="Cancel").click()
    failed = await ended.value
    assert failed.url.endswith("/spans/heatmap")
    assert failed.failure == "net::ERR_ABORTED"
    await expect(page.locator(".failure")).to_contain_text("Cancelled.")
    await expect(page.locator(".notice")).to_have_count(0)
    await page.unroute_all()
    await page.get_by_role("button", name="Try again").click()
    await page.wait_for_selector(".heatmap")


async def end_session(site: Site, context: BrowserContext) -> None:
    """As somebody does who ends all sessions elsewhere: the page does not know."""
    (token,) = [each["value"] for each in await context.cookies() if each["name"] == COOKIE]
    body = json.dumps({"refreshToken": token}).encode()
    headers = {"Content-Type": "application/json"}
    answer = await asyncio.to_thread(call, "POST", f"{site.service.url}/auth/logout", body, headers)
    assert answer.status in (200, 204), answer


async def log_in_with_token(page: Page, token: str) -> None:
    await page.get_by_role("button", name="Use an access token").click()
    await page.get_by_label("Personal access token").fill(token)
    await page.get_by_role("button", name="Log in", exact=True).click()
    await expect(page.locator(".login")).to_have_count(0, timeout=DEADLINE_MS)


async def test_a_session_that_ends_keeps_the_view(failing: Tab, site: Site, context: BrowserContext) -> None:
    """What is closed stays closed, and what could not be loaded is, after the login over the page."""
    page = failing.page
    await failing.open(site.url(f"trace/{site.trace_id}"))
    await page.wait_for_selector(".waterfall .row")
    grid = page.locator(".waterfall")
    for key in ("j", "ArrowLeft", "Escape"):
        await page.keyboard.press(key)
    await expect(grid).to_have_attribute("aria-rowcount", "1")
    await failing.settled()
    await end_session(site, context)
    await page.keyboard.press("j")
    await expect(page.locator(".login")).to_be_visible(timeout=DEADLINE_MS)
    await expect(grid).to_be_visible()
    await page.evaluate("() => document.activeElement.blur()")
    await page.keyboard.press("ArrowRight")  # no key acts behind the login
    await expect(grid).to_have_attribute("aria-rowcount", "1")
    url = page.url
    await log_in_with_token(page, site.secrets()["accessToken"])
    await page.wait_for_selector(".details dl")
    await expect(grid).to_have_attribute("aria-rowcount", "1")
    assert page.url == url
    assert "span=" in url
    await expect(page.locator(".failure")).to_have_count(0)


async def test_tabs_that_refresh_at_once(tab: Tab, site: Site, context: BrowserContext) -> None:
    """The token in the cookie is good once: they take turns."""
    others = [Tab(await context.new_page(), site.service.url) for _ in range(2)]
    for other in others:
        await other.open(site.url("errors"))
    for _ in range(3):
        await asyncio.gather(*(each.page.reload() for each in (tab, *others)))
        for each in (tab, *others):
            await each.settled()
            assert await each.page.locator(".login").count() == 0
    assert [other.wrong for other in others] == [[], []]


async def test_a_logout_ends_every_tab(failing: Tab, site: Site, context: BrowserContext) -> None:
    """And nothing of what they showed is left."""
    other = Tab(await context.new_page(), site.service.url)
    other.allowed = REFUSED
    await other.open(site.url("errors"))
    await failing.page.locator("details.menu summary").last.click()
    await failing.page.get_by_role("button", name="Log out").click()
    for each in (failing, other):
        await expect(each.page.locator(".login")).to_be_visible()
        await expect(each.page.locator("main")).to_have_count(0)
    await other.page.reload()
    await expect(other.page.locator(".login")).to_be_visible()
    assert other.wrong == []


async def test_a_logout_that_fails_says_so(failing: Tab, site: Site) -> None:
    page = failing.page
    await page.route("**/auth/logout", lambda route: route.abort("connectionreset"))
    await page.locator("details.menu summary").last.click()
    await page.get_by_role("button", name="Log out").click()
    await expect(page.locator("details.menu .failure")).to_contain_text("The server cannot be reached.")
    await expect(page.locator(".login")).to_have_count(0)


async def test_a_server_that_is_away_is_no_logout(failing: Tab, site: Site) -> None:
    """When the page is loaded, and later."""
    page = failing.page
    await page.route("**/auth/refresh", lambda route: refuse(route, 503, None))
    await page.goto(site.url("errors"))
    await expect(page.locator(".failure")).to_contain_text("Too many requests.")
    await expect(page.locator(".login")).to_have_count(0)
    await page.unroute_all()
    await page.get_by_role("button", name="Try again").click()
    await failing.settled()
    await expect(page.locator("h1")).to_have_text("Errors")
    await page.route("**/explore/**", lambda route: refuse(route, 401, None))
    await page.route("**/auth/refresh", lambda route: route.abort("connectionreset"))
    await page.get_by_role("button", name="occurrences").click()
    await expect(page.locator(".failure")).to_contain_text("The server cannot be reached.")
    await expect(page.locator(".login")).to_have_count(0)


# Votes


class Approvals:
    """Ada asks and Bo decides, by the API; the owner votes on the page."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.ada = self._member("ada")
        self.bo = self._member("bo")
        policy: dict[str, Any] = {
            "name": "Two",
            "actionPattern": "deploy.critical",
            "effect": "ASK",
            "riskClass": "CRITICAL",
        }
        policy |= {"minApprovers": 2, "approverRoles": ["ADMIN", "OWNER"], "ttlMinutes": 60}
        answer = site.ask("POST", "/orgs/default/approval-policies", policy)
        assert answer.status == 201, answer

    def _member(self, name: str) -> str:
        invitation = {"email": f"{name}@example.org", "role": "ADMIN"}
        invited = self.site.ask("POST", "/orgs/default/invitations", invitation).json()
        accepted = {"inviteToken": invited["inviteToken"], "name": name, "password": "correct horse battery"}
        headers = {"Content-Type": "application/json"}
        body = json.dumps(accepted).encode()
        answer = call("POST", f"{self.site.service.url}/auth/invitations/accept", body, headers)
        found = re.search(rb'"accessToken": *"([^"]+)"', answer.body)
        assert found is not None, answer
        return found[1].decode()

    def request(self, target: str, action: str = "deploy.production", token: str | None = None) -> Any:
        body = {"action": action, "targetType": "service", "targetId": target}
        answer = self.site.ask("POST", "/orgs/default/approval-requests", body, token or self.ada)
        assert answer.status == 201, answer
        return answer.json()["request"]

    def path(self, request: Any, verb: str = "") -> str:
        return f"/orgs/default/approval-requests/{request['id']}{verb}"


@pytest.fixture(scope="module")
def approvals(site: Site) -> Approvals:
    return Approvals(site)


async def open_approvals(tab: Tab, site: Site) -> None:
    await tab.open(f"{site.service.url}/ui/default/approvals")


async def test_a_vote_sends_its_reason(tab: Tab, site: Site, approvals: Approvals) -> None:
    asked = approvals.request("reasons")
    await open_approvals(tab, site)
    card = tab.page.get_by_role("article", name="deploy.production reasons")
    await card.get_by_label("Reason").fill("Read the diff.\u200b <b>")
    async with tab.page.expect_request("**/approve") as sent:
        await card.get_by_role("button", name="Approve").click()
    request = await sent.value
    assert request.url.endswith(approvals.path(asked, "/approve"))
    assert json.loads(request.post_data or "") == {"reason": "Read the diff.\u200b <b>"}
    await expect(card).to_have_count(0)
    stored = site.ask("GET", approvals.path(asked)).json()
    assert (stored["status"], stored["reason"]) == ("APPROVED", "Read the diff.\u200b <b>")
    await tab.page.get_by_role("button", name="approved").click()
    await expect(card).to_contain_text("Read the diff.\\u200B <b>")


async def test_a_rejection_needs_a_reason(tab: Tab, site: Site, approvals: Approvals) -> None:
    asked = approvals.request("rejected")
    await open_approvals(tab, site)
    card = tab.page.get_by_role("article", name="deploy.production rejected")
    await expect(card.get_by_role("button", name="Reject")).to_be_disabled()
    await expect(card).to_contain_text("Enter a reason to reject the request.")
    await fill(card, {"Reason": "Not during the freeze."}, "Reject")
    await expect(card).to_have_count(0)
    stored = site.ask("GET", approvals.path(asked)).json()
    assert (stored["status"], stored["reason"]) == ("REJECTED", "Not during the freeze.")


async def test_a_vote_that_comes_too_late_is_refused_in_words(tab: Tab, site: Site, approvals: Approvals) -> None:
    tab.allowed = "status of 409"
    asked = approvals.request("late")
    await open_approvals(tab, site)
    card = tab.page.get_by_role("article", name="deploy.production late")
    await expect(card).to_be_visible()
    answer = site.ask("POST", approvals.path(asked, "/approve"), {}, approvals.bo)
    assert answer.status == 200, answer
    await card.get_by_role("button", name="Approve").click()
    await expect(card.get_by_role("alert")).to_contain_text("The request is already APPROVED.")


async def test_what_is_critical_is_typed_and_votes_are_counted(tab: Tab, site: Site, approvals: Approvals) -> None:
    approvals.request("ledger", "deploy.critical")
    await open_approvals(tab, site)
    card = tab.page.get_by_role("article", name="deploy.critical ledger")
    approve = card.get_by_role("button", name="Approve")
    await expect(approve).to_be_disabled()
    await expect(card).to_contain_text("Type ledger to approve.")
    confirm = card.get_by_label("Type ledger to confirm")
    await confirm.fill("ledge")
    await expect(approve).to_be_disabled()
    await confirm.fill("ledger")
    await approve.click()
    await expect(card.get_by_role("status")).to_have_text("Your approval counts. Approvals still needed: 1.")
    await expect(approve).to_be_disabled()
    await expect(card).to_contain_text("You have approved this request already.")
    await expect(card.get_by_role("list", name="Votes")).to_contain_text("Approved by Owner")


async def test_nobody_approves_their_own_request(tab: Tab, site: Site, approvals: Approvals) -> None:
    """The button says why, and the request can be withdrawn."""
    asked = approvals.request("own", token=site.secrets()["accessToken"])
    await open_approvals(tab, site)
    card = tab.page.get_by_role("article", name="deploy.production own")
    await expect(card.get_by_role("button", name="Approve")).to_be_disabled()
    await expect(card).to_contain_text("You cannot approve your own request.")
    await fill(card, {"Reason": "A mistake."}, "Withdraw")
    await expect(card).to_have_count(0)
    assert site.ask("GET", approvals.path(asked)).json()["status"] == "REJECTED"
