"""What a browser logs in with, a one-time code and a refresh token that no script can read; and which processes notice
that a session has ended.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from typing import Any

import pytest

from control.identity.organizations import organization_store
from control.identity.users import login_store, user_store
from control.identity.users.login_store import CODE_LIFETIME, login_codes
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol

COOKIE = "__Secure-sluice"
OF_THE_PAGE = {"Sec-Fetch-Site": "same-origin"}


async def new_code(control: Control, principal_id: str, *, age: timedelta = timedelta()) -> str:
    async with control.checks.database.write() as connection:
        org_id = control.acme.organization.id
        return await login_store.create_code(connection, org_id, principal_id, datetime.now(UTC) - age)


def cookie_of(headers: Any) -> Any:
    return SimpleCookie(headers["Set-Cookie"])[COOKIE]


@pytest.mark.both_stores
async def test_a_code_is_good_once_whoever_comes_first(control: Control, ada: Person) -> None:
    code = await new_code(control, ada.id)
    answers = await asyncio.gather(*(control.call("POST", "/auth/exchange", {"code": code}) for _ in range(4)))
    assert sorted(status for status, _, _ in answers) == [200, 401, 401, 401]
    (session,) = [body for status, body, _ in answers if status == 200]
    assert session["user"]["id"] == ada.id
    token = session["tokens"]["accessToken"]
    status, me, _ = await control.call("GET", "/auth/whoami", token=token)
    assert (status, me["session"], me["principal"]["id"]) == (200, True, ada.id)


async def test_codes_expire_and_are_deleted(control: Control, ada: Person) -> None:
    code = await new_code(control, ada.id, age=CODE_LIFETIME)
    assert (await control.call("POST", "/auth/exchange", {"code": code}))[0] == 401
    await new_code(control, ada.id)
    assert await control.count(login_codes) == 1
    assert (await control.call("POST", "/auth/exchange", {"code": "x" * 43}))[0] == 401


async def test_a_code_of_somebody_who_is_gone(control: Control, ada: Person) -> None:
    code = await new_code(control, ada.id)
    assert (await control.call("DELETE", f"/orgs/acme/members/{ada.id}"))[0] == 204
    assert (await control.call("POST", "/auth/exchange", {"code": code}))[0] == 401


async def test_the_refresh_token_in_a_cookie(control: Control, ada: Person) -> None:
    body = {"email": ada.email, "password": PASSWORD, "cookie": True}
    status, session, headers = await control.call("POST", "/auth/login", body, headers=OF_THE_PAGE)
    assert (status, session["tokens"]["refreshToken"]) == (200, "")
    cookie = cookie_of(headers)
    assert (cookie["path"], cookie["secure"], cookie["httponly"], cookie["samesite"]) == ("/auth", True, True, "Strict")
    first = {"Cookie": f"{COOKIE}={cookie.value}"} | OF_THE_PAGE
    status, refreshed, headers = await control.call("POST", "/auth/refresh", {"cookie": True}, headers=first)
    assert (status, refreshed["tokens"]["refreshToken"]) == (200, "")
    second = {"Cookie": f"{COOKIE}={cookie_of(headers).value}"} | OF_THE_PAGE
    status, _, headers = await control.call("POST", "/auth/logout", {"cookie": True}, headers=second)
    assert (status, cookie_of(headers).value) == (204, "")
    for number in range(40):  # a browser that comes back counts as no failure of its address, and forgets the cookie
        ended = {"Cookie": f"{COOKIE}=ref_{number:043}"} | OF_THE_PAGE
        status, _, headers = await control.call("POST", "/auth/refresh", {"cookie": True}, headers=ended)
        assert (status, cookie_of(headers).value, cookie_of(headers)["max-age"]) == (401, "", "0")
    assert (await control.call("POST", "/auth/refresh", {"cookie": True}, headers=OF_THE_PAGE))[0] == 401


async def test_a_verified_second_factor_replaces_the_cookie(control: Control, ada: Person) -> None:
    app, _ = await enrol(ada)
    body = {"email": ada.email, "password": PASSWORD, "cookie": True}
    _, owing, headers = await control.call("POST", "/auth/login", body, headers=OF_THE_PAGE)
    before = {"Cookie": f"{COOKIE}={cookie_of(headers).value}"} | OF_THE_PAGE
    token = owing["tokens"]["accessToken"]
    code = {"code": app.now(), "cookie": True}
    assert (await control.call("POST", "/auth/totp/verify", code, token=token))[0] == 403
    status, shown, headers = await control.call("POST", "/auth/totp/verify", code, token=token, headers=OF_THE_PAGE)
    assert (status, shown["tokens"]["refreshToken"]) == (200, "")
    after = {"Cookie": f"{COOKIE}={cookie_of(headers).value}"} | OF_THE_PAGE
    assert (await control.call("POST", "/auth/refresh", {"cookie": True}, headers=before))[0] == 401
    assert (await control.call("POST", "/auth/refresh", {"cookie": True}, headers=after))[0] == 200


async def test_whoever_accepts_an_invitation_gets_the_cookie(control: Control) -> None:
    invited = {"email": "grace@example.org", "role": "MEMBER"}
    _, made, _ = await control.call("POST", "/orgs/acme/invitations", invited)
    body = {"inviteToken": made["inviteToken"], "name": "Grace", "password": PASSWORD, "cookie": True}
    assert (await control.call("POST", "/auth/invitations/accept", body))[0] == 403
    status, joined, headers = await control.call("POST", "/auth/invitations/accept", body, headers=OF_THE_PAGE)
    assert (status, joined["tokens"]["refreshToken"]) == (201, "")
    cookie = {"Cookie": f"{COOKIE}={cookie_of(headers).value}"} | OF_THE_PAGE
    assert (await control.call("POST", "/auth/refresh", {"cookie": True}, headers=cookie))[0] == 200


async def test_another_page_gets_nothing_by_the_cookie(control: Control, ada: Person) -> None:
    cookie = {"Cookie": f"{COOKIE}={ada.refresh}"}
    for origin in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        for path, body in (
            ("/auth/refresh", {"cookie": True}),
            ("/auth/logout", {"cookie": True}),
            ("/auth/login", {"email": ada.email, "password": PASSWORD, "cookie": True}),
            ("/auth/exchange", {"code": await new_code(control, ada.id), "cookie": True}),
        ):
            assert (await control.call("POST", path, body, headers=cookie | origin))[0] == 403, (path, origin)
    assert (await control.call("POST", "/auth/refresh", {}, headers=cookie | OF_THE_PAGE))[0] == 400
    both = {"cookie": True, "refreshToken": ada.refresh}
    assert (await control.call("POST", "/auth/refresh", both, headers=cookie | OF_THE_PAGE))[0] == 400
    assert (await control.call("GET", "/auth/user", token="none", headers=cookie | OF_THE_PAGE))[0] == 401
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh}))[0] == 200


async def test_whoami_tells_who_asks_and_in_which_organization(control: Control, person: NewPerson) -> None:
    status, me, _ = await control.call("GET", "/auth/whoami")
    assert status == 200
    assert (me["role"], me["session"], me["mfaPending"]) == ("OWNER", False, False)
    assert me["organization"] == {"id": control.acme.organization.id, "slug": "acme", "name": "Acme"}
    assert [project["slug"] for project in me["projects"]] == ["web"]
    assert "explore:read" in me["scopes"]
    ada = await person()
    status, me, _ = await ada.call("GET", "/auth/whoami")
    assert (status, me["role"], me["session"], me["passwordSet"]) == (200, "MEMBER", True, True)
    assert me["principal"] == {"id": ada.id, "kind": "user", "name": "Ada", "email": "ada@example.org"}
    assert (await control.call("GET", "/auth/whoami", token="none"))[0] == 401


async def test_the_first_password(control: Control) -> None:
    """Of an owner without one, in a session by a code; afterwards only with the current one."""
    async with control.checks.database.write() as connection:
        await user_store.create_account(
            connection, control.acme.owner_id, "owner@sluice.invalid", control.acme.organization.id
        )
    code = await new_code(control, control.acme.owner_id)
    session = (await control.call("POST", "/auth/exchange", {"code": code}))[1]
    token = session["tokens"]["accessToken"]
    assert (await control.call("GET", "/auth/whoami", token=token))[1]["passwordSet"] is False
    assert (await control.call("POST", "/auth/password", {"password": PASSWORD}, token))[0] == 204
    assert (await control.call("POST", "/auth/password", {"password": "another horse"}, token))[0] == 403
    login = {"email": "owner@sluice.invalid", "password": PASSWORD}
    assert (await control.call("POST", "/auth/login", login))[0] == 200


async def count_lookups(control: Control) -> float:
    """How often a credential or a project was looked up."""
    async with control.client.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    counted = [line for line in lines if line.startswith("sluice_identity_lookups_total") and '"fetched"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in counted)


async def test_change_invalidates_only_its_own_organization(control: Control) -> None:
    globex = control.globex.token.secret
    assert (await control.call("GET", "/orgs/acme/projects/web"))[0] == 200
    await control.call("POST", "/orgs/globex/projects", {"slug": "api", "name": "API"}, globex)
    before = await count_lookups(control)
    assert (await control.call("GET", "/orgs/acme/projects/web"))[0] == 200
    assert await count_lookups(control) == before
    await control.call("POST", "/orgs/acme/projects", {"slug": "api", "name": "API"})
    assert (await control.call("GET", "/orgs/acme/projects/web"))[0] == 200
    assert await count_lookups(control) > before


async def test_logout_of_an_ended_session_invalidates_nothing(control: Control, ada: Person) -> None:
    other = (await ada.login())[1]["tokens"]["accessToken"]
    gone = {"refreshToken": ada.refresh}
    assert (await control.call("POST", "/auth/logout", gone))[0] == 204
    assert (await ada.call("GET", "/auth/user"))[0] == 401, "at once"
    assert (await control.call("GET", "/auth/user", token=other))[0] == 200
    before = await count_lookups(control)
    for secret in (gone, {"refreshToken": ada.refresh[::-1]}):
        assert (await control.call("POST", "/auth/logout", secret))[0] == 204
        assert (await control.call("GET", "/auth/user", token=other))[0] == 200
    assert await count_lookups(control) == before


async def test_session_ended_by_a_refresh_is_rejected_at_once(control: Control, ada: Person) -> None:
    async with control.checks.database.write() as connection:
        await organization_store.remove_membership(connection, control.acme.organization.id, ada.id)
    assert (await ada.call("GET", "/auth/user"))[0] == 200
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh}))[0] == 401
    assert (await ada.call("GET", "/auth/user"))[0] == 401
