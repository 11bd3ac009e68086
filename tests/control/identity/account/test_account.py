"""One's own account: what is shown of it, what one may change, and the password."""

from datetime import UTC, datetime
from typing import Final

import pytest
from argon2 import PasswordHasher, extract_parameters

from chassis.auth.tables import sessions as sessions_table
from control.identity.users import session_store, user_store
from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person, enrol
from tests.control.test_rights_meanwhile import CHANGES as CHANGES_WITH_A_TOKEN
from tests.control.test_rights_meanwhile import sent_slowly


async def test_account_can_be_read_and_changed(ada: Person) -> None:
    status, shown, _ = await ada.call("GET", "/auth/user")
    assert (status, shown["name"], shown["avatarUrl"]) == (200, "Ada", None)
    change = {"name": "Ada L.", "locale": "pt-BR", "theme": "dark", "avatarUrl": "https://example.org/a.png"}
    status, changed, _ = await ada.call("PATCH", "/auth/user", change)
    assert (status, changed) == (200, shown | change)
    status, changed, _ = await ada.call("PATCH", "/auth/user", {"avatarUrl": None})
    assert (status, changed) == (200, shown | change | {"avatarUrl": None})
    assert (await ada.call("PATCH", "/auth/user", {}))[1] == changed
    assert (await ada.call("GET", "/auth/user"))[1] == changed


INVALID_CHANGES: list[tuple[object, list[tuple[str, str]]]] = [
    ({"name": ""}, [("body.name", "too_short")]),
    ({"name": "x" * 201}, [("body.name", "too_long")]),
    ({"locale": "e"}, [("body.locale", "too_short")]),
    ({"locale": "en-" + "x" * 33}, [("body.locale", "too_long")]),
    ({"locale": "en_US"}, [("body.locale", "format")]),
    ({"theme": "blue"}, [("body.theme", "not_allowed")]),
    ({"avatarUrl": "http://example.org"}, [("body.avatarUrl", "format")]),
    ({"avatarUrl": "https://example.org/ a"}, [("body.avatarUrl", "format")]),
    ({"avatarUrl": "https://" + "a" * 2_041}, [("body.avatarUrl", "too_long")]),
    ({"email": "other@example.org"}, [("body.email", "unknown_field")]),
    ({"name": None, "theme": None}, [("body.name", "type"), ("body.theme", "type")]),
]


async def test_invalid_changes_name_every_field(person: NewPerson) -> None:
    ada, wrong = await person(), []
    for body, issues in INVALID_CHANGES:
        status, answer, _ = await ada.call("PATCH", "/auth/user", body)
        named = [(issue["path"], issue["code"]) for issue in answer.get("error", {}).get("details", ())]
        if (status, named) != (400, issues):
            wrong.append((body, status, answer))
    assert wrong == []


BOUNDS = [
    {"name": "x" * 200},
    {"locale": "en"},
    {"locale": "abcdefgh-12345678-12345678-12345678"},
    {"theme": "system"},
    {"avatarUrl": "https://" + "a" * 2_040},
]


@pytest.mark.both_stores
async def test_bounds_are_inclusive(person: NewPerson) -> None:
    ada, wrong = await person(), []
    for body in BOUNDS:
        status, answer, _ = await ada.call("PATCH", "/auth/user", body)
        if (status, answer | body) != (200, answer):
            wrong.append((body, status, answer))
    assert wrong == []


async def test_changing_the_password_ends_all_other_sessions(control: Control, ada: Person) -> None:
    other = (await ada.login())[1]["tokens"]["accessToken"]
    body = {"current": PASSWORD, "password": "another horse battery"}
    assert (await ada.call("POST", "/auth/password", body | {"current": "wrong"}))[0] == 403
    status, answer, _ = await ada.call("POST", "/auth/password", body)
    assert (status, answer) == (204, None)
    assert (await ada.call("GET", "/auth/user"))[0] == 200
    assert (await control.call("GET", "/auth/user", token=other))[0] == 401
    assert (await ada.login())[0] == 401
    assert (await ada.login(password="another horse battery"))[0] == 200


async def test_passwords_have_12_to_200_characters(person: NewPerson) -> None:
    ada, current = await person(), PASSWORD
    for length, expected in ((11, 400), (12, 204), (200, 204), (201, 400)):
        password = "pä" * (length // 2) + "x" * (length % 2)
        assert (await ada.call("POST", "/auth/password", {"current": current, "password": password}))[0] == expected
        if expected == 204:
            current = password
            composed = password.replace("ä", "a\N{COMBINING DIAERESIS}")
            status = (await ada.login(password=composed[:200]))[0]
            assert status == (200 if len(composed) <= 200 else 401)


async def test_own_organizations_are_listed(control: Control, person: NewPerson) -> None:
    ada = await person(verified=True)
    await person(org="globex", role="VIEWER", existing=True)
    acme, globex = control.acme.organization, control.globex.organization
    status, found, _ = await ada.call("GET", "/auth/organizations")
    assert (status, found) == (
        200,
        {
            "data": [
                {"id": acme.id, "slug": "acme", "name": "Acme", "role": "MEMBER", "current": True},
                {"id": globex.id, "slug": "globex", "name": "Globex", "role": "VIEWER", "current": False},
            ]
        },
    )


INVITATIONS = "/orgs/acme/invitations"
MEMBERS = "/orgs/acme/members"


async def test_recovery_code_is_valid_for_its_own_account_only(person: NewPerson) -> None:
    ada, bob = await person(), await person("bob@example.org")
    _, of_ada = await enrol(ada)
    await enrol(bob)
    assert (await bob.login(totp=of_ada[0]))[0] == 401
    assert (await ada.login(totp=of_ada[0]))[0] == 200, "and is not spent by who tries it elsewhere"


async def test_read_scope_does_not_permit_retiring_an_agent(control: Control, ada: Person) -> None:
    _, agent, _ = await ada.call("POST", "/orgs/acme/principals", {"kind": "agent", "name": "x"})
    path = f"/orgs/acme/principals/{agent['principalId']}"
    scopes = frozenset({Scope.TOKENS_WRITE, Scope.MEMBERS_READ})
    _, reader = await new_member_token(control.checks.database, control.acme, Role.ADMIN, scopes)
    assert (await control.call("GET", path, token=reader))[0] == 200
    assert (await control.call("DELETE", path, token=reader))[0] == 403
    assert (await control.call("GET", path))[0] == 200


async def test_removal_keeps_credentials_of_other_organizations(control: Control, person: NewPerson) -> None:
    ada, elsewhere = await person(verified=True), await person(org="globex", existing=True)
    assert ada.id == elsewhere.id
    _, here, _ = await ada.call("POST", "/orgs/acme/tokens", {"name": "x"})
    _, there, _ = await elsewhere.call("POST", "/orgs/globex/tokens", {"name": "x"})
    assert (await control.call("DELETE", f"{MEMBERS}/{ada.id}"))[0] == 204
    for token, org, expected in (
        (ada.access, "acme", 401),
        (here["token"], "acme", 401),
        (elsewhere.access, "globex", 200),
        (there["token"], "globex", 200),
    ):
        assert (await control.call("GET", f"/orgs/{org}/projects", token=token))[0] == expected
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": elsewhere.refresh}))[0] == 200


async def test_login_takes_as_long_for_an_unknown_account(
    control: Control, person: NewPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, compute, computed = await person(), PasswordHasher.hash, []

    def recording_hash(self: PasswordHasher, password: str, *, salt: bytes) -> str:
        computed.append(compute(self, password, salt=salt))
        return computed[-1]

    monkeypatch.setattr(PasswordHasher, "hash", recording_hash)
    for email, password in ((ada.email, "another password"), ("eve@example.org", PASSWORD)):
        assert (await control.call("POST", "/auth/login", {"email": email, "password": password}))[0] == 401
    known, unknown = computed
    assert known != unknown
    assert extract_parameters(known) == extract_parameters(unknown)


ORGS = ("acme", "globex")


@pytest.fixture
async def sessions(control: Control, person: NewPerson) -> dict[str, str]:
    """An access token of the same user in each."""
    ada = await person(role="OWNER", verified=True)
    await person(role="OWNER", org="globex", existing=True)
    elsewhere = (await ada.login(orgSlug="globex"))[1]["tokens"]["accessToken"]
    return {"acme": ada.access, "globex": elsewhere}


async def test_tokens_are_listed_in_their_organization_only(control: Control, sessions: dict[str, str]) -> None:
    created = {}
    for org in ORGS:
        path = f"/orgs/{org}/tokens"
        created[org] = (await control.call("POST", path, {"name": "x"}, sessions[org]))[1]["id"]
    for org, other in (ORGS, ORGS[::-1]):
        _, page, _ = await control.call("GET", f"/orgs/{org}/tokens", token=sessions[org])
        assert [one["id"] for one in page["data"]] == [created[org]]
        path = f"/orgs/{org}/tokens/{created[other]}"
        assert (await control.call("DELETE", path, token=sessions[org]))[0] == 404


@pytest.mark.both_stores
async def test_agents_and_services_are_listed_in_their_organization_only(
    control: Control, sessions: dict[str, str]
) -> None:
    """All of an organization, and one's own: to who has not the scope for all."""
    created, narrow = {}, {}
    for org in ORGS:
        body = {"kind": "agent", "name": "x"}
        created[org] = (await control.call("POST", f"/orgs/{org}/principals", body, sessions[org]))[1]["principalId"]
        own = {"name": "x", "scopes": ["tokens:write"]}
        narrow[org] = (await control.call("POST", f"/orgs/{org}/tokens", own, sessions[org]))[1]["token"]
    for org in ORGS:
        for token in (sessions[org], narrow[org]):
            _, page, _ = await control.call("GET", f"/orgs/{org}/principals", token=token)
            assert [one["principalId"] for one in page["data"]] == [created[org]]


CHANGES: Final[dict[str, tuple[str, str, object]]] = {
    "account": ("PATCH", "/auth/user", {"name": "Eve"}),
    "password": ("POST", "/auth/password", {"current": PASSWORD, "password": "another horse battery"}),
    "proposal": ("POST", "/auth/totp", {"password": PASSWORD}),
}


async def test_session_ended_during_the_request_changes_nothing(control: Control, person: NewPerson) -> None:
    """By another process, of which this one has not heard."""
    for number, (name, change) in enumerate(CHANGES.items()):
        ada = await person(f"ada{number}@example.org")

        async def end(ada: Person = ada) -> None:
            async with control.checks.database.write() as connection:
                await session_store.end_all(connection, ada.id, datetime.now(UTC))

        assert await sent_slowly(control, ada.access, change, end) == 401, name
        assert (await ada.login())[1]["user"]["name"] == f"Ada{number}", "and the password is the one of before"


async def test_session_ended_while_a_code_is_sent_consumes_nothing(control: Control, person: NewPerson) -> None:
    async def end() -> None:
        await control.execute(sessions_table.update().values(revoked_at=datetime.now(UTC)))

    for path in ("confirm", "verify", "disable"):
        ada = await person(f"{path}@example.org")
        app, codes = await enrol(ada)
        if path == "confirm":
            async with control.checks.database.write() as connection:
                await user_store.remove_factor(connection, ada.id)
            app.secret = (await ada.call("POST", "/auth/totp", {"password": PASSWORD}))[1]["secret"]
        access = (await ada.login())[1]["tokens"]["accessToken"]
        body = {"code": app.now() if path == "confirm" else codes[0]}
        if path == "disable":
            access, body = ada.access, body | {"password": PASSWORD}
        assert await sent_slowly(control, access, ("POST", f"/auth/totp/{path}", body), end) == 401
        status, material, _ = await ada.login(**({} if path == "confirm" else {"totp": codes[0]}))
        assert (status, material["user"]["mfaEnabled"]) == (200, path != "confirm"), "and the code is not spent"


async def test_factor_enabled_during_the_request_is_required(control: Control, person: NewPerson) -> None:
    for number, change in enumerate((CHANGES["account"], CHANGES_WITH_A_TOKEN["token"])):
        ada = await person(f"ada{number}@example.org")

        async def set_up(ada: Person = ada) -> None:
            async with control.checks.database.write() as connection:
                await user_store.enroll_factor(connection, ada.id, b"sealed")
                await user_store.confirm_factor(connection, ada.id, 1, datetime.now(UTC))

        assert await sent_slowly(control, ada.access, change, set_up) == 401
