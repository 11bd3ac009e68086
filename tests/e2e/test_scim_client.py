"""A directory is connected and provisions: as an administrator and a SCIM client do it, one step after the other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_models import PatchOp, PatchOperation, SearchRequest

from tests.e2e.product import Answer, Sluice, call, running


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Sluice]:
    sluice = running(tmp_path / "data", tmp_path / "log", SLUICE_PUBLIC_URL="https://sluice.example.com")
    yield sluice
    sluice.kill()


def api(product: Sluice, method: str, path: str, body: object = None) -> Answer:
    """As the owner."""
    raw = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {product.token}", "Content-Type": "application/json"}
    return call(method, f"{product.control_url}/orgs/{product.org}{path}", raw, headers)


def roles(product: Sluice) -> dict[str, str]:
    """Of the people, by address."""
    members = api(product, "GET", "/members?limit=100").json()["data"]
    return {each["email"]: each["role"] for each in members if each["email"]}


def test_a_directory_is_connected_and_provisions(product: Sluice) -> None:
    nobody = roles(product)
    mapping = {"roleMapping": {"Platform": "ADMIN"}, "defaultRole": "VIEWER"}
    assert api(product, "PUT", "/sso/connections/OIDC", mapping).status == 200
    made = api(product, "POST", "/scim-tokens", {"name": "Directory", "expiresInDays": 365})
    assert made.status == 201
    issued, settings = made.json(), api(product, "GET", "/scim-settings").json()
    assert issued["endpoint"] == settings["endpoint"] == f"https://sluice.example.com/scim/v2/{product.org}"
    assert settings["roleMapping"] == {"Platform": "ADMIN"}

    base = f"{product.control_url}/scim/v2/{product.org}"
    headers = {"Authorization": f"Bearer {issued['token']}"}
    with httpx2.Client(base_url=base, headers=headers) as http:
        provision(product, SyncSCIMClient(http), nobody)

    (token,) = api(product, "GET", "/scim-tokens").json()["data"]
    assert token["lastUsedAt"] is not None
    assert api(product, "DELETE", f"/scim-tokens/{token['id']}").status == 204
    assert call("GET", f"{base}/Users", headers=headers).status == 401


def provision(product: Sluice, scim: Any, nobody: dict[str, str]) -> None:
    """A user and a group come and go, and what follows from them is seen among the members."""
    scim.discover()
    user_type, group_type = scim.get_resource_model("User"), scim.get_resource_model("Group")
    email = user_type.Emails(value="ada@example.com", primary=True)
    ada = scim.create(user_type(user_name="ada@example.com", external_id="e-1", display_name="Ada", emails=[email]))
    assert roles(product) == nobody | {"ada@example.com": "VIEWER"}
    search: Any = SearchRequest.model_validate({"filter": 'userName eq "ada@example.com"'})
    found = scim.query(user_type, query_parameters=search)
    assert [each.id for each in found.resources] == [ada.id]
    platform = scim.create(group_type(display_name="Platform", members=[group_type.Members(value=ada.id)]))
    assert roles(product) == nobody | {"ada@example.com": "ADMIN"}

    assert set_active(scim, user_type, ada.id, active=False).active is False
    assert roles(product) == nobody
    assert set_active(scim, user_type, ada.id, active=True).active is True
    assert roles(product) == nobody | {"ada@example.com": "ADMIN"}

    scim.delete(platform)
    assert roles(product) == nobody | {"ada@example.com": "VIEWER"}
    scim.delete(scim.query(user_type, ada.id))  # as it is now: the client sends its version as If-Match
    assert roles(product) == nobody
    assert scim.query(user_type).total_results == 0


def set_active(scim: Any, user_type: Any, user_id: str, *, active: bool) -> Any:
    patch: Any = PatchOp
    operation: Any = PatchOperation
    change = patch[user_type](operations=[operation(op="replace", path="active", value=active)])
    return scim.modify(user_type, user_id, change)
