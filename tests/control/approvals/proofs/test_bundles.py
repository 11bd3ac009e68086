"""Bundles that are found again, by what they are about and refer to, and deleted with their project."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.auth.tables import new_id
from chassis.issues import issues
from control.approvals.proofs.references import MAX_LINKS_OF_A_CLAIM
from control.approvals.proofs.tables import proof_bundles, proof_issuer_keys, proof_links, proof_usage
from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.approvals.proofs.made import BUNDLES, bundle, claim, get, register, signed, submit
from tests.control.conftest import Control
from tests.control.governance.erasures.conftest import purge
from tests.control.issues.releases.stored import new_issue

TRACE = "0af7651916cd43dd8448eb211c80319c"


def recheck(**inputs: str) -> dict[str, Any]:
    """How a claim is checked again, with what it names."""
    return {
        "mechanism": "API",
        "instruction": "Look at it.",
        "expectation": "It is there.",
        "inputs": inputs,
        "reproducibility": "DETERMINISTIC",
        "notes": None,
    }


def mitigation(request_id: str | None, **approval: Any) -> dict[str, Any]:
    made = claim("mitigation_applied", "m")
    said = made["evidence"]["approval"] | {"requestId": request_id, "humanApproval": True} | approval
    return made | {"evidence": made["evidence"] | {"approval": said}}


async def stored(control: Control, made: dict[str, Any]) -> Any:
    status, answer = await submit(control, made)
    assert status == 201, answer
    return answer


async def listed(control: Control, **query: str) -> list[str]:
    """The ids of all pages, of two each."""
    found: list[str] = []
    cursor = ""
    while True:
        page = await get(control, BUNDLES, limit="2", cursor=cursor, **query)
        found += [one["bundleId"] for one in page["data"]]
        cursor = page["nextCursor"]
        if not page["hasMore"]:
            assert cursor is None
            return found


@pytest.mark.both_stores
async def test_lists_have_what_the_filters_ask_for(control: Control) -> None:
    await register(control)
    made = [
        bundle(),
        bundle(tier="B", subject={"runId": "r-2"}),
        bundle(verdict="FAILED", billable=False, subject={"commit": "6dcb09b5"}),
        bundle(tier="B", verdict="FAILED", billable=False),
    ]
    for one in made:
        await stored(control, one)
    verified = bundle(tier="B")
    assert (await submit(control, signed(verified)))[0] == 201
    first, second, third, fourth = [one["bundleId"] for one in made]
    last = verified["bundleId"]
    for query, expected in (
        ({}, [last, fourth, third, second, first]),
        ({"runId": "r-2"}, [second]),
        ({"commit": "6dcb09b5"}, [third]),
        ({"commit": "6dcb"}, []),
        ({"verdict": "FAILED"}, [fourth, third]),
        ({"tier": "B"}, [last, fourth, second]),
        ({"tier": "B", "verdict": "PASSED"}, [last, second]),
        ({"tier": "B", "verdict": "PASSED", "verified": "true"}, [last]),
        ({"verified": "false"}, [fourth, third, second, first]),
        ({"tier": "VOID"}, []),
        ({"traceId": TRACE}, []),
        ({"traceId": "x"}, []),
        ({"approvalRequestId": "x"}, []),
        ({"issue": "WEB-99"}, []),
        ({"issue": "x"}, []),
    ):
        assert await listed(control, **query) == expected, query


async def test_filters_that_few_bundles_match_together(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page ends after so many rows, and the next one goes on behind them: each bundle is found once."""
    monkeypatch.setattr("control.approvals.proofs.store.MAX_SCANNED", 5)
    of_trace = claim("model_attribution", "c-1", recheck=recheck(traceId=TRACE))
    made = [
        bundle(
            [of_trace] if number % 2 else [],
            {"runId": f"r-{number % 3}", "commit": f"{number % 5}" * 7},
            tier="AB"[number % 7 == 0],
        )
        for number in range(40)
    ]
    for one in made:
        await stored(control, one)
    wanted: tuple[tuple[dict[str, str], Callable[[int], object]], ...] = (
        ({"runId": "r-1", "commit": "3333333"}, lambda n: n % 3 == 1 and n % 5 == 3),
        ({"runId": "r-1", "tier": "B"}, lambda n: n % 3 == 1 and n % 7 == 0),
        ({"traceId": TRACE, "tier": "B"}, lambda n: n % 2 and n % 7 == 0),
        ({"traceId": TRACE, "runId": "r-0", "commit": "2222222"}, lambda n: n % 2 and n % 3 == 0 and n % 5 == 2),
        ({"runId": "r-1", "commit": "3333333", "tier": "VOID"}, lambda n: n < 0),
    )
    for query, is_wanted in wanted:
        expected = [made[number]["bundleId"] for number in reversed(range(40)) if is_wanted(number)]
        assert await listed(control, **query) == expected, query
    page = await get(control, BUNDLES, limit="2", runId="r-1", commit="3333333", tier="VOID")
    assert (page["data"], page["hasMore"]) == ([], True)


async def test_queries_that_are_wrong(control: Control) -> None:
    for _ in range(2):
        await stored(control, bundle())
    cursor = (await get(control, BUNDLES, limit="1"))["nextCursor"]
    for query, path in (
        ("tier=D", "query.tier"),
        ("verdict=passed", "query.verdict"),
        ("verified=yes", "query.verified"),
        ("runId=", "query.runId"),
        ("runId=%00", "query.runId"),
        ("commit=" + "x" * 81, "query.commit"),
        ("tier=A&tier=B", "query.tier"),
        (f"traceId={TRACE}&approvalRequestId=apr_{'0' * 26}", "query.traceId"),
        (f"cursor={cursor}&tier=A", "query.cursor"),
        (f"cursor={cursor}&verified=false", "query.cursor"),
    ):
        status, answer, _ = await control.call("GET", f"{BUNDLES}?{query}")
        assert (status, path in json.dumps(answer)) == (400, True), query


@pytest.mark.both_stores
async def test_a_bundle_is_found_with_its_issue(control: Control) -> None:
    """By the id, the short id or the fingerprint in it; also after the issue was merged into another."""
    target, merged = await new_issue(control, 1, control.acme), await new_issue(control, 2, control.acme)
    async with control.checks.database.read() as connection:
        fingerprint = await connection.scalar(sa.select(issues.c.fingerprint).where(issues.c.id == merged))
    by_id = await stored(control, bundle(subject={"issueId": merged, "issueShortId": "web-2"}))
    by_name = await stored(control, bundle(subject={"issueId": "JIRA-7", "issueShortId": "WEB-2"}))
    by_print = await stored(
        control, bundle(subject={"issueId": "x", "issueShortId": "x", "fingerprint": bytes(fingerprint or b"").hex()})
    )
    of_other = await stored(
        control, bundle(subject={"issueId": target, "issueShortId": "WEB-2", "fingerprint": "0" * 32})
    )
    for one, warned in ((by_id, []), (by_name, []), (by_print, ["subject.issueShortId"])):
        assert (one["issueId"], [each["path"] for each in one["warnings"]]) == (merged, warned)
        assert one["links"]["issueId"] == merged
    assert [one["path"] for one in of_other["warnings"]] == ["subject.issueShortId", "subject.fingerprint"]
    of_merged = [one["bundleId"] for one in (by_print, by_name, by_id)]
    assert await listed(control, issue="WEB-2") == await listed(control, issue=merged) == of_merged
    assert await listed(control, issue="web-1") == [of_other["bundleId"]]
    status, answer, _ = await control.call(
        "POST", f"/orgs/acme/projects/web/issues/{target}/merge", {"issueIds": [merged]}
    )
    assert status == 200, answer
    assert await listed(control, issue="WEB-1") == [of_other["bundleId"], *of_merged]
    foreign = await new_issue(control, 1, control.globex)
    unknown = await stored(control, bundle(subject={"issueId": foreign, "issueShortId": "OTHER-1"}))
    assert (unknown["issueId"], unknown["warnings"][0]["path"]) == (None, "subject")


async def ask(control: Control, target: str) -> str:
    body = {"action": "deploy.production", "targetType": "service", "targetId": target}
    _, answer, _ = await control.call("POST", "/orgs/acme/approval-requests", body)
    return str(answer["request"]["id"])


async def test_a_bundle_is_found_with_its_approval_requests_and_traces(control: Control) -> None:
    asked, other = await ask(control, "a"), await ask(control, "b")
    missing = new_id("apr")
    one = await stored(
        control,
        bundle(
            [
                claim("suite_green", "s", {"passed": True, "testsFailed": 0}, recheck=recheck(traceId=TRACE.upper())),
                claim("model_attribution", "a", recheck=recheck(approvalRequestId=other, traceId="none")),
                mitigation(asked, humanApproval=False),
                claim("patch_origin", "p", recheck=recheck(approvalRequestId=missing, traceId=TRACE)),
            ]
        ),
    )
    assert one["links"] == {
        "issueId": None,
        "approvalRequestIds": sorted([asked, other, missing]),
        "traceIds": [TRACE],
    }
    assert f"{missing} is not an approval request of the organization." in {each["message"] for each in one["warnings"]}
    await stored(control, bundle())
    for query in (
        {"approvalRequestId": asked},
        {"approvalRequestId": other},
        {"traceId": TRACE},
        {"traceId": TRACE.upper()},
    ):
        assert await listed(control, **query) == [one["bundleId"]]
    assert await listed(control, traceId=TRACE, tier="B") == []


async def test_what_a_bundle_says_of_an_approval_is_held_against_the_request(control: Control) -> None:
    """Who may not read approvals learns nothing of them."""
    asked, scopes = await ask(control, "a"), frozenset({Scope.PROOFS_READ, Scope.PROOFS_WRITE})

    def made(request_id: str) -> dict[str, Any]:
        return bundle([mitigation(request_id, requiredApprovals=1, receivedApprovals=1)])

    _, token = await new_member_token(control.checks.database, control.acme, Role.MEMBER, scopes)
    for request_id in (asked, new_id("apr")):
        _, found = await submit(control, made(request_id), token=token, path=f"{BUNDLES}/validate")
        assert (found["errors"], [one["path"] for one in found["warnings"]]) == ([], ["subject"])
    fault = ("claims[0].evidence.approval.humanApproval", "The approval request is not approved.")
    for _ in range(2):
        found = await stored(control, made(asked))
        assert [(one["path"], one["message"]) for one in found["errors"]] == [fault]
        await control.call("POST", f"/orgs/acme/approval-requests/{asked}/reject", {"reason": "No."})


async def test_what_only_the_receiver_sees(control: Control) -> None:
    late = bundle(issuedAt="2999-01-01T00:00:00Z")
    late["issuer"] = late["issuer"] | {"keyId": "k"}
    found = await stored(control, late)
    assert {one["path"] for one in found["warnings"]} == {"issuedAt", "issuer.keyId", "subject"}
    unnamed = bundle([mitigation(None, requiredApprovals=1, receivedApprovals=1)])
    path = "claims[0].evidence.approval.requestId"
    assert path in {one["path"] for one in (await stored(control, unnamed))["warnings"]}


async def test_links_are_bounded(control: Control) -> None:
    named = [
        mitigation(new_id("apr"), humanApproval=False)
        | {"claimId": f"c{at}", "recheck": recheck(approvalRequestId=new_id("apr"), traceId=f"{at:032x}")}
        for at in range(200)
    ]
    found = await stored(control, bundle(named))
    links = found["links"]
    assert len(links["approvalRequestIds"]) + len(links["traceIds"]) == 200 * MAX_LINKS_OF_A_CLAIM
    assert found["errorCount"] + found["warningCount"] == 100


RECHECK: dict[str, Any] = {
    "mechanism": "API",
    "instruction": "x",
    "expectation": "x",
    "inputs": {"traceId": "0af7651916cd43dd8448eb211c80319c"},
    "reproducibility": "DETERMINISTIC",
    "notes": None,
}


async def counted(control: Control) -> tuple[int, ...]:
    """Bundles, links, projects with bundles, keys."""
    async with control.checks.database.read() as connection:
        return tuple(
            [
                int(await connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0)
                for table in (proof_bundles, proof_links, proof_usage, proof_issuer_keys)
            ]
        )


async def fill(control: Control) -> None:
    """A key, and bundles of both projects of acme and of globex."""
    await register(control)
    assert (await control.call("POST", "/orgs/acme/projects", {"slug": "api", "name": "API"}))[0] == 201
    linked = [claim("model_attribution", "c", recheck=RECHECK)]
    for project in ("web", "api"):
        path = BUNDLES.replace("web", project)
        for _ in range(5):
            made = signed(bundle(linked, {"projectSlug": project}))
            assert (await submit(control, made, path=path))[0] == 201
    other = bundle(subject={"orgSlug": "globex"})
    path = BUNDLES.replace("acme", "globex")
    assert (await submit(control, other, token=control.globex.token.secret, path=path))[0] == 201


@pytest.mark.both_stores
async def test_bundles_and_keys_go_with_their_project_and_organization(control: Control) -> None:
    await fill(control)
    assert await counted(control) == (11, 10, 3, 1)
    assert (await control.call("DELETE", "/orgs/acme/projects/web"))[0] == 202
    assert (await control.call("GET", BUNDLES))[0] == 404
    await purge(control.checks.database)
    assert await counted(control) == (6, 5, 2, 1)
    assert (await control.call("DELETE", "/orgs/acme?confirm=acme"))[0] == 202
    await purge(control.checks.database)
    assert await counted(control) == (1, 0, 1, 0)
