"""One's own account: what is shown of it, what one may change, and the password."""

import pytest

from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, NewPerson, Person


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
