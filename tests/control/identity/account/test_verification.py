"""Proof of an address by mail, through a real mail server: invitations that are mailed, and verification."""

import asyncio
import logging
import re
from collections import ChainMap
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher

from chassis.auth.tables import email_verifications, recovery_codes, users
from control.audit.tables import audit_events
from control.http.page_links import PageLinks
from control.identity.users import user_store
from control.settings import ControlSettings
from tests.control.conftest import SETTINGS, Control
from tests.control.identity.accounts import ADA, SQUATTED, accept, invite, join, log_in
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol, verify
from tests.control.identity.test_secrets import stored
from tests.control.mail import Office, serving
from tests.logs import captured_log

REQUEST = "/auth/email/verification"
CONFIRM = "/auth/email/verification/confirm"
TOKEN = re.compile(r"(?:emv|inv)_[0-9A-Za-z]{49}")
INVITATIONS = "/orgs/acme/invitations"


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    async with serving(office := Office()):
        yield office


@pytest.fixture
def control_settings(request: pytest.FixtureRequest, office: Office) -> ControlSettings:
    marked = [mark.kwargs for mark in request.node.iter_markers("control_settings")]
    return ControlSettings(**ChainMap(*marked, office.settings, SETTINGS))


def mail(office: Office, number: int = -1) -> EmailMessage:
    """One of those that were delivered, the last unless another is asked for."""
    parsed = message_from_bytes(bytes(office.taken[number].content or b""), policy=default)  # type: ignore[arg-type]
    assert isinstance(parsed, EmailMessage)
    return parsed


def token(office: Office, number: int = -1) -> str:
    """The secret in it."""
    (found,) = set(TOKEN.findall(mail(office, number).get_content()))
    return str(found)


async def requested(person: Person, office: Office) -> str:
    status, answer, _ = await person.call("POST", REQUEST)
    assert (status, answer["email"]) == (202, person.email), answer
    return token(office)


async def confirmed(person: Person, secret: str, password: str = PASSWORD) -> tuple[int, Any]:
    status, answer, _ = await person.call("POST", CONFIRM, {"token": secret, "password": password})
    return status, answer


async def test_verified_account_may_join_other_organizations(control: Control, ada: Person, office: Office) -> None:
    other = (await ada.login())[1]["tokens"]["accessToken"]
    secret = await requested(ada, office)
    status, shown = await confirmed(ada, secret)
    assert (status, shown["id"], shown["emailVerified"]) == (200, ada.id, True)
    assert (await ada.call("GET", "/auth/user"))[1]["emailVerified"] is True
    assert (await control.call("GET", "/auth/user", token=other))[0] == 401, "other sessions end"
    again = await join(control, control.globex, existingAccount=True)
    assert again.id == ada.id
    assert (await ada.call("POST", REQUEST))[0] == 409
    assert (await confirmed(ada, secret))[0] == 409
    assert len(office.taken) == 1
    assert await control.count(email_verifications) == 0
    found = sa.select(audit_events.c.action).where(audit_events.c.object_id == ada.id)
    assert await control.scalars(found.order_by(audit_events.c.seq)) == [
        "email_verification.request",
        "email_verification.confirm",
    ]


async def test_mail_says_what_it_is_for(
    control: Control, person: NewPerson, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PageLinks, "_link", lambda *_: None)  # as without SLUICE_PUBLIC_URL
    ada = await person()
    secret = await requested(ada, office)
    sent = mail(office)
    assert (office.taken[0].mail_from, office.taken[0].rcpt_tos) == ("sluice@example.org", [ADA])
    assert (sent["From"], sent["To"], sent["Subject"], sent["Auto-Submitted"]) == (
        "Sluice <sluice@example.org>", ADA, "Verify your e-mail address", "auto-generated",
    )  # fmt: skip
    text = sent.get_content().replace("\r\n", "\n")
    assert "organization acme at https://sluice.example.org" in text
    assert (
        f"""https://sluice.example.org{CONFIRM} \\\n      -d '{{"token": "{secret}", "password": "YOUR PASSWORD"}}'"""
        in text
    )
    invited = {"email": "bob@example.org", "role": "VIEWER", "sendMail": True}
    assert (await control.call("POST", INVITATIONS, invited))[0] == 201
    sent = mail(office)
    assert (sent["To"], sent["Subject"]) == ("bob@example.org", "Invitation to the organization acme")
    assert "You are invited to the organization acme at https://sluice.example.org, with the role VIEWER." in (
        text := sent.get_content()
    )
    assert f'"inviteToken": "{token(office)}"' in text


async def test_stolen_secret_is_worth_nothing_to_another_account(
    control: Control, person: NewPerson, ada: Person, office: Office
) -> None:
    """Nor to the squatter whose victim can be made to open a link: it takes the session and the mailbox."""
    squatter = await join(control, control.globex, SQUATTED)
    bob = await person("bob@example.org")
    of_squatter = await requested(squatter, office)
    secret = await requested(ada, office)
    for thief in (squatter, bob):
        status, answer = await confirmed(thief, secret)
        assert (status, answer["error"]["message"]) == (403, "The token is not valid.")
    assert (await confirmed(ada, of_squatter))[0] == 403
    body = {"token": secret, "password": SQUATTED}
    assert (await control.client.post(CONFIRM, json=body)).status == 401
    assert (await control.call("POST", CONFIRM, body))[0] == 403, "a personal access token is no session"
    assert (await confirmed(ada, secret))[0] == 200


@pytest.mark.both_stores
async def test_secret_is_valid_once_for_half_an_hour_and_one_address(
    control: Control, person: NewPerson, office: Office
) -> None:
    async def spoil(why: str, ada: Person, secret: str) -> None:
        of_ada = users.update().where(users.c.principal_id == ada.id)
        if why == "expired":
            past = datetime.now(UTC) - timedelta(milliseconds=1)
            await control.execute(email_verifications.update().values(expires_at=past))
        elif why == "address":
            await control.execute(of_ada.values(email="eve@example.org"))
        elif why == "replaced":
            assert await requested(ada, office) != secret
        elif why == "used":
            assert (await confirmed(ada, secret))[0] == 200
            await control.execute(of_ada.values(email_verified=False, home_org_id=control.acme.organization.id))

    for why in ("expired", "replaced", "used", "address", "malformed"):
        ada = await person(f"{why}@example.org")
        secret = await requested(ada, office)
        async with control.checks.database.read() as connection:
            found = sa.select(email_verifications).where(email_verifications.c.principal_id == ada.id)
            row = (await connection.execute(found)).one()
        assert row.expires_at - row.created_at == timedelta(minutes=30)
        await spoil(why, ada, secret)
        status, answer = await confirmed(ada, secret[::-1] if why == "malformed" else secret)
        assert (status, answer["error"]["code"]) == (403, "forbidden"), why
        assert (await ada.call("GET", "/auth/user"))[1]["emailVerified"] is False


@pytest.mark.both_stores
async def test_one_of_two_accounts_verifies_the_address(control: Control, person: NewPerson, office: Office) -> None:
    """At once; the other one stays as it is, and the request of a third does not tell."""
    accounts = [await person(), await join(control, control.globex, SQUATTED)]
    secrets = [await requested(account, office) for account in accounts]
    answers = await asyncio.gather(*(confirmed(*one) for one in zip(accounts, secrets, strict=True)))
    assert sorted(status for status, _ in answers) == [200, 409]
    [loser] = [one for one, (status, _) in zip(accounts, answers, strict=True) if status == 409]
    [refused] = [answer for status, answer in answers if status == 409]
    assert "Another account has verified this e-mail address." in refused["error"]["message"]
    assert (await loser.call("GET", "/auth/user"))[1]["emailVerified"] is False
    assert (await loser.call("POST", REQUEST))[0] == 202, "who has only the session learns nothing"
    assert (await confirmed(loser, token(office)))[0] == 409


async def test_who_has_the_mailbox_sets_the_password(control: Control, office: Office) -> None:
    """An administrator who has accepted in the name of somebody else would get into the other organizations too."""
    account = await join(control, control.acme, SQUATTED)
    secret = await requested(account, office)
    status, answer, _ = await account.call("POST", CONFIRM, {"token": secret, "password": "x" * 11})
    assert (status, answer["error"]["details"][0]["path"]) == (400, "body.password")
    assert (await confirmed(account, secret[::-1], "a battery of her own"))[0] == 403
    assert (await log_in(control, SQUATTED))[0] == 200
    assert (await confirmed(account, secret, "a battery of her own"))[0] == 200
    assert (await log_in(control, SQUATTED))[0] == 401
    status, material = await log_in(control, "a battery of her own")
    assert (status, material["user"]["id"]) == (200, account.id)
    squatter = await join(control, control.globex, SQUATTED)
    assert squatter.id != account.id, "and the salt is still that of the address"
    assert (await log_in(control, SQUATTED))[1]["user"]["id"] == squatter.id


async def test_verified_account_makes_no_passwords_be_hashed(
    person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its attempts are not limited like failed ones, and two at a time keep everybody's logins waiting."""
    ada = await person(verified=True)
    monkeypatch.setattr(PasswordHasher, "hash", None)
    for _ in range(6):
        status, answer = await confirmed(ada, "emv_unknown")
        assert (status, answer["error"]["message"]) == (409, "The e-mail address is already verified.")


async def test_second_account_joins_as_the_verified_one_after_its_removal(
    control: Control, ada: Person, office: Office
) -> None:
    there = await join(control, control.globex, SQUATTED)
    assert (await confirmed(ada, await requested(ada, office)))[0] == 200
    path = f"/orgs/globex/members/{there.id}"
    assert (await control.call("DELETE", path, token=control.globex.token.secret))[0] == 204
    again = await join(control, control.globex, existingAccount=True)
    assert again.id == ada.id
    assert (await there.call("GET", "/auth/user"))[0] == 401
    assert (await control.call("POST", "/auth/login", {"email": ADA, "password": SQUATTED}))[0] == 401


async def test_mailed_invitation_verifies_the_address(control: Control, office: Office) -> None:
    squatter = await join(control, control.globex, SQUATTED)
    made = await invite(control, control.acme, sendMail=True)
    assert (made["inviteToken"], made["mailed"]) == (None, True)
    status, material = await accept(control, {"inviteToken": token(office)})
    assert (status, material["user"]["emailVerified"]) == (201, True)
    assert material["user"]["id"] != squatter.id
    assert (await squatter.call("GET", "/auth/user"))[1]["emailVerified"] is False
    shown = (await control.call("GET", INVITATIONS))[1]["data"][0]
    assert (shown["state"], shown["mailed"]) == ("ACCEPTED", True)
    assert (await control.call("GET", "/orgs/acme/members"))[1]["data"][1]["emailVerified"] is True
    assert (await accept(control, {"inviteToken": token(office)}))[0] == 401


async def test_mailed_invitation_to_a_verified_address_needs_its_account(
    control: Control, person: NewPerson, office: Office
) -> None:
    """The mailbox alone does not take over an account, and makes no second one."""
    ada = await person(verified=True)
    _, codes = await enrol(ada)
    await invite(control, control.globex, sendMail=True)
    invitation = {"inviteToken": token(office)}
    assert (await accept(control, invitation, SQUATTED))[0] == 401
    status, answer = await accept(control, invitation)
    assert (status, answer["error"]["code"]) == (401, "mfa_required")
    status, material = await accept(control, invitation, totp=codes[0])
    assert (status, material["user"]["id"]) == (201, ada.id)


async def test_address_verified_during_acceptance_gets_no_second_account(
    control: Control, ada: Person, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await invite(control, control.globex, sendMail=True)
    find = user_store.find_password_hash

    async def slow(*given: Any) -> str | None:
        monkeypatch.undo()
        found = await find(*given)
        await verify(control, ada.id)
        return found

    monkeypatch.setattr(user_store, "find_password_hash", slow)
    assert (await accept(control, {"inviteToken": token(office)}))[0] == 409
    assert (await accept(control, {"inviteToken": token(office)}))[0] == 201, "with the account that there is by now"
    assert (await ada.call("GET", "/auth/organizations"))[1]["data"][1]["slug"] == "globex"


async def test_mailed_invitations_of_two_organizations_make_one_account(control: Control, office: Office) -> None:
    """Also if they are accepted at once."""
    for tenant in (control.acme, control.globex):
        await invite(control, tenant, sendMail=True)
    invitations = [{"inviteToken": token(office, number)} for number in range(2)]
    answers = await asyncio.gather(*(accept(control, one) for one in invitations))
    assert sorted(status for status, _ in answers) in ([201, 201], [201, 409])
    again = [await accept(control, one) for one, (status, _) in zip(invitations, answers, strict=True) if status == 409]
    joined = [material["user"]["id"] for status, material in (*answers, *again) if status == 201]
    assert len(joined) == 2
    assert len(set(joined)) == 1


async def test_administrator_lets_in_whoever_cannot_use_the_verified_account(control: Control, office: Office) -> None:
    """Its password is forgotten, or it is somebody's who had the mailbox before: an invitation without a mail."""
    await invite(control, control.globex, sendMail=True)
    status, former = await accept(control, {"inviteToken": token(office)}, SQUATTED)
    assert (status, former["user"]["emailVerified"]) == (201, True)
    await invite(control, control.acme, sendMail=True)
    assert (await accept(control, {"inviteToken": token(office)}))[0] == 401
    ada = await join(control, control.acme)
    assert ada.id != former["user"]["id"]
    assert (await log_in(control, PASSWORD))[1]["user"]["id"] == ada.id
    assert (await confirmed(ada, await requested(ada, office)))[0] == 409
    assert (await ada.call("GET", "/orgs/acme/projects"))[0] == 200


async def test_invitation_whose_mail_fails_is_open_and_has_replaced_others(control: Control, office: Office) -> None:
    for number, (said, status) in enumerate({"550 unknown": 409, "450 busy": 503}.items()):
        email = f"ada{number}@example.org"
        shown = await invite(control, control.acme, email)
        office.data = said
        body = {"email": email, "role": "MEMBER", "sendMail": True}
        assert (await control.call("POST", INVITATIONS, body))[0] == status
        listed = [one for one in (await control.call("GET", INVITATIONS))[1]["data"] if one["email"] == email]
        assert [(one["state"], one["mailed"]) for one in listed] == [("OPEN", True), ("REVOKED", False)]
        assert (await accept(control, shown))[0] == 401
        assert (await control.call("DELETE", f"{INVITATIONS}/{listed[0]['id']}"))[0] == 204
        assert (await accept(control, await invite(control, control.acme, email)))[0] == 201


async def test_next_invitation_replaces_a_mailed_one(control: Control, office: Office) -> None:
    for number, mailed in enumerate((True, False)):
        email = f"ada{number}@example.org"
        await invite(control, control.acme, email, sendMail=True)
        before = {"inviteToken": token(office)}
        shown = await invite(control, control.acme, email, sendMail=mailed)
        assert (await accept(control, before))[0] == 401
        status, material = await accept(control, {"inviteToken": token(office)} if mailed else shown)
        assert (status, material["user"]["emailVerified"]) == (201, mailed)


async def test_refused_mail_is_reported(control: Control, person: NewPerson, office: Office) -> None:
    ada, bob = await person(), "bob@example.org"
    rejected = "550 unknown", 409, "The mail server rejected the mail (SMTP 550)."
    deferred = "450 busy", 503, "The mail server deferred the mail (SMTP 450). Retry later."
    for said, status, message in (rejected, deferred):
        for data, recipients in ((said, {}), ("250 OK", {ADA: said, bob: said})):
            office.data, office.recipients = data, recipients
            for caller, path, body in (
                (ada.access, REQUEST, None),
                (control.acme.token.secret, INVITATIONS, {"email": bob, "role": "VIEWER", "sendMail": True}),
            ):
                found, answer, headers = await control.call("POST", path, body, caller)
                assert (found, answer["error"]["message"]) == (status, message)
                assert ("Retry-After" in headers) is (status == 503)
    office.data, office.recipients = "250 OK", {}
    assert (await confirmed(ada, await requested(ada, office)))[0] == 200, "and can be asked for again"
    async with control.client.get("/metrics") as reply:
        metrics = await reply.text()
    assert 'sluice_account_mails_total{kind="verification",result="sent"} 1.0' in metrics
    assert 'sluice_account_mails_total{kind="invitation",result="rejected"} 4.0' in metrics


async def test_unavailable_mail_server_is_503(control: Control, ada: Person, office: Office) -> None:
    office.hangs = True
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("control.outbound.smtp.TOTAL_TIMEOUT_S", 0.3)
        status, answer, _ = await ada.call("POST", REQUEST)
    assert (status, answer["error"]["message"]) == (503, "The mail server is unavailable. Retry later.")
    async with control.client.get("/metrics") as reply:
        assert 'kind="verification",result="failed"} 1.0' in await reply.text()
    assert (await ada.call("GET", "/auth/user"))[0] == 200


async def test_mails_in_flight_are_bounded(person: NewPerson, office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = [await person(f"p{number}@example.org") for number in range(6)]
    release, inside = asyncio.Event(), 0

    async def slow(_mail: bytes, _recipients: list[str], _egress: object, _server: object) -> dict[str, int]:
        nonlocal inside
        inside += 1
        await release.wait()
        return {}

    monkeypatch.setattr("control.identity.mail.submit", slow)
    asked = [asyncio.ensure_future(one.call("POST", REQUEST)) for one in accounts]
    async with asyncio.timeout(30):
        done, _ = await asyncio.wait(asked[:], return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 2:
            more, _ = await asyncio.wait(set(asked) - done, return_when=asyncio.FIRST_COMPLETED)
            done |= more
    assert {one.result()[0] for one in done} == {503}
    release.set()
    assert sorted([status for status, _, _ in await asyncio.gather(*asked)]) == [202] * 4 + [503] * 2
    assert inside == 4


async def test_mails_are_limited_by_account_and_by_address_within_an_organization(
    control: Control, ada: Person, office: Office
) -> None:
    """One organization uses up nothing of another, and learns nothing about it."""
    squatter = await join(control, control.globex, SQUATTED)
    statuses = [(await squatter.call("POST", REQUEST))[0] for _ in range(6)]
    assert statuses == [202] * 5 + [429]
    assert (await ada.call("POST", REQUEST))[0] == 202
    body = {"email": "bob@example.org", "role": "VIEWER", "sendMail": True}
    statuses = [(await control.call("POST", INVITATIONS, body))[0] for _ in range(6)]
    assert statuses == [201] * 5 + [429]
    answer = await control.call("POST", "/orgs/globex/invitations", body, control.globex.token.secret)
    assert answer[0] == 201
    assert (await control.call("POST", INVITATIONS, body | {"sendMail": False}))[0] == 201


async def test_pending_second_factor_verifies_no_address(control: Control, ada: Person, office: Office) -> None:
    secret = await requested(ada, office)
    await enrol(ada)
    status, material = await log_in(control, PASSWORD)
    assert status == 200
    owing = Person(control, ADA, ada.id, material["tokens"]["accessToken"], "")
    assert (await confirmed(owing, secret))[1]["error"]["code"] == "mfa_required"
    assert (await owing.call("POST", REQUEST))[1]["error"]["code"] == "mfa_required"
    assert (await confirmed(ada, secret))[0] == 200


async def test_removed_account_verifies_nothing(control: Control, person: NewPerson, office: Office) -> None:
    """And keeps no secrets, unless it is verified and can return."""
    for email, verified in (("ada@example.org", False), ("bob@example.org", True)):
        gone = await person(email)
        secret = await requested(gone, office)
        await enrol(gone)
        if verified:
            await verify(control, gone.id)
        assert (await control.call("DELETE", f"/orgs/acme/members/{gone.id}"))[0] == 204
        assert (await confirmed(gone, secret))[0] == 401
        async with control.checks.database.read() as connection:
            kept = (await connection.execute(sa.select(users).where(users.c.principal_id == gone.id))).one()
        rows = [await control.count(table) for table in (email_verifications, recovery_codes)]
        assert (kept.totp_secret is not None, kept.totp_confirmed_at is not None) == (verified, verified)
        assert (rows, kept.password_hash is not None) == ([1, 10] if verified else [0, 0], True)


async def test_mailed_secrets_are_neither_stored_nor_logged(
    control: Control, person: NewPerson, office: Office, migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("mail.log"), "disabled", True)  # of the mail server, which is in this process
    ada = await person()
    with captured_log("debug") as log:
        answers = [await ada.call("POST", REQUEST)]
        secrets = [token(office)]
        body = {"email": "bob@example.org", "role": "VIEWER", "sendMail": True}
        answers.append(await control.call("POST", INVITATIONS, body))
        secrets.append(token(office))
        office.data = "451 busy"
        answers += [await ada.call("POST", REQUEST), await control.call("POST", INVITATIONS, body)]
        secrets += [token(office, 2), token(office, 3)]
        answers.append(await ada.call("POST", CONFIRM, {"token": secrets[0], "password": PASSWORD}))
    assert [status for status, _, _ in answers] == [202, 201, 503, 503, 403]
    searched = {"database": stored(migrated_url), "log": log.getvalue().encode(), "answers": repr(answers).encode()}
    assert [(name, secret) for secret in secrets for name, text in searched.items() if secret.encode() in text] == []


async def test_mails_link_to_the_page_of_sluice(control: Control, ada: Person, office: Office) -> None:
    secret = await requested(ada, office)
    text = mail(office).get_content()
    assert secret in text
    assert "https://sluice.example.org/ui/acme/settings/account" in text
    await invite(control, control.acme, "bob@example.org", sendMail=True)
    assert f"https://sluice.example.org/ui/invitations#inviteToken={token(office)}" in mail(office).get_content()


@pytest.mark.control_settings(page_url="https://page.example.org/")
async def test_mails_link_to_the_page_of_the_operator(control: Control, person: NewPerson, office: Office) -> None:
    secret = await requested(await person(), office)
    assert f"https://page.example.org/email-verification#token={secret}" in mail(office).get_content()
    await invite(control, control.acme, "bob@example.org", sendMail=True)
    assert f"https://page.example.org/invitations#inviteToken={token(office)}" in mail(office).get_content()
