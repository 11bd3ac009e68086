"""The rate limits on the routes of control, with real tokens."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from aiohttp import web

from chassis.auth.jwt import LIFETIME
from chassis.runtime.settings import ChassisSettings
from control.identity.organizations import organization_store
from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson, enrol, person

__all__ = ("person",)

NAMES = ("x-ratelimit-limit", "x-ratelimit-remaining")
ALL = {*NAMES, "x-ratelimit-reset"}
OPEN = {"/livez", "/readyz", "/metrics", "/openapi.json", "/docs"}  # of the process, which knows nobody there
SIGNED = "/webhooks/"  # which knows nobody either before the signature holds
BODY = {"POST", "PATCH", "PUT"}
BURST = str(ChassisSettings().api_burst)


async def test_responses_have_rate_limit_headers(control: Control) -> None:
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


@pytest.mark.chassis_settings(failed_bearer_rate=5)
async def test_address_is_limited_after_the_configured_failures(control: Control) -> None:
    failures = 0
    while (answer := await control.call("GET", "/orgs/acme/projects", token="pat_no"))[0] == 401:
        failures += 1
    assert failures >= 5, "a slow run is forgiven some"
    status, body, headers = answer
    assert (status, body["error"]["code"]) == (429, "rate_limited")
    assert 1 <= int(headers["Retry-After"]) <= 12


@pytest.mark.chassis_settings(failed_bearer_rate=5)
async def test_a_credential_that_was_good_does_not_limit_the_address(control: Control, person: NewPerson) -> None:
    """A page that is left open asks with it again and again."""
    ada, eve, bob = [await person(f"{name}@example.org") for name in ("ada", "eve", "bob")]
    for one in (ada, eve):
        assert (await one.call("GET", "/auth/user"))[0] == 200
    assert (await control.call("POST", "/auth/logout", {"refreshToken": eve.refresh}))[0] == 204
    async with control.checks.database.write() as connection:
        acme = control.acme.organization.id, control.acme.owner_id
        token = await organization_store.create_token(connection, *acme, "old", expires_at=datetime.now(UTC))
    for name, expired in {"ended": eve.access, "token": token.secret, "expired": ada.access}.items():
        if name == "expired":
            control.checks.bearer._jwt._now = lambda: datetime.now(UTC) + LIFETIME
        for _ in range(10):
            status, body, _ = await control.call("GET", "/orgs/acme/projects", token=expired)
            assert (status, body["error"]["message"]) == (401, "The access token is invalid, expired or revoked.")
    assert (await control.call("POST", "/auth/refresh", {"refreshToken": bob.refresh}))[0] == 200
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 200


def every_route(control: Control) -> Iterator[tuple[str, str]]:
    """Method and path of each, with something in the place of its variables."""
    app: web.Application = control.client.app
    for route in app.router.routes():
        path = "" if route.resource is None else route.resource.canonical
        if route.method != "*" and path not in OPEN and not path.startswith(SIGNED):
            filled = path.replace("{orgSlug}", "acme").replace("{projectSlug}", "web")
            yield route.method, re.sub(r"\{\w+\}", "x", filled)


def bearer_of(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("token", ["session", "token", "blind"])
async def test_every_route_has_rate_limit_headers(control: Control, person: NewPerson, token: str) -> None:
    """And those without one where they come to get one. Whatever the answer is; and to bad bodies, too."""
    if token == "session":
        used = (await person(role="OWNER")).access
    else:
        role, scopes = (Role.OWNER, None) if token == "token" else (Role.VIEWER, frozenset[Scope]())
        _, used = await new_member_token(control.checks.database, control.acme, role, scopes)
    _, directory, _ = await control.call("POST", "/orgs/acme/scim-tokens", {"name": "x"})
    last = "/scim-directory"  # ends the directory's token
    routes, statuses = sorted(every_route(control), key=lambda each: (each[1].endswith(last), each)), set()
    assert len(routes) > 40
    bodies: tuple[object, ...] = ({}, [])
    for method, path in routes:
        for body in bodies if method in BODY else (None,):
            bearer = bearer_of(directory["token"] if path.startswith("/scim/") else used)
            async with control.client.request(method, path, json=body, headers=bearer) as answer:
                await answer.read()
            assert ALL <= {name.lower() for name in answer.headers}, (method, path, answer.status)
            statuses.add(answer.status)
    assert statuses >= ({400, 403} if token == "blind" else {200, 400, 404})


async def test_pending_mfa_responses_have_rate_limit_headers(control: Control, person: NewPerson) -> None:
    ada = await person()
    await enrol(ada)
    access = (await ada.login())[1]["tokens"]["accessToken"]
    for path in ("/orgs/acme/projects", "/auth/user"):
        status, body, headers = await control.call("GET", path, token=access)
        assert (status, body["error"]["code"]) == (401, "mfa_required")
        assert ALL <= {name.lower() for name in headers}


@pytest.mark.chassis_settings(refresh_rate=5)
async def test_refreshes_are_limited_as_configured(control: Control, person: NewPerson) -> None:
    ada = await person()
    token, passed = ada.refresh, 0
    while (answer := await control.call("POST", "/auth/refresh", {"refreshToken": token}))[0] == 200:
        token, passed = answer[1]["tokens"]["refreshToken"], passed + 1
    assert passed >= 5, "a slow run is forgiven some"
    status, body, headers = answer
    assert (status, body["error"]["code"], headers["x-ratelimit-remaining"]) == (429, "rate_limited", "0")
    assert "refreshes of this session" in body["error"]["message"]
    assert (await ada.call("GET", "/auth/user"))[0] == 200, "the session lasts"
    grace = await control.call("POST", "/auth/refresh", {"refreshToken": (await person("b@example.org")).refresh})
    assert grace[0] == 200, "others have a bucket of their own"


@pytest.mark.chassis_settings(visitor_rate=5)
async def test_body_of_a_rate_limited_request_is_not_read(control: Control) -> None:
    while (answer := await control.call("POST", "/auth/logout", []))[0] == 400:
        pass
    status, _, headers = answer
    assert (status, headers["x-ratelimit-limit"]) == (429, "5")
    statuses = set()
    for _ in range(10):  # a permit may have come back since
        statuses.add((await control.call("POST", "/auth/login", headers={"Content-Type": "text/plain"}))[0])
    assert 429 in statuses
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 200
