"""A directory that provisions acme."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest

from tests.control.conftest import Control
from tests.control.identity.conftest import person  # noqa: F401  # a fixture

SCIM: Final = "application/scim+json"
PATCH: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
GROUP: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"


@dataclass
class Directory:
    """Who provisions an organization."""

    control: Control
    token: str
    org: str = "acme"
    made: dict[str, str] = field(default_factory=dict)

    async def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None, **options: Any
    ) -> tuple[int, Any, Any]:
        """Status, decoded body and headers."""
        sent = {"Authorization": f"Bearer {self.token}"} | (headers or {})
        if body is not None:
            options["data"] = body if isinstance(body, bytes) else msgspec.json.encode(body)
            sent = {"Content-Type": SCIM} | sent
        url = f"/scim/v2/{self.org}{path}"
        async with self.control.client.request(method, url, headers=sent, **options) as answer:
            raw = await answer.read()
            assert answer.status in (204, 304) or answer.headers["Content-Type"] == SCIM, raw
            return answer.status, msgspec.json.decode(raw) if raw else None, answer.headers

    async def user(self, user_name: str, **attributes: Any) -> dict[str, Any]:
        """A new user."""
        body = {
            "schemas": [USER],
            "userName": user_name,
            "emails": [{"value": user_name, "primary": True}],
        } | attributes
        status, made, _ = await self.call("POST", "/Users", body)
        assert status == 201, made
        return dict(made)

    async def group(self, display_name: str, *members: dict[str, Any], **attributes: Any) -> dict[str, Any]:
        """A new group."""
        listed = [{"value": each["id"]} for each in members]
        body = {"schemas": [GROUP], "displayName": display_name, "members": listed} | attributes
        status, made, _ = await self.call("POST", "/Groups", body)
        assert status == 201, made
        return dict(made)

    async def patch(self, resource: dict[str, Any], *operations: dict[str, Any], **options: Any) -> tuple[int, Any]:
        """Change a resource."""
        path = f"/{resource['meta']['resourceType']}s/{resource['id']}"
        status, body, _ = await self.call(
            "PATCH", path, {"schemas": [PATCH], "Operations": list(operations)}, **options
        )
        return status, body

    async def activate(self, user: dict[str, Any], active: bool) -> tuple[int, Any]:
        """Take somebody out, or in again."""
        return await self.patch(user, {"op": "replace", "path": "active", "value": active})

    async def members(self) -> dict[str, dict[str, Any]]:
        """The members of the organization that have an address, by it."""
        status, page, _ = await self.control.call("GET", f"/orgs/{self.org}/members?limit=100")
        assert status == 200
        return {each["email"]: each for each in page["data"] if each["email"]}

    async def audit(self, prefix: str = "") -> list[dict[str, Any]]:
        """Events whose action begins so."""
        status, page, _ = await self.control.call("GET", f"/orgs/{self.org}/audit?limit=100")
        assert status == 200, page
        return [each for each in page["data"] if each["action"].startswith(prefix)]


@pytest.fixture
async def directory(control: Control) -> Directory:
    return await connect(control)


async def connect(control: Control, org: str = "acme", token: str | None = None) -> Directory:
    """The directory of an organization, with a token of its own."""
    status, made, _ = await control.call("POST", f"/orgs/{org}/scim-tokens", {"name": "Directory"}, token)
    assert status == 201, made
    assert made["endpoint"] == f"https://sluice.example.org/scim/v2/{org}"
    return Directory(control, made["token"], org)


async def map_roles(control: Control, mapping: dict[str, str] | None, default: str = "VIEWER") -> None:
    """What groups are mapped to."""
    change = {"roleMapping": mapping, "defaultRole": default}
    status, body, _ = await control.call("PUT", "/orgs/acme/sso/connections/OIDC", change)
    assert status == 200, body
