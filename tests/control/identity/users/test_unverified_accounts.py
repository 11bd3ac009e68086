"""Accounts that share an address: whoever has not verified it stays in one organization, and keeps nobody else out."""

import asyncio
import re

import msgspec
import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher

from chassis.auth.tables import memberships, users
from control.audit.tables import audit_events
from control.identity.users.passwords import same_salt
from tests.chassis.auth.tenants import new_tenant
from tests.control.conftest import Control
from tests.control.identity.accounts import ADA, SQUATTED, accept, invite, join, log_in
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol, verify


async def test_squatter_with_a_second_factor_keeps_nobody_out(control: Control) -> None:
    squatter = await join(control, control.globex, SQUATTED)
    await enrol(squatter, SQUATTED)
    ada = await join(control, control.acme)
    assert ada.id != squatter.id
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 200
    for named in ({}, {"orgSlug": "acme"}):
        status, material = await log_in(control, PASSWORD, **named)
        assert (status, material["user"]["id"], material["user"]["emailVerified"]) == (200, ada.id, False)
    assert (await ada.call("GET", "/auth/organizations"))[1]["data"][0]["slug"] == "acme"
    assert len((await ada.call("GET", "/auth/organizations"))[1]["data"]) == 1


@pytest.mark.parametrize("verified", [False, True])
async def test_squatter_reaches_nothing_of_the_person(control: Control, person: NewPerson, verified: bool) -> None:
    ada = await person(verified=verified)
    squatter = await join(control, control.globex, SQUATTED)
    app, codes = await enrol(ada)
    assert (await log_in(control, SQUATTED, orgSlug="acme"))[0] == 401
    assert (await log_in(control, PASSWORD, orgSlug="globex"))[0] == 401
    status, material = await log_in(control, SQUATTED)
    assert (status, material["user"]["id"]) == (200, squatter.id)
    _, refreshed, _ = await control.call("POST", "/auth/refresh", {"refreshToken": squatter.refresh})
    for token in (squatter.access, material["tokens"]["accessToken"], refreshed["tokens"]["accessToken"]):
        assert (await control.call("GET", "/orgs/globex/projects", token=token))[0] == 200
        assert (await control.call("GET", "/orgs/acme/projects", token=token))[0] == 404
    assert (await squatter.call("POST", "/auth/totp", {"password": SQUATTED}))[0] == 201
    for code in (app.now(), codes[0]):
        assert (await squatter.call("POST", "/auth/totp/confirm", {"code": code}))[0] == 403
    change = {"current": SQUATTED, "password": "yet another battery"}
    assert (await squatter.call("POST", "/auth/password", change))[0] == 204
    assert (await ada.call("GET", "/auth/user"))[1]["mfaEnabled"] is True
    assert (await log_in(control, PASSWORD, totp=codes[0]))[0] == 200, "nothing of the person's was spent or changed"
    assert (await log_in(control, "yet another battery", orgSlug="acme"))[0] == 401


@pytest.mark.both_stores
async def test_the_same_address_in_three_organizations_is_three_accounts(control: Control) -> None:
    initech = await new_tenant(control.checks.database, "initech")
    passwords = {"acme": "first horse battery", "globex": "second horse battery", "initech": "second horse battery"}
    accounts = {
        tenant.organization.slug: await join(control, tenant, passwords[tenant.organization.slug])
        for tenant in (control.acme, control.globex, initech)
    }
    assert len({account.id for account in accounts.values()}) == 3
    status, material = await log_in(control, "first horse battery")
    assert (status, material["user"]["id"]) == (200, accounts["acme"].id)
    status, answer = await log_in(control, "second horse battery")
    assert (status, answer["error"]["details"][0]["message"]) == (
        400,
        "Must be the slug of one of your organizations: globex, initech.",
    )
    for slug, password in passwords.items():
        status, material = await log_in(control, password, orgSlug=slug)
        assert (status, material["user"]["id"]) == (200, accounts[slug].id)
    await enrol(accounts["globex"], passwords["globex"])
    status, answer = await log_in(control, "second horse battery")
    assert (status, answer["error"]["details"][0]["message"]) == (400, "Must be the slug of one of your organizations.")


@pytest.mark.both_stores
async def test_administrator_frees_an_address_and_only_in_the_own_organization(control: Control) -> None:
    wrong = await join(control, control.acme, SQUATTED)
    elsewhere = await join(control, control.globex, "elsewhere battery")
    _, token, _ = await wrong.call("POST", "/orgs/acme/tokens", {"name": "x"})
    assert (await control.call("DELETE", f"/orgs/acme/members/{elsewhere.id}"))[0] == 404
    body = {"email": ADA, "role": "MEMBER"}
    assert (await control.call("POST", "/orgs/acme/invitations", body))[0] == 409
    assert (await control.call("DELETE", f"/orgs/acme/members/{wrong.id}"))[0] == 204
    ada = await join(control, control.acme)
    assert ada.id != wrong.id
    for old in (wrong.access, token["token"]):
        assert (await control.call("GET", "/orgs/acme/projects", token=old))[0] == 401
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": wrong.refresh}))[0] == 401
    for named in ({}, {"orgSlug": "acme"}):
        assert (await log_in(control, SQUATTED, **named))[0] == 401
    assert (await log_in(control, PASSWORD))[1]["user"]["id"] == ada.id
    assert (await log_in(control, "elsewhere battery"))[1]["user"]["id"] == elsewhere.id
    assert (await elsewhere.call("GET", "/orgs/globex/projects"))[0] == 200
    _, page, _ = await control.call("GET", "/orgs/acme/members")
    assert [(one["principalId"], one["emailVerified"]) for one in page["data"]][1:] == [(ada.id, False)]


async def test_verified_account_returns_to_an_organization_as_the_same(control: Control, person: NewPerson) -> None:
    ada = await person(verified=True)
    assert (await control.call("DELETE", f"/orgs/acme/members/{ada.id}"))[0] == 204
    again = await join(control, control.acme, existingAccount=True)
    assert again.id == ada.id
    _, page, _ = await control.call("GET", "/orgs/acme/members")
    assert page["data"][1]["emailVerified"] is True


async def test_unverified_account_accepts_nowhere_else(control: Control, ada: Person) -> None:
    invitation = await invite(control, control.globex)
    status, answer = await accept(control, invitation, existingAccount=True)
    assert (status, answer["error"]["code"]) == (401, "unauthorized")
    assert "has to verify its address first" in answer["error"]["message"]
    status, material = await accept(control, invitation)
    assert (status, material["user"]["id"] == ada.id) == (201, False)


async def test_verified_account_of_a_person_comes_first(control: Control, person: NewPerson) -> None:
    """Also where squatters were there before, and chose the same password."""
    squatter = await join(control, control.globex, PASSWORD)
    ada = await person(verified=True)
    status, material = await log_in(control, PASSWORD)
    assert (status, material["user"]["id"]) == (200, ada.id)
    status, material = await log_in(control, PASSWORD, orgSlug="globex")
    assert (status, material["user"]["id"]) == (200, squatter.id)


async def test_second_factor_is_needed_to_join_with_an_existing_account(control: Control, person: NewPerson) -> None:
    ada = await person(verified=True)
    app, codes = await enrol(ada)
    invitation = await invite(control, control.globex)
    status, answer = await accept(control, invitation, existingAccount=True)
    assert (status, answer["error"]["code"]) == (401, "mfa_required")
    assert (await accept(control, invitation, SQUATTED, existingAccount=True, totp=codes[0]))[0] == 401
    assert (await accept(control, invitation, existingAccount=True, totp="000000"))[0] == 401
    assert (await control.call("GET", "/orgs/globex/members", token=control.globex.token.secret))[1]["data"][1:] == []
    void = await invite(control, control.globex)  # which replaces the first
    assert (await accept(control, invitation, existingAccount=True, totp=codes[0]))[0] == 401
    status, material = await accept(control, void, existingAccount=True, totp=codes[0])
    assert (status, material["user"]["id"]) == (201, ada.id), "the code was not spent by what failed"
    assert (await control.call("GET", "/orgs/globex/projects", token=material["tokens"]["accessToken"]))[0] == 200
    assert (await log_in(control, PASSWORD, orgSlug="globex", totp=codes[0]))[0] == 401
    assert (await log_in(control, PASSWORD, orgSlug="globex", totp=app.now()))[0] == 200


@pytest.mark.both_stores
async def test_invitation_is_accepted_once_by_concurrent_requests(control: Control) -> None:
    invitation = await invite(control, control.acme)
    answers = await asyncio.gather(*(accept(control, invitation, f"{PASSWORD} {number}") for number in range(6)))
    assert sorted(status for status, _ in answers) == [201, *[401] * 5]
    assert await control.count(users) == 1


@pytest.mark.both_stores
async def test_accounts_created_at_once_share_a_salt(control: Control) -> None:
    tenants = [await new_tenant(control.checks.database, f"o{number}") for number in range(4)]
    invitations = [await invite(control, tenant) for tenant in tenants]
    answers = await asyncio.gather(
        *(accept(control, one, f"{PASSWORD} {number}") for number, one in enumerate(invitations))
    )
    assert [status for status, _ in answers] == [201] * 4
    stored = await control.scalars(sa.select(users.c.password_hash))
    assert all(same_salt(stored[0], other or "") for other in stored)
    for number, (_, material) in enumerate(answers):
        status, found = await log_in(control, f"{PASSWORD} {number}")
        assert (status, found["user"]["id"]) == (200, material["user"]["id"])


async def test_salt_stays_when_a_password_changes(control: Control, ada: Person) -> None:
    await join(control, control.globex, SQUATTED)
    change = {"current": PASSWORD, "password": "another horse battery"}
    assert (await ada.call("POST", "/auth/password", change))[0] == 204
    one, other = await control.scalars(sa.select(users.c.password_hash))
    assert same_salt(one, other or "")
    assert (await log_in(control, "another horse battery"))[0] == 200


def count_hashes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that are hashed from now on."""
    compute, hashed = PasswordHasher.hash, list[str]()

    def counting(self: PasswordHasher, password: str, *, salt: bytes) -> str:
        hashed.append(password)
        return compute(self, password, salt=salt)

    monkeypatch.setattr(PasswordHasher, "hash", counting)
    return hashed


async def test_login_costs_one_computation_however_many_accounts_there_are(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        tenant = await new_tenant(control.checks.database, f"o{number}")
        await join(control, tenant, f"squatter's battery {number}")
    last = await join(control, control.acme)
    hashed = count_hashes(monkeypatch)
    status, material = await log_in(control, PASSWORD)
    assert (status, material["user"]["id"]) == (200, last.id), "the last account is not pushed out"
    assert (await log_in(control, "wrong horse battery"))[0] == 401
    await control.call("POST", "/auth/login", {"email": "nobody@example.org", "password": PASSWORD})
    assert len(hashed) == 3


async def test_failures_with_another_account_lock_nobody_out(control: Control, ada: Person) -> None:
    squatter = await join(control, control.globex, SQUATTED)
    for _ in range(5):
        assert (await log_in(control, "wrong", orgSlug="globex"))[0] == 401
        assert (await squatter.call("POST", "/auth/totp", {"password": "wrong"}))[0] == 403
    assert (await log_in(control, SQUATTED, orgSlug="globex"))[0] == 429
    assert (await squatter.call("POST", "/auth/totp", {"password": SQUATTED}))[0] == 429
    for named in ({}, {"orgSlug": "acme"}):
        assert (await log_in(control, PASSWORD, **named))[0] == 200
    assert (await ada.call("POST", "/auth/totp", {"password": PASSWORD}))[0] == 201


async def test_failures_of_strangers_leave_a_login_that_names_the_organization(
    control: Control, person: NewPerson
) -> None:
    await person()
    for _ in range(5):
        assert (await log_in(control, "wrong"))[0] == 401
    assert (await log_in(control, PASSWORD))[0] == 429
    assert (await log_in(control, PASSWORD, orgSlug="acme"))[0] == 200


async def test_failed_acceptances_count_for_the_address_and_the_inviting_organization(
    control: Control, person: NewPerson
) -> None:
    """Otherwise each invitation would give its inviter more guesses. They lock nothing else."""
    await person(verified=True)
    initech = await new_tenant(control.checks.database, "initech")
    for number in range(5):
        invitation = await invite(control, control.globex)
        assert (await accept(control, invitation, f"guess {number}", existingAccount=True))[0] == 401
    invitation = await invite(control, control.globex)
    assert (await accept(control, invitation, existingAccount=True))[0] == 429
    for named in ({}, {"orgSlug": "acme"}):
        assert (await log_in(control, PASSWORD, **named))[0] == 200
    assert (await accept(control, await invite(control, initech), existingAccount=True))[0] == 201


async def test_strangers_without_an_invitation_keep_nobody_from_accepting(control: Control, person: NewPerson) -> None:
    """An acceptance has no other name for the account, as a login has."""
    ada = await person(verified=True)
    invitation = await invite(control, control.globex)
    for named in ({}, {"orgSlug": "globex"}, {"orgSlug": "acme"}):
        assert [(await log_in(control, "wrong", **named))[0] for _ in range(6)] == [401] * 5 + [429]
    status, material = await accept(control, invitation, existingAccount=True)
    assert (status, material["user"]["id"]) == (201, ada.id)


async def test_inviter_cannot_tell_whether_an_address_is_known(
    control: Control, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown, unverified, verified with a second factor, closed: the same responses after the same computations."""
    await person("unverified@example.org")
    await enrol(await person("verified@example.org", verified=True))
    closed = await person("removed@example.org")
    assert (await control.call("DELETE", f"/orgs/acme/members/{closed.id}"))[0] == 204
    hashed = count_hashes(monkeypatch)
    seen = []
    for email in ("nobody@example.org", "unverified@example.org", "verified@example.org", "removed@example.org"):
        hashed.clear()
        invitation = await invite(control, control.globex, email)
        attempts = [
            await accept(control, invitation, "x"),
            await accept(control, invitation, SQUATTED, existingAccount=True),
            await accept(control, invitation, SQUATTED, existingAccount=True, totp="123456"),
            await accept(control, invitation, SQUATTED),
            await accept(control, invitation, SQUATTED),
        ]
        answer = await control.call("POST", "/auth/login", {"email": email, "password": SQUATTED, "orgSlug": "globex"})
        seen.append((masked(invitation, email), masked(attempts, email), masked(answer[:2], email), len(hashed)))
    assert seen == [seen[0]] * 4
    assert seen[0][3] == 4


def masked(answer: object, email: str) -> str:
    """What differs between any two invitations is left out."""
    text = msgspec.json.encode(answer).decode().replace(email, "EMAIL")
    text = re.sub(r'"(id|requestId|accessToken|refreshToken|inviteToken)":"[^"]*"', r'"\1":""', text)
    return re.sub(r"20\d\d-[0-9T:.-]+Z", "TIME", text)


async def test_organization_has_at_most_one_account_of_an_address(control: Control, person: NewPerson) -> None:
    """Even if one has become a member in another way while an invitation was open."""
    ada = await person(verified=True)
    invitation = await invite(control, control.globex)
    async with control.checks.database.write() as connection:
        row = {"org_id": control.globex.organization.id, "principal_id": ada.id, "role": "VIEWER"}
        created = sa.select(memberships.c.created_at).limit(1).scalar_subquery()
        await connection.execute(memberships.insert().values(**row, created_at=created))
    for existing in (False, True):
        assert (await accept(control, invitation, existingAccount=existing))[0] == 409


async def test_audit_says_whether_the_address_was_verified(control: Control, ada: Person) -> None:
    await verify(control, ada.id)
    await join(control, control.globex, existingAccount=True)
    async with control.checks.database.read() as connection:
        found = sa.select(audit_events.c.org_id, audit_events.c.data).where(
            audit_events.c.action == "invitation.accept"
        )
        told = {row.org_id: msgspec.json.decode(row.data)["emailVerified"] for row in await connection.execute(found)}
    assert told == {control.acme.organization.id: False, control.globex.organization.id: True}


async def test_without_a_mail_server_the_response_says_so(control: Control, person: NewPerson) -> None:
    boss = await person(role="ADMIN")
    invited = {"email": "bob@example.org", "role": "VIEWER", "sendMail": True}
    for path, body in (("/auth/email/verification", None), ("/orgs/acme/invitations", invited)):
        status, answer, _ = await boss.call("POST", path, body)
        expected = "No mail server is configured (SLUICE_CONTROL_SMTP_URL), so no mail can be sent."
        assert (status, answer["error"]["message"]) == (409, expected)
    assert (await control.call("GET", "/orgs/acme/invitations"))[1]["data"][0]["email"] == ADA


@pytest.mark.parametrize("verified", [False, True])
async def test_passwords_of_a_squatter_are_no_free_guesses(control: Control, person: NewPerson, verified: bool) -> None:
    """Whoever may set the password of an account with the address logs in with it, and sees whether it was another's.
    Each such password counts as a failed login would.
    """
    await person(verified=verified)
    squatter = await join(control, control.globex, "guess number 0 battery")
    current, statuses = "guess number 0 battery", []
    for number in range(1, 7):
        guess = f"guess number {number} battery"
        change = {"current": current, "password": guess}
        assert (await squatter.call("POST", "/auth/password", change))[0] == 204
        current = guess
        statuses.append((await log_in(control, guess))[0])
    assert statuses == [200] * 5 + [429]
    change = {"current": current, "password": PASSWORD}
    assert (await squatter.call("POST", "/auth/password", change))[0] == 204
    assert (await log_in(control, PASSWORD))[0] == 429
    assert (await log_in(control, PASSWORD, orgSlug="acme"))[0] == 200


async def test_password_that_logs_in_again_and_again_counts_once(control: Control, person: NewPerson) -> None:
    await person()
    assert [(await log_in(control, PASSWORD))[0] for _ in range(12)] == [200] * 12
    assert [(await log_in(control, "wrong"))[0] for _ in range(5)] == [401] * 4 + [429]


async def test_passwords_of_two_squatters_are_no_free_guesses(control: Control, person: NewPerson) -> None:
    """Two accounts with one password: the response lists the organizations of all accounts that have it."""
    await person()
    initech = await new_tenant(control.checks.database, "initech")
    squatters = [await join(control, tenant, "guess number 0 battery") for tenant in (control.globex, initech)]
    statuses = []
    for number in range(6):
        change = {"current": f"guess number {number} battery", "password": f"guess number {number + 1} battery"}
        statuses.append((await log_in(control, change["current"]))[0])
        assert [(await one.call("POST", "/auth/password", change))[0] for one in squatters] == [204, 204]
    assert statuses == [400] * 5 + [429]
