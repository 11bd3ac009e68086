"""On every route for a token: an undeclared query parameter is a 400 that names it. Single sign-on, directories,
webhooks and login ignore it.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control, serving
from tests.control.identity.accounts import join

VALUES = {"orgSlug": "acme", "projectSlug": "web"}
UNDECLARED = {"nonsense": "1", "Limit": "2", "cursor ": "3"}
UNLIMITED: dict[str, Any] = dict.fromkeys(
    ("api_rate", "approval_rate", "channel_test_rate", "scim_rate", "webhook_rate", "failed_webhook_rate"), 0
) | dict.fromkeys(
    (
        "visitor_rate",
        "refresh_rate",
        "failed_bearer_rate",
        "failed_login_rate",
        "new_address_login_rate",
        "failed_sso_rate",
    ),
    0,
)


class Asked(NamedTuple):
    """An operation: `declared` are its query parameters, `security` its schemes."""

    method: str
    path: str
    declared: list[str]
    security: list[str]


@pytest.fixture
async def control(
    migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path, control_settings: ControlSettings
) -> AsyncIterator[Control]:
    async with serving(migrated_url, tmp_path, control_settings, tenants=tenants, **UNLIMITED) as control:
        yield control


async def operations(control: Control) -> list[Asked]:
    _, document, _ = await control.call("GET", "/openapi.json")
    return [
        Asked(
            method.upper(),
            path.format_map({parameter["name"]: "x" for parameter in operation["parameters"]} | VALUES),
            [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"],
            [scheme for each in operation["security"] for scheme in each],
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


async def ask(control: Control, asked: Asked, query: dict[str, str], token: str) -> tuple[int, list[tuple[str, str]]]:
    """Status, and (path, code) of each issue."""
    headers = {"Authorization": f"Bearer {token}"}
    async with control.client.request(
        asked.method, asked.path, params=query, headers=headers, allow_redirects=False
    ) as answer:
        body = await answer.json() if answer.content_type == "application/json" else {}
        error = body.get("error") if isinstance(body, dict) else None
        details = error.get("details", []) if isinstance(error, dict) else []
        return answer.status, [(issue["path"], issue["code"]) for issue in details]


async def test_every_route_for_a_token_names_what_it_does_not_know(control: Control) -> None:
    session = (await join(control, control.acme)).access
    found = [asked for asked in await operations(control) if "bearerAuth" in asked.security]
    assert len(found) > 100
    for asked in found:
        token = session if asked.path.startswith("/auth/") else control.acme.token.secret
        status, issues = await ask(control, asked, UNDECLARED | dict.fromkeys(asked.declared, "1"), token)
        assert (status, issues) == (400, [(f"query.{name}", "unknown_field") for name in UNDECLARED]), asked


async def test_every_list_knows_what_it_declares(control: Control) -> None:
    found = [asked for asked in await operations(control) if "bearerAuth" in asked.security and asked.declared]
    assert len(found) > 20
    for asked in found:
        status, issues = await ask(control, asked, dict.fromkeys(asked.declared, "1"), control.acme.token.secret)
        assert status < 500
        assert "unknown_field" not in {code for _, code in issues}, asked


async def test_all_others_ignore_it(control: Control) -> None:
    found = [asked for asked in await operations(control) if "bearerAuth" not in asked.security]
    assert {"sso", "scim", "webhooks", "auth"} <= {asked.path.split("/")[1] for asked in found}
    for asked in found:
        if asked.path != "/metrics":
            _, issues = await ask(control, asked, UNDECLARED, control.acme.token.secret)
            assert "unknown_field" not in {code for _, code in issues}, asked
