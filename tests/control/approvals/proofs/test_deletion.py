"""Bundles go with their project or organization, and nothing else of them stays."""

from typing import Any

import pytest
import sqlalchemy as sa

from control.approvals.proofs.tables import proof_bundles, proof_issuer_keys, proof_links, proof_usage
from tests.control.approvals.proofs.made import BUNDLES, bundle, claim, register, signed, submit
from tests.control.conftest import Control
from tests.control.governance.erasures.conftest import purge

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
