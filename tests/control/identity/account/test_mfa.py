"""The second factor: owed until shown, once per step, and what stands in for it."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from chassis.auth.tables import recovery_codes, users
from control.audit.tables import audit_events
from control.identity.users.passwords import Passwords
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol


async def test_proposed_factor_is_not_required_until_confirmed(ada: Person) -> None:
    for path in ("confirm", "verify"):
        assert (await ada.call("POST", f"/auth/totp/{path}", {"code": "123456"}))[0] == 409
    assert (await ada.call("POST", "/auth/totp", {"password": "wrong"}))[0] == 403
    status, first, _ = await ada.call("POST", "/auth/totp", {"password": PASSWORD})
    assert (status, list(first)) == (201, ["secret", "uri"])
    assert first["uri"] == f"otpauth://totp/Sluice:ada@example.org?secret={first['secret']}&issuer=Sluice"
    status, second, _ = await ada.call("POST", "/auth/totp", {"password": PASSWORD})
    assert second["secret"] != first["secret"]
    assert (await ada.call("POST", "/auth/totp/confirm", {"code": "abcdef"}))[0] == 403
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 200
    assert (await ada.login())[1]["user"]["mfaEnabled"] is False
    await enrol(ada)
    for path, body in (("totp", {"password": PASSWORD}), ("totp/confirm", {"code": "123456"})):
        assert (await ada.call("POST", f"/auth/{path}", body))[0] == 409


async def test_pending_session_can_only_verify_the_factor(control: Control, ada: Person) -> None:
    before = await again(ada)
    app, _ = await enrol(ada)
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 200, "it has just shown it"
    owing = await again(ada)
    for debtor in (before, owing):
        for method, path in (
            ("GET", "/orgs/acme/projects"),
            ("GET", "/orgs/globex/projects"),
            ("GET", "/auth/user"),
            ("POST", "/auth/totp"),
            ("POST", "/auth/totp/disable"),
            ("POST", "/auth/password"),
        ):
            status, body, headers = await debtor.call(method, path, {} if method == "POST" else None)
            assert (status, body["error"]["code"]) == (401, "mfa_required"), path
            assert headers["WWW-Authenticate"] == "Bearer"
        status, me, _ = await debtor.call("GET", "/auth/whoami")
        principal = {"id": ada.id, "kind": "user", "name": "Ada"}
        assert (status, me) == (200, {"principal": principal, "session": True, "mfaPending": True})
    status, refreshed, _ = await control.call("POST", "/auth/refresh", {"refreshToken": owing.refresh})
    assert status == 200
    owing.access = refreshed["tokens"]["accessToken"]
    assert (await owing.call("GET", "/auth/user"))[0] == 401, "it still owes"
    status, shown, _ = await owing.call("POST", "/auth/totp/verify", {"code": app.now()})
    assert (status, list(shown), shown["user"]["mfaEnabled"]) == (200, ["tokens", "user"], True)
    assert (await control.call("GET", "/orgs/acme/projects", token=shown["tokens"]["accessToken"]))[0] == 200
    assert (await before.call("GET", "/auth/user"))[0] == 401, "what one session has shown is not another's"


async def test_verification_invalidates_earlier_tokens(control: Control, ada: Person) -> None:
    _, codes = await enrol(ada)
    owing = await again(ada)
    _, refreshed, _ = await control.call("POST", "/auth/refresh", {"refreshToken": owing.refresh})
    _, shown, _ = await owing.call("POST", "/auth/totp/verify", {"code": codes[0]})
    for old in (owing.refresh, refreshed["tokens"]["refreshToken"]):
        assert (await control.call("POST", "/auth/refresh", {"refreshToken": old}))[0] == 401, "there is no grace"
    for old in (owing.access, refreshed["tokens"]["accessToken"]):
        status, body, _ = await control.call("GET", "/auth/user", token=old)
        assert (status, body["error"]["code"]) == (401, "unauthorized")
        assert (await control.call("POST", "/auth/totp/verify", {"code": codes[1]}, old))[0] == 401
    status, later, _ = await control.call("POST", "/auth/refresh", {"refreshToken": shown["tokens"]["refreshToken"]})
    assert status == 200
    assert (await control.call("GET", "/auth/user", token=later["tokens"]["accessToken"]))[0] == 200


async def test_only_one_of_several_concurrent_verifications_succeeds(control: Control, ada: Person) -> None:
    _, codes = await enrol(ada)
    owing = await again(ada)
    answers = await asyncio.gather(*(owing.call("POST", "/auth/totp/verify", {"code": one}) for one in codes[:4]))
    assert sorted(status for status, _, _ in answers) == [200, 401, 401, 401]
    used = sa.select(recovery_codes.c.hash).where(recovery_codes.c.used_at.is_not(None))
    assert len(await control.scalars(used)) == 1, "the others were not spent"


async def test_login_accepts_a_code(control: Control, ada: Person) -> None:
    assert (await ada.login(totp="123456"))[0] == 200, "without a factor it is ignored"
    app, _ = await enrol(ada)
    code = app.now()
    assert (await ada.login(totp=wrong(code)))[0] == 401
    status, body, _ = await ada.login(totp=code)
    assert status == 200
    assert (await control.call("GET", "/auth/user", token=body["tokens"]["accessToken"]))[0] == 200
    assert (await ada.login(totp=code))[0] == 401, "a step is accepted once"


async def test_steps_are_accepted_in_order(ada: Person) -> None:
    app, _ = await enrol(ada)
    late = (await ada.login(totp=app.at(time.time() + 30)))[0]
    early = (await ada.login(totp=app.now()))[0]
    assert (late, early) == (200, 401)
    assert (await ada.login(totp=app.at(time.time() + 120)))[0] == 401, "and none of a time to come"


async def test_code_failures_count_with_password_failures(ada: Person) -> None:
    app, _ = await enrol(ada)
    owing = await again(ada)
    statuses = []
    for number in range(6):
        code = wrong(app.now(), number + 1)
        status, body, _ = await owing.call("POST", "/auth/totp/verify", {"code": code})
        statuses.append((status, body["error"]["code"]))
    assert statuses == [(401, "unauthorized")] * 5 + [(429, "rate_limited")]
    assert (await ada.login(totp=app.now()))[0] == 429


@pytest.mark.chassis_settings(failed_bearer_rate=3)
async def test_wrong_code_of_a_login_counts_once_for_the_address(ada: Person) -> None:
    """Although it counts for the login and for the account."""
    app, codes = await enrol(ada)
    assert [(await ada.login(totp=wrong(app.now())))[0] for _ in range(2)] == [401, 401]
    assert (await ada.login(totp=codes[0]))[0] == 200


@pytest.mark.both_stores
async def test_recovery_code_can_be_used_once(control: Control, ada: Person) -> None:
    _, codes = await enrol(ada)
    assert (len(codes), len(set(codes)), {len(code) for code in codes}) == (10, 10, {17})
    assert (await ada.login(totp=codes[0].upper().replace("-", "")))[0] == 200
    assert (await ada.login(totp=codes[0]))[0] == 401
    owing = await again(ada)
    assert (await owing.call("POST", "/auth/totp/verify", {"code": codes[1]}))[0] == 200
    used = sa.select(recovery_codes.c.hash).where(recovery_codes.c.used_at.is_not(None))
    assert len(await control.scalars(used)) == 2


async def test_disabling_requires_password_and_code(control: Control, ada: Person) -> None:
    app, codes = await enrol(ada)
    path = "/auth/totp/disable"
    for body, expected in (
        ({"password": "wrong", "code": codes[0]}, 403),
        ({"password": PASSWORD, "code": wrong(app.now())}, 403),
        ({"password": PASSWORD, "code": codes[0]}, 204),
        ({"password": PASSWORD, "code": codes[1]}, 409),
    ):
        assert (await ada.call("POST", path, body))[0] == expected, body
    status, user, _ = await (await again(ada)).call("GET", "/auth/user")
    assert (status, user["mfaEnabled"]) == (200, False)
    assert await control.count(recovery_codes) == 0


@pytest.mark.both_stores
async def test_proposal_overtaken_by_a_confirmation_is_409(
    control: Control, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = await enrol(ada)
    await control.execute(users.update().values(totp_confirmed_at=None))
    matches = Passwords.matches

    async def slow(self: Passwords, stored: str | None, password: str) -> bool:
        await control.execute(users.update().values(totp_confirmed_at=datetime.now(UTC)))
        return await matches(self, stored, password)

    monkeypatch.setattr(Passwords, "matches", slow)
    assert (await ada.call("POST", "/auth/totp", {"password": PASSWORD}))[0] == 409
    monkeypatch.undo()
    assert (await ada.login(totp=app.now()))[0] == 200, "the secret is the one that was confirmed"


async def test_account_changes_are_audited_in_every_organization(control: Control, person: NewPerson) -> None:
    ada = await person(verified=True)
    await person(org="globex", existing=True)
    _, codes = await enrol(ada)
    new = "another horse battery"
    assert (await ada.call("POST", "/auth/password", {"current": PASSWORD, "password": new}))[0] == 204
    assert (await ada.call("POST", "/auth/totp/disable", {"password": new, "code": codes[0]}))[0] == 204
    assert (await ada.call("PATCH", "/auth/user", {"name": "Eve"}))[0] == 200
    done = [
        "second_factor.propose", "second_factor.enable", "user.password", "second_factor.disable", "user.update",
    ]  # fmt: skip
    for tenant, knows_session in ((control.acme, True), (control.globex, False)):
        async with control.checks.database.read() as connection:
            found = sa.select(audit_events).where(
                audit_events.c.org_id == tenant.organization.id, audit_events.c.object_id == ada.id
            )
            told = (await connection.execute(found.order_by(audit_events.c.seq))).all()
        assert [event.action for event in told] == done
        assert all(event.actor_id == ada.id and (event.token_id is not None) is knows_session for event in told)


async def test_personal_access_tokens_cannot_manage_accounts(control: Control) -> None:
    for method, path in (("GET", "/auth/user"), ("POST", "/auth/totp"), ("POST", "/auth/totp/verify")):
        status, body, _ = await control.call(method, path, {} if method == "POST" else None)
        assert (status, body["error"]["code"]) == (403, "forbidden")
    assert (await control.client.get("/auth/user")).status == 401


async def test_totp_secret_is_stored_encrypted_only(control: Control, ada: Person) -> None:
    app, codes = await enrol(ada)
    secret = app.byte_secret()
    async with control.checks.database.read() as connection:
        sealed = await connection.scalar(sa.select(users.c.totp_secret))
        told = (await connection.execute(sa.select(audit_events))).all()
        hashes = (await connection.scalars(sa.select(recovery_codes.c.hash))).all()
    assert sealed is not None
    assert secret not in bytes(sealed)
    assert app.secret not in repr(told)
    assert not any(code in repr(told) or code.encode() in hashes for code in codes)


async def again(person: Person) -> Person:
    """In another session, which owes the second factor."""
    status, body, _ = await person.login()
    assert status == 200, body
    return replace(person, access=body["tokens"]["accessToken"], refresh=body["tokens"]["refreshToken"])


def wrong(code: str, by: int = 1) -> str:
    """Another code. That it is by chance the one of a step nearby happens once in half a million times."""
    return f"{(int(code) + 111_111 * by) % 1_000_000:06}"
