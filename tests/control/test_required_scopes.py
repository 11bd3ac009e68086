"""Every route of an organization asks for the scopes that it declares. (Those of roles are in the tests of proto.)"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from control.settings import ControlSettings
from proto.identity import Role, Scope
from tests.chassis.auth.tenants import Tenant, new_member_token
from tests.control.code.source_maps.conftest import read_here  # noqa: F401  # a fixture
from tests.control.conftest import Control, serving
from tests.control.test_existence import everything_of, filled

# What is somebody else's, or what the caller may not read, is not there for him.
HIDDEN = {
    "/orgs/{orgSlug}/approval-requests/{requestId}/reject",
    "/orgs/{orgSlug}/tokens/{tokenId}",
    "/orgs/{orgSlug}/principals/{principalId}",
    "/orgs/{orgSlug}/principals/{principalId}/tokens",
    "/orgs/{orgSlug}/principals/{principalId}/tokens/{tokenId}",
}
pytestmark = pytest.mark.usefixtures("read_here")


@pytest.fixture
async def control(
    migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path, control_settings: ControlSettings
) -> AsyncIterator[Control]:
    async with serving(migrated_url, tmp_path, control_settings, tenants=tenants, api_rate=0) as control:
        yield control


async def declared(control: Control) -> dict[tuple[str, str], list[frozenset[Scope]]]:
    """Of each method and path the scopes, of which one set does."""
    _, document, _ = await control.call("GET", "/openapi.json")
    return {
        (method.upper(), path): [frozenset(map(Scope, way["bearerAuth"])) for way in operation["security"]]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/orgs/{orgSlug}")
    }


async def test_every_route_asks_for_the_scopes_that_it_declares(control: Control) -> None:
    """All others do not help, and none else is needed. An unknown parameter keeps the routes from doing anything."""
    ours, found = await everything_of(control, control.acme), await declared(control)
    assert len(found) > 100
    tokens: dict[frozenset[Scope], str] = {}

    async def asked(method: str, path: str, held: frozenset[Scope]) -> int:
        if held not in tokens:
            _, tokens[held] = await new_member_token(control.checks.database, control.acme, Role.OWNER, held)
        where, body = f"{filled(path, 'acme', 'web', ours)}?nonsense=1", None if method == "GET" else {"nonsense": 1}
        return (await control.call(method, where, body, tokens[held]))[0]

    wrong = {}
    for (method, path), ways in found.items():
        without = await asked(method, path, frozenset(Scope).difference(*ways))
        within = {await asked(method, path, way) for way in ways}
        if without != 403 or not within <= ({400, 404} if path in HIDDEN else {400}):
            wrong[method, path] = without, within
    assert wrong == {}
