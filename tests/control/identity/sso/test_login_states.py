"""What a login was begun for, and until when: its connection, its ten minutes, the minute of its code, and what changes
meanwhile.

What the routes of single sign-on answer whatever fails, and to whom.
"""

from datetime import UTC, datetime
from typing import Any, Final

import pytest
import sqlalchemy as sa
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from chassis.auth.tables import principals, sessions
from chassis.errors import ApiError, PayloadTooLarge, ServiceUnavailable, Unimplemented, UnsupportedMediaType
from chassis.limits.limiter import LimitClass
from chassis.limits.rate_limits import RateLimits
from control.identity.sso import connection_store
from control.identity.sso.login.browser import only_specified_statuses
from control.identity.sso.tables import sso_connections, sso_handoff_codes, sso_logins
from tests.control.conftest import Control
from tests.control.identity.sso.conftest import Browser, SamlProvider, audit, begun_at, refusals, refused


async def test_a_login_that_was_begun_elsewhere_is_unknown(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    """Both organizations have the same provider."""
    async with control.checks.database.write() as connection:
        row = dict((await connection.execute(sa.select(sso_connections))).mappings().one())
        row |= {"id": "sso_globex", "org_id": control.globex.organization.id}
        await connection.execute(sso_connections.insert().values(row))
    begun = await browser.start(org="acme")
    answer = await saml.answer(begun, saml.response(begun, org="globex"), org="globex")
    assert refused(answer)
    assert await refusals(control, "globex") == ["state_unknown"]


@pytest.mark.both_stores
async def test_a_login_has_to_end_in_time(saml: SamlProvider, browser: Browser, control: Control) -> None:
    begun = await browser.start()
    response = saml.response(begun)
    await control.execute(sso_logins.update().values(expires_at=datetime.now(UTC)))
    assert refused(await saml.answer(begun, response))
    assert await refusals(control) == ["state_unknown"]


@pytest.mark.both_stores
async def test_a_code_has_to_be_spent_in_time(saml: SamlProvider, browser: Browser, control: Control) -> None:
    code = await saml.handoff_code()
    await control.execute(sso_handoff_codes.update().values(expires_at=datetime.now(UTC)))
    assert refused(await browser.spend(code))
    assert [data["reason"] for _, data in await audit(control, "sso.handoff")] == ["code_used_or_expired"]
    assert await control.count(sessions) == 0


async def test_a_code_of_a_disabled_account_is_worth_nothing(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    code = await saml.handoff_code()
    ada = sa.select(sso_handoff_codes.c.principal_id).scalar_subquery()
    await control.execute(principals.update().where(principals.c.id == ada).values(disabled_at=datetime.now(UTC)))
    assert refused(await browser.spend(code))
    assert [data["reason"] for _, data in await audit(control, "sso.handoff")] == ["access_removed"]
    assert await control.count(sessions) == 0


CHANGES: Final[tuple[dict[str, Any], ...]] = ({"enabled": False}, {"idp_entity_id": "https://other.example.com"})


def changing(monkeypatch: pytest.MonkeyPatch, control: Control, statement: sa.Executable) -> None:
    """The connection changes as soon as it was read."""
    find_by_slug = connection_store.find_by_slug

    async def found_before(*arguments: Any) -> Any:
        found = await find_by_slug(*arguments)
        await control.execute(statement)
        return found

    monkeypatch.setattr(connection_store, "find_by_slug", found_before)


@pytest.mark.both_stores
async def test_a_connection_that_changes_during_a_login_ends_it(
    saml: SamlProvider, browser: Browser, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response was verified against what it was before."""
    for changed in CHANGES:
        begun = await browser.start()
        with monkeypatch.context() as meanwhile:
            changing(meanwhile, control, sso_connections.update().values(changed))
            assert refused(await saml.answer(begun, saml.response(begun))), changed
        await saml.connect()
    assert await refusals(control) == ["connection_changed"] * 2


async def test_a_connection_that_changes_while_a_login_begins_ends_it(
    saml: SamlProvider, browser: Browser, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenID Connect waits for the metadata of the provider; the connection may be deleted meanwhile."""
    for statement in (*(sso_connections.update().values(each) for each in CHANGES), sso_connections.delete()):
        with monkeypatch.context() as meanwhile:
            changing(meanwhile, control, statement)
            assert refused(await browser.call("GET", "/sso/saml/acme/start")), statement
        await saml.connect()
    assert await refusals(control) == ["connection_changed"] * 3
    assert await control.count(sso_logins) == 0


async def test_an_address_that_repeats_a_code_does_not_fill_the_audit_log(
    saml: SamlProvider, browser: Browser, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = await saml.handoff_code()
    assert (await browser.spend(code))[0] == 200
    admitted = iter([True, True, False])

    async def admits(_limits: RateLimits, limit: LimitClass, holder: str) -> bool:
        assert (limit, holder) == (LimitClass.SSO_REFUSAL, control.acme.organization.id)
        return next(admitted)

    monkeypatch.setattr(RateLimits, "admits", admits)
    for _ in range(3):
        assert refused(await browser.spend(code))
    assert len(await audit(control, "sso.handoff_refuse")) == 2
    assert next(admitted, None) is None


ELSEWHERE = {"Sec-Fetch-Site": "cross-site"}


async def test_pages_of_other_sites_neither_begin_nor_fail_logins(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    """Otherwise one page would use up the failures of everybody behind the address."""
    for kind in ("image", "iframe", "empty"):
        headers = {**ELSEWHERE, "Sec-Fetch-Dest": kind}
        for _ in range(10):
            assert refused(await browser.call("GET", "/sso/saml/acme/start", headers=headers))
            answer = await browser.call("POST", "/sso/saml/acme/acs", headers=headers, data={"SAMLResponse": "x"})
            assert refused(answer)
            assert refused(await browser.call("GET", "/sso/oidc/acme/callback?state=x", headers=headers))
    assert browser.cookies == {}
    assert await refusals(control) == []
    assert await control.count(sso_logins) == 0
    assert (await saml.log_in())[0] == 200


async def test_a_browser_on_its_way_logs_in(saml: SamlProvider, browser: Browser) -> None:
    for site in ("cross-site", "same-site", "same-origin", "none"):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
        status, _, started = await browser.call("GET", "/sso/saml/acme/start", headers=headers)
        assert status == 303
        begun = begun_at(started["Location"])
        form = {"SAMLResponse": saml.response(begun), "RelayState": begun.query["RelayState"]}
        assert (await browser.call("POST", "/sso/saml/acme/acs", headers=headers, data=form))[0] == 303, site


async def test_browsers_get_no_other_statuses_than_specified() -> None:
    """A client that is slow is no failure of ours."""
    errors: dict[ApiError, int] = {
        ServiceUnavailable("The body was not received in time.", close=True): 400,
        Unimplemented("The only supported Transfer-Encoding is chunked.", close=True): 400,
        PayloadTooLarge("The body is larger than 1 bytes."): 400,
        UnsupportedMediaType("The body must be a form or JSON.", close=True): 400,
        ServiceUnavailable("The database is unavailable."): 500,
    }
    for error, status in errors.items():

        @only_specified_statuses
        async def failing(_request: web.Request, error: ApiError = error) -> web.StreamResponse:
            raise error

        with pytest.raises(ApiError) as raised:
            await failing(make_mocked_request("POST", "/sso/saml/acme/acs"))
        assert (raised.value.status, raised.value.close) == (status, error.close)
