"""The rate limits on the routes of control, with real tokens."""

from chassis.settings import ChassisSettings
from proto.identity import Role
from tests.chassis.identity.tenants import new_member_token
from tests.control.conftest import Control

NAMES = ("x-ratelimit-limit", "x-ratelimit-remaining")
BURST = str(ChassisSettings().api_burst)


async def test_every_answer_to_a_good_token_tells_how_its_limit_stands(control: Control) -> None:
    _, viewer = await new_member_token(control.checks.database, control.acme, Role.VIEWER)
    for left, (status, method, path, body) in enumerate(
        [
            (404, "GET", "/orgs/globex/projects", None),
            (404, "GET", "/orgs/acme/projects/missing", None),
            (403, "POST", "/orgs/acme/projects", {"slug": "x", "name": "X"}),
            (400, "GET", "/orgs/acme/projects?limit=0", None),
            (200, "GET", "/orgs/acme/projects", None),
        ]
    ):
        seen, _, headers = await control.call(method, path, body, token=viewer)
        assert seen == status
        assert headers["x-ratelimit-limit"] == BURST
        assert int(headers["x-ratelimit-remaining"]) >= int(BURST) - 1 - left
        assert "Retry-After" not in headers
    _, _, headers = await control.call("GET", "/orgs/acme/projects")
    assert [headers[name] for name in NAMES] == [BURST, str(int(BURST) - 1)], (
        "another principal has a bucket of its own"
    )


async def test_an_address_is_refused_after_as_many_failures_as_the_settings_say(control: Control) -> None:
    failures = 0
    while (answer := await control.call("GET", "/orgs/acme/projects", token="pat_no"))[0] == 401:
        failures += 1
    assert failures >= ChassisSettings().failed_bearer_rate, "a slow run is forgiven some"
    status, body, headers = answer
    assert (status, body["error"]["code"]) == (429, "rate_limited")
    assert 1 <= int(headers["Retry-After"]) <= 2
