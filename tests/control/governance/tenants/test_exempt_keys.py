"""Keys of attributes that a project exempts from scrubbing by key, over HTTP."""

import asyncio
from typing import Any

import pytest

from control.identity.organizations.rules import validate_exempt_keys
from tests.control.conftest import Control

WEB = "/orgs/acme/projects/web"
LONGEST = "\u20ac" * 85 + "t"  # 256 bytes of UTF-8


async def change(control: Control, keys: object) -> tuple[int, Any]:
    """Status and body of the response to a change of the project's exempt keys."""
    status, body, _ = await control.call("PATCH", WEB, {"exemptKeys": keys})
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


INVALID: list[tuple[object, list[tuple[str, str]]]] = [
    (None, [("", "type")]),
    ("token", [("", "type")]),
    (["token", 1], [("[1]", "type")]),
    (["", "a"], [("[0]", "too_short")]),
    (["a" * 257], [("[0]", "too_long")]),
    (["a", LONGEST + "t"], [("[1]", "too_long")]),
    (["a\n", "\x00", "a\x7fb", "\x9f"], [(f"[{index}]", "format") for index in range(4)]),
    (["a", "A", "b", "a"], [("[3]", "repeated")]),
    (["a"] * 101, [("", "too_long")]),
    (["token", "db.password", "http.request.header.authorization", "setCookie", "PGPASSWORD"],
     [(f"[{index}]", "not_allowed") for index in (1, 2, 3, 4)]),
]  # fmt: skip


async def test_keys_that_cannot_be_exempted_are_400(control: Control) -> None:
    """With the reason, and nothing is changed. A list as long as it may be is accepted."""
    for keys, issues in INVALID:
        status, answer = await change(control, keys)
        assert (status, answer["error"]["code"]) == (400, "bad_request")
        found = [(issue["path"], issue["code"]) for issue in answer["error"]["details"]]
        assert found == [(f"body.exemptKeys{path}", code) for path, code in issues], keys
    format_fault = "Must have at most 256 bytes of UTF-8, and no control characters."
    for keys, messages in (
        (["password", LONGEST + "t", "a", "a", "a\n"], {"[4]": format_fault}),
        (
            ["password", LONGEST + "t", "a", "a"],
            {
                "[0]": "password cannot be exempted: values of this key are always scrubbed.",
                "[1]": "Must have at most 256 bytes of UTF-8.",
                "[3]": "a is listed twice.",
            },
        ),
    ):
        details = (await change(control, keys))[1]["error"]["details"]
        told = {issue["path"].removeprefix("body.exemptKeys"): issue["message"] for issue in details}
        assert told == messages
    assert (await control.call("GET", WEB))[1]["exemptKeys"] == []
    assert await differences(control) == []
    longest = [f"{number:03}" + "\u20ac" * 84 + "k" for number in range(100)]  # which JSON may escape
    status, answer = await change(control, longest)
    assert (status, answer["exemptKeys"]) == (200, longest)


def test_no_other_way_exempts_them() -> None:
    for keys in ([""], ["a\n"], ["\x85"], ["a", "a"], ["a" * 257], ["password"], list(map(str, range(101)))):
        with pytest.raises(ValueError, match="at most 100 different keys that may be exempted"):
            validate_exempt_keys(keys)
