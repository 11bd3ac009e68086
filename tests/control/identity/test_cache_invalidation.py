"""What a change makes every process ask the store for again: what it may concern, and nothing of others."""

from control.identity import organization_repository
from tests.control.conftest import Control
from tests.control.identity.conftest import Person


async def count_lookups(control: Control) -> float:
    """How often a credential or a project was looked up."""
    async with control.client.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    counted = [line for line in lines if line.startswith("sluice_identity_lookups_total") and '"fetched"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in counted)


async def test_change_invalidates_only_its_own_organization(control: Control) -> None:
    globex = control.globex.token.secret
    assert (await control.call("GET", "/orgs/acme/projects/web"))[0] == 200
    await control.call("POST", "/orgs/globex/projects", {"slug": "api", "name": "API"}, globex)
    before = await count_lookups(control)
    assert (await control.call("GET", "/orgs/acme/projects/web"))[0] == 200
    assert await count_lookups(control) == before
    await control.call("POST", "/orgs/acme/projects", {"slug": "api", "name": "API"})
    assert (await control.call("GET", "/orgs/acme/projects/web"))[0] == 200
    assert await count_lookups(control) > before


async def test_logout_of_an_ended_session_invalidates_nothing(control: Control, ada: Person) -> None:
    other = (await ada.login())[1]["tokens"]["accessToken"]
    gone = {"refreshToken": ada.refresh}
    assert (await control.call("POST", "/auth/logout", gone))[0] == 204
    assert (await ada.call("GET", "/auth/user"))[0] == 401, "at once"
    assert (await control.call("GET", "/auth/user", token=other))[0] == 200
    before = await count_lookups(control)
    for secret in (gone, {"refreshToken": ada.refresh[::-1]}):
        assert (await control.call("POST", "/auth/logout", secret))[0] == 204
        assert (await control.call("GET", "/auth/user", token=other))[0] == 200
    assert await count_lookups(control) == before


async def test_session_ended_by_a_refresh_is_rejected_at_once(control: Control, ada: Person) -> None:
    async with control.checks.database.write() as connection:
        await organization_repository.remove_membership(connection, control.acme.organization.id, ada.id)
    assert (await ada.call("GET", "/auth/user"))[0] == 200
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": ada.refresh}))[0] == 401
    assert (await ada.call("GET", "/auth/user"))[0] == 401
