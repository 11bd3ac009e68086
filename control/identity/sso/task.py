"""Deletes logins and codes that have expired, and watches the dates of the providers' certificates."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge

from chassis.db.database import Database, format_time
from chassis.runtime.periodic import PeriodicTask
from control.identity.sso import connection_store
from control.identity.sso.login import login_store

INTERVAL_S: Final = 60.0
WARN_BEFORE: Final = timedelta(days=30)
WARN_INTERVAL: Final = timedelta(days=1)

log = structlog.get_logger(__name__)


class SsoHousekeeping:
    """One task per process."""

    def __init__(
        self,
        database: Database,
        registry: CollectorRegistry | None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._now = now
        self._warned: dict[str, datetime] = {}  # when, by id of the connection
        self._expiring = Gauge(
            "sluice_sso_certificates_expiring",
            "Enabled SAML connections with a certificate that expires within 30 days, or has expired.",
            registry=registry,
        )
        self._periodic_task = PeriodicTask(
            self.run_once, INTERVAL_S, log, "housekeeping of single sign-on failed", run_immediately=True
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown."""
        self._periodic_task.start()
        yield
        await self._periodic_task.close()

    async def run_once(self) -> None:
        """Raises DatabaseUnavailable."""
        now = self._now()
        async with self._database.read() as connection:
            expiring = await connection_store.list_expiring(connection, now + WARN_BEFORE)
            expired = await login_store.has_expired(connection, now)
        self._expiring.set(len(expiring))
        self._warned = {one: at for one, at in self._warned.items() if one in {each.id for each in expiring}}
        for each in expiring:
            if now - self._warned.get(each.id, datetime.min.replace(tzinfo=UTC)) >= WARN_INTERVAL:
                self._warned[each.id] = now
                log.warning(
                    "a certificate of an identity provider expires; logins still work, because certificates are "
                    "pinned by key",
                    org_id=each.org_id,
                    connection_id=each.id,
                    expires_at=format_time(each.certificate_expires_at),
                )
        if expired:
            async with self._database.write() as connection:
                await login_store.delete_expired(connection, now)
