"""What expires is deleted; certificates that expire are counted and logged."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from control.identity.sso.routes import SsoHousekeeping
from control.identity.sso.tables import sso_assertions, sso_handoff_codes, sso_logins
from tests.control.conftest import Control
from tests.control.identity.sso import saml_idp
from tests.control.identity.sso.conftest import Browser, SamlProvider


def _later(than: datetime, hours: float) -> datetime:
    return than + timedelta(hours=hours)


@pytest.mark.both_stores
async def test_logins_codes_and_assertions_are_deleted_when_they_have_expired(
    saml: SamlProvider, browser: Browser, control: Control
) -> None:
    await browser.start()
    await saml.log_in(ending="redirect")
    now = datetime.now(UTC)
    for hours, left in ((0.0, (2, 1, 1)), (1.05, (2, 0, 1)), (1.13, (2, 0, 0)), (1.25, (0, 0, 0))):
        housekeeping = SsoHousekeeping(control.checks.database, None, now=partial(_later, now, hours))
        await housekeeping.run_once()
        found = [await control.count(table) for table in (sso_logins, sso_handoff_codes, sso_assertions)]
        assert tuple(found) == left, hours


async def test_certificates_are_watched_thirty_days_ahead(saml: SamlProvider, control: Control) -> None:
    def certificate(days: float) -> str:
        return saml_idp.certificate_pem(saml_idp.rsa_key(), not_after=datetime.now(UTC) + timedelta(days=days))

    registry, now = CollectorRegistry(), datetime.now(UTC)
    housekeeping = SsoHousekeeping(control.checks.database, registry, now=lambda: now)

    async def expiring() -> tuple[float | None, list[str]]:
        with capture_logs() as lines:
            await housekeeping.run_once()
        value = registry.get_sample_value("sluice_sso_certificates_expiring")
        return value, [line["org_id"] for line in lines if line["log_level"] == "warning"]

    await saml.connect(idpCertificate=certificate(40))
    assert await expiring() == (0, [])
    await saml.connect(idpCertificateAlternates=[certificate(29)])
    assert await expiring() == (1, [control.acme.organization.id])
    assert await expiring() == (1, []), "once a day"
    now += timedelta(days=1)
    assert await expiring() == (1, [control.acme.organization.id])
    await saml.connect(enabled=False)
    assert await expiring() == (0, [])
    await saml.connect(enabled=True, idpCertificateAlternates=[], idpCertificate=certificate(-5))
    assert (await expiring())[0] == 1
