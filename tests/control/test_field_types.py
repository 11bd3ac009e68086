"""What takes one of some names says which, wherever it is none of them."""

from typing import Any

from tests.control.conftest import Control

ORG = "/orgs/acme"
ROLES = "VIEWER, BILLING, MEMBER, ADMIN, OWNER"
POLICY = {"name": "Rule", "actionPattern": "deploy.*", "effect": "ASK", "riskClass": "HIGH"}
KEY = {"routingKey": "k" * 32}
CHANNEL = {"name": "Pager", "kind": "pager", "config": KEY}
CHANNELS = f"{ORG}/projects/web/notification-channels"
EFFECTS = "ALLOW, ASK, DENY"
SCOPES = (
    "explore:read, approvals:read, approvals:write, approvals:decide, policies:read, policies:write, channels:read, "
    "channels:write, sinks:read, sinks:write, sinks:export, sso:read, sso:write, projects:read, projects:write, "
    "keys:read, keys:write, members:read, members:write, tokens:write, proofs:read, proofs:write, integrations:read, "
    "integrations:write, audit:read, issues:read, issues:write, releases:read, releases:write, "
    "views:write"
)

BODIES: list[tuple[str, dict[str, Any], str, str]] = [
    (f"{ORG}/invitations", {"email": "a@example.org", "role": "admin"}, "role", ROLES),
    (f"{ORG}/principals", {"name": "Bot", "kind": "user"}, "kind", "agent, service"),
    (f"{ORG}/principals", {"name": "Bot", "kind": "agent", "role": "OWNER"}, "role", "VIEWER, BILLING, MEMBER, ADMIN"),
    (f"{ORG}/tokens", {"name": "Mine", "scopes": ["explore:read", "explore"]}, "scopes[1]", SCOPES),
    (f"{ORG}/approval-policies", POLICY | {"effect": "BLOCK"}, "effect", EFFECTS),
    (f"{ORG}/approval-policies", POLICY | {"riskClass": 3}, "riskClass", "LOW, MEDIUM, HIGH, CRITICAL"),
    (f"{ORG}/approval-policies", POLICY | {"approverRoles": ["VIEWER"]}, "approverRoles[0]", "MEMBER, ADMIN, OWNER"),
    (CHANNELS, CHANNEL | {"kind": "slack"}, "kind", "chat-a, chat-b, webhook, email, pager, teams"),
    (CHANNELS, CHANNEL | {"scope": None}, "scope", "project, org"),
    (
        CHANNELS,
        CHANNEL | {"config": {"routingKey": "k" * 32, "severity": "fatal"}},
        "config.severity",
        "info, warning, error, critical",
    ),
]


QUERIES = [
    (f"{ORG}/approval-requests", "status", "PENDING, APPROVED, REJECTED, EXPIRED"),
    (f"{ORG}/deliveries", "state", "READY, SENDING, DONE, DEAD, CANCELLED"),
]


async def test_a_wrong_name_in_a_body_is_answered_with_the_right_ones(control: Control) -> None:
    assert (await control.call("POST", f"{ORG}/projects", {"slug": "web", "name": "Web"}))[0] in (201, 409)
    for path, body, field, names in BODIES:
        status, answer, _ = await control.call("POST", path, body)
        assert status == 400, answer
        found = [(each["path"], each["message"]) for each in answer["error"]["details"]]
        assert found == [(f"body.{field}", f"Must be one of {names}.")]


async def test_a_wrong_name_in_a_query_is_answered_with_the_right_ones(control: Control) -> None:
    for path, parameter, names in QUERIES:
        status, answer, _ = await control.call("GET", path, params={parameter: "open"})
        assert status == 400, answer
        found = [(each["path"], each["message"]) for each in answer["error"]["details"]]
        assert found == [(f"query.{parameter}", f"Must be one of {names}.")]
