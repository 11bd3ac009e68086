"""`POST /auth/switch`: a session goes on in another organization of the same account, under the rules of a login."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.auth.tables import organizations, refresh_tokens, sessions
from control.identity.login.api import FEDERATED_ELSEWHERE
from control.identity.organizations import organization_store
from control.identity.users import session_store
from control.identity.users.session_store import REUSE_GRACE, SSO_REQUIRED
from proto.identity import Role, hash_secret
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson, Person, enrol

SWITCH = "/auth/switch"
COOKIE = "__Secure-sluice"
OF_THE_PAGE = {"Sec-Fetch-Site": "same-origin"}
NO_MEMBER = "You are not a member of that organization."


async def in_both(control: Control, person: NewPerson, email: str = "ada@example.org") -> Person:
    """A member of acme, in whose session she is, and an administrator of globex."""
    one = await person(email, verified=True)
    async with control.checks.database.write() as connection:
        await organization_store.add_membership(connection, control.globex.organization.id, one.id, Role.ADMIN)
    return one


@pytest.fixture
async def ada(control: Control, person: NewPerson) -> Person:
    return await in_both(control, person)


async def switch(control: Control, refresh: str, org: str = "globex") -> tuple[int, Any]:
    status, answer, _ = await control.call("POST", SWITCH, {"orgSlug": org, "refreshToken": refresh})
    return status, answer


async def whoami(control: Control, session: Any) -> tuple[int, Any]:
    status, me, _ = await control.call("GET", "/auth/whoami", token=session["tokens"]["accessToken"])
    return status, me


async def still_good(control: Control, refresh: str) -> bool:
    return (await control.call("POST", "/auth/refresh", {"refreshToken": refresh}))[0] == 200


async def enforce(control: Control, tenant: Tenant) -> None:
    of_tenant = organizations.c.id == tenant.organization.id
    await control.execute(organizations.update().where(of_tenant).values(sso_enforced=True))


async def audit(control: Control, tenant: Tenant) -> list[tuple[str, Any]]:
    path = f"/orgs/{tenant.organization.slug}/audit"
    _, page, _ = await control.call("GET", path, token=tenant.token.secret, params={"action": "session."})
    return [(one["action"], one["data"]) for one in reversed(page["data"])]


@pytest.mark.both_stores
async def test_a_session_goes_on_in_another_organization(control: Control, ada: Person) -> None:
    status, session = await switch(control, ada.refresh)
    assert status == 200
    status, me = await whoami(control, session)
    assert (status, me["organization"]["slug"], me["role"], me["principal"]["id"]) == (200, "globex", "ADMIN", ada.id)
    assert (await ada.call("GET", "/auth/user"))[0] == 401, "the session of before has ended"
    assert not await still_good(control, ada.refresh)
    assert (await control.call("GET", "/orgs/globex/audit", token=session["tokens"]["accessToken"]))[0] == 200
    status, back = await switch(control, session["tokens"]["refreshToken"], "acme")
    assert status == 200
    assert (await whoami(control, back))[1]["role"] == "MEMBER"
    assert await still_good(control, back["tokens"]["refreshToken"])
    start, end = ("session.start", {"methods": ["pwd"], "switched": True}), ("session.end", {"reason": "switch"})
    assert await audit(control, control.globex) == [start, end]
    assert await audit(control, control.acme) == [end, start]


@pytest.mark.both_stores
async def test_of_several_switches_at_once_one_is_answered(control: Control, ada: Person) -> None:
    answers = await asyncio.gather(*(switch(control, ada.refresh) for _ in range(4)))
    assert sorted(status for status, _ in answers) == [200, 401, 401, 401]
    (session,) = [body for status, body in answers if status == 200]
    assert (await whoami(control, session))[0] == 200


async def test_it_ends_when_the_session_would_have(control: Control, ada: Person) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    of_ada = sessions.c.principal_id == ada.id
    await control.execute(sessions.update().where(of_ada).values(expires_at=soon))
    assert (await switch(control, ada.refresh))[0] == 200
    assert await control.scalars(sa.select(sessions.c.expires_at).where(of_ada)) == [soon, soon]


async def test_only_to_an_organization_of_the_same_account(control: Control, person: NewPerson) -> None:
    """One that is not there and one of others look the same; the session goes on."""
    bob = await person("bob@example.org")
    for org in ("globex", "nowhere"):
        status, answer = await switch(control, bob.refresh, org)
        assert (status, answer["error"]["message"]) == (403, NO_MEMBER)
    for refresh in ("x", "ref_" + "0" * 49, "pat_" + "0" * 49):
        status, answer = await switch(control, refresh)
        assert (status, answer["error"]["message"]) == (401, "The refresh token is not valid.")
    assert await still_good(control, bob.refresh)
    assert (await bob.call("GET", "/auth/user"))[0] == 200


async def test_a_refusal_consumes_nothing(control: Control, ada: Person) -> None:
    """However late the token is used after it."""
    assert (await switch(control, ada.refresh, "nowhere"))[0] == 403
    used = sa.select(refresh_tokens.c.used_at).where(refresh_tokens.c.hash == hash_secret(ada.refresh))
    assert await control.scalars(used) == [None]
    assert (await switch(control, ada.refresh))[0] == 200


async def test_the_second_factor_comes_first(control: Control, ada: Person) -> None:
    app, _ = await enrol(ada)
    _, pending, _ = await ada.login(orgSlug="acme")
    refresh = pending["tokens"]["refreshToken"]
    status, answer = await switch(control, refresh)
    assert (status, answer["error"]["code"]) == (401, "mfa_required")
    code = {"code": app.at(time.time())}
    status, verified, _ = await control.call("POST", "/auth/totp/verify", code, pending["tokens"]["accessToken"])
    assert status == 200
    status, session = await switch(control, verified["tokens"]["refreshToken"])
    assert status == 200
    status, me = await whoami(control, session)
    assert (status, me["organization"]["slug"], me["mfaPending"]) == (200, "globex", False)
    assert (await audit(control, control.globex))[-1] == (
        "session.start",
        {"methods": ["pwd", "otp"], "switched": True},
    )


async def test_an_organization_that_requires_single_sign_on(control: Control, ada: Person) -> None:
    await enforce(control, control.globex)
    status, answer = await switch(control, ada.refresh)
    assert (status, answer["error"]["message"]) == (403, SSO_REQUIRED)
    async with control.checks.database.write() as connection:  # the one owner with a password keeps a way in
        await organization_store.set_role(connection, control.globex.organization.id, ada.id, Role.OWNER)
    assert (await switch(control, ada.refresh))[0] == 200
    assert (await audit(control, control.globex))[-1] == (
        "session.start",
        {"methods": ["pwd"], "switched": True, "breakGlass": True},
    )


async def test_what_a_provider_says_is_not_said_elsewhere(control: Control, ada: Person) -> None:
    """Whoever administers one organization chooses its provider: it must not open another one."""
    for methods in (("fed",), ("fed", "mfa"), ("fed", "otp")):
        async with control.checks.database.write() as connection:
            issued = await session_store.start(
                connection, control.acme.organization.id, ada.id, methods, datetime.now(UTC)
            )
        for org in ("globex", "nowhere"):
            status, answer = await switch(control, issued.refresh_token, org)
            assert (status, answer["error"]["message"]) == (403, FEDERATED_ELSEWHERE)
        assert await still_good(control, issued.refresh_token)


async def test_a_session_that_may_not_go_on_does_not_go_on_elsewhere(control: Control, person: NewPerson) -> None:
    for how in ("removed", "disabled", "ended", "enforced"):
        one = await in_both(control, person, f"{how}@example.org")
        if how == "removed":
            assert (await control.call("DELETE", f"/orgs/acme/members/{one.id}"))[0] == 204
        elif how == "disabled":
            async with control.checks.database.write() as connection:
                await organization_store.disable_principal(connection, one.id)
        elif how == "ended":
            assert (await control.call("POST", "/auth/logout", {"refreshToken": one.refresh}))[0] == 204
        else:
            await enforce(control, control.acme)
        assert (await switch(control, one.refresh))[0] == 401, how
        assert await audit(control, control.globex) == []
        revoked = sa.select(sessions.c.revoked_at).where(sessions.c.principal_id == one.id)
        assert None not in await control.scalars(revoked), how


async def test_a_token_that_was_used_before_ends_the_session(control: Control, ada: Person) -> None:
    _, refreshed, _ = await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh})
    own = refresh_tokens.c.hash == hash_secret(ada.refresh)
    earlier = datetime.now(UTC) - REUSE_GRACE - timedelta(seconds=1)
    await control.execute(refresh_tokens.update().where(own).values(used_at=earlier))
    assert (await switch(control, ada.refresh))[0] == 401
    assert (await switch(control, refreshed["tokens"]["refreshToken"]))[0] == 401
    assert await audit(control, control.acme) == [("session.end", {"reason": "a refresh token was used twice"})]


async def test_by_the_cookie_of_the_page(control: Control, ada: Person) -> None:
    cookie, body = {"Cookie": f"{COOKIE}={ada.refresh}"}, {"orgSlug": "globex", "cookie": True}
    for origin in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        assert (await control.call("POST", SWITCH, body, headers=cookie | origin))[0] == 403
    assert (await control.call("POST", SWITCH, {"orgSlug": "globex"}, headers=cookie | OF_THE_PAGE))[0] == 400
    both = body | {"refreshToken": ada.refresh}
    assert (await control.call("POST", SWITCH, both, headers=cookie | OF_THE_PAGE))[0] == 400
    assert (await control.call("POST", SWITCH, body, headers=OF_THE_PAGE))[0] == 401
    status, session, headers = await control.call("POST", SWITCH, body, headers=cookie | OF_THE_PAGE)
    assert (status, session["tokens"]["refreshToken"]) == (200, "")
    kept = SimpleCookie(headers["Set-Cookie"])[COOKIE]
    assert (kept["path"], kept["secure"], kept["httponly"], kept["samesite"]) == ("/auth", True, True, "Strict")
    again = {"Cookie": f"{COOKIE}={kept.value}"} | OF_THE_PAGE
    status, session, _ = await control.call("POST", "/auth/refresh", {"cookie": True}, headers=again)
    assert status == 200
    assert (await whoami(control, session))[1]["organization"]["slug"] == "globex"


@pytest.mark.chassis_settings(refresh_rate=1)
async def test_switches_are_limited_by_user(control: Control, person: NewPerson) -> None:
    """Each makes another session, so a limit by session would be none."""
    bob = await person("bob@example.org")
    status, session = await switch(control, bob.refresh, "acme")
    assert status == 200
    refresh = session["tokens"]["refreshToken"]
    assert (await switch(control, refresh, "acme"))[0] == 429
    assert await still_good(control, refresh)
