"""`sluice control` over a store with one organization, as a process."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import psutil  # type: ignore[import-untyped]  # it has no types

from benchmarks.command import DATABASES
from benchmarks.processes import cpu_s
from chassis.db.database import Database
from chassis.db.migrations import migrate
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token, new_tenant
from tests.e2e.product import Service
from tests.postgresql import running

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


def wanted_databases(option: str) -> Sequence[str]:
    """The names of those that `--database` names."""
    return DATABASES if option == "both" else (option,)


@contextmanager
def database(name: str, directory: Path) -> Iterator[str]:
    """The URL of an empty database in a new directory; that of PostgreSQL as a deployment has it."""
    directory.mkdir(parents=True)
    if name == "sqlite":
        yield f"sqlite:///{directory / 'sluice.db'}"
        return
    settings = {"fsync": "on", "autovacuum": "on", "shared_buffers": "128MB"}
    with running(directory / "server", settings=settings) as server:
        yield server.new_database()


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
    if service.process is None:
        raise RuntimeError("the service does not run")
    if cores:
        os.sched_setaffinity(service.process.pid, cores)
        for thread in psutil.Process(service.process.pid).threads():
            os.sched_setaffinity(thread.id, cores)
    try:
        yield Served(service.port, tokens, service.process.pid)
    finally:
        service.stop()


async def _tokens(url: str, administrators: int) -> list[str]:
    database = Database(url)
    await database.start()
    tenant = await new_tenant(database, "acme")
    tokens = [str(tenant.token.secret)]
    for _ in range(administrators):
        tokens.append((await new_member_token(database, tenant, Role.ADMIN))[1])
    await database.close()
    return tokens
