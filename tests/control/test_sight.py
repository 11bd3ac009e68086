"""What is of another organization and what is nowhere look the same: to everybody, on every route, byte for byte."""

import itertools
import re
from typing import Any

import msgspec
import pytest
from aiohttp import web

from proto.identity import Role, Scope
from tests.chassis.identity.tenants import Tenant, new_member_token
from tests.control.conftest import Control

VARIES = {"date", "x-request-id", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}
BODIES: tuple[object, ...] = ({}, {"name": "x"}, [], None)
NOWHERE = {
    "keyId": "key_" + "0" * 26,
    "principalId": "prn_" + "0" * 26,
    "tokenId": "tok_" + "0" * 26,
    "invitationId": "inv_" + "0" * 26,
    "policyId": "pol_" + "0" * 26,
    "requestId": "apr_" + "0" * 26,
    "channelId": "chn_" + "0" * 26,
    "deliveryId": "dlv_" + "0" * 26,
}


def routes(control: Control) -> list[tuple[str, str]]:
    """Method and path of every route below an organization."""
    app: web.Application = control.client.app
    found = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/orgs/{orgSlug}")
    }
    return sorted((method, path) for method, path in found if method != "*")


async def everything_of(control: Control, tenant: Tenant) -> dict[str, str]:
    """An id of each kind of thing in the tenant's organization, some of which are made for it."""
    org, token = tenant.organization.slug, tenant.token.secret
    email = {"kind": "email", "name": "x", "config": {"to": ["a@example.org"]}}
    request = {"action": "deploy.production", "targetType": "service", "targetId": "x"}
    policy = {"name": "x", "actionPattern": "deploy.*", "effect": "ASK", "riskClass": "HIGH"}
    made = {}
    for name, path, body in (
        ("channelId", "projects/web/notification-channels", email),
        ("policyId", "approval-policies", policy),
        ("requestId", "approval-requests", request),
        ("invitationId", "invitations", {"email": "a@example.org", "role": "VIEWER"}),
    ):
        status, answer, _ = await control.call("POST", f"/orgs/{org}/{path}", body, token)
        assert status in (200, 201), answer
        made[name] = (answer.get("request") or answer)["id"]
    own = {"keyId": tenant.key.key.id, "principalId": tenant.owner_id, "tokenId": tenant.token.id}
    return NOWHERE | own | made


def filled(path: str, org: str, project: str, ids: dict[str, str]) -> str:
    values = ids | {"orgSlug": org, "projectSlug": project}
    return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], path)


async def answered(control: Control, method: str, path: str, body: object, token: str) -> Any:
    """All of the answer that may not differ."""
    sent = None if method == "GET" or body is None else body
    status, answer, headers = await control.call(method, path, sent, token)
    if answer is not None and "error" in answer:
        answer["error"]["requestId"] = ""
    return status, msgspec.json.encode(answer), sorted((n, v) for n, v in headers.items() if n.lower() not in VARIES)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("body", BODIES, ids=str)
async def test_foreign_and_missing_are_the_same(control: Control, role: Role, body: object) -> None:
    theirs = await everything_of(control, control.globex)
    _, token = await new_member_token(control.checks.database, control.acme, role)
    for method, path in routes(control):
        foreign = await answered(control, method, filled(path, "globex", "web", theirs), body, token)
        assert foreign[0] == 404, path
        for org, project in (("globex", "none"), ("nowhere", "web"), ("nowhere", "none")):
            assert await answered(control, method, filled(path, org, project, NOWHERE), body, token) == foreign, path
        if "Id}" in path:
            inside = filled(path, "acme", "web", theirs)
            missing = filled(path, "acme", "web", NOWHERE)
            assert await answered(control, method, inside, body, token) == (
                await answered(control, method, missing, body, token)
            ), path


async def test_it_does_not_hang_on_the_scopes_of_the_token(control: Control) -> None:
    theirs = await everything_of(control, control.globex)
    tokens = [
        (await new_member_token(control.checks.database, control.acme, Role.OWNER, frozenset({scope})))[1]
        for scope in Scope
    ]
    for (method, path), token in zip(routes(control), itertools.cycle(tokens), strict=False):
        foreign = await answered(control, method, filled(path, "globex", "web", theirs), {}, token)
        missing = await answered(control, method, filled(path, "nowhere", "none", NOWHERE), {}, token)
        assert foreign == missing, path
        assert foreign[0] == 404, path
