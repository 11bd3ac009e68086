"""On every route for a token: an undeclared query parameter is a 400 that names it, beside everything else that is
wrong, and nothing happens. Single sign-on, directories,
webhooks and login ignore it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from chassis.auth.tables import metadata
from sluice.erasure_filters import check_filters
from tests.control.conftest import Control
from tests.control.identity.accounts import join
from tests.control.test_existence import everything_of

VALUES = {"orgSlug": "acme", "projectSlug": "web", "protocol": "OIDC"}
UNDECLARED = {"nonsense": "1", "Limit": "2", "cursor ": "3"}
UNLIMITED: Final = pytest.mark.chassis_settings(
    **dict.fromkeys(
        (
            *("api_rate", "approval_rate", "channel_test_rate", "scim_rate", "webhook_rate", "failed_webhook_rate"),
            *("visitor_rate", "refresh_rate", "failed_bearer_rate", "failed_login_rate", "new_address_login_rate"),
            "failed_sso_rate",
        ),
        0,
    )
)
pytestmark = UNLIMITED


class Asked(NamedTuple):
    """An operation: `declared` are its query parameters, `security` its schemes, `example` is one of its JSON body."""

    method: str
    path: str
    declared: list[str]
    security: list[str]
    example: Any


@pytest.fixture
def service_parts() -> dict[str, Any]:
    """With the check of filters that explore has, as in one process."""
    return {"check_filters": check_filters}


async def operations(control: Control, ids: Mapping[str, str] = MappingProxyType({})) -> list[Asked]:
    """`ids`: of what their paths name."""
    _, document, _ = await control.call("GET", "/openapi.json")
    return [
        Asked(
            method.upper(),
            path.format_map({parameter["name"]: "x" for parameter in operation["parameters"]} | VALUES | dict(ids)),
            [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"],
            [scheme for each in operation["security"] for scheme in each],
            example_of(operation),
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def example_of(operation: dict[str, Any]) -> Any:
    media = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return None if media is None else media.get("example", {})


async def ask(
    control: Control, asked: Asked, query: dict[str, str], token: str, body: object = None
) -> tuple[int, list[tuple[str, str]]]:
    """Status, and (path, code) of each issue."""
    headers = {"Authorization": f"Bearer {token}"} | ({} if body is None else {"Content-Type": "application/json"})
    async with control.client.request(
        asked.method,
        asked.path,
        params=query,
        headers=headers,
        allow_redirects=False,
        data=None if body is None else msgspec.json.encode(body),
    ) as answer:
        sent = await answer.json() if answer.content_type == "application/json" else {}
        error = sent.get("error") if isinstance(sent, dict) else None
        details = error.get("details", []) if isinstance(error, dict) else []
        return answer.status, [(issue["path"], issue["code"]) for issue in details]


async def operations_on_acme(control: Control) -> list[Asked]:
    """Those for a token, on things that are there."""
    path = "/orgs/acme/principals"
    _, agent, _ = await control.call("POST", path, {"kind": "agent", "name": "Bot"})
    _, token, _ = await control.call("POST", f"{path}/{agent['principalId']}/tokens", {"name": "Token"})
    found = await operations(control, await everything_of(control, control.acme))
    of_agent = await operations(control, {"principalId": agent["principalId"], "tokenId": token["id"]})
    both = [two if f"{path}/" in one.path else one for one, two in zip(found, of_agent, strict=True)]
    return [asked for asked in both if "bearerAuth" in asked.security]


async def rows(control: Control) -> dict[str, int]:
    """How many rows each table has."""
    return {table.name: await control.count(table) for table in metadata.sorted_tables}


@pytest.mark.control_settings(warehouse_interval_s=0)  # what is due would be exported meanwhile
async def test_every_route_for_a_token_names_what_it_does_not_know_and_does_nothing(control: Control) -> None:
    session = (await join(control, control.acme)).access
    found = await operations_on_acme(control)
    assert len(found) > 100
    assert len([asked for asked in found if asked.example is not None]) > 40
    expected = [(f"query.{name}", "unknown_field") for name in UNDECLARED]
    before = await rows(control)
    for asked in found:
        token = session if asked.path.startswith("/auth/") else control.acme.token.secret
        status, issues = await ask(control, asked, UNDECLARED, token, asked.example)
        assert (status, issues[:3]) == (400, expected), (asked, issues)
        if asked.example:
            assert {code for _, code in issues[3:]} <= {"missing"}, asked  # what a query must have
    assert await rows(control) == before


async def test_what_else_is_wrong_is_named_beside_an_undeclared_parameter(control: Control) -> None:
    """Of the query and of the body, in one response."""
    session = (await join(control, control.acme)).access
    undeclared = [(f"query.{name}", "unknown_field") for name in UNDECLARED]
    for asked in await operations_on_acme(control):
        if (not asked.declared and asked.example is None) or asked.path.endswith("/validate"):
            continue  # nothing else can be wrong
        token = session if asked.path.startswith("/auth/") else control.acme.token.secret
        wrong = {name: ("\x00" * 600 if name == "cursor" else "\x00" * 65) for name in asked.declared}
        body = None if asked.example is None else {"nonsense": 1}
        status, alone = await ask(control, asked, wrong, token, body)
        assert status == 400, (asked, alone)
        assert not {path for path, code in alone if code == "unknown_field" and path.startswith("query.")}, asked
        status, together = await ask(control, asked, UNDECLARED | wrong, token, body)
        assert (status, together) == (400, undeclared + alone), asked
        if asked.declared:
            assert {path.removeprefix("query.") for path, _ in alone} == set(asked.declared), (asked, alone)


async def test_checks_beyond_the_types_of_a_body_are_named_too(control: Control) -> None:
    path, late = "/orgs/acme/changes", "2999-01-01T00:00:00Z"
    asked = Asked("POST", path, [], [], {"kind": "generic", "title": "x", "at": late, "dedupeKey": "release:x"})
    status, issues = await ask(control, asked, {"nonsense": "1"}, control.acme.token.secret, asked.example)
    assert (status, issues) == (
        400,
        [("query.nonsense", "unknown_field"), ("body.at", "range"), ("body.dedupeKey", "not_allowed")],
    )


FAULTS: Final = (
    ("/orgs/acme/deliveries", {"channelId": "", "state": ""}, ["channelId format", "state not_allowed"]),
    (
        "/orgs/acme/changes",
        {"limit": "0", "kind": "x", "to": "2026-11-20T00:00:00Z", "from": "2026-11-20T00:00:00Z", "project": ""},
        ["from range", "project too_short", "kind not_allowed", "limit too_small"],
    ),
    (
        "/orgs/acme/audit",
        {"cursor": "x" * 501, "limit": "x", "to": "x", "from": "", "objectId": "", "action": "%"},
        ["action format", "objectId too_short", "from too_short", "to format", "limit type", "cursor too_long"],
    ),
    ("/orgs/acme/releases", {"project": "nope", "limit": "0"}, ["limit too_small"]),
    ("/orgs/acme/releases", {"project": "nope"}, ["project unknown"]),
    ("/orgs/acme/changes", {"project": "nope"}, ["project unknown"]),
)


@pytest.mark.parametrize(("path", "query", "faults"), FAULTS)
async def test_faults_are_named_in_the_order_of_the_list(
    control: Control, path: str, query: dict[str, str], faults: list[str]
) -> None:
    """Filters first, then the page; a project is looked for when all else is valid."""
    expected = [(f"query.{name}", code) for name, code in (fault.split() for fault in faults)]
    assert await ask(control, Asked("GET", path, [], [], None), query, control.acme.token.secret) == (400, expected)


async def test_all_others_ignore_it(control: Control) -> None:
    found = [asked for asked in await operations(control) if "bearerAuth" not in asked.security]
    assert {"sso", "scim", "webhooks", "auth"} <= {asked.path.split("/")[1] for asked in found}
    for asked in found:
        if asked.path != "/metrics":
            _, issues = await ask(control, asked, UNDECLARED, control.acme.token.secret)
            assert "unknown_field" not in {code for _, code in issues}, asked
