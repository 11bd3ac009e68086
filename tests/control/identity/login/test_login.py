"""Log in, go on, log out: what a session is good for, and when it ends."""

import asyncio
import base64
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher
from joserfc import jwt
from joserfc.jwk import KeySet

from chassis.auth.jwt import JwtSigner
from chassis.auth.tables import refresh_tokens, sessions, signing_keys, users
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LocalLimiter
from chassis.limits.redis import RedisLimiter
from chassis.redis import open_redis
from control.audit.tables import audit_events
from control.identity.login.credentials import KeyWithdrawn, SessionIssuer
from control.identity.organizations import organization_store
from control.identity.users.passwords import Passwords
from proto.identity import Role
from tests.control.conftest import Control
from tests.control.identity.accounts import accept, invite
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol

TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


async def test_login_response_has_the_specified_shape(ada: Person) -> None:
    status, body, headers = await ada.login(email="aDA@example.ORG")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert list(body) == ["tokens", "user"]
    assert list(body["tokens"]) == ["accessToken", "refreshToken", "expiresIn", "tokenType"]
    assert (body["tokens"]["expiresIn"], body["tokens"]["tokenType"]) == (900, "Bearer")
    created = body["user"].pop("createdAt")
    assert TIME.fullmatch(created)
    assert body["user"] == {
        "id": ada.id,
        "email": "ada@example.org",
        "name": "Ada",
        "avatarUrl": None,
        "locale": "en",
        "theme": "system",
        "emailVerified": False,
        "mfaEnabled": False,
    }


async def test_access_token_is_a_jwt_verifiable_with_public_keys(control: Control, ada: Person) -> None:
    status, keys, headers = await control.call("GET", "/auth/keys")
    assert (status, headers["Cache-Control"]) == (200, "public, max-age=300")
    assert [sorted(key) for key in keys["keys"]] == [["alg", "crv", "kid", "kty", "use", "x"]]
    token = jwt.decode(ada.access, KeySet.import_key_set(keys), algorithms=["Ed25519"])
    assert token.header == {"alg": "Ed25519", "typ": "at+jwt", "kid": keys["keys"][0]["kid"]}
    said = {name: token.claims[name] for name in ("sub", "org", "amr")}
    assert said == {"sub": ada.id, "org": control.acme.organization.id, "amr": ["pwd"]}
    assert token.claims["exp"] - token.claims["iat"] == 900


async def test_key_set_is_cached_for_five_seconds(control: Control) -> None:
    now = 100.0
    issuer = SessionIssuer(JwtSigner.from_seed(bytes(32)), control.checks.database, lambda: now)
    await issuer.ensure_key_published()
    assert issuer.signer.public in await issuer.trusted_keys()
    await control.execute(signing_keys.delete())
    now += 4.9
    assert issuer.signer.public in await issuer.trusted_keys()
    now += 0.1
    assert issuer.signer.public not in await issuer.trusted_keys()


@pytest.mark.background
@pytest.mark.both_stores
async def test_signing_key_is_published_before_the_first_login(control: Control) -> None:
    async with asyncio.timeout(10):
        while not await control.count(signing_keys):
            await asyncio.sleep(0.01)


async def test_withdrawn_key_starts_no_session(control: Control, ada: Person) -> None:
    issuer = SessionIssuer(JwtSigner.from_seed(bytes(32)), control.checks.database)
    await issuer.ensure_key_published()
    await control.execute(signing_keys.update().values(withdrawn_at=datetime.now(UTC)))
    with pytest.raises(KeyWithdrawn):
        await issuer.publish()
    with pytest.raises(KeyWithdrawn):
        await issuer.ensure_key_published()
    assert (await control.call("GET", "/auth/keys"))[1] == {"keys": []}
    control.checks.bearer._jwt._keys.invalidate_all()
    assert (await ada.call("GET", "/auth/user"))[0] == 401


async def test_withdrawn_key_is_noticed_within_five_seconds(control: Control) -> None:
    """And not within an hour, when it says again that the key is in use."""
    now = 100.0
    issuer = SessionIssuer(JwtSigner.from_seed(bytes(32)), control.checks.database, lambda: now)
    await issuer.ensure_key_published()
    await control.execute(signing_keys.update().values(withdrawn_at=datetime.now(UTC)))
    now += 4.9
    await issuer.ensure_key_published()
    now += 0.1
    with pytest.raises(KeyWithdrawn):
        await issuer.ensure_key_published()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is started after this asks each time whether its key is believed."""
    monkeypatch.setattr("control.identity.login.credentials.FRESH_S", 0.0)


@pytest.mark.both_stores
async def test_withdrawn_key_refreshes_no_session_and_consumes_no_token(
    impatient: None, control: Control, ada: Person
) -> None:
    await control.execute(signing_keys.update().values(withdrawn_at=datetime.now(UTC)))
    status, answer, _ = await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh})
    assert (status, answer["error"]["message"]) == (
        503,
        "No session can be issued: the signing key was withdrawn. The operator must replace the key.",
    )
    assert (await ada.login())[0] == 503
    assert (await control.call("GET", "/auth/keys"))[:2] == (200, {"keys": []})
    assert await control.scalars(sa.select(refresh_tokens.c.used_at)) == [None]


async def test_session_has_the_scopes_of_its_users_role(control: Control, person: NewPerson) -> None:
    ada = await person(role="VIEWER")
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 200
    assert (await ada.call("POST", "/orgs/acme/projects", {"slug": "x", "name": "x"}))[0] == 403
    assert (await ada.call("GET", "/orgs/globex/projects"))[0] == 404
    async with control.checks.database.write() as connection:
        await organization_store.set_role(connection, control.acme.organization.id, ada.id, Role.ADMIN)
    control.checks.bearer.invalidate_all()
    assert (await ada.call("POST", "/orgs/acme/projects", {"slug": "x", "name": "x"}))[0] == 201


async def test_wrong_password_and_unknown_account_get_the_same_response(ada: Person) -> None:
    for change in ({"password": "wrong horse battery"}, {"email": "eve@example.org"}, {"password": PASSWORD + " "}):
        status, answer, headers = await ada.login(**change)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert answer["error"] | {"requestId": ""} == {
            "code": "unauthorized",
            "message": "The e-mail address, the password, the second factor or the organization is not valid.",
            "requestId": "",
        }


async def test_five_failures_lock_the_account_for_the_right_password_too(control: Control, person: NewPerson) -> None:
    ada = await person(verified=True)
    await person("bob@example.org")
    for _ in range(4):
        assert (await ada.login(password="wrong"))[0] == 401
    assert (await ada.login())[0] == 200, "what is right is not counted"
    assert (await ada.login(password="wrong"))[0] == 401
    status, body, headers = await ada.login()
    assert (status, body["error"]["code"]) == (429, "rate_limited")
    assert 0 < int(headers["Retry-After"]) <= 180
    assert (headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]) == ("5", "0")
    assert (await control.call("POST", "/auth/login", {"email": "bob@example.org", "password": PASSWORD}))[0] == 200


async def test_unknown_account_is_locked_like_any_other(control: Control) -> None:
    for number, named in enumerate(({}, {"orgSlug": "acme"}, {"orgSlug": "nowhere"})):
        body = {"email": f"nobody{number}@example.org", "password": "wrong"} | named
        answers = [(await control.call("POST", "/auth/login", body))[0] for _ in range(7)]
        assert answers == [401] * 5 + [429] * 2, named


async def test_parallel_attempts_get_no_additional_guesses(ada: Person) -> None:
    answers = await asyncio.gather(*(ada.login(password="wrong") for _ in range(12)))
    assert sorted(status for status, _, _ in answers) == [401] * 5 + [429] * 7


async def test_user_of_several_organizations_selects_one(control: Control, person: NewPerson) -> None:
    ada = await person(verified=True)
    await person(org="globex", role="VIEWER", existing=True)
    status, body, _ = await ada.login()
    assert status == 400
    assert body["error"]["details"] == [
        {
            "path": "body.orgSlug",
            "message": "Must be the slug of one of your organizations: acme, globex.",
            "code": "missing",
        }
    ]
    status, body, _ = await ada.login(orgSlug="globex")
    assert status == 200
    assert (await control.call("GET", "/orgs/globex/projects", token=body["tokens"]["accessToken"]))[0] == 200
    assert (await control.call("GET", "/orgs/acme/projects", token=body["tokens"]["accessToken"]))[0] == 404
    assert (await ada.login(orgSlug="initech"))[0] == 401


async def test_organizations_are_listed_only_after_full_authentication(person: NewPerson) -> None:
    ada = await person(verified=True)
    await person(org="globex", role="VIEWER", existing=True)
    app, codes = await enrol(ada)
    status, body, _ = await ada.login()
    assert (status, body["error"]["details"][0]["message"]) == (400, "Must be the slug of one of your organizations.")
    assert (await ada.login(totp="123456"))[0] == 401
    for code in (app.now(), codes[0]):
        for _ in range(2):
            status, body, _ = await ada.login(totp=code)
            assert (status, "acme, globex" in body["error"]["details"][0]["message"]) == (400, True)
            assert (await ada.login(totp=code, orgSlug="initech"))[0] == 401
        assert (await ada.login(totp=code, orgSlug="globex"))[0] == 200, "it was not spent yet"
        assert (await ada.login(totp=code, orgSlug="globex"))[0] == 401


@pytest.mark.both_stores
async def test_password_changed_during_login_starts_no_session(
    control: Control, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Passwords, "find_matching", changing(control, monkeypatch))
    assert (await ada.login())[0] == 401
    assert None not in await control.scalars(sa.select(sessions.c.revoked_at))


async def test_rehash_does_not_restore_an_old_password(
    control: Control, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    dated = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1).hash(PASSWORD)
    await control.execute(users.update().values(password_hash=dated))
    monkeypatch.setattr(Passwords, "hash", changing(control, monkeypatch))
    assert (await ada.login())[0] == 401
    assert (await ada.login(password="another horse battery"))[0] == 200


async def test_password_changed_during_acceptance_accepts_no_invitation(
    control: Control, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await person(verified=True)
    made = await invite(control, control.globex)
    monkeypatch.setattr(Passwords, "find_matching", changing(control, monkeypatch))
    assert (await accept(control, made, existingAccount=True))[0] == 401
    assert (await ada.login(password="another horse battery"))[0] == 200


async def test_password_changed_during_a_password_change_sets_no_password(
    control: Control, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Passwords, "find_matching", changing(control, monkeypatch, end_sessions=False))
    body = {"current": PASSWORD, "password": "a third horse battery"}
    assert (await ada.call("POST", "/auth/password", body))[0] == 403
    assert (await ada.login(password="another horse battery"))[0] == 200


async def test_user_without_an_organization_is_rejected(control: Control, person: NewPerson) -> None:
    for email, verified in (("ada@example.org", False), ("bob@example.org", True)):
        gone = await person(email, verified=verified)
        assert (await control.call("DELETE", f"/orgs/acme/members/{gone.id}"))[0] == 204
        assert (await gone.login())[0] == (403 if verified else 401), "an account that is not verified is closed"
        assert (await gone.call("GET", "/orgs/acme/projects"))[0] == 401, "its session was ended with its membership"
        assert (await control.call("POST", "/auth/refresh", {"refreshToken": gone.refresh}))[0] == 401


@pytest.mark.both_stores
async def test_refresh_token_can_be_used_once(control: Control, ada: Person) -> None:
    status, first, _ = await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh})
    assert (status, list(first), first["user"]["id"]) == (200, ["tokens", "user"], ada.id)
    assert first["tokens"]["refreshToken"] != ada.refresh
    assert (await control.call("GET", "/orgs/acme/projects", token=first["tokens"]["accessToken"]))[0] == 200
    status, second, _ = await control.call("POST", "/auth/refresh", {"refreshToken": first["tokens"]["refreshToken"]})
    assert status == 200
    await age(control, timedelta(seconds=10, milliseconds=1))
    status, body, _ = await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh})
    assert (status, body["error"]["code"]) == (401, "unauthorized")
    for token in (ada.refresh, first["tokens"]["refreshToken"], second["tokens"]["refreshToken"]):
        assert (await control.call("POST", "/auth/refresh", {"refreshToken": token}))[0] == 401, "the family is over"
    for token in (ada.access, first["tokens"]["accessToken"], second["tokens"]["accessToken"]):
        assert (await control.call("GET", "/orgs/acme/projects", token=token))[0] == 401
    assert (await ada.login())[0] == 200, "other sessions are not concerned"
    assert "session.end" in await actions(control)


async def test_refresh_token_is_accepted_again_within_ten_seconds(control: Control, ada: Person) -> None:
    answers = [await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh}) for _ in range(2)]
    await age(control, timedelta(seconds=9))
    answers.append(await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh}))
    assert [status for status, _, _ in answers] == [200] * 3
    for _, body, _ in answers:
        token = body["tokens"]["refreshToken"]
        assert (await control.call("POST", "/auth/refresh", {"refreshToken": token}))[0] == 200


@pytest.mark.both_stores
async def test_idle_and_old_sessions_expire(control: Control, ada: Person) -> None:
    for table, days in ((refresh_tokens, 14), (sessions, 90)):
        async with control.checks.database.read() as connection:
            row = (await connection.execute(sa.select(table.c.expires_at, table.c.created_at))).first()
        assert row is not None
        assert row.expires_at - row.created_at == timedelta(days=days)
        for left, expected in ((timedelta(minutes=-1), 401), (timedelta(minutes=1), 200)):
            await control.execute(table.update().values(expires_at=datetime.now(UTC) + left))
            assert (await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh}))[0] == expected


async def test_invalid_refresh_tokens_are_rejected(control: Control, ada: Person) -> None:
    refused = {400: ("", "x" * 129, ada.access), 401: ("x", "ref_" + "0" * 49, "\x00", "ref_é")}
    for expected, tokens in refused.items():
        for token in (*tokens, *((control.acme.token.secret,) if expected == 401 else ())):
            assert (await control.call("POST", "/auth/refresh", {"refreshToken": token}))[0] == expected, token


async def test_a_logout_ends_the_session_at_once(control: Control, ada: Person) -> None:
    other = (await ada.login())[1]["tokens"]["accessToken"]
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 200
    for _ in range(2):
        status, body, _ = await control.call("POST", "/auth/logout", {"refreshToken": ada.refresh})
        assert (status, body) == (204, None)
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 401
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh}))[0] == 401
    assert (await control.call("GET", "/orgs/acme/projects", token=other))[0] == 200
    assert (await control.call("POST", "/auth/logout", {"refreshToken": "ref_none"}))[0] == 204
    assert (await actions(control)).count("session.end") == 1


async def test_forged_and_altered_tokens_are_401(control: Control, ada: Person) -> None:
    head, body, signature = ada.access.split(".")
    none = encoded({"alg": "none", "typ": "at+jwt", "kid": decoded(head)["kid"]})
    admin = encoded(decoded(body) | {"exp": decoded(body)["exp"] + 1})
    for token in (
        f"{none}.{body}.",
        f"{none}.{body}.{signature}",
        f"{head}.{admin}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}.{body}.{signature}.",
        f"{encoded(decoded(head) | {'kid': chr(0) * 43})}.{body}.{signature}",
        f"{encoded(decoded(head) | {'kid': 'A' * 43})}.{body}.{signature}",
        f"{encoded(decoded(head) | {'crit': 5})}.{body}.{signature}",
        "a.b.c",
        "." * 2,
        "x" * 3_000 + ".b.c",
    ):
        assert (await control.call("GET", "/orgs/acme/projects", token=token))[0] == 401, token[:80]
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 200


async def test_outdated_hash_is_replaced_at_the_next_login(control: Control, ada: Person) -> None:
    dated = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1).hash(PASSWORD)
    await control.execute(users.update().values(password_hash=dated))
    assert (await ada.login())[0] == 200
    (stored,) = await control.scalars(sa.select(users.c.password_hash))
    assert "m=8,t=1,p=1" in stored
    assert (await ada.login())[0] == 200


def changing(control: Control, patched: pytest.MonkeyPatch, *, end_sessions: bool = True) -> Any:
    """A comparison, or a hash, during which somebody else sets another password; that happens once."""
    originals = {name: getattr(Passwords, name) for name in ("find_matching", "hash")}

    async def slow(self: Passwords, *given: Any, **named: Any) -> Any:
        patched.undo()
        original = originals["find_matching" if len(given) == 2 else "hash"]
        found = await original(self, *given, **named)
        hashed = await originals["hash"](self, "another horse battery")
        async with control.checks.database.write() as connection:
            await connection.execute(users.update().values(password_hash=hashed))
            if end_sessions:
                await connection.execute(sessions.update().values(revoked_at=datetime.now(UTC)))
        return found

    return slow


def decoded(part: str) -> Any:
    return msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


async def age(control: Control, by: timedelta) -> None:
    """As if the refresh tokens that were used had been used so much earlier."""
    async with control.checks.database.write() as connection:
        found = sa.select(refresh_tokens.c.hash, refresh_tokens.c.used_at).where(refresh_tokens.c.used_at.is_not(None))
        for row in (await connection.execute(found)).all():
            earlier = refresh_tokens.update().where(refresh_tokens.c.hash == row.hash)
            await connection.execute(earlier.values(used_at=row.used_at - by))


async def actions(control: Control) -> list[str]:
    """What the audit of acme tells."""
    found = sa.select(audit_events.c.action).where(audit_events.c.org_id == control.acme.organization.id)
    return await control.scalars(found.order_by(audit_events.c.seq))


async def test_login_is_unavailable_without_shared_rate_limits(
    control: Control, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process counting for itself would give a guesser so many times more."""
    admission = control.client.app[RATE_LIMITS]
    away = open_redis("redis://127.0.0.1:1/0", 0.05)
    monkeypatch.setattr(admission, "_limiter", RedisLimiter(away, LocalLimiter()))
    status, body, headers = await ada.login()
    assert (status, body["error"]["code"]) == (503, "service_unavailable")
    assert int(headers["Retry-After"]) >= 1
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 200, "who is in goes on"
    await away.close()
