"""Settings in a browser: what each section makes, tests and deletes, how sign-ons and invitations end, and axe."""

import asyncio
import hashlib
import hmac
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.async_api import BrowserContext, Locator, Page, Route, expect

from tests.control.identity.sso import saml_idp
from tests.control.identity.sso.conftest import IDP_SSO, Begun, moment
from tests.control.identity.sso.saml_idp import Idp
from tests.e2e.product import call
from tests.web.conftest import ROOT, Site, Tab, fill

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]

AXE = ROOT / "web/page/node_modules/axe-core/axe.min.js"
PASSWORD = "correct horse battery"
SECTIONS = (
    "keys", "scrubbing", "tokens", "members", "invitations", "agents", "channels", "policies", "sign-on", "directory",
    "integrations", "sinks", "issuers", "audit", "account",
)  # fmt: skip


async def visit(page: Page, site: Site, section: str) -> None:
    await page.goto(f"{site.service.url}/ui/default/settings/{section}")
    await page.wait_for_selector("main section.panel h2")
    await page.wait_for_load_state("networkidle")


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True).and_(page.locator("section"))


async def sure(place: Page | Locator, button: str, *, typed: str = "") -> None:
    """Press a button, and answer its question with the button's first word."""
    await place.get_by_role("button", name=button).click()
    page = place if isinstance(place, Page) else place.page
    await confirm(page, button if button == "Disconnect the directory" else button.split(maxsplit=1)[0], typed=typed)


async def confirm(page: Page, button: str, *, typed: str = "") -> None:
    """Answer the question, by keys alone."""
    dialog = page.get_by_role("dialog")
    if typed:
        await dialog.get_by_role("textbox").fill(typed)
    await dialog.get_by_role("button", name=button, exact=True).focus()
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("row").filter(has_text=text)


async def test_keys_are_shown_once_rotated_and_revoked(tab: Tab, site: Site) -> None:
    page = tab.page
    await visit(page, site, "keys")
    await page.get_by_label("Name of the key").fill("checkout")
    await page.keyboard.press("Enter")
    await expect(page.locator("code.secret").first).to_be_visible()
    secret = await page.locator("code.secret").first.inner_text()
    await page.get_by_role("button", name="Disable checkout").click()
    await expect(row(page, "checkout")).to_contain_text("disabled")
    await page.get_by_role("button", name="Enable checkout").click()
    await expect(row(page, "checkout")).to_contain_text("enabled")
    await sure(page, "Rotate checkout")
    await expect(row(page, "checkout")).to_have_count(2)
    await expect(row(page, "works until")).to_have_count(1)
    await page.reload()
    await page.wait_for_load_state("networkidle")
    assert secret not in await page.inner_text("main")
    for answer in ("Escape", "Enter"):  # Enter: on Cancel, which has the focus
        await page.get_by_role("button", name="Revoke checkout").first.click()
        await expect(page.get_by_role("button", name="Cancel")).to_be_focused()
        await page.keyboard.press(answer)
        await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_role("button", name="Revoke checkout").first.click()
    await confirm(page, "Revoke")
    await expect(page.get_by_role("button", name="Revoke checkout")).to_have_count(0)


async def test_words_and_exempt_keys_of_a_project(tab: Tab, site: Site) -> None:
    page, path = tab.page, "/orgs/default/projects/default"
    await visit(page, site, "scrubbing")
    form = page.get_by_role("form", name="Scrubbing")
    words, keys, save = form.get_by_label("words"), form.get_by_label("Exempt keys"), form.get_by_role("button")
    await words.fill("iban, tax_id")
    await keys.fill("cart.token\n\ndb.password")
    await save.click()
    await expect(
        form.get_by_text("db.password cannot be exempted: values of this key are always scrubbed.")
    ).to_be_visible()
    await expect(keys).to_have_attribute("aria-invalid", "true")
    assert site.ask("GET", path).json()["exemptKeys"] == []
    await keys.fill("cart.token\n\n Cart, token")
    await save.click()
    await expect(form.get_by_text("Saved.")).to_be_visible()
    saved = site.ask("GET", path).json()
    assert (saved["sensitiveWords"], saved["exemptKeys"]) == (["iban", "tax_id"], ["cart.token", " Cart, token"])
    await page.reload()
    await expect(words).to_have_value("iban\ntax_id")
    await expect(keys).to_have_value("cart.token\n Cart, token")
    await words.fill("")
    await keys.fill("")
    await save.click()
    await expect(form.get_by_text("Saved.")).to_be_visible()
    emptied = site.ask("GET", path).json()
    assert (emptied["sensitiveWords"], emptied["exemptKeys"]) == ([], [])
    tab.wrong = [each for each in tab.wrong if "400" not in each]


async def test_agents_get_tokens_and_are_retired(tab: Tab, site: Site) -> None:
    page = tab.page
    await visit(page, site, "agents")
    form = page.get_by_role("form", name="Create an agent or a service")
    await fill(form, {"Name": "deployer"}, "Create")
    tokens = panel(page, "Tokens of deployer")
    await tokens.get_by_label("Name of the token").fill("ci")
    await tokens.get_by_label("explore:read").check()
    await tokens.get_by_role("button", name="Create a token").click()
    await expect(tokens.locator("code.secret")).to_contain_text("pat_")
    await expect(row(page, "ci")).to_contain_text("explore:read")
    assert "open=prn_" in page.url
    await sure(page, "Revoke ci")
    await expect(row(page, "ci").last).to_contain_text("revoked")
    await sure(page, "Retire deployer")
    await expect(page.get_by_text("There is no agent or service.")).to_be_visible()


async def test_own_tokens(tab: Tab, site: Site) -> None:
    page = tab.page
    await visit(page, site, "tokens")
    await fill(page, {"Name of the token": "laptop", "Days until the token expires": "7"}, "Create a token")
    await expect(page.locator("code.secret")).to_contain_text("pat_")
    await page.get_by_role("button", name="Hide").click()
    await expect(page.locator("code.secret")).to_have_count(0)
    await sure(page, "Revoke laptop")
    await expect(row(page, "laptop")).to_contain_text("revoked")


async def invite(page: Page, address: str) -> str:
    """The link that is shown."""
    await page.get_by_label("E-mail address").fill(address)
    await page.get_by_role("button", name="Invite", exact=True).click()
    await expect(row(page, address)).to_contain_text("open")
    link = await page.locator("code.secret").inner_text()
    await page.get_by_role("button", name="Hide").click()
    return link


async def enrol(page: Page) -> list[str]:
    """The recovery codes."""
    await page.get_by_role("form", name="Enrol a second factor").get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Enrol an authenticator app").click()
    uri = await page.get_by_role("link", name="Open the link in an authenticator app").get_attribute("href")
    app = pyotp.parse_uri(uri or "")
    assert isinstance(app, pyotp.TOTP)
    await fill(page, {"Code that the app shows": app.now()}, "Confirm")
    await expect(page.get_by_text("Recovery codes")).to_be_visible()
    return (await page.locator("code.secret").inner_text()).split()


async def test_from_an_invitation_to_a_second_factor(tab: Tab, context: BrowserContext, site: Site) -> None:
    page = tab.page
    await visit(page, site, "invitations")
    await invite(page, "mallory@example.org")
    await sure(page, "Revoke mallory@example.org")
    await expect(row(page, "mallory@example.org")).to_contain_text("revoked")

    assert context.browser is not None
    elsewhere = await context.browser.new_context()
    other = await elsewhere.new_page()
    await other.goto(await invite(page, "grace@example.org"))
    await other.get_by_label("Your name").fill("Grace")
    assert "inviteToken" not in other.url
    await fill(other, {"A new password": "short"}, "Join")
    await expect(other.get_by_role("alert")).to_be_visible()
    await fill(other, {"A new password": PASSWORD}, "Join")
    await other.wait_for_selector("main h1")
    await visit(other, site, "account")
    codes = await enrol(other)
    assert len(codes) == 10

    await other.get_by_text("Grace").first.click()
    await other.get_by_role("button", name="Log out").click()
    await fill(other, {"E-mail address": "grace@example.org", "Password": PASSWORD}, "Log in")
    await fill(other, {"Code of the second factor": codes[0]}, "Verify")
    await expect(other.get_by_role("dialog", name="Log in")).to_have_count(0)
    await visit(other, site, "account")  # the cookie is that of the session with both factors
    form = other.get_by_role("form", name="Disable the second factor")
    await fill(form, {"Password": PASSWORD, "Code from the app": codes[1]})
    await form.get_by_role("button").click()
    await expect(other.get_by_role("form", name="Enrol a second factor")).to_be_visible()

    await visit(other, site, "channels")
    await expect(other.get_by_role("button", name="Create a channel")).to_be_enabled()
    for section, button, scope in (
        ("integrations", "Create an integration", "integrations:write"),
        ("scrubbing", "Save", "projects:write"),
    ):
        await visit(other, site, section)
        await expect(other.get_by_role("button", name=button, exact=True)).to_be_disabled()
        await expect(other.get_by_text(f"lacks the permission {scope}").first).to_be_visible()
    await elsewhere.close()

    await visit(page, site, "members")
    await page.get_by_label("Role of Grace", exact=True).select_option("VIEWER")
    await page.get_by_role("button", name="Change the role of Grace").click()
    await expect(page.get_by_role("button", name="Change the role of Grace")).to_be_disabled()
    await sure(page, "Remove Grace")
    await expect(row(page, "Grace")).to_have_count(0)


async def test_a_channel_is_made_tested_and_deleted(tab: Tab, site: Site) -> None:
    page = tab.page
    await visit(page, site, "channels")
    form = page.get_by_role("form", name="Create a channel")
    await form.get_by_label("Name").fill("On call")
    await form.get_by_label("Kind").select_option("webhook")
    await form.get_by_label("URL of the receiver").fill("https://hooks.example.org/sluice")
    await fill(form, {"Signing secret": "not one"}, "Create a channel")
    await expect(form.get_by_label("Signing secret")).to_have_attribute("aria-invalid", "true")
    await expect(form.locator("small.error")).to_contain_text("whsec_")
    await form.get_by_label("Kind").select_option("email")
    await fill(form, {"Addresses": "oncall@example.org"}, "Create a channel")
    channel = panel(page, "Channel On call")
    await channel.get_by_role("button", name="Send a test").click()
    await expect(channel.get_by_role("status").first).to_be_visible()
    await expect(channel.get_by_role("region", name="Deliveries")).to_contain_text("channel.test")
    await channel.get_by_label("an issue is new").check()
    await channel.get_by_role("button", name="Save the subscriptions").click()
    await expect(channel.get_by_text("Saved.")).to_be_visible()
    name = channel.get_by_role("form", name="Rename the channel")
    await name.get_by_label("Name").fill("Night")
    await name.get_by_role("button").click()
    channel = panel(page, "Channel Night")
    await expect(channel).to_be_visible()
    await page.reload()
    await expect(channel.get_by_label("an issue is new")).to_be_checked()
    await sure(channel, "Delete")
    await expect(page.get_by_text("There is no channel")).to_be_visible()
    tab.wrong = [each for each in tab.wrong if "400" not in each]  # the secret that is none


async def test_a_policy_is_written_as_json_and_tried(tab: Tab, site: Site) -> None:
    page = tab.page
    await visit(page, site, "policies")
    await page.get_by_role("button", name="New policy").click()
    editor = panel(page, "New policy")
    text = editor.get_by_label("The policy as JSON")
    written = json.loads(await text.input_value())
    await text.fill("{")
    await expect(editor.get_by_text("This is not valid JSON")).to_be_visible()
    await expect(editor.get_by_role("button", name="Save the policy")).to_be_disabled()
    await text.fill(json.dumps(written | {"minApprovers": 99, "effect": "MAYBE"}, indent=2))
    await editor.get_by_role("button", name="Save the policy").click()
    await expect(editor.get_by_role("alert").get_by_role("listitem")).to_have_count(2)
    await editor.get_by_role("button", name="minApprovers").click()
    assert await page.evaluate("() => getSelection().toString()") == '"minApprovers"'
    await text.fill(json.dumps(written | {"name": "Deploys"}, indent=2))
    await editor.get_by_role("button", name="Save the policy").click()
    await expect(row(page, "deploy.production")).to_contain_text("Deploys")
    editor = panel(page, "Policy Deploys")
    text = editor.get_by_label("The policy as JSON")
    changed = json.loads(await text.input_value()) | {"minApprovers": 3}
    await text.fill(json.dumps(changed))
    await editor.get_by_role("button", name="Save the policy").click()
    await expect(row(page, "deploy.production")).to_contain_text("3 of")
    form = page.get_by_role("form", name="Dry run")
    await fill(form, {"Action": "deploy.production", "Type of the target": "service"}, "Evaluate")
    await expect(page.get_by_role("region", name="Rules that match")).to_contain_text("Deploys")
    await sure(page, "Delete Deploys")
    await expect(page.get_by_role("button", name="Edit Deploys")).to_have_count(0)
    tab.wrong = [each for each in tab.wrong if "400" not in each]


async def test_a_connection_is_configured_tried_and_ends_a_sign_on(
    tab: Tab, context: BrowserContext, site: Site
) -> None:
    page = tab.page
    await visit(page, site, "sign-on")
    saml = panel(page, "SAML 2.0")
    form = saml.get_by_role("form", name="Configure SAML 2.0")
    await form.get_by_label("Entity ID of the provider").fill(saml_idp.IDP)
    await fill(form, {"Sign-on URL of the provider": IDP_SSO, "Roles of groups": "{"})
    await form.get_by_role("button").click()
    await expect(form.get_by_label("Roles of groups")).to_have_attribute("aria-invalid", "true")
    await form.get_by_label("Roles of groups").fill('{"ops": "MEMBER"}')
    certificate = saml_idp.certificate_pem(saml_idp.rsa_key())
    await form.get_by_label("Signing certificate of the provider").fill(certificate)
    await form.get_by_role("button").click()
    await expect(saml.get_by_text("The connection is disabled.")).to_be_visible()
    metadata = await saml.get_by_role("link", name="Open the metadata").get_attribute("href")
    answer = await asyncio.to_thread(call, "GET", metadata or "")
    assert (answer.status, b"EntityDescriptor" in answer.body) == (200, True)
    await expect(saml.get_by_role("button", name="Enforce")).to_be_disabled()
    await saml.get_by_role("button", name="Enable").click()
    await expect(saml.get_by_text("The connection is enabled.")).to_be_visible()
    await saml.get_by_text("Test the connection without logging in").click()
    dry_run = saml.get_by_role("form", name="Dry run of SAML 2.0")
    await dry_run.get_by_label("Attributes of the assertion").fill('{"email": "eve@example.com", "groups": ["ops"]}')
    await dry_run.get_by_label("Subject").fill("eve")
    await dry_run.get_by_role("button").click()
    await expect(saml.get_by_text("The login would create a member.")).to_be_visible()
    await expect(saml.locator("dl").last).to_contain_text("MEMBER")
    await page.get_by_label("Domain", exact=True).fill("example.com")
    await page.get_by_role("button", name="Add the domain").click()
    await sure(page, "Remove example.com")
    await expect(page.get_by_text("There is no domain.")).to_be_visible()

    await sign_on(context, site)

    await visit(page, site, "sign-on")
    await sure(page, "Unlink ada@example.com")
    await expect(page.get_by_text("No member is linked")).to_be_visible()
    await sure(saml, "Delete", typed="SAML")
    await expect(saml.get_by_text("There is no connection.")).to_be_visible()
    await visit(page, site, "members")
    await sure(page, "Remove Ada Example")


async def sign_on(context: BrowserContext, site: Site) -> None:
    """In another browser, through the provider, back to where it was begun."""
    assert context.browser is not None
    elsewhere = await context.browser.new_context()
    await elsewhere.route(f"{IDP_SSO}**", lambda route: vouch(route, site.service.url))
    other = await elsewhere.new_page()
    await other.goto(f"{site.url('explore')}?from=now-6h")
    await other.get_by_role("button", name="Sign in with SSO").click()
    await fill(other, {"Organization": "nobody"}, "Go to the provider")
    await expect(other.get_by_role("alert")).to_contain_text("There is no organization nobody with single sign-on.")
    await fill(other, {"Organization": "default"}, "Go to the provider")
    await other.wait_for_selector(".heatmap")
    assert other.url == f"{site.url('explore')}?from=now-6h"
    await other.reload()  # the cookie keeps the session
    await other.wait_for_selector(".heatmap")
    await expect(other.get_by_text("Ada Example").first).to_be_attached()
    await other.goto(f"{site.service.url}/sso/complete#code={'x' * 43}")
    assert other.url == f"{site.service.url}/ui/"
    await other.get_by_role("button", name="Cancel").click()  # it was not begun here, and the session stays
    await expect(other.get_by_text("Ada Example").first).to_be_attached()
    await other.goto(f"{site.service.url}/sso/complete#code={'x' * 43}")
    await other.get_by_role("button", name="Continue").click()
    await expect(other.get_by_role("alert")).to_contain_text("The sign-in could not be completed.")
    await elsewhere.close()


@pytest.mark.parametrize(
    ("returned", "end"), [("/.//evil.example", "/ui/"), ("/x/..//", "/ui/"), ("/docs?a=b%20c#d", "/docs?a=b%20c#d")]
)
async def test_the_end_of_a_sign_on_stays_on_this_origin(
    context: BrowserContext, site: Site, returned: str, end: str
) -> None:
    tab = Tab(await context.new_page(), site.service.url)
    tab.allowed = "status of 401"  # there is no session yet
    tokens = {"accessToken": site.secrets()["accessToken"], "expiresIn": 900}
    await tab.page.route("**/sso/handoff", lambda route: route.fulfill(json={"tokens": tokens, "next": returned}))
    await tab.page.goto(f"{site.service.url}/sso/complete#code={'x' * 43}")
    await tab.page.get_by_role("button", name="Continue").click()
    if end != "/ui/":
        await tab.page.wait_for_url(site.service.url + end)
    else:  # the page chooses the project
        await tab.page.wait_for_selector("h1:text('Overview')")
    assert tab.wrong == []


async def test_a_login_to_an_account_under_attack_proves_work_or_uses_a_mailed_link(
    context: BrowserContext, site: Site
) -> None:
    """The server asks for few bits, and then says that the password is wrong."""
    tab = Tab(await context.new_page(), site.service.url)
    tab.allowed = "status of 4"  # 401, 409 and 429
    sent: list[Any] = []
    challenge = "c" * 64

    async def login(route: Route) -> None:
        sent.append(route.request.post_data_json)
        asked = {"code": "rate_limited", "message": "m", "requestId": "r"}
        asked["details"] = {"challenge": challenge, "bits": 10}  # type: ignore[assignment]
        wrong = {"code": "unauthorized", "message": "It is wrong.", "requestId": "r"}
        status, error = (401, wrong) if "proof" in sent[-1] or "linkSecret" in sent[-1] else (429, asked)
        await route.fulfill(status=status, json={"error": error})

    page = tab.page
    await page.route("**/auth/login", login)
    await page.goto(f"{site.service.url}/ui/")
    await fill(page, {"E-mail address": "ada@example.org", "Password": PASSWORD}, "Log in")
    await expect(page.get_by_role("alert")).to_contain_text("It is wrong.")
    await expect(page.get_by_role("status")).to_contain_text("Many wrong passwords were entered for this account")
    first, second = sent
    assert second == first | {"challenge": challenge, "proof": second["proof"]}
    assert int.from_bytes(hashlib.sha256((challenge + second["proof"]).encode()).digest()) >> (256 - 10) == 0
    await page.get_by_role("button", name="Mail me a link instead").click()
    await expect(page.get_by_role("status")).to_contain_text("No mail server is configured")
    await page.evaluate("(secret) => { location.hash = `linkSecret=${secret}`; }", "u" * 35)
    await page.wait_for_function("() => location.hash === ''")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_contain_text("It is wrong.")
    assert sent[2:] == [first | {"linkSecret": "u" * 35}]
    assert tab.wrong == []


async def vouch(route: Route, url: str) -> None:
    """What the identity provider answers: a form that posts its assertion back."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()}
    request_id = Begun(route.request.url, query).request_id
    acs = f"{url}/sso/saml/default/acs"
    said = Idp(
        destination=acs,
        recipient=acs,
        audiences=(f"{url}/sso/saml/default/metadata",),
        in_response_to=request_id,
        response_in_response_to=request_id,
        subject="ada",
        subject_format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
        confirmation_not_on_or_after=moment(300),
        not_before=moment(-300),
        not_on_or_after=moment(600),
        session_not_on_or_after=None,
        assertion_id=f"_ada{request_id}",
        attributes=(("email", ("ada@example.com",)), ("name", ("Ada Example",))),
    )
    fields = {"SAMLResponse": saml_idp.post(saml_idp.sign(said.response())), "RelayState": query["RelayState"]}
    inputs = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in fields.items())
    page = f'<form method="post" action="{acs}">{inputs}</form><script>document.forms[0].submit()</script>'
    await route.fulfill(content_type="text/html", body=page)


async def test_the_directory_gets_a_token(tab: Tab, site: Site) -> None:
    page = tab.page
    await visit(page, site, "directory")
    await fill(page, {"Name of the token": "provisioner"}, "Issue a token")
    await expect(page.locator("code.secret")).to_be_visible()
    await sure(page, "Rotate provisioner")
    await expect(row(page, "provisioner")).to_have_count(2)
    for _ in range(2):
        await page.get_by_role("button", name="Revoke provisioner").first.click()
        await confirm(page, "Revoke")
    await expect(page.get_by_role("button", name="Revoke provisioner")).to_have_count(0)
    await sure(page, "Disconnect the directory", typed="default")


async def test_an_integration_shows_what_was_delivered(tab: Tab, site: Site) -> None:
    page = tab.page
    await visit(page, site, "integrations")
    form = page.get_by_role("form", name="Create an integration")
    await fill(form, {"Name": "Code"}, "Create an integration")
    await expect(page.locator("code.secret")).to_be_visible()
    secret = await page.locator("code.secret").inner_text()
    url = await page.locator(".notice code").first.inner_text()
    body = b'{"zen": "Keep it logically awesome.", "hook_id": 1}'
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "ping",
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-Hub-Signature-256": signature,
    }
    answer = await asyncio.to_thread(call, "POST", url, body, headers)
    assert answer.status == 200, answer
    await page.get_by_role("button", name="Open Code").click()
    opened = panel(page, "Integration Code")
    await expect(opened.get_by_role("region", name="Deliveries")).to_contain_text("ping")
    await opened.get_by_role("button", name="Process again").click()
    await expect(row(page, "ping").locator("td.number")).to_have_text("2")
    await opened.get_by_role("button", name="Disable").click()
    await expect(opened.get_by_role("button", name="Process again")).to_be_disabled()
    await sure(opened, "Delete")
    await expect(page.get_by_text("There is no integration.")).to_be_visible()


async def test_a_sink_is_made_run_and_deleted(tab: Tab, site: Site) -> None:
    page = tab.page
    await visit(page, site, "sinks")
    form = page.get_by_role("form", name="Create a sink")
    await form.get_by_label("Name").fill("Lake")
    await form.get_by_label("Interface of the store").select_option("azure")
    await fill(form, {"Container": "telemetry"}, "Create a sink")
    await expect(row(page, "Lake")).to_contain_text("not configured")
    sink = panel(page, "Sink Lake")
    await sink.get_by_role("button", name="Run now").click()
    await expect(sink.get_by_text("0 rows were exported.")).to_be_visible()
    await expect(sink.get_by_role("region", name="Runs")).to_contain_text("NOT_CONFIGURED")
    config = sink.get_by_role("form", name="Replace the config")
    await config.get_by_label("Interface of the store").select_option("azure")
    for label, value in (("Account", "acme"), ("Container", "telemetry"), ("Account key", "a2V5")):
        await config.get_by_label(label, exact=True).fill(value)
    await config.get_by_role("button", name="Replace the config").click()
    await expect(row(page, "Lake")).not_to_contain_text("not configured")
    await sink.get_by_role("button", name="Disable").click()
    await expect(sink.get_by_role("button", name="Run now")).to_be_disabled()
    await sure(sink, "Delete")
    await expect(page.get_by_text("There is no sink")).to_be_visible()


async def test_an_issuer_is_added_and_revoked(tab: Tab, site: Site) -> None:
    key = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    page = tab.page
    await visit(page, site, "issuers")
    form = page.get_by_role("form", name="Register a public key")
    await fill(form, {"Issuer": "urn:builder", "Name": "Builder", "Public key": "no key"})
    await form.get_by_role("button").click()
    await expect(form.get_by_label("Public key")).to_have_attribute("aria-invalid", "true")
    await form.get_by_label("Public key").fill(key.decode())
    await form.get_by_role("button").click()
    await expect(row(page, "urn:builder")).to_contain_text("ED25519")
    await page.get_by_role("button", name="Revoke Builder").click()
    await expect(page.get_by_role("dialog").get_by_role("button", name="Revoke")).to_be_disabled()
    await confirm(page, "Revoke", typed="Builder")
    await expect(row(page, "urn:builder")).to_contain_text("REVOKED")
    tab.wrong = [each for each in tab.wrong if "400" not in each]


async def test_audit_events_are_filtered(tab: Tab, site: Site) -> None:
    page = tab.page
    await visit(page, site, "audit")
    await page.get_by_label("Action").fill("session.start")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Events")).not_to_contain_text("key.create")
    await expect(page.get_by_role("region", name="Events")).to_contain_text("session.start")
    assert "action=session.start" in page.url
    assert set(await page.locator("tbody td:nth-child(2)").all_inner_texts()) == {"session.start"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_is_in_the_way_of_assistive_technology(tab: Tab, site: Site, scheme: Any) -> None:
    await tab.page.emulate_media(color_scheme=scheme)
    found: dict[tuple[str, str], list[str]] = {}
    for section in SECTIONS:
        await visit(tab.page, site, section)
        await tab.page.evaluate(
            "() => document.querySelectorAll('main details').forEach((one) => { one.open = true; })"
        )
        await tab.page.evaluate(AXE.read_text())
        result = await tab.page.evaluate("() => axe.run()")
        for each in result["violations"]:
            found[section, each["id"]] = [node["html"][:200] for node in each["nodes"]]
    assert found == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_is_in_the_way_at_the_login(context: BrowserContext, site: Site, scheme: Any) -> None:
    page = await context.new_page()
    await page.emulate_media(color_scheme=scheme)
    found: dict[tuple[str, str], list[str]] = {}
    for address, way in (
        ("/ui/", ""),
        ("/ui/", "Sign in with SSO"),
        ("/ui/", "Use an access token"),
        (f"/ui/invitations#inviteToken=inv_{'x' * 50}", ""),
        (f"/sso/complete#code={'x' * 43}", ""),
    ):
        await page.goto("about:blank")  # a fragment alone loads nothing
        await page.goto(site.service.url + address)
        await page.wait_for_selector("dialog, [role=dialog]")
        if way:
            await page.get_by_role("button", name=way).click()
        await page.evaluate(AXE.read_text())
        for each in (await page.evaluate("() => axe.run()"))["violations"]:
            found[address + way, each["id"]] = [node["html"][:200] for node in each["nodes"]]
    assert found == {}
