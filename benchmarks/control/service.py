"""`sluice control` over a store with one organization, as a process."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from benchmarks.processes import cpu_s, pid_of
from benchmarks.stores import opened
from chassis.db.migrations import migrate
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token, new_tenant
from tests.e2e.product import Service

# What is measured is the work and not its limits.
_SETTINGS: Final = {
    "SLUICE_API_RATE": "0",
    "SLUICE_APPROVAL_RATE": "0",
    "SLUICE_SCIM_RATE": "0",
    "SLUICE_LOG_LEVEL": "warning",
}


class Served(NamedTuple):
    """A running service; the first token is the owner's, the others are of administrators."""

    port: int
    tokens: Sequence[str]
    pid: int

    def cpu_s(self) -> float:
        """CPU of the service so far."""
        return cpu_s(self.pid)


@contextmanager
def served(
    directory: Path,
    url: str,
    administrators: int = 0,
    cores: Sequence[int] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Served]:
    """Migrate, fill, start; and end it. `cores`: those it may use; `more`: further settings."""
    directory.mkdir(exist_ok=True)
    migrate(url)
    tokens = asyncio.run(_tokens(url, administrators))
    settings = {**_SETTINGS, "SLUICE_DATABASE_URL": url, **more}
    service = Service("control", directory / "data", directory / "log", settings)
    service.start()
    pid = pid_of(service)
    if cores:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
    try:
        yield Served(service.port, tokens, pid)
    finally:
        service.stop()


async def _tokens(url: str, administrators: int) -> list[str]:
    async with opened(url) as database:
        tenant = await new_tenant(database, "acme")
        members = [await new_member_token(database, tenant, Role.ADMIN) for _ in range(administrators)]
    return [str(tenant.token.secret), *(token for _, token in members)]
