"""Chat users act as principals that they are linked with, for as long as these could act themselves."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.auth.tables import organizations, principals, sessions, users
from control.identity import chat_links as link_repository
from control.identity.chat_links import chat_link_codes, chat_links, normalize_code
from control.inbound.chat.actor import (
    LINK_FIRST,
    NO_CODE,
    NOT_LINKED,
    TOO_MANY_CODES,
    TOO_MANY_LINKS,
    UNLINKED,
    WRONG_CODE,
)
from control.inbound.chat.replies import CHAT_A_MARKUP
from proto.identity import Role
from tests.control.approvals.office import Member
from tests.control.identity.conftest import NewPerson, Person, enrol
from tests.control.inbound.chat.platforms import Chat, interaction, subcommand

LINKS = "/orgs/acme/chat-links"
MAY_NOT = f"{CHAT_A_MARKUP.text(LINK_FIRST)}\n`/sluice link CODE`"


async def new_code(person: Person) -> str:
    status, made, _ = await person.call("POST", LINKS)
    assert status == 201, made
    return str(made["code"])


async def run(chat: Chat, statement: Any) -> None:
    async with chat.database.write() as connection:
        await connection.execute(statement)


async def test_a_code_links_one_chat_user_once(chat: Chat, person: NewPerson) -> None:
    ada = await person()
    status, made, _ = await ada.call("POST", LINKS)
    assert (status, sorted(made)) == (201, ["code", "command", "expiresAt"])
    assert made["command"] == f"/sluice link {made['code']}"
    async with chat.database.read() as connection:
        stored = str((await connection.execute(sa.select(chat_link_codes))).all())
    assert made["code"] not in stored
    assert str(normalize_code(made["code"])) not in stored
    assert await chat.says("status") == MAY_NOT

    typed = made["code"].lower().replace("-", " ").replace("0", "o").replace("1", "l")
    assert await chat.says(f"link {typed.replace(' ', '')}") == "You act as Ada of acme here.\n`/sluice help`"
    assert await chat.says(f"link {made['code']}", "U2") == WRONG_CODE
    assert await chat.says("status") == "No open approval requests."
    assert await chat.says("status", "U2") == MAY_NOT
    assert await chat.says("status", team="T0002") == MAY_NOT

    status, page, _ = await ada.call("GET", LINKS)
    [link] = page["data"]
    assert status == 200
    assert link == {
        "id": link["id"],
        "principalId": ada.id,
        "platform": "chat-a",
        "teamId": "T0001",
        "userId": "U2147483697",
        "createdAt": link["createdAt"],
        "lastUsedAt": None,
    }
    assert await chat.says("unlink") == UNLINKED
    assert await chat.says("unlink") == NOT_LINKED
    assert await chat.says("status") == MAY_NOT
    events = await chat.audited("chat_link.create", "chat_link.delete")
    assert [(action, object_id) for action, _, object_id in events] == [
        ("chat_link.create", link["id"]),
        ("chat_link.delete", link["id"]),
    ]


async def test_an_access_token_makes_no_code(chat: Chat) -> None:
    member = await chat.member()
    status, answer, _ = await chat.control.call("POST", LINKS, token=member.token)
    assert (status, answer["error"]["code"]) == (403, "forbidden")
    assert await chat.count(chat_link_codes) == 0
    status, _, _ = await chat.control.call("POST", "/orgs/globex/chat-links", token=member.token)
    assert status == 404


async def test_a_code_ends_with_what_made_it(chat: Chat, person: NewPerson) -> None:
    ada = await person()
    columns = chat_link_codes.c

    replaced = await new_code(ada)
    expired = await new_code(ada)
    assert await chat.says(f"link {replaced}") == WRONG_CODE
    earlier = sa.select(columns.created_at).scalar_subquery()
    await run(chat, chat_link_codes.update().values(expires_at=earlier))
    assert await chat.says(f"link {expired}") == WRONG_CODE

    of_session = await new_code(ada)
    await ada.control.call("POST", "/auth/logout", {"refreshToken": ada.refresh}, ada.access)
    assert await chat.says(f"link {of_session}", "U2") == WRONG_CODE

    bob = await person("bob@example.org")
    of_disabled = await new_code(bob)
    await run(chat, principals.update().where(principals.c.id == bob.id).values(disabled_at=sa.func.now()))
    assert await chat.says(f"link {of_disabled}", "U3") == WRONG_CODE
    await run(chat, principals.update().where(principals.c.id == bob.id).values(disabled_at=None))
    of_removed = await new_code(bob)
    status, _, _ = await chat.control.call("DELETE", f"/orgs/acme/members/{bob.id}")
    assert status == 204
    assert await chat.count(chat_link_codes) == 0
    assert await chat.says(f"link {of_removed}", "U4") == WRONG_CODE
    assert await chat.count(chat_links) == 0


async def test_a_session_that_owes_a_second_factor_makes_no_link(chat: Chat, person: NewPerson) -> None:
    ada = await person()
    code = await new_code(ada)
    await enrol(ada)
    await run(chat, sessions.update().where(sessions.c.principal_id == ada.id).values(methods=["pwd"]))
    assert (await ada.call("POST", LINKS))[0] == 401
    assert await chat.says(f"link {code}") == WRONG_CODE


async def test_guesses_are_counted_by_chat_user(chat: Chat, person: NewPerson) -> None:
    assert await chat.says("link") == NO_CODE
    wrong = "0" * link_repository.CODE_LENGTH
    assert [await chat.says(f"link {wrong}") for _ in range(6)] == [WRONG_CODE] * 4 + [TOO_MANY_CODES] * 2
    code = await new_code(await person())
    assert await chat.says(f"link {code}") == TOO_MANY_CODES
    assert await chat.says(f"link {code}", "U2") != TOO_MANY_CODES


async def test_the_links_of_one_principal_are_bounded(
    chat: Chat, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_repository, "MAX_LINKS", 1)
    ada = await person()
    assert (await chat.says(f"link {await new_code(ada)}")).startswith("You act as Ada")
    assert (await chat.says(f"link {await new_code(ada)}")).startswith("You act as Ada")
    assert await chat.says(f"link {await new_code(ada)}", "U2") == CHAT_A_MARKUP.text(TOO_MANY_LINKS)


async def test_links_are_removed_by_their_owner_and_by_who_manages_members(chat: Chat) -> None:
    ada, bob = await chat.member(), await chat.member()
    first, second = await chat.linked(ada, "U1"), await chat.linked(ada, "U2")
    for link_id, token, expected in (
        (first, bob.token, 404),
        ("chl_" + "0" * 26, ada.token, 404),
        (first, chat.control.globex.token.secret, 404),
        (first, ada.token, 204),
        (first, ada.token, 404),
        (second, None, 204),
    ):
        status, _, _ = await chat.control.call("DELETE", f"{LINKS}/{link_id}", token=token)
        assert status == expected, (link_id, expected)
    third = await chat.linked(ada, "U3")
    listed = [
        [one["id"] for one in (await chat.control.call("GET", LINKS, token=token))[1]["data"]]
        for token in (None, ada.token, bob.token)
    ]
    assert listed == [[third], [third], []]


async def test_a_link_ends_with_the_membership(chat: Chat) -> None:
    ada, bob = await chat.member(), await chat.member()
    await chat.linked(ada, "U1")
    await chat.linked(bob, "U2")
    status, _, _ = await chat.control.call("DELETE", f"/orgs/acme/members/{ada.id}")
    assert status == 204
    assert [await chat.says("status", user) for user in ("U1", "U2")] == [MAY_NOT, "No open approval requests."]
    assert await chat.count(chat_links) == 1


async def test_a_link_ends_with_the_organization(chat: Chat, person: NewPerson) -> None:
    await chat.linked(await chat.member(tenant=chat.control.globex), "U1", tenant=chat.control.globex)
    token = chat.control.globex.token.secret
    status, answer, _ = await chat.control.call("DELETE", "/orgs/globex?confirm=globex", token=token)
    assert status in (200, 202, 204), answer
    assert await chat.count(chat_links) == 0
    assert await chat.says("status", "U1") == MAY_NOT
    assert (await chat.says(f"link {await new_code(await person())}", "U1")).startswith("You act as Ada")


async def test_a_link_has_the_rights_of_now(chat: Chat) -> None:
    ada = await chat.member(Role.BILLING)
    await chat.linked(ada)
    assert CHAT_A_MARKUP.text("Your role in acme lacks approvals:read.") == await chat.says("status")
    status, _, _ = await chat.control.call("PATCH", f"/orgs/acme/members/{ada.id}", {"role": "VIEWER"})
    assert status == 200
    assert await chat.says("status") == "No open approval requests."
    await run(chat, principals.update().where(principals.c.id == ada.id).values(disabled_at=sa.func.now()))
    assert "no longer a member" in await chat.says("status")


async def test_enforced_single_sign_on_counts_for_links(chat: Chat, person: NewPerson) -> None:
    """As for sessions: links of sessions that a provider vouched for, and the owner who keeps a way in."""
    ada, bob = await chat.member(), await chat.member()
    owner = chat.control.acme.owner_id
    code = await new_code(await person())
    await run(chat, organizations.update().where(organizations.c.slug == "acme").values(sso_enforced=True))
    assert "single sign-on" in await chat.says(f"link {code}"), "a session outside of it makes no link"
    assert await chat.count(chat_links) == 0
    account = {"principal_id": owner, "email": "owner@example.org", "password_hash": "x", "email_verified": True}
    now = sa.func.now()
    await run(chat, users.insert().values(account | {"locale": "en", "theme": "system", "created_at": now}))
    await chat.linked(ada, "U1")
    await chat.linked(bob, "U2", is_federated=True)
    await chat.linked(Member(owner, ""), "U3")
    answers = [await chat.says("status", user) for user in ("U1", "U2", "U3")]
    assert answers[1:] == ["No open approval requests."] * 2
    assert "single sign-on" in answers[0]
    await run(chat, users.update().where(users.c.principal_id == owner).values(password_hash=None))
    assert "single sign-on" in await chat.says("status", "U3")


async def test_links_of_chat_b_are_global(chat: Chat, person: NewPerson) -> None:
    code = await new_code(await person())
    status, answer = await chat.interact(interaction(2, subcommand("link", code=code)))
    assert status == 200
    assert answer == {"type": 4, "data": {"content": "You act as Ada of acme here.\n`/sluice help`", "flags": 64}}
    async with chat.database.read() as connection:
        row = (await connection.execute(sa.select(chat_links))).one()
    assert (row.platform, row.team_id, row.user_id) == ("chat-b", "", "53908232506183680")


async def test_expired_codes_are_deleted(chat: Chat, person: NewPerson) -> None:
    await new_code(await person())
    async with chat.database.write() as connection:
        now = (await connection.execute(sa.select(chat_link_codes.c.expires_at))).scalar_one()
        await link_repository.delete_expired_codes(connection, now - timedelta(seconds=1))
    assert await chat.count(chat_link_codes) == 1
    async with chat.database.write() as connection:
        await link_repository.delete_expired_codes(connection, now)
    assert await chat.count(chat_link_codes) == 0
