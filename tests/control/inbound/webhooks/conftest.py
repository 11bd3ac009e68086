"""A service that receives from source control."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import serving
from tests.control.inbound.webhooks.forges.sending import Scm


@pytest.fixture
async def scm(migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path) -> AsyncIterator[Scm]:
    """It never tires of failures."""
    async with serving(migrated_url, tmp_path, ControlSettings(), tenants=tenants, failed_webhook_rate=0) as control:
        yield Scm.of(control, tmp_path)
