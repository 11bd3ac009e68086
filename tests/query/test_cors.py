"""Browser pages of other origins: what they may send, and that they can read whatever they are answered."""

from collections.abc import AsyncIterator, Mapping

import pytest

from chassis.clickhouse import ClickHouse
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import SettingsError
from query.settings import QuerySettings
from tests.query.conftest import ONE_ENGINE, PATH, UNLIMITED, Explore, served

PAGE = "https://page.example"
OTHER = "https://other.example"
EXPOSED = {
    "retry-after",
    "x-request-id",
    "x-sluice-truncated",
    *(f"x-ratelimit-{name}" for name in ("limit", "remaining", "reset")),
}
MINE = {"Authorization": "Bearer mine", "Origin": PAGE}
JSON = {"Content-Type": "application/json"}


def settings(*origins: str) -> QuerySettings:
    return QuerySettings(cors_origins=origins)


@pytest.fixture
def query_settings() -> QuerySettings:
    return settings(PAGE, "http://localhost:3000")


async def asked(
    explore: Explore, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> tuple[int, Mapping[str, str]]:
    async with explore.client.request(method, path, headers=headers, data=body) as answer:
        await answer.read()
        return answer.status, answer.headers


@ONE_ENGINE
async def test_a_page_is_told_what_it_may_send(explore: Explore) -> None:
    """By each path, without a token: browsers send none with this question."""
    for path in ("/spans", "/spans/aggregate", f"/traces/{1:032x}/spans/{1:016x}", f"/errors/{1:032x}/occurrences"):
        wanted = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
        wanted |= {"Access-Control-Request-Headers": "authorization,content-type"}
        status, headers = await asked(explore, "OPTIONS", PATH + path, wanted)
        assert status == 204
        assert headers["Access-Control-Allow-Origin"] == PAGE
        assert headers["Access-Control-Allow-Methods"] == "GET, POST"
        assert set(headers["Access-Control-Allow-Headers"].split(", ")) >= {"authorization", "content-type"}
        assert headers["Access-Control-Max-Age"] == "600"
        assert headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Credentials" not in headers


@ONE_ENGINE
async def test_a_page_can_read_whatever_it_is_answered(explore: Explore) -> None:
    answers = {
        200: await asked(explore, "GET", f"{PATH}/spans", MINE),
        401: await asked(explore, "GET", f"{PATH}/spans", {"Authorization": "Bearer nobody", "Origin": PAGE}),
        403: await asked(explore, "GET", f"{PATH}/spans", {"Authorization": "Bearer blind", "Origin": PAGE}),
        404: await asked(explore, "GET", f"{PATH}/traces/{1:032x}/waterfall", MINE),
        400: await asked(explore, "GET", f"{PATH}/spans?limit=0", MINE),
        405: await asked(explore, "DELETE", f"{PATH}/spans", MINE),
        413: await asked(explore, "POST", f"{PATH}/spans/aggregate", MINE | JSON, b" " * 2**20),
        415: await asked(explore, "POST", f"{PATH}/spans/compare", MINE | {"Content-Type": "text/plain"}, b"{}"),
    }
    for wanted, (status, headers) in answers.items():
        assert status == wanted
        assert (headers["Access-Control-Allow-Origin"], headers["Vary"]) == (PAGE, "Origin"), status
        assert set(headers["Access-Control-Expose-Headers"].split(", ")) == EXPOSED, status
        assert "Access-Control-Allow-Credentials" not in headers
    assert answers[405][1]["Allow"] == "GET, HEAD, OPTIONS"


@ONE_ENGINE
async def test_a_page_can_read_that_it_asked_too_often(explore_store: ClickHouse, moving_clock: list[int]) -> None:
    limited = ChassisSettings(api_rate=1, api_burst=1, failed_bearer_rate=0)
    async with served(explore_store, settings(PAGE), moving_clock, limited) as explore:
        await asked(explore, "GET", f"{PATH}/spans?limit=0", MINE)
        status, headers = await asked(explore, "GET", f"{PATH}/spans?limit=0", MINE)
    assert (status, headers["Access-Control-Allow-Origin"]) == (429, PAGE)
    assert {"retry-after", "x-ratelimit-reset"} <= {name.lower() for name in headers}


@ONE_ENGINE
async def test_other_pages_are_admitted_to_nothing(explore: Explore) -> None:
    for origin in (OTHER, f"{PAGE}.evil.example", "null", PAGE.upper(), "http://page.example", ""):
        for method in ("GET", "OPTIONS"):
            status, headers = await asked(explore, method, f"{PATH}/spans", MINE | {"Origin": origin})
            assert status == (200 if method == "GET" else 204)
            assert headers["Vary"] == "Origin"
            assert not [name for name in headers if name.startswith("Access-Control")], origin
    _, headers = await asked(explore, "GET", f"{PATH}/spans", {"Authorization": "Bearer mine"})
    assert headers["Vary"] == "Origin"


@pytest.fixture
async def open_to_all(explore_store: ClickHouse, moving_clock: list[int]) -> AsyncIterator[Explore]:
    async with served(explore_store, settings("*"), moving_clock, UNLIMITED) as explore:
        yield explore


@ONE_ENGINE
async def test_any_page_is_admitted_where_the_setting_says_so(open_to_all: Explore) -> None:
    for method in ("GET", "OPTIONS"):
        _, headers = await asked(open_to_all, method, f"{PATH}/spans", MINE)
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert "Vary" not in headers


@ONE_ENGINE
async def test_it_is_off_by_default(explore_store: ClickHouse, moving_clock: list[int]) -> None:
    async with served(explore_store, QuerySettings(), moving_clock) as explore:
        plain = await asked(explore, "GET", f"{PATH}/spans", MINE)
        preflight = await asked(explore, "OPTIONS", f"{PATH}/spans", MINE)
    assert (plain[0], preflight[0], preflight[1]["Allow"]) == (200, 405, "GET, HEAD")
    for _, headers in (plain, preflight):
        assert not [name for name in headers if name.startswith("Access-Control") or name == "Vary"]


def test_an_origin_that_no_browser_sends_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^SLUICE_QUERY_CORS_ORIGINS: 'https://page/' is not an origin"):
        QuerySettings.load({"SLUICE_QUERY_CORS_ORIGINS": "https://good.example,https://page/"})
