"""Several accounts of one address: how tests invite, accept and log in."""

from typing import Any

from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control
from tests.control.identity.conftest import PASSWORD, Person

ADA = "ada@example.org"
SQUATTED = "a squatter's battery"
ACCEPT = "/auth/invitations/accept"


async def invite(control: Control, tenant: Tenant, email: str = ADA, **more: Any) -> Any:
    path = f"/orgs/{tenant.organization.slug}/invitations"
    status, made, _ = await control.call("POST", path, {"email": email, "role": "MEMBER"} | more, tenant.token.secret)
    assert status == 201, made
    return made


async def accept(control: Control, invitation: Any, password: str = PASSWORD, **more: Any) -> tuple[int, Any]:
    body = {"inviteToken": invitation["inviteToken"], "name": "Ada", "password": password} | more
    status, material, _ = await control.call("POST", ACCEPT, body)
    return status, material


async def join(control: Control, tenant: Tenant, password: str = PASSWORD, email: str = ADA, **more: Any) -> Person:
    """Somebody who was invited and has accepted."""
    status, material = await accept(control, await invite(control, tenant, email), password, **more)
    assert status == 201, material
    tokens = material["tokens"]
    return Person(control, email, material["user"]["id"], tokens["accessToken"], tokens["refreshToken"])


async def log_in(control: Control, password: str, **more: Any) -> tuple[int, Any]:
    status, answer, _ = await control.call("POST", "/auth/login", {"email": ADA, "password": password} | more)
    return status, answer
