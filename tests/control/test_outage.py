"""The control service while its PostgreSQL server is away: 503 in bounded time, and well again without a restart."""

import asyncio
from collections.abc import Iterator

import pytest

from chassis.db.migrations import migrate
from tests.control.conftest import Control
from tests.postgresql import PostgreSQL, running

DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    with running(tmp_path_factory.mktemp("fragile")) as server:
        yield server


@pytest.fixture
def migrated_url(fragile: PostgreSQL) -> Iterator[str]:
    """In place of the two usual ones: a database of a server that may be mistreated."""
    url = fragile.new_database()
    migrate(url)
    yield url
    fragile.drop_database(url)


@pytest.mark.parametrize("silent", [False, True])
async def test_requests_get_503_and_succeed_after_recovery(fragile: PostgreSQL, control: Control, silent: bool) -> None:
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 200
    (fragile.pause if silent else fragile.kill)()
    try:
        async with asyncio.timeout(DEADLINE_S):
            answers = await asyncio.gather(
                control.call("GET", "/orgs/acme/projects"),
                control.call("GET", "/orgs/acme/projects/web"),
                control.call("POST", "/orgs/acme/projects", {"slug": "lost", "name": "Lost"}),
                control.call("GET", "/orgs/acme/projects", token=control.globex.token.secret),
                *(control.call("GET", "/orgs/acme/projects/web/keys") for _ in range(10)),
            )
            ready, readiness, _ = await control.call("GET", "/readyz")
    finally:
        (fragile.resume if silent else fragile.start)()
    assert {(status, body["error"]["code"]) for status, body, _ in answers} == {(503, "service_unavailable")}
    assert all(1 <= int(headers["Retry-After"]) <= 5 for _, _, headers in answers)
    assert (ready, readiness["error"]["message"]) == (503, "Not ready: database unavailable.")
    async with asyncio.timeout(DEADLINE_S):
        while (await control.call("GET", "/orgs/acme/projects"))[0] != 200:
            await asyncio.sleep(0.05)
    status, made, _ = await control.call("POST", "/orgs/acme/projects", {"slug": "found", "name": "Found"})
    assert (status, made["slug"]) == (201, "found")
