"""What becomes of a question, over HTTP (specification 4.1)."""

from datetime import timedelta
from typing import Any

import pytest

from chassis.db.database import format_time
from tests.control.approvals.office import ASKED, REQUESTS, Office, new_channel

KEYS = [
    *("id", "orgId", "requesterPrincipalId", "onBehalfOfPrincipalId", "action", "riskClass", "targetType", "targetId"),
    *("status", "minApprovers", "policyId", "deciderPrincipalId", "decidedAt", "reason", "expiresAt", "createdAt"),
    "payload",
]


async def test_unmatched_actions_require_approval(office: Office) -> None:
    status, answer, _ = await office.call("POST", REQUESTS, ASKED)
    assert status == 201
    asked = answer["request"]
    assert list(asked) == KEYS
    created = office.clock.now()
    assert answer == {
        "decision": "ASK",
        "riskClass": "HIGH",
        "reason": "The fallback rule, which applies if no other rule matches, requires 1 approval.",
        "minApprovers": 1,
        "policySource": "fallback",
        "request": {
            "id": asked["id"],
            "orgId": office.acme.organization.id,
            "requesterPrincipalId": office.acme.owner_id,
            "onBehalfOfPrincipalId": None,
            **ASKED,
            "riskClass": "HIGH",
            "status": "PENDING",
            "minApprovers": 1,
            "policyId": None,
            "deciderPrincipalId": None,
            "decidedAt": None,
            "reason": None,
            "expiresAt": shown(created, days=1),
            "createdAt": shown(created),
            "payload": {
                "summary": None,
                "projectTag": None,
                "policySource": "fallback",
                "policyReason": answer["reason"],
            },
        },
        "deliveries": [],
    }
    assert (await office.call("GET", f"{REQUESTS}/{asked['id']}"))[:2] == (200, asked)
    assert (await office.call("GET", REQUESTS))[:2] == (200, {"data": [asked]})


def shown(time: Any, **later: int) -> str:
    return format_time(time + timedelta(**later))


async def test_allow_and_deny_create_no_request(office: Office) -> None:
    await office.policy(name="Freeze", actionPattern="deploy.*", effect="DENY", riskClass="CRITICAL")
    for action, decision, risk, source, reason in (
        ("issue.resolve", "ALLOW", "LOW", "builtin", "The built-in rule for issue.resolve allows the action."),
        ("deploy.x", "DENY", "CRITICAL", "org_policy", 'The organization policy "Freeze" denies the action.'),
    ):
        status, answer, _ = await office.call("POST", REQUESTS, ASKED | {"action": action, "notify": True})
        assert (status, answer) == (
            200,
            {
                "decision": decision,
                "riskClass": risk,
                "reason": reason,
                "minApprovers": 0,
                "policySource": source,
                "request": None,
                "deliveries": [],
            },
        )
    assert (await office.call("GET", REQUESTS))[1] == {"data": []}
    assert office.attempts.seen == []


async def test_the_same_submission_finds_the_open_request(office: Office) -> None:
    body = ASKED | {"projectTag": "web", "summary": "first"}
    status, first, _ = await office.call("POST", REQUESTS, body)
    assert status == 201
    await office.policy(actionPattern="deploy.**", riskClass="LOW", minApprovers=3)
    status, again, _ = await office.call(
        "POST", REQUESTS, body | {"summary": "second", "ttlMinutes": 5, "notify": True}
    )
    assert (status, again) == (200, first), "in the words that it was asked with, and nobody is told twice"
    for other in ({"action": "deploy.x"}, {"targetType": "host"}, {"targetId": "cart"}, {"projectTag": None}):
        status, answer, _ = await office.call("POST", REQUESTS, body | other)
        assert (status, answer["request"]["id"] != first["request"]["id"]) == (201, True), other
    colleague = await office.member()
    status, answer, _ = await office.call("POST", REQUESTS, body, colleague.token)
    assert (status, answer["request"]["requesterPrincipalId"]) == (201, colleague.id)


async def test_a_closed_request_can_be_submitted_again(office: Office) -> None:
    colleague = await office.member()
    first = await office.ask(ttlMinutes=1)
    office.clock.seconds += 60
    second = await office.ask()
    assert (await office.vote("reject", second, colleague))[0] == 200
    third = await office.ask()
    assert (await office.vote("approve", third, colleague))[0] == 200
    fourth = await office.ask()
    assert len({one["id"] for one in (first, second, third, fourth)}) == 4


async def test_the_policy_says_how_many_how_risky_and_how_long(office: Office) -> None:
    policy = await office.policy(actionPattern="deploy.*", riskClass="CRITICAL", minApprovers=10, ttlMinutes=7)
    status, answer, _ = await office.call("POST", REQUESTS, ASKED)
    asked = answer["request"]
    assert (status, answer["minApprovers"], answer["riskClass"], answer["policySource"]) == (
        *(201, 10, "CRITICAL"),
        "org_policy",
    )
    assert (asked["policyId"], asked["minApprovers"], asked["riskClass"]) == (policy["id"], 10, "CRITICAL")
    assert asked["expiresAt"] == shown(office.clock.now(), minutes=7)
    asked = await office.ask(targetId="other", ttlMinutes=43_200)
    assert asked["expiresAt"] == shown(office.clock.now(), days=30)


async def test_project_policies_apply_to_their_project_tag_only(office: Office) -> None:
    await office.policy(projectSlug="web", actionPattern="deploy.**", effect="ALLOW", riskClass="LOW")
    _, within, _ = await office.call("POST", REQUESTS, ASKED | {"projectTag": "web"})
    _, without, _ = await office.call("POST", REQUESTS, ASKED)
    assert [(one["decision"], one["policySource"]) for one in (within, without)] == [
        ("ALLOW", "project_policy"),
        ("ASK", "fallback"),
    ]


@pytest.mark.both_stores
async def test_lists_are_filtered_and_newest_first(office: Office) -> None:
    colleague = await office.member()
    asked = [await office.ask(targetId=str(number), ttlMinutes=60 if number % 4 else 1) for number in range(8)]
    await office.vote("approve", asked[1], colleague)
    await office.vote("reject", asked[2], colleague)
    office.clock.seconds += 60
    expected = {"PENDING": [7, 6, 5, 3], "APPROVED": [1], "REJECTED": [2], "EXPIRED": [4, 0]}
    for status, numbers in expected.items():
        _, page, _ = await office.call("GET", REQUESTS, params={"status": status})
        assert [(one["targetId"], one["status"]) for one in page["data"]] == [(str(n), status) for n in numbers]
    _, page, _ = await office.call("GET", REQUESTS, params={"limit": "3"})
    assert list(page) == ["data"]
    assert [one["targetId"] for one in page["data"]] == ["7", "6", "5"]
    _, foreign, _ = await office.call("GET", "/orgs/globex/approval-requests", token=office.globex.token.secret)
    assert foreign == {"data": []}


GOOD: dict[str, list[Any]] = {
    "action": ["a.b", "a." + "b" * 118, "a.b.c.d.e.f.g.h"],
    "targetType": ["x", "ü" * 120],
    "targetId": ["x", "x" * 500],
    "projectTag": [None, "web"],
    "summary": [None, "", "x" * 2_000, "tabs\tand\nlines"],
    "ttlMinutes": [1, 43_200],
    "channelIds": [[], ["x"] * 50, ["", "x" * 200]],
    "notify": [True, False],
}
BAD: list[tuple[str, str, list[Any]]] = [
    ("action", "format", ["deploy", "a.b.c.d.e.f.g.h.i", "Deploy.x", "deploy.*", "deploy.x\n"]),
    ("action", "too_long", ["a." + "b" * 119]),
    ("targetType", "too_short", [""]),
    ("targetType", "too_long", ["x" * 121]),
    ("targetType", "format", ["\x00", "a\u2067b"]),
    ("targetId", "too_short", [""]),
    ("targetId", "too_long", ["x" * 501]),
    ("targetId", "format", ["gpj.\u202eexe"]),
    ("projectTag", "unknown", ["none"]),
    ("projectTag", "format", ["Web"]),
    ("projectTag", "too_long", ["x" * 65]),
    ("summary", "too_long", ["x" * 2_001]),
    ("summary", "format", ["a\x00b", "a\x9bb", "a\u2066b"]),
    ("ttlMinutes", "too_small", [0]),
    ("ttlMinutes", "too_large", [43_201]),
    ("ttlMinutes", "type", [1.5]),
    ("channelIds", "too_long", [["x"] * 51]),
    ("channelIds[0]", "too_long", [["x" * 201]]),
    ("channelIds[0]", "type", [[1]]),
    ("onBehalfOfPrincipalId", "unknown_field", ["prn_1"]),
]
SEVERAL: list[tuple[dict[str, Any], dict[str, str]]] = [
    (
        {"projectTag": "none", "targetId": "", "summary": "\x00"},
        {"targetId": "too_short", "summary": "format", "projectTag": "unknown"},
    ),
    ({"summary": "a\x7fb", "targetId": ""}, {"targetId": "too_short", "summary": "format"}),
    ({"action": "", "targetId": 5, "x": 1}, {"action": "format", "targetId": "type", "x": "unknown_field"}),
]


async def test_every_bound_from_within(office: Office) -> None:
    for number, (name, value) in enumerate((name, value) for name, values in GOOD.items() for value in values):
        sent = ASKED | {"targetId": f"target {number}", name: value}  # not what another one asks for
        status, answer, _ = await office.call("POST", REQUESTS, sent)
        assert status == 201, sent
        shown = answer["request"] | answer["request"]["payload"]
        expected = {"summary": None, "projectTag": None} | sent
        for each in (*ASKED, "summary", "projectTag"):
            assert shown[each] == expected[each], sent


async def test_every_bound_from_outside(office: Office) -> None:
    sent = [({name.partition("[")[0]: value}, {name: code}) for name, code, values in BAD for value in values]
    bodies = [(ASKED | body, issues) for body, issues in sent + SEVERAL]
    bodies += [({key: ASKED[key] for key in ASKED if key != name}, {name: "missing"}) for name in ASKED]
    for body, issues in bodies:
        status, answer, _ = await office.call("POST", REQUESTS, body)
        assert status == 400, body
        found = [(one["path"], one["code"]) for one in answer["error"]["details"]]
        assert found == [(f"body.{name}", code) for name, code in issues.items()], body


async def test_notify_and_channel_ids_select_the_channels(office: Office) -> None:
    database, acme = office.checks.database, office.acme
    of_org = await new_channel(database, acme)
    of_project = await new_channel(database, acme, acme.project.id)
    disabled = await new_channel(database, acme, enabled=False)
    foreign = await new_channel(database, office.globex)

    def told(channel_id: str, error: str | None = None) -> dict[str, Any]:
        kind = "unknown" if error == "not_found" else "webhook"
        return {"channelId": channel_id, "kind": kind, "delivered": error is None, "error": error}

    every = [foreign, of_project, disabled, "none", of_org]
    cases: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({}, []),
        ({"notify": False, "channelIds": [of_org]}, []),
        ({"channelIds": []}, []),
        ({"notify": True, "channelIds": []}, []),
        ({"notify": True}, [told(of_org)]),
        ({"notify": True, "projectTag": "web"}, [told(of_org), told(of_project)]),
        ({"channelIds": [of_project]}, [told(of_project)]),
        ({"notify": True, "channelIds": [of_project, of_project]}, [told(of_project)]),
        (
            {"channelIds": every},
            [
                told(foreign, "not_found"),
                told(of_project),
                told(disabled, "disabled"),
                told("none", "not_found"),
                told(of_org),
            ],
        ),
    ]
    for number, (body, expected) in enumerate(cases):
        status, answer, _ = await office.call("POST", REQUESTS, ASKED | {"targetId": str(number)} | body)
        assert (status, answer["deliveries"]) == (201, expected), body


async def test_targets_that_look_the_same_are_the_same(office: Office) -> None:
    every = "\u200b\u2060\u00ad\ufe0f\u3164\u2800\ufeff\U000e0041\U000e0100"
    for name, invisible in (("targetType", every[:1]), ("targetId", every)):
        for character in invisible:
            for text in (f"check{character}out", character):
                status, answer, _ = await office.call("POST", REQUESTS, ASKED | {name: text})
                found = [one["path"] for one in answer["error"]["details"]]
                assert (status, found) == (400, [f"body.{name}"]), ascii(text)
        for text in ("Überführung", "出荷", "чек", "a\u00a0b", "\U0001f680"):
            assert (await office.call("POST", REQUESTS, ASKED | {name: text}))[0] == 201, text
