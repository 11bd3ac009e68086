"""Keys of attributes that a project exempts from scrubbing by key, over HTTP."""

import asyncio
from typing import Any

import pytest

from control.identity.exempt_keys import validate_exempt_keys
from control.settings import ControlSettings
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control

WEB = "/orgs/acme/projects/web"
LONGEST = "\u20ac" * 85 + "t"  # 256 bytes of UTF-8


@pytest.fixture
def control_settings() -> ControlSettings:
    """The defaults: bodies may be as large as the longest list."""
    return ControlSettings()


async def change(control: Control, keys: object, token: str | None = None) -> tuple[int, Any]:
    """Status and body of the response to a change of the project's exempt keys."""
    status, body, _ = await control.call("PATCH", WEB, {"exemptKeys": keys}, *([token] if token else []))
    return status, body


async def differences(control: Control) -> list[Any]:
    """How each change of the project changed its exempt keys, according to the audit log, newest first."""
    _, audit, _ = await control.call("GET", "/orgs/acme/audit", params={"action": "project.update"})
    return [event["data"]["exemptKeys"] for event in audit["data"]]


@pytest.mark.both_stores
async def test_a_change_replaces_the_list_and_the_audit_log_has_the_difference(control: Control) -> None:
    before = await control.checks.project_keys.check(legacy_key=control.acme.key.secret)
    assert before.exempt_keys == ()
    status, changed = await change(control, ["llm.token", "Llm.Token", "session key", LONGEST])
    assert (status, changed["exemptKeys"]) == (200, ["llm.token", "Llm.Token", "session key", LONGEST])
    status, renamed, _ = await control.call("PATCH", WEB, {"name": "Shop"})
    assert (status, renamed["name"], renamed["exemptKeys"]) == (200, "Shop", changed["exemptKeys"])
    status, changed = await change(control, ["token", "llm.token"])
    assert (status, changed["exemptKeys"]) == (200, ["token", "llm.token"])
    assert (await control.call("GET", WEB))[1] == changed
    assert (await control.call("GET", "/orgs/acme/projects"))[1]["data"] == [changed]
    after = await control.checks.project_keys.check(legacy_key=control.acme.key.secret)
    assert after.exempt_keys == ("token", "llm.token")
    assert (await change(control, []))[1]["exemptKeys"] == []
    assert await differences(control) == [
        {"added": [], "removed": ["token", "llm.token"]},
        {"added": ["token"], "removed": ["Llm.Token", "session key", LONGEST]},
        {"added": [], "removed": []},
        {"added": ["llm.token", "Llm.Token", "session key", LONGEST], "removed": []},
    ]


async def test_changes_at_once_are_recorded_one_after_the_other(control: Control) -> None:
    await asyncio.gather(*(change(control, [f"token.{number}"]) for number in range(6)))
    told = await differences(control)
    assert [one["removed"] for one in told] == [one["added"] for one in told[1:]] + [[]]


async def test_the_longest_list_is_accepted(control: Control) -> None:
    keys = [f"{number:03}" + "\u20ac" * 84 + "k" for number in range(100)]  # which JSON may escape
    status, body, _ = await control.call("PATCH", WEB, {"exemptKeys": keys})
    assert (status, body["exemptKeys"]) == (200, keys)


@pytest.mark.parametrize(
    ("keys", "issues"),
    [
        (None, [("body.exemptKeys", "type")]),
        ("token", [("body.exemptKeys", "type")]),
        (["token", 1], [("body.exemptKeys[1]", "type")]),
        (["", "a"], [("body.exemptKeys[0]", "too_short")]),
        (["a" * 257], [("body.exemptKeys[0]", "too_long")]),
        (["a", LONGEST + "t"], [("body.exemptKeys[1]", "too_long")]),
        (["a\n", "\x00", "a\x7fb", "\x9f"], [(f"body.exemptKeys[{index}]", "format") for index in range(4)]),
        (["a", "A", "b", "a"], [("body.exemptKeys[3]", "repeated")]),
        (["a"] * 101, [("body.exemptKeys", "too_long")]),
        (["token", "db.password", "http.request.header.authorization", "setCookie", "PGPASSWORD"],
         [(f"body.exemptKeys[{index}]", "not_allowed") for index in (1, 2, 3, 4)]),
    ],
)  # fmt: skip
async def test_keys_that_cannot_be_exempted_are_400(control: Control, keys: object, issues: list[Any]) -> None:
    status, answer = await change(control, keys)
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert [(issue["path"], issue["code"]) for issue in answer["error"]["details"]] == issues
    assert (await control.call("GET", WEB))[1]["exemptKeys"] == []
    assert await differences(control) == []


async def test_the_refusal_says_why(control: Control) -> None:
    _, answer = await change(control, ["password", LONGEST + "t", "a", "a", "a\n"])
    assert answer["error"]["details"] == [
        {
            "path": "body.exemptKeys[4]",
            "message": "Must have at most 256 bytes of UTF-8, and no control characters.",
            "code": "format",
        }
    ]
    _, answer = await change(control, ["password", LONGEST + "t", "a", "a"])
    assert [(issue["path"], issue["message"]) for issue in answer["error"]["details"]] == [
        ("body.exemptKeys[0]", "password cannot be exempted: values of this key are always scrubbed."),
        ("body.exemptKeys[1]", "Must have at most 256 bytes of UTF-8."),
        ("body.exemptKeys[3]", "a is listed twice."),
    ]


async def test_who_may_exempt_keys(control: Control) -> None:
    expected = {Role.VIEWER: 403, Role.BILLING: 403, Role.MEMBER: 403, Role.ADMIN: 200}
    for role, status in expected.items():
        _, token = await new_member_token(control.checks.database, control.acme, role)
        assert (role, (await change(control, [f"token.{role}"], token))[0]) == (role, status)
    assert (await change(control, ["x"], control.globex.token.secret))[0] == 404
    assert (await control.call("PATCH", "/orgs/acme/projects/none", {"exemptKeys": ["x"]}))[0] == 404
    assert [one["added"] for one in await differences(control)] == [["token.ADMIN"]]


@pytest.mark.parametrize(
    "keys", [[""], ["a\n"], ["\x85"], ["a", "a"], ["a" * 257], ["password"], list(map(str, range(101)))]
)
def test_no_other_way_exempts_them(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="at most 100 different keys that may be exempted"):
        validate_exempt_keys(keys)
