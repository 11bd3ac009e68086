"""Passwords that strangers try from elsewhere keep no owner out, and stay bounded: by address, and by work."""

import asyncio
import hashlib
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from typing import Any, Final

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import organizations
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LocalLimiter
from chassis.limits.redis import RedisLimiter
from chassis.redis import open_redis
from chassis.runtime.settings import ChassisSettings
from control.identity.login import challenge as module
from control.identity.users import login_store, user_store
from control.identity.users.login_store import KEPT_FOR, MAX_ADDRESSES, login_addresses
from control.identity.users.user_store import User, anonymize_orphans
from control.settings import ControlSettings
from tests.control.conftest import SETTINGS, Control
from tests.control.identity.account.test_verification import mail
from tests.control.identity.accounts import ADA, SQUATTED, join
from tests.control.identity.conftest import PASSWORD, NewPerson, enrol
from tests.control.mail import Office
from tests.control.mail import serving as serving_mail
from tests.redis_server import RedisServer

HOME: Final = "192.0.2.1"  # of the account's user; of documentation (RFC 5737), as those of strangers
NEW_ADDRESSES: Final = 12
LINK: Final = "/auth/login/link"

# Behind a proxy that says where requests come from.
pytestmark = pytest.mark.chassis_settings(trusted_proxies=("127.0.0.0/8",), new_address_login_rate=NEW_ADDRESSES)


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    async with serving_mail(office := Office()):
        yield office


@pytest.fixture
def control_settings(office: Office) -> ControlSettings:
    return ControlSettings(**SETTINGS, **office.settings)


@pytest.fixture
def easy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof takes a moment."""
    monkeypatch.setattr(module, "BITS", 8)


def strangers() -> Iterator[str]:
    """Addresses that nobody has logged in from."""
    return (f"198.51.100.{number}" for number in range(250))


async def log_in(control: Control, address: str, password: str = PASSWORD, **more: Any) -> tuple[int, Any, Any]:
    headers = {"X-Forwarded-For": address} | more.pop("headers", {})
    return await control.call("POST", "/auth/login", {"email": ADA, "password": password} | more, headers=headers)


async def besiege(control: Control, addresses: Iterator[str], **more: Any) -> list[int]:
    """As many wrong passwords from elsewhere as are free."""
    return [(await log_in(control, next(addresses), "wrong", **more))[0] for _ in range(NEW_ADDRESSES)]


def solve(challenge: str, bits: int) -> str:
    for number in itertools.count():
        digest = hashlib.sha256(f"{challenge}{number}".encode()).digest()
        if int.from_bytes(digest) < 1 << (256 - bits):
            return str(number)
    raise AssertionError


def details(answer: tuple[int, Any, Any]) -> Any:
    """Of the 429 that asks for a proof."""
    status, body, headers = answer
    assert (status, body["error"]["code"]) == (429, "rate_limited")
    assert 1 <= int(headers["Retry-After"]) <= 3_600 / NEW_ADDRESSES
    assert set(body["error"]) == {"code", "message", "details", "requestId"}
    assert set(body["error"]["details"]) == {"challenge", "bits"}
    return body["error"]["details"]


def solution(answer: tuple[int, Any, Any]) -> dict[str, str]:
    """What the next attempt has in its body."""
    asked = details(answer)
    return {"challenge": asked["challenge"], "proof": solve(asked["challenge"], asked["bits"])}


async def test_a_stranger_locks_nobody_out_elsewhere(control: Control, person: NewPerson) -> None:
    await person(verified=True)
    for stranger, named in (("198.51.100.7", {}), ("198.51.100.8", {"orgSlug": "acme"})):
        assert [(await log_in(control, stranger, "wrong", **named))[0] for _ in range(7)] == [401] * 5 + [429] * 2
        assert (await log_in(control, stranger, **named))[0] == 429
        assert (await log_in(control, HOME, **named))[0] == 200
    assert (await log_in(control, "2001:db8:0:1::1", "wrong"))[0] == 401


async def test_an_ipv6_network_counts_as_one_address(control: Control, person: NewPerson) -> None:
    await person()
    tried = [(await log_in(control, f"2001:db8:0:1::{number}", "wrong"))[0] for number in range(6)]
    assert tried == [401] * 5 + [429]
    assert (await log_in(control, "2001:db8:0:2::1", "wrong"))[0] == 401


async def test_a_refused_attempt_looks_for_no_account(
    control: Control, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    await person(verified=True)
    looked_for: list[str] = []
    list_accounts = user_store.list_accounts

    async def recorded(connection: AsyncConnection, email: str) -> list[User]:
        looked_for.append(email)
        return await list_accounts(connection, email)

    monkeypatch.setattr(user_store, "list_accounts", recorded)
    assert [(await log_in(control, HOME, "wrong"))[0] for _ in range(7)] == [401] * 5 + [429] * 2
    assert looked_for == [ADA] * 5


async def test_a_stranger_leaves_the_owner_that_keeps_a_way_in(control: Control, person: NewPerson) -> None:
    ada = await person(role="OWNER", verified=True)
    acme = organizations.update().where(organizations.c.id == control.acme.organization.id)
    await control.execute(acme.values(sso_enforced=True, break_glass_id=ada.id))
    for _ in range(6):
        await log_in(control, "198.51.100.7", "wrong")
    assert (await log_in(control, HOME))[0] == 200


@pytest.mark.both_stores
@pytest.mark.usefixtures("easy")
async def test_beyond_some_an_hour_a_new_address_proves_work_and_a_known_one_does_not(
    control: Control, person: NewPerson
) -> None:
    await person(verified=True)
    assert (await log_in(control, HOME))[0] == 200
    addresses = strangers()
    assert await besiege(control, addresses) == [401] * NEW_ADDRESSES
    new = next(addresses)
    for password in ("wrong", PASSWORD):
        assert details(await log_in(control, new, password))["bits"] == 8
    assert (await log_in(control, HOME, "wrong"))[0] == 401
    assert (await log_in(control, HOME))[0] == 200
    solved = solution(await log_in(control, new))
    assert (await log_in(control, new, **solved))[0] == 200
    assert (await log_in(control, new))[0] == 200, "it has logged in by now"
    other = next(addresses)
    assert (await log_in(control, other, "wrong", **solution(await log_in(control, other))))[0] == 401
    details(await log_in(control, other))


@pytest.mark.usefixtures("easy")
async def test_a_proof_is_good_once_for_its_account_and_address(
    control: Control, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    await person(verified=True)
    await person("bob@example.org")
    addresses = strangers()
    await besiege(control, addresses)
    new, other = next(addresses), next(addresses)
    of_bob = {"email": "bob@example.org"}
    await besiege(control, addresses, **of_bob)
    solved = solution(await log_in(control, new))
    assert (await log_in(control, new, "wrong", **solved))[0] == 401
    details(await log_in(control, new, **solved))
    foreign = solution(await log_in(control, new))
    details(await log_in(control, other, **foreign))
    details(await log_in(control, new, **foreign, **of_bob))
    challenge = foreign["challenge"]
    for altered in (
        {"challenge": challenge[:-1], "proof": foreign["proof"]},
        {"challenge": challenge.swapcase(), "proof": solve(challenge.swapcase(), 8)},
        {"challenge": challenge, "proof": "no" + foreign["proof"] * 2},
        {"challenge": challenge, "proof": ""},
        {"challenge": challenge},
        {"proof": foreign["proof"]},
    ):
        details(await log_in(control, new, **altered))
    assert (await log_in(control, new, challenge=challenge, proof="0" * 65))[0] == 400
    with monkeypatch.context() as patched:
        patched.setattr(module, "CHALLENGE_LIFETIME", timedelta(seconds=-1))
        late = solution(await log_in(control, new))
    details(await log_in(control, new, **late))
    assert (await log_in(control, new, **foreign))[0] == 200, "what was refused has not used it"


def test_what_is_allowed_by_default() -> None:
    assert ChassisSettings().new_address_login_rate == 50
    assert (module.BITS, module.CHALLENGE_LIFETIME) == (20, timedelta(minutes=5))


async def test_twenty_bits_are_solved(control: Control, person: NewPerson) -> None:
    await person()
    addresses = strangers()
    await besiege(control, addresses)
    new = next(addresses)
    asked = details(await log_in(control, new))
    assert (asked["bits"], len(asked["challenge"])) == (20, 64)
    assert (await log_in(control, new, challenge=asked["challenge"], proof=solve(**asked)))[0] == 200


@pytest.mark.usefixtures("easy")
async def test_unknown_accounts_answer_the_same(control: Control, person: NewPerson) -> None:
    await person(verified=True)
    addresses = strangers()
    unknown = {"email": "nobody@example.org"}
    for more in ({}, unknown):
        assert await besiege(control, addresses, **more) == [401] * NEW_ADDRESSES
    new = next(addresses)
    known, missing = [await log_in(control, new, "wrong", **more) for more in ({}, unknown)]
    for answer in (known, missing):
        answer[1]["error"]["requestId"] = ""
        asked = answer[1]["error"]["details"]
        answer[1]["error"]["details"] = {"bits": asked["bits"], "challenge": len(asked["challenge"])}
    assert known[:2] == missing[:2]
    solved = solution(await log_in(control, new, **unknown))
    assert (await log_in(control, new, **unknown, **solved))[0] == 401


async def test_parallel_attempts_from_everywhere_get_no_additional_guesses(control: Control, person: NewPerson) -> None:
    await person()
    addresses = strangers()
    await besiege(control, addresses)
    answers = await asyncio.gather(*(log_in(control, next(addresses), "wrong") for _ in range(8)))
    assert {status for status, _, _ in answers} == {429}


@pytest.mark.parametrize("verified", [False, True])
async def test_another_account_with_the_address_makes_no_address_known(
    control: Control, person: NewPerson, verified: bool
) -> None:
    """Whoever has one logs in to it from anywhere, and then tries passwords at the account of somebody else."""
    await person(verified=verified)
    await join(control, control.globex, SQUATTED)
    addresses = strangers()
    await besiege(control, addresses)
    new = next(addresses)
    details(await log_in(control, new, SQUATTED, orgSlug="globex"))
    await control.execute(login_addresses.delete())
    assert (await log_in(control, HOME, SQUATTED, orgSlug="globex"))[0] == 429


async def test_an_address_is_known_once_the_second_factor_was_given(control: Control, person: NewPerson) -> None:
    ada = await person(verified=True)
    app, codes = await enrol(ada)
    session = (await log_in(control, HOME))[1]
    addresses = strangers()
    await besiege(control, addresses)
    details(await log_in(control, HOME))
    token = session["tokens"]["accessToken"]
    home = {"X-Forwarded-For": HOME}
    status, _, _ = await control.call("POST", "/auth/totp/verify", {"code": app.now()}, token, headers=home)
    assert status == 200
    assert (await log_in(control, HOME, totp=codes[0]))[0] == 200


@pytest.mark.both_stores
async def test_known_addresses_are_hashed_bounded_and_forgotten(control: Control, person: NewPerson) -> None:
    ada, bob = await person(verified=True), await person("bob@example.org")
    assert (await log_in(control, HOME))[0] == 200
    database, now = control.checks.database, datetime.now(UTC)
    async with database.read() as connection:
        rows = (await connection.execute(sa.select(login_addresses))).all()
        assert {row.principal_id for row in rows} == {ada.id, bob.id}
        assert all(re.fullmatch(r"[\w-]{23}", row.address) for row in rows)
        assert len({row.address for row in rows}) == 3
    async with database.write() as connection:
        for number in range(MAX_ADDRESSES + 5):
            at = now + timedelta(seconds=number)
            await login_store.remember_address(connection, ada.id, f"hash {number}", at)
        own = sa.select(login_addresses.c.address).where(login_addresses.c.principal_id == ada.id)
        kept = set((await connection.scalars(own)).all())
        assert kept == {f"hash {number}" for number in range(5, MAX_ADDRESSES + 5)}
        known = {ada.id: "hash 9"}
        assert await login_store.are_known_addresses(connection, known, now)
        assert not await login_store.are_known_addresses(connection, known | {bob.id: "hash 9"}, now)
        assert not await login_store.are_known_addresses(connection, {}, now)
        late = now + timedelta(seconds=9) + KEPT_FOR
        assert not await login_store.are_known_addresses(connection, known, late)
        await login_store.remember_address(connection, bob.id, "hash", late)
        assert len((await connection.scalars(own)).all()) == MAX_ADDRESSES - 5
    assert (await control.call("DELETE", f"/orgs/acme/members/{ada.id}"))[0] == 204
    async with database.write() as connection:
        assert (await connection.scalars(own)).all()
        await anonymize_orphans(connection, [ada.id], now)
        assert not (await connection.scalars(own)).all()


@pytest.mark.both_stores
async def test_logins_from_one_address_at_once_are_no_conflict(control: Control, person: NewPerson) -> None:
    await person(verified=True)
    await control.execute(login_addresses.delete())
    answers = await asyncio.gather(*(log_in(control, HOME, orgSlug=slug) for slug in ("acme", "acme", "acme")))
    assert [status for status, _, _ in answers] == [200] * 3


@pytest.mark.usefixtures("easy")
async def test_a_mailed_link_spares_the_browser_that_asked_the_proof(
    control: Control, person: NewPerson, office: Office
) -> None:
    await person(verified=True)
    await person("bob@example.org")
    addresses = strangers()
    await besiege(control, addresses)
    new = next(addresses)
    status, body, headers = await control.call("POST", LINK, {"email": ADA.upper()}, headers={"X-Forwarded-For": new})
    assert (status, set(body)) == (202, {"expiresAt"})
    cookie = SimpleCookie(headers["Set-Cookie"])["__Secure-sluice-login-link"]
    attributes = [cookie[name] for name in ("path", "secure", "httponly", "samesite")]
    assert attributes == ["/auth/login", True, True, "Strict"]
    text = await arrived(office)
    (secret,) = re.findall(r"https://sluice\.example\.org/ui/#linkSecret=([\w-]{20,128})\s", text)
    asked: dict[str, Any] = {"headers": {"Cookie": f"__Secure-sluice-login-link={cookie.value}"}}
    for more in (
        {"linkSecret": secret},
        {"linkSecret": secret, "headers": {"Cookie": f"__Secure-sluice-login-link={'x' * 43}"}},
        {"linkSecret": secret[:-1], **asked},
        asked,
    ):
        details(await log_in(control, new, **more))
    assert (await log_in(control, new, "wrong", linkSecret=secret, **asked))[0] == 401, "it is no password"
    await besiege(control, addresses, email="bob@example.org")
    details(await log_in(control, new, linkSecret=secret, email="bob@example.org", **asked))
    assert (await log_in(control, new, linkSecret=secret, **asked))[0] == 200


async def test_a_request_for_a_link_tells_nothing_and_is_bounded(
    control: Control, person: NewPerson, office: Office
) -> None:
    await person(verified=True)
    addresses = strangers()

    async def asked(email: str, address: str) -> tuple[int, Any]:
        status, body, _ = await control.call("POST", LINK, {"email": email}, headers={"X-Forwarded-For": address})
        return status, set(body)

    for email in ("nobody@example.org", ADA):
        assert [await asked(email, next(addresses)) for _ in range(5)] == [(202, {"expiresAt"})] * 5
        assert (await asked(email, next(addresses)))[0] == 429
    one = next(addresses)
    assert [(await asked(f"nobody-{number}@example.org", one))[0] for number in range(6)] == [202] * 5 + [429]
    for _ in range(5):
        await arrived(office)
    assert {each.rcpt_tos[0] for each in office.taken} == {ADA}
    assert (await asked("no address", next(addresses)))[0] == 400


async def test_limits_are_shared_through_redis_and_no_login_passes_without(
    control: Control, person: NewPerson, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BITS", 8)
    await person(verified=True)
    assert (await log_in(control, HOME))[0] == 200
    redis = open_redis(own_redis.url, 10.0)
    await redis.start()
    monkeypatch.setattr(control.client.app[RATE_LIMITS], "_limiter", RedisLimiter(redis, LocalLimiter()))
    addresses = strangers()
    assert await besiege(control, addresses) == [401] * NEW_ADDRESSES
    new = next(addresses)
    solved = solution(await log_in(control, new))
    monkeypatch.setattr(control.client.app[RATE_LIMITS], "_limiter", RedisLimiter(redis, LocalLimiter()))
    assert (await log_in(control, new, "wrong", **solved))[0] == 401
    details(await log_in(control, new, **solved))
    own_redis.stop()
    for address in (HOME, new):
        assert (await log_in(control, address))[0] == 503
    await redis.close()


async def arrived(office: Office) -> str:
    """The text of the next mail; the response does not wait for it."""
    deadline = asyncio.get_running_loop().time() + 20
    while not office.taken:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)
    return str(mail(office).get_content())
