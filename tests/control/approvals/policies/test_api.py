"""Policies over HTTP."""

from typing import Any

import pytest

from control.approvals.policies import store
from control.identity.organizations import organization_store
from proto.identity import PrincipalKind, Role, Scope
from tests.control.approvals.office import ASKED, POLICIES, Office

NEW: dict[str, Any] = {"name": "Rule", "actionPattern": "deploy.*", "effect": "ASK", "riskClass": "HIGH"}
KEYS = [
    *("id", "orgId", "projectSlug", "name", "actionPattern", "targetType", "effect", "riskClass", "minApprovers"),
    *("approverRoles", "machineApproverIds", "ttlMinutes", "enabled", "createdAt", "updatedAt"),
]


@pytest.mark.both_stores
async def test_a_policy_is_created_shown_changed_and_deleted(office: Office) -> None:
    status, made, _ = await office.call("POST", POLICIES, NEW)
    assert status == 201
    assert list(made) == KEYS
    assert made == NEW | {
        "id": made["id"],
        "orgId": office.acme.organization.id,
        "projectSlug": None,
        "targetType": None,
        "minApprovers": 1,
        "approverRoles": ["MEMBER", "ADMIN", "OWNER"],
        "machineApproverIds": [],
        "ttlMinutes": 1_440,
        "enabled": True,
        "createdAt": made["createdAt"],
        "updatedAt": made["createdAt"],
    }
    path = f"{POLICIES}/{made['id']}"
    assert (await office.call("GET", path))[:2] == (200, made)
    agent = await office.machine(await office.member(Role.OWNER), role=Role.OWNER)
    change = {
        "name": "Other",
        "actionPattern": "**",
        "targetType": "service",
        "effect": "DENY",
        "riskClass": "LOW",
        "minApprovers": 2,
        "approverRoles": ["OWNER", "OWNER"],
        "machineApproverIds": [agent.id],
        "ttlMinutes": 5,
        "enabled": False,
    }
    status, changed, _ = await office.call("PATCH", path, change)
    assert (status, changed) == (
        200,
        made | change | {"approverRoles": ["OWNER"], "updatedAt": changed["updatedAt"]},
    )
    assert (await office.call("PATCH", path, {}))[1] | {"updatedAt": ""} == changed | {"updatedAt": ""}
    assert (await office.call("PATCH", path, {"targetType": None}))[1]["targetType"] is None
    assert (await office.call("DELETE", path))[:2] == (204, None)
    for method, body in (("GET", None), ("PATCH", {}), ("DELETE", None)):
        assert (await office.call(method, path, body))[0] == 404
    events = await office.audit(objectId=made["id"])
    assert [one["action"] for one in events] == ["policy.create", *["policy.update"] * 3, "policy.delete"]
    assert events[0]["data"] == made
    assert events[1]["data"] == changed


GOOD: list[dict[str, Any]] = [
    {"name": "x" * 200},
    {"actionPattern": "**"},
    {"actionPattern": "*.*"},
    {"actionPattern": "a." + "b" * 118},
    {"targetType": "x" * 120},
    {"targetType": None},
    {"projectSlug": "web"},
    {"projectSlug": None},
    {"minApprovers": 1},
    {"minApprovers": 10},
    {"ttlMinutes": 1},
    {"ttlMinutes": 43_200},
    {"approverRoles": ["ADMIN"]},
    {"enabled": False},
    *({"effect": effect} for effect in ("ALLOW", "ASK", "DENY")),
    *({"riskClass": risk} for risk in ("LOW", "MEDIUM", "HIGH", "CRITICAL")),
]
BAD: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"name": ""}, [("body.name", "too_short")]),
    ({"name": "x" * 201}, [("body.name", "too_long")]),
    ({"actionPattern": "deploy"}, [("body.actionPattern", "format")]),
    ({"actionPattern": "a." + "b" * 119}, [("body.actionPattern", "too_long")]),
    ({"actionPattern": "(a+)+.b"}, [("body.actionPattern", "format")]),
    ({"targetType": ""}, [("body.targetType", "too_short")]),
    ({"targetType": "x" * 121}, [("body.targetType", "too_long")]),
    ({"effect": "MAYBE"}, [("body.effect", "not_allowed")]),
    ({"riskClass": "low"}, [("body.riskClass", "not_allowed")]),
    ({"minApprovers": 0}, [("body.minApprovers", "too_small")]),
    ({"minApprovers": 11}, [("body.minApprovers", "too_large")]),
    ({"minApprovers": True}, [("body.minApprovers", "type")]),
    ({"ttlMinutes": 0}, [("body.ttlMinutes", "too_small")]),
    ({"ttlMinutes": 43_201}, [("body.ttlMinutes", "too_large")]),
    ({"approverRoles": []}, [("body.approverRoles", "too_short")]),
    ({"approverRoles": ["VIEWER"]}, [("body.approverRoles[0]", "not_allowed")]),
    ({"approverRoles": ["MEMBER", "BILLING"]}, [("body.approverRoles[1]", "not_allowed")]),
    ({"machineApproverIds": ["prn_none"]}, [("body.machineApproverIds[0]", "unknown")]),
    ({"machineApproverIds": ["\x00"]}, [("body.machineApproverIds[0]", "format")]),
    ({"machineApproverIds": ["x"] * 51}, [("body.machineApproverIds", "too_long")]),
    (
        {"machineApproverIds": ["prn_none"], "riskClass": "low"},
        [("body.riskClass", "not_allowed"), ("body.machineApproverIds[0]", "unknown")],
    ),
    ({"name": "a\u202eb"}, [("body.name", "format")]),
    ({"enabled": 1}, [("body.enabled", "type")]),
    ({"policy": 1}, [("body.policy", "unknown_field")]),
]


@pytest.mark.both_stores
async def test_every_bound_from_within(office: Office) -> None:
    for body in GOOD:
        status, made, _ = await office.call("POST", POLICIES, NEW | body)
        assert (status, {name: made.get(name) for name in body}) == (201, body)
        if "projectSlug" not in body:
            status, changed, _ = await office.call("PATCH", f"{POLICIES}/{made['id']}", body)
            assert (status, {name: changed.get(name) for name in body}) == (200, body)


async def issues_of(office: Office, method: str, path: str, body: object) -> list[tuple[str, str]]:
    status, answer, _ = await office.call(method, path, body)
    assert status == 400, (method, body, answer)
    return [(one["path"], one["code"]) for one in answer["error"]["details"]]


async def test_every_bound_from_outside(office: Office) -> None:
    made = await office.policy()
    one, dry_run = f"{POLICIES}/{made['id']}", f"{POLICIES}/dry-run"
    for body, issues in BAD:
        assert await issues_of(office, "POST", POLICIES, NEW | body) == issues, body
        assert await issues_of(office, "PATCH", one, body) == issues, body
    for name in NEW:
        lacking = {key: value for key, value in NEW.items() if key != name}
        assert await issues_of(office, "POST", POLICIES, lacking) == [(f"body.{name}", "missing")]
    assert (await issues_of(office, "PATCH", one, {"projectSlug": "web"}))[0][0] == "body.projectSlug"
    asked = {"action": "a.b", "targetType": "x"}
    for wrong, issue in (
        ({"action": "x"}, ("body.action", "format")),
        ({"targetType": ""}, ("body.targetType", "too_short")),
        ({"projectTag": "none"}, ("body.projectTag", "unknown")),
        ({"summary": "x"}, ("body.summary", "unknown_field")),
    ):
        assert await issues_of(office, "POST", dry_run, asked | wrong) == [issue]
    assert (await office.call("GET", POLICIES))[1]["data"] == [made]


async def test_a_policy_is_looked_for_before_its_change_is_read(office: Office) -> None:
    """Also for callers who may change policies, but not read them."""
    writer = await office.member(Role.ADMIN, frozenset({Scope.POLICIES_WRITE}))
    path, json = f"{POLICIES}/pol_{'0' * 26}", {"Content-Type": "application/json"}
    for token in (writer.token, None):
        for body, headers in (
            *((body, json) for body in (b"[", b'{"nonsense":1}', b'{"minApprovers":0}', b" " * 20_000)),
            (b"{}", {"Content-Type": "text/plain"}),
        ):
            status, answer, _ = await office.call("PATCH", path, token=token, data=body, headers=headers)
            assert (status, answer["error"]["code"]) == (404, "not_found"), (token, body[:20])


async def test_unknown_projects_and_machines_are_400(office: Office) -> None:
    """All that is wrong is said together."""
    person = await office.member()
    service = await office.machine(person, PrincipalKind.SERVICE)
    for field, value, path, message in (
        ("projectSlug", "none", "projectSlug", "There is no such project."),
        ("machineApproverIds", [service.id, person.id], "machineApproverIds[1]", "There is no such agent or service."),
    ):
        _, answer, _ = await office.call("POST", POLICIES, NEW | {field: value})
        assert answer["error"]["details"] == [{"path": f"body.{path}", "message": message, "code": "unknown"}]
    wrong = NEW | {"projectSlug": "none", "machineApproverIds": ["prn_none"]}
    both = [("body.machineApproverIds[0]", "unknown"), ("body.projectSlug", "unknown")]
    assert await issues_of(office, "POST", POLICIES, wrong) == both
    assert await issues_of(office, "POST", POLICIES, wrong | {"name": ""}) == [("body.name", "too_short"), *both]
    assert await issues_of(office, "POST", f"{POLICIES}/dry-run", {"action": "x", "projectTag": "none"}) == [
        *(("body.action", "format"), ("body.targetType", "missing"), ("body.projectTag", "unknown")),
    ]


@pytest.mark.both_stores
async def test_machines_that_can_never_decide_are_not_listed(office: Office) -> None:
    """Each of those that count for one has to have a role that decides."""
    member, viewer, gone = await office.member(), await office.member(Role.VIEWER), await office.member()
    able = await office.machine(member)
    unable = [await office.machine(member, role=Role.VIEWER), await office.machine(viewer), await office.machine(gone)]
    unable.append(await office.machine(member))
    async with office.checks.database.write() as connection:
        await organization_store.remove_membership(connection, office.acme.organization.id, gone.id)
        await organization_store.disable_principal(connection, unable[-1].id)
    listed = [able.id, *(one.id for one in unable)]
    made = await office.policy(machineApproverIds=[able.id])
    path = f"{POLICIES}/{made['id']}"
    for method, to, sent in (("POST", POLICIES, NEW), ("PATCH", path, {})):
        assert await issues_of(office, method, to, sent | {"machineApproverIds": listed}) == [
            (f"body.machineApproverIds[{n}]", "cannot_decide") for n in range(1, 5)
        ]
    status, answer, _ = await office.call("PATCH", path, {"approverRoles": ["ADMIN"]})
    message = (
        "With these roles, an agent or service in machineApproverIds cannot decide. Change machineApproverIds too."
    )
    fault = {"path": "body.approverRoles", "message": message, "code": "cannot_decide"}
    assert (status, answer["error"]["details"]) == (400, [fault])
    status, changed, _ = await office.call("PATCH", path, {"approverRoles": ["ADMIN"], "machineApproverIds": []})
    assert (status, changed["machineApproverIds"], changed["approverRoles"]) == (200, [], ["ADMIN"])
    assert (await office.call("PATCH", path, {"name": "x"}))[0] == 200


async def test_the_number_of_policies_is_limited(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_POLICIES", 2)
    for _ in range(2):
        await office.policy()
    status, answer, _ = await office.call("POST", POLICIES, NEW)
    assert (status, answer["error"]["code"]) == (409, "conflict")


async def test_a_dry_run_says_what_a_request_would_get_and_why(office: Office) -> None:
    wide = await office.policy(name="Wide", actionPattern="deploy.**", riskClass="LOW")
    narrow = await office.policy(
        name="Narrow", actionPattern="deploy.production", targetType="service", minApprovers=2, ttlMinutes=9
    )
    await office.policy(name="Off", actionPattern="deploy.production", effect="DENY", enabled=False)
    await office.policy(name="Other", actionPattern="deploy.production", targetType="host")
    of_project = await office.policy(name="Ours", projectSlug="web", actionPattern="deploy.*", effect="ALLOW")
    body = {"action": "deploy.production", "targetType": "service"}

    def matching(made: dict[str, Any], source: str) -> dict[str, Any]:
        names = ("name", "actionPattern", "targetType", "effect")
        return {"policyId": made["id"], "policySource": source} | {name: made[name] for name in names}

    fallback = {
        "policyId": None,
        "name": "fallback",
        "policySource": "fallback",
        "actionPattern": "**",
        "targetType": None,
        "effect": "ASK",
    }
    status, answer, _ = await office.call("POST", f"{POLICIES}/dry-run", body)
    assert (status, answer) == (
        200,
        {
            "decision": "ASK",
            "riskClass": "HIGH",
            "reason": 'The organization policy "Narrow" requires 2 approvals.',
            "minApprovers": 2,
            "policySource": "org_policy",
            "policyId": narrow["id"],
            "approverRoles": ["MEMBER", "ADMIN", "OWNER"],
            "machineApproverIds": [],
            "ttlMinutes": 9,
            "matching": [matching(narrow, "org_policy"), matching(wide, "org_policy"), fallback],
        },
    )
    _, answer, _ = await office.call("POST", f"{POLICIES}/dry-run", body | {"projectTag": "web"})
    assert [answer[name] for name in ("decision", "minApprovers", "policySource")] == ["ALLOW", 0, "project_policy"]
    assert answer["matching"][0] == matching(of_project, "project_policy")
    assert (await office.call("GET", "/orgs/acme/approval-requests"))[1] == {"data": []}
    assert [one for one in await office.audit() if not one["action"].startswith("policy.")] == []


async def test_a_dry_run_and_a_request_agree(office: Office) -> None:
    await office.policy(actionPattern="deploy.**", effect="DENY")
    await office.policy(actionPattern="a.*", minApprovers=4)
    for action in ("deploy.x", "a.b", "issue.resolve", "sso.update", "x.y"):
        _, tried, _ = await office.call("POST", f"{POLICIES}/dry-run", {"action": action, "targetType": "service"})
        _, asked, _ = await office.call("POST", "/orgs/acme/approval-requests", ASKED | {"action": action})
        same = ("decision", "riskClass", "reason", "minApprovers", "policySource")
        assert {name: tried[name] for name in same} == {name: asked[name] for name in same}
