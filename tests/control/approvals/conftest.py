import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from chassis.auth.guards import AuthGuards
from chassis.db.database import Database
from chassis.http.access import Guards
from chassis.http.cursor import CursorSigner
from chassis.http.web import build_app
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from control.approvals.notifications import LinkBuilder
from control.approvals.policies.api import Policies
from control.approvals.requests import ApprovalRequests
from control.approvals.views import ApprovalViews
from control.governance.audit_events import Audit
from control.http.context import HandlerContext
from control.http.page_links import PageLinks
from control.resources import RESOURCES
from control.routing.resource import with_existence_checks
from tests.chassis.auth.tenants import Clock, Tenant, new_tenant
from tests.control.approvals.office import Office, RecordingSender


@pytest.fixture
async def sqlite(migrated_file: Path, tmp_path: Path) -> AsyncIterator[Database]:
    """A store without a service."""
    shutil.copyfile(migrated_file, tmp_path / "sluice.db")
    made = Database(f"sqlite:///{tmp_path / 'sluice.db'}")
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def office(migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path) -> AsyncIterator[Office]:
    telemetry = Telemetry("control")
    settings = ChassisSettings(data=str(tmp_path), public_url="https://sluice.example.org", approval_rate=0)
    checks = AuthGuards.create(Database(migrated_url, max_wait_s=10.0), telemetry.registry)
    clock, attempts, cursors = Clock(), RecordingSender(), CursorSigner(b"k" * 32)
    desk = HandlerContext(checks, cursors, 16_384, 5.0)
    requests = ApprovalRequests(
        desk, attempts, LinkBuilder("https://sluice.example.org", PageLinks("https://ops.example.org")), clock.now
    )
    policies, audit, views = Policies(desk), Audit(desk), ApprovalViews(desk, clock.now)
    app = build_app(
        with_existence_checks(
            checks.database, [*views.routes(), *requests.routes(), *policies.routes(), *audit.routes()], RESOURCES
        ),
        service="control",
        settings=settings,
        telemetry=telemetry,
        cleanup_contexts=[checks.running],
        guards=Guards.over(checks),
    )
    async with TestClient(TestServer(app), auto_decompress=False, skip_auto_headers=("Accept-Encoding",)) as client:
        if tenants is None:
            tenants = await new_tenant(checks.database, "acme"), await new_tenant(checks.database, "globex")
        yield Office(client, checks, *tenants, clock, attempts)
