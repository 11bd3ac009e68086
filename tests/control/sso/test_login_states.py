"""What a login was begun for, and until when: its connection, its ten minutes, the minute of its code, and what changes
meanwhile.
"""

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.auth.tables import principals, sessions
from chassis.limits.limiter import LimitClass
from chassis.limits.rate_limits import RateLimits
from control.sso import connection_repository
from control.sso.tables import sso_connections, sso_handoff_codes, sso_logins
from tests.control.conftest import Control
from tests.control.sso.conftest import Browser, SamlProvider, audit, begun_at, refusals
from tests.control.sso.test_housekeeping import count
from tests.control.sso.test_saml_login import refused


async def change(control: Control, statement: sa.Update | sa.Delete) -> None:
    async with control.checks.database.write() as connection:
        await connection.execute(statement)


async def waiting_code(saml: SamlProvider, browser: Browser) -> dict[str, str]:
    """The body of a handoff."""
    _, _, headers = await saml.log_in(browser, ending="redirect")
    return {"code": headers["Location"].partition("#code=")[2]}


@pytest.mark.both_stores
async def test_a_login_that_was_begun_elsewhere_is_unknown(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    """Both organizations have the same provider."""
    async with control.checks.database.write() as connection:
        row = dict((await connection.execute(sa.select(sso_connections))).mappings().one())
        row |= {"id": "sso_globex", "org_id": control.globex.organization.id}
        await connection.execute(sso_connections.insert().values(row))
    begun = await browser.start(org="acme")
    answer = await saml.answer(browser, begun, saml.response(begun, org="globex"), org="globex")
    assert refused(answer)
    assert await refusals(control, "globex") == ["state_unknown"]


@pytest.mark.both_stores
async def test_a_login_has_to_end_in_time(saml: SamlProvider, browser: Browser, control: Control) -> None:
    begun = await browser.start()
    response = saml.response(begun)
    await change(control, sso_logins.update().values(expires_at=datetime.now(UTC)))
    assert refused(await saml.answer(browser, begun, response))
    assert await refusals(control) == ["state_unknown"]


@pytest.mark.both_stores
async def test_a_code_has_to_be_spent_in_time(saml: SamlProvider, browser: Browser, control: Control) -> None:
    code = await waiting_code(saml, browser)
    await change(control, sso_handoff_codes.update().values(expires_at=datetime.now(UTC)))
    assert refused(await browser.call("POST", "/sso/handoff", json=code))
    assert [data["reason"] for _, data in await audit(control, "sso.handoff")] == ["code_used_or_expired"]
    assert await count(control, sessions) == 0


async def test_a_code_of_a_disabled_account_is_worth_nothing(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    code = await waiting_code(saml, browser)
    ada = sa.select(sso_handoff_codes.c.principal_id).scalar_subquery()
    await change(control, principals.update().where(principals.c.id == ada).values(disabled_at=datetime.now(UTC)))
    assert refused(await browser.call("POST", "/sso/handoff", json=code))
    assert [data["reason"] for _, data in await audit(control, "sso.handoff")] == ["access_removed"]
    assert await count(control, sessions) == 0


@pytest.mark.both_stores
@pytest.mark.parametrize("changed", [{"enabled": False}, {"idp_entity_id": "https://other.example.com"}])
async def test_a_connection_that_changes_during_a_login_ends_it(
    changed: dict[str, Any], saml: SamlProvider, browser: Browser, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response was verified against what it was before."""
    begun = await browser.start()
    find_enabled = connection_repository.find_enabled

    async def found_before(*arguments: Any) -> Any:
        found = await find_enabled(*arguments)
        await change(control, sso_connections.update().values(changed))
        return found

    monkeypatch.setattr(connection_repository, "find_enabled", found_before)
    assert refused(await saml.answer(browser, begun, saml.response(begun)))
    assert await refusals(control) == ["connection_changed"]


@pytest.mark.both_stores
@pytest.mark.parametrize("changed", [None, {"enabled": False}, {"idp_entity_id": "https://other.example.com"}])
async def test_a_connection_that_changes_while_a_login_begins_ends_it(
    changed: dict[str, Any] | None,
    saml: SamlProvider,
    browser: Browser,
    control: Control,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """OpenID Connect waits for the metadata of the provider; the connection may be deleted (None) meanwhile."""
    await saml.connect()
    find_enabled = connection_repository.find_enabled

    async def found_before(*arguments: Any) -> Any:
        found = await find_enabled(*arguments)
        deleted = sso_connections.delete()
        await change(control, deleted if changed is None else sso_connections.update().values(changed))
        return found

    monkeypatch.setattr(connection_repository, "find_enabled", found_before)
    assert refused(await browser.call("GET", "/sso/saml/acme/start"))
    assert await refusals(control) == ["connection_changed"]
    assert await count(control, sso_logins) == 0


async def test_an_address_that_repeats_a_code_does_not_fill_the_audit_log(
    saml: SamlProvider, browser: Browser, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = await waiting_code(saml, browser)
    assert (await browser.call("POST", "/sso/handoff", json=code))[0] == 200
    admitted = iter([True, True, False])

    async def admits(_limits: RateLimits, limit: LimitClass, holder: str) -> bool:
        assert (limit, holder) == (LimitClass.SSO_REFUSAL, control.acme.organization.id)
        return next(admitted)

    monkeypatch.setattr(RateLimits, "admits", admits)
    for _ in range(3):
        assert refused(await browser.call("POST", "/sso/handoff", json=code))
    assert len(await audit(control, "sso.handoff_refuse")) == 2
    assert next(admitted, None) is None


ELSEWHERE = {"Sec-Fetch-Site": "cross-site"}


@pytest.mark.parametrize("kind", ["image", "iframe", "empty"])
async def test_pages_of_other_sites_neither_begin_nor_fail_logins(
    kind: str, saml: SamlProvider, browser: Browser, control: Control
) -> None:
    """Otherwise one page would use up the failures of everybody behind the address."""
    headers = {**ELSEWHERE, "Sec-Fetch-Dest": kind}
    for _ in range(30):
        assert refused(await browser.call("GET", "/sso/saml/acme/start", headers=headers))
        answer = await browser.call("POST", "/sso/saml/acme/acs", headers=headers, data={"SAMLResponse": "x"})
        assert refused(answer)
        assert refused(await browser.call("GET", "/sso/oidc/acme/callback?state=x", headers=headers))
    assert browser.cookies == {}
    assert await refusals(control) == []
    assert await count(control, sso_logins) == 0
    assert (await saml.log_in(browser))[0] == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none"])
async def test_a_browser_on_its_way_logs_in(site: str, saml: SamlProvider, browser: Browser) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
    status, _, started = await browser.call("GET", "/sso/saml/acme/start", headers=headers)
    assert status == 303
    begun = begun_at(started["Location"])
    form = {"SAMLResponse": saml.response(begun), "RelayState": begun.query["RelayState"]}
    assert (await browser.call("POST", "/sso/saml/acme/acs", headers=headers, data=form))[0] == 303
