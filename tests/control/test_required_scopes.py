"""Every route of an organization asks for the scopes that it declares. (Those of roles are in the tests of proto.)"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from control.settings import ControlSettings
from proto.identity import Role, Scope
from tests.chassis.auth.tenants import Tenant, new_member_token
from tests.control.conftest import Control, serving
from tests.control.source_maps.conftest import read_here  # noqa: F401  # a fixture
from tests.control.test_existence import everything_of, filled

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


async def test_every_route_refuses_who_lacks_its_scopes(control: Control) -> None:
    """Though he has all others. An unknown parameter keeps the routes from doing anything."""
    ours, found = await everything_of(control, control.acme), await declared(control)
    assert len(found) > 100
    tokens: dict[frozenset[Scope], str] = {}
    for ways in found.values():
        others = frozenset(Scope).difference(*ways)
        if others not in tokens:
            _, tokens[others] = await new_member_token(control.checks.database, control.acme, Role.OWNER, others)
    statuses = {}
    for (method, path), ways in found.items():
        where, body = f"{filled(path, 'acme', 'web', ours)}?nonsense=1", None if method == "GET" else {"nonsense": 1}
        token = tokens[frozenset(Scope).difference(*ways)]
        statuses[method, path] = (await control.call(method, where, body, token))[0]
    assert {route: status for route, status in statuses.items() if status != 403} == {}
