"""The control service over a relational store, on a real socket."""

import asyncio
import shutil
from collections import ChainMap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
import pytest
import sqlalchemy as sa
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from chassis.auth.guards import AuthGuards
from chassis.db.database import Database
from chassis.http.access import Guards
from chassis.http.web import build_app
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from control.app import service
from control.governance.erasures.api import CheckFilters
from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant, new_tenant
from tests.databases import WAIT_S
from tests.forks import CHEAP_HASHER

SETTINGS: Final[dict[str, Any]] = {"max_body_bytes": 64 * 1_024, "egress_allow": ("127.0.0.0/8",), "egress_http": True}
KEY_FILES = ("cursor.key", "sealing.keys", "signing.key")


@dataclass
class Control:
    """The service with two tenants in it."""

    client: TestClient[Any, Any]
    checks: AuthGuards
    acme: Tenant
    globex: Tenant

    async def call(
        self, method: str, path: str | URL, body: object = None, token: str | None = None, **options: Any
    ) -> tuple[int, Any, Any]:
        """Status, decoded body and headers; as acme's owner unless another token is given."""
        headers = {"Authorization": f"Bearer {token or self.acme.token.secret}"} | options.pop("headers", {})
        if body is not None:
            options |= {"data": msgspec.json.encode(body)}
            headers = {"Content-Type": "application/json"} | headers
        async with self.client.request(method, path, headers=headers, **options) as answer:
            raw = await answer.read()
            return answer.status, msgspec.json.decode(raw) if raw else None, answer.headers

    async def execute(self, statement: sa.Executable) -> None:
        """Change the database, behind the service."""
        async with self.checks.database.write() as connection:
            await connection.execute(statement)

    async def scalars(self, statement: sa.Select[Any]) -> list[Any]:
        """The first column of what is in the database."""
        async with self.checks.database.read() as connection:
            return list((await connection.scalars(statement)).all())

    async def count(self, table: sa.FromClause) -> int:
        """How many rows a table has."""
        (found,) = await self.scalars(sa.select(sa.func.count()).select_from(table))
        return int(found)


@pytest.fixture(autouse=True)
def patient_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials are looked up for as long as a transaction is waited for."""
    monkeypatch.setattr("chassis.auth.cache.FETCH_TIMEOUT_S", WAIT_S)


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords hashed in a moment."""
    monkeypatch.setattr("control.identity.users.passwords.HASHER", CHEAP_HASHER)


@pytest.fixture(autouse=True)
def background(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a service does in the background (it delivers, expires, deletes) it does in tests marked `background` alone:
    the tasks of a service read the database twenty times when it starts, which cost more than most tests.
    """
    if request.node.get_closest_marker("background") is None:
        monkeypatch.setattr("chassis.runtime.periodic.FIRST_RUN_DELAY_S", 3_600.0)


@pytest.fixture
def control_settings(request: pytest.FixtureRequest) -> ControlSettings:
    """What the service is started with: it may call servers of tests. `@pytest.mark.control_settings(name=value)` of a
    test, class or module says what else.
    """
    marked = [mark.kwargs for mark in request.node.iter_markers("control_settings")]
    return ControlSettings(**ChainMap(*marked, SETTINGS))


@dataclass(frozen=True)
class DataDirectory:
    """What a service that was started once has left, with two tenants in its SQLite file: to copy."""

    path: Path
    acme: Tenant
    globex: Tenant

    def copy_keys(self, directory: Path) -> None:
        """Without them a start makes and syncs three of them."""
        for name in KEY_FILES:
            shutil.copy(self.path / name, directory / name)  # with its mode


@pytest.fixture(scope="session")
def data_directory(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    directory = tmp_path_factory.mktemp("tenants")
    shutil.copyfile(migrated_file, directory / "sluice.db")

    async def started() -> DataDirectory:
        async with serving(f"sqlite:///{directory / 'sluice.db'}", directory, ControlSettings()) as control:
            return DataDirectory(directory, control.acme, control.globex)

    return asyncio.run(started())


@pytest.fixture
def tenants(request: pytest.FixtureRequest, migrated_url: str, tmp_path: Path) -> tuple[Tenant, Tenant] | None:
    """Acme and globex, if the database of this test is one that can be had with them in it."""
    if not migrated_url.startswith("sqlite:"):
        return None
    template: DataDirectory = request.getfixturevalue("data_directory")
    shutil.copyfile(template.path / "sluice.db", tmp_path / "sluice.db")
    template.copy_keys(tmp_path)
    return template.acme, template.globex


@asynccontextmanager
async def serving(
    url: str,
    directory: Path,
    settings: ControlSettings,
    check_filters: CheckFilters | None = None,
    tenants: tuple[Tenant, Tenant] | None = None,
    parts: Mapping[str, Any] = MappingProxyType({}),
    **chassis: Any,
) -> AsyncIterator[Control]:
    """The service over the database of this URL, with its keys in this directory. `tenants`: those that are in it;
    `parts`: what the service has in the place of what it would build.
    """
    telemetry = Telemetry("control")
    chassis_settings = ChassisSettings(data=str(directory), public_url="https://sluice.example.org", **chassis)
    checks = AuthGuards.create(Database(url, max_wait_s=WAIT_S), telemetry.registry)
    parts = {"check_filters": check_filters, **parts}
    part = service(settings, chassis_settings, checks, telemetry.registry, **parts)
    app = build_app(
        part.routes,
        service=part.name,
        settings=chassis_settings,
        telemetry=telemetry,
        cleanup_contexts=[checks.running, *part.cleanup_contexts],
        guards=Guards.over(checks),
        readiness=part.readiness,
    )
    async with TestClient(TestServer(app), auto_decompress=False, skip_auto_headers=("Accept-Encoding",)) as client:
        if tenants is None:
            tenants = await new_tenant(checks.database, "acme"), await new_tenant(checks.database, "globex")
        yield Control(client, checks, *tenants)


@pytest.fixture
def service_parts() -> dict[str, Any]:
    """What the service of a test has in the place of what it would build."""
    return {}


@pytest.fixture
async def control(
    request: pytest.FixtureRequest,
    migrated_url: str,
    tenants: tuple[Tenant, Tenant] | None,
    tmp_path: Path,
    control_settings: ControlSettings,
    service_parts: dict[str, Any],
) -> AsyncIterator[Control]:
    """`@pytest.mark.chassis_settings(name=value)` says what else of the chassis is set."""
    chassis = ChainMap(*[mark.kwargs for mark in request.node.iter_markers("chassis_settings")])
    async with serving(
        migrated_url, tmp_path, control_settings, tenants=tenants, parts=service_parts, **chassis
    ) as control:
        yield control
