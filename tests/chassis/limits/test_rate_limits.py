"""The limits as clients meet them: in which order they are checked, and what every answer tells."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import pytest
from aiohttp import web

from chassis.auth.model import AuthenticatedCredential, AuthorizationContext, ProjectIdentity
from chassis.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    ServiceUnavailable,
    Unauthorized,
    UnsupportedMediaType,
)
from chassis.http.access import Guards, anonymous, bearer, project_key, public
from chassis.http.body import read_body
from chassis.http.web import Route, json_response
from chassis.limits.limiter import SECOND_NS, LimitClass, LocalLimiter
from chassis.runtime.telemetry import Telemetry
from proto.identity import Role, Scope
from tests.chassis.conftest import Serve, Served
from tests.chassis.limits.test_local import EPOCH, Time

PATH = "/orgs/acme/things"
NAMES = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
Standing = tuple[str | None, ...]  # the three headers


class Guard:
    """Tokens are `principal@org`, and there are the organizations acme and globex."""

    def __init__(self) -> None:
        self.authenticated = 0
        self.together: asyncio.Barrier | None = None

    async def authenticate(self, authorization: str | None) -> AuthenticatedCredential:
        self.authenticated += 1
        if self.together is not None:
            await self.together.wait()
        principal, _, org = (authorization or "").removeprefix("Bearer ").partition("@")
        if org == "away":
            raise ServiceUnavailable("Authentication is temporarily unavailable.")
        if org not in ("acme", "globex"):
            raise Unauthorized
        scopes = frozenset[Scope]() if principal == "blind" else frozenset({Scope.EXPLORE_READ})
        return AuthenticatedCredential("t", principal, org, org, Role.MEMBER, scopes)

    async def authorize(
        self, grant: AuthenticatedCredential, org_slug: str, project_slug: str | None, scopes: Collection[str]
    ) -> AuthorizationContext:
        if grant.org_slug != org_slug:
            raise NotFound
        if grant.scopes.isdisjoint(scopes):
            raise Forbidden
        return AuthorizationContext(
            grant.principal_id, "t", grant.org_id, org_slug, Role.MEMBER, grant.scopes, None, project_slug
        )


class Keys:
    """Keys are `name`, `name/rate` or none; those of `used` are in memory, each other one costs a look-up."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.looked_up = 0

    async def check(
        self,
        *,
        legacy_auth: str | None,
        project_id: str | None,
        before_lookup: Callable[[], Awaitable[None]],
        on_authenticated: Callable[[ProjectIdentity], Awaitable[None]],
        **_elsewhere: str | None,
    ) -> ProjectIdentity:
        key = (legacy_auth or "").removeprefix("Legacy legacy_key=")
        if not key:
            raise Unauthorized("A project key is required.")
        if key not in self.used:
            await before_lookup()
            self.looked_up += 1
        if key == "away":
            raise ServiceUnavailable("Authentication is temporarily unavailable.")
        if key.startswith("made-up"):
            raise Unauthorized("The project key is not valid.")
        self.used.add(key)
        name, _, rate = key.partition("/")
        identity = ProjectIdentity(7, "shop", "o1", "acme", name, rate=int(rate) if rate else None)
        await on_authenticated(identity)
        if project_id == "8":
            raise Forbidden
        return identity


async def ok(_request: web.Request) -> web.Response:
    return json_response({})


async def sized(request: web.Request) -> web.Response:
    return json_response({"bytes": len(await read_body(request, 10, 5))})


async def broken(_request: web.Request) -> web.Response:
    raise RuntimeError("boom")


def refusing(error: ApiError) -> Any:
    async def handler(_request: web.Request) -> web.Response:
        raise error

    return handler


READ = bearer("explore:read")
ROUTES = [
    Route("GET", "/orgs/{orgSlug}/things", ok, READ),
    Route("POST", "/orgs/{orgSlug}/things", sized, READ),
    Route("POST", "/orgs/{orgSlug}/analysis", ok, READ, limit=LimitClass.ANALYSIS),
    Route("GET", "/orgs/{orgSlug}/400", refusing(BadRequest("wrong")), READ),
    Route("GET", "/orgs/{orgSlug}/404", refusing(NotFound()), READ),
    Route("GET", "/orgs/{orgSlug}/409", refusing(Conflict("taken")), READ),
    Route("GET", "/orgs/{orgSlug}/415", refusing(UnsupportedMediaType("no")), READ),
    Route("GET", "/orgs/{orgSlug}/500", broken, READ),
    Route("GET", "/orgs/{orgSlug}/503", refusing(ServiceUnavailable("later")), READ),
    Route("GET", "/open", ok, public()),
    Route("POST", "/orgs/{orgSlug}/questions", ok, READ, limit=LimitClass.APPROVAL),
    Route("POST", "/auth/session", sized, anonymous()),
    Route("POST", "/v1/x", sized, project_key()),
    Route("POST", "/v1/503", refusing(ServiceUnavailable("later")), project_key()),
]


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def guard() -> Guard:
    return Guard()


@pytest.fixture
def keys() -> Keys:
    return Keys()


Start = Callable[..., Awaitable[Served]]


@pytest.fixture
def start(serve: Serve, time: Time, guard: Guard, keys: Keys) -> Start:
    """Start the routes above; the limits are small unless a test says otherwise."""

    async def started(**settings: Any) -> Served:
        rates = {"api_rate": 60, "api_burst": 2, "analysis_rate": 30, "analysis_burst": 1, "failed_bearer_rate": 3}
        rates |= {"otlp_rate": 1, "otlp_burst": 2, "failed_key_rate": 3, "approval_rate": 30, "approval_burst": 1}
        rates |= {"visitor_rate": 4}
        limiter = LocalLimiter(monotonic=time.monotonic, clock=time.wall)
        guards = Guards(bearer=guard, project_key=keys)
        return await serve(ROUTES, Telemetry("test"), guards=guards, limiter=limiter, **(rates | settings))

    return started


@pytest.fixture
async def served(start: Start) -> Served:
    return await start()


def token(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def standing(headers: Mapping[str, str]) -> Standing:
    return tuple(headers.get(name) for name in NAMES)


def key(name: str) -> dict[str, str]:
    return {"X-Legacy-Auth": f"Legacy legacy_key={name}"}


MINE = token("me@acme")
NOTHING: Standing = (None, None, None)


async def status_of(served: Served, name: str, path: str = PATH, method: str = "GET") -> int:
    return (await served.request(method, path, headers=token(name)))[0]


async def test_an_answer_tells_how_the_bucket_stands(served: Served, time: Time) -> None:
    status, headers, _ = await served.get(PATH, headers=MINE)
    assert (status, standing(headers), headers.get("Retry-After")) == (200, ("2", "1", str(EPOCH + 1)), None)
    _, headers, _ = await served.get(PATH, headers=MINE)
    assert standing(headers) == ("2", "0", str(EPOCH + 2))
    time.ns = SECOND_NS // 2
    status, headers, body = await served.get(PATH, headers=MINE)
    assert (status, standing(headers), headers["Retry-After"]) == (429, ("2", "0", str(EPOCH + 2)), "1")
    assert json.loads(body)["error"] == {
        "code": "rate_limited",
        "message": "Too many requests: the limit is 60 per 60 seconds, burst 2.",
        "requestId": headers["X-Request-Id"],
    }
    time.ns = SECOND_NS
    assert await status_of(served, "me@acme") == 200


TOLD: dict[str, dict[str, Any]] = {  # what a known principal asks for, each in a bucket of its own
    "400": {"path": "/orgs/acme/400"},
    "403": {"path": PATH, "headers": token("blind@acme")},
    "404 foreign": {"path": "/orgs/globex/things"},
    "404": {"path": "/orgs/acme/404"},
    "409": {"path": "/orgs/acme/409"},
    "413": {"path": PATH, "method": "POST", "data": b"x" * 11},
    "415": {"path": "/orgs/acme/415"},
    "500": {"path": "/orgs/acme/500"},
    "503": {"path": "/orgs/acme/503"},
}
NOT_TOLD: dict[str, dict[str, Any]] = {
    "200 open": {"path": "/open", "headers": MINE},
    "200 alive": {"path": "/livez"},
    "401 no key": {"path": "/v1/x", "method": "POST"},
    "401 made up": {"path": "/v1/x", "method": "POST", "headers": key("made-up")},
    "503 key": {"path": "/v1/x", "method": "POST", "headers": key("away")},
    "401": {"path": PATH},
    "401 nowhere": {"path": PATH, "headers": token("me@nowhere")},
    "404": {"path": "/nowhere", "headers": MINE},
    "405": {"path": PATH, "method": "DELETE", "headers": MINE},
    "503": {"path": PATH, "headers": token("me@away")},
}


async def test_so_does_every_refusal_of_a_known_principal_and_nobody_else_is_told(served: Served) -> None:
    told = ("2", "1", str(EPOCH + 1))
    for cases, expected in ((TOLD, told), (NOT_TOLD, NOTHING)):
        for number, (name, asked) in enumerate(cases.items()):
            sent: dict[str, Any] = {"method": "GET"} | asked
            if cases is TOLD:
                sent.setdefault("headers", token(f"me{number}@acme"))
            seen, headers, _ = await served.request(**sent)
            assert (seen, standing(headers)) == (int(name[:3]), expected), name


async def test_a_bucket_is_of_a_class_a_principal_and_an_organization(start: Start) -> None:
    served = await start(api_burst=1)
    assert await status_of(served, "me@acme") == 200
    assert await status_of(served, "me@acme") == 429
    assert await status_of(served, "you@acme") == 200
    assert await status_of(served, "me@globex", "/orgs/globex/things") == 200
    status, headers, _ = await served.request("POST", "/orgs/acme/analysis", headers=MINE)
    assert (status, standing(headers)) == (200, ("1", "0", str(EPOCH + 2)))
    status, headers, _ = await served.request("POST", "/orgs/acme/analysis", headers=MINE)
    assert (status, standing(headers), headers["Retry-After"]) == (429, ("1", "0", str(EPOCH + 2)), "2")


async def test_the_principal_is_held_to_its_limit_before_anything_is_said_of_the_place(start: Start) -> None:
    served = await start(api_burst=1)
    assert await status_of(served, "me@acme", "/orgs/globex/things") == 404
    assert await status_of(served, "me@acme", "/orgs/globex/things") == 429
    assert await status_of(served, "blind@acme") == 403
    assert await status_of(served, "blind@acme") == 429
    assert await status_of(served, "me@acme", "/nowhere") == 404
    assert await status_of(served, "me@acme", PATH, "DELETE") == 405
    assert await status_of(served, "me@nowhere") == 401


async def test_what_is_dear_counts_among_all_requests_too_and_the_emptier_bucket_is_told(start: Start) -> None:
    served = await start(api_burst=3, approval_burst=2)
    for expected in ((200, "2", "1"), (200, "2", "0"), (429, "2", "0")):
        status, headers, _ = await served.request("POST", "/orgs/acme/questions", headers=MINE)
        assert (status, *standing(headers)[:2]) == expected
    assert await status_of(served, "me@acme") == 429, "all three have counted"
    served = await start(api_burst=3, approval_burst=9)
    for left in ("2", "1", "0"):
        _, headers, _ = await served.request("POST", "/orgs/acme/questions", headers=MINE)
        assert standing(headers)[:2] == ("3", left)
    served = await start(approval_rate=0)
    _, headers, _ = await served.request("POST", "/orgs/acme/questions", headers=MINE)
    assert standing(headers)[:2] == ("2", "1"), "the limit of all requests holds on"


async def test_who_has_no_credential_yet_is_held_to_the_rate_of_his_address(served: Served, time: Time) -> None:
    for status, size, left in ((200, 1, "3"), (413, 11, "2"), (200, 1, "1"), (200, 0, "0")):
        seen, headers, _ = await served.request("POST", "/auth/session", data=b"x" * size)
        assert (seen, standing(headers)[:2]) == (status, ("4", left))
    status, headers, body = await served.request("POST", "/auth/session", data=b"x" * 11)
    assert (status, headers["Retry-After"]) == (429, "15"), "before a byte of the body is read"
    assert b"Too many requests from this address: the limit is 4 per 60 seconds, burst 4." in body
    assert await status_of(served, "me@acme") == 200, "tokens have buckets of their own"
    time.ns = 15 * SECOND_NS
    assert (await served.request("POST", "/auth/session"))[0] == 200


async def test_nor_is_he_heard_where_too_much_has_failed(served: Served) -> None:
    assert [await status_of(served, "") for _ in range(3)] == [401] * 3
    status, headers, _ = await served.request("POST", "/auth/session", data=b"x" * 11)
    assert (status, standing(headers)[:2]) == (429, ("3", "0"))


async def test_an_address_that_fails_too_often_is_not_even_looked_at(served: Served, guard: Guard, time: Time) -> None:
    assert [await status_of(served, "x@nowhere") for _ in range(3)] == [401] * 3
    for name in ("x@nowhere", "me@acme"):
        status, headers, body = await served.get(PATH, headers=token(name))
        assert (status, standing(headers), headers["Retry-After"]) == (429, ("3", "0", str(EPOCH + 60)), "20")
        assert json.loads(body)["error"]["message"] == (
            "Too many failed authentications from this address: the limit is 3 per 60 seconds, burst 3."
        )
    assert guard.authenticated == 3
    assert await status_of(served, "x@nowhere", "/nowhere") == 404
    assert await status_of(served, "x@nowhere", PATH, "DELETE") == 405
    assert await status_of(served, "", "/open") == 200
    time.ns = 20 * SECOND_NS
    assert await status_of(served, "me@acme") == 200
    assert await status_of(served, "x@nowhere") == 401
    assert await status_of(served, "me@acme") == 429


async def test_attempts_made_at_once_are_not_worth_more(served: Served, guard: Guard) -> None:
    guard.together = asyncio.Barrier(5)  # all are under way before the first has failed
    statuses = await asyncio.gather(*(status_of(served, "") for _ in range(5)))
    assert sorted(statuses) == [401, 401, 401, 429, 429]


async def test_only_failures_are_charged_to_an_address(start: Start) -> None:
    served = await start(api_burst=100)
    for name, status in (("me@acme", 200), ("blind@acme", 403), ("me@globex", 404), ("me@away", 503)):
        assert [await status_of(served, name) for _ in range(5)] == [status] * 5
    assert [await status_of(served, "") for _ in range(4)] == [401, 401, 401, 429]


async def test_an_address_is_the_clients_behind_proxies(start: Start) -> None:
    for first, second, status in (
        ("203.0.113.5", "203.0.113.5", 429),
        ("203.0.113.5", "203.0.113.6", 401),
        ("203.0.113.5", "::ffff:203.0.113.5", 429),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", 429),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", 401),
    ):
        served = await start(failed_bearer_rate=1, trusted_proxies=("127.0.0.1",))
        statuses = [(await served.get(PATH, headers={"X-Forwarded-For": of}))[0] for of in (first, second)]
        assert statuses == [401, status], second
    served = await start(failed_bearer_rate=1)
    statuses = [(await served.get(PATH, headers={"X-Forwarded-For": f"203.0.113.{n}"}))[0] for n in range(2)]
    assert statuses == [401, 429], "whoever is no proxy cannot choose an address"


async def export(served: Served, name: str, body: bytes = b"", path: str = "/v1/x") -> tuple[int, Mapping[str, str]]:
    """Status and headers of a request with the key of this name; "" for none."""
    status, headers, _ = await served.request("POST", path, headers=key(name) if name else {}, data=body)
    return status, headers


async def test_an_export_is_counted_for_its_key_whatever_becomes_of_it(served: Served, time: Time) -> None:
    status, headers = await export(served, "mine")
    assert (status, standing(headers), headers.get("Retry-After")) == (200, ("2", "1", str(EPOCH + 1)), None)
    status, headers = await export(served, "mine", path="/v1/503")
    assert (status, standing(headers)) == (503, ("2", "0", str(EPOCH + 2)))
    status, headers, body = await served.request("POST", "/v1/x", headers=key("mine"))
    assert (status, standing(headers), headers["Retry-After"]) == (429, ("2", "0", str(EPOCH + 2)), "1")
    assert json.loads(body)["error"]["message"] == "Too many requests: the limit is 1 per second, burst 2."
    assert (await export(served, "yours"))[0] == 200
    foreign = [await export(served, "theirs", path="/v1/x?project_id=8") for _ in range(3)]
    assert [status for status, _ in foreign] == [403, 403, 429], "before anything is said of the project"
    assert standing(foreign[0][1]) == ("2", "1", str(EPOCH + 1))
    time.ns = SECOND_NS
    assert (await export(served, "mine", b"x" * 11))[0] == 413
    assert (await export(served, "mine"))[0] == 429


async def test_no_byte_of_a_body_is_read_for_a_key_over_its_rate(start: Start) -> None:
    served = await start(otlp_burst=1)
    assert (await export(served, "mine"))[0] == 200
    head = "POST /v1/x HTTP/1.1\r\nHost: x\r\nX-Legacy-Auth: Legacy legacy_key=mine\r\nContent-Length: 5\r\n\r\n"
    answer = await served.talk(head.encode())  # the body never comes, and the answer does
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"Connection: close" in answer


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("mine", {}, "2"),
        ("mine/10", {}, "20"),
        ("mine/10", {"otlp_rate": 4, "otlp_burst": 1}, "2"),
        ("mine/1", {"otlp_rate": 4, "otlp_burst": 1}, "1"),
        ("mine/7", {"otlp_rate": 0}, "14"),
        ("mine/0", {}, None),
        ("mine", {"otlp_rate": 0}, None),
    ],
)
async def test_a_key_may_have_a_rate_of_its_own(
    name: str, settings: dict[str, int], told: str | None, start: Start
) -> None:
    served = await start(**settings)
    _, headers = await export(served, name)
    assert headers.get("x-ratelimit-limit") == told
    statuses = [(await export(served, name))[0] for _ in range(int(told or 5))]
    assert statuses == [200] * (len(statuses) - 1) + [429 if told else 200]


async def test_a_key_in_use_is_not_held_back_by_failures_at_its_address(start: Start, keys: Keys, time: Time) -> None:
    served = await start(otlp_burst=100)
    assert (await export(served, "mine"))[0] == 200
    assert [(await export(served, name))[0] for name in ("made-up", "", "made-up-2")] == [401] * 3
    looked_up = keys.looked_up
    for name in ("made-up-3", "yours", ""):
        status, headers, body = await served.request("POST", "/v1/x", headers=key(name) if name else {})
        assert (status, standing(headers), headers["Retry-After"]) == (429, ("3", "0", str(EPOCH + 60)), "20")
        assert b"Too many failed authentications from this address: the limit is 3 per 60 seconds, burst 3." in body
    assert keys.looked_up == looked_up
    assert (await export(served, "mine"))[0] == 200
    assert await status_of(served, "me@acme") == 200, "tokens have a bucket of their own"
    time.ns = 20 * SECOND_NS
    assert (await export(served, "yours"))[0] == 200
    assert (await export(served, "made-up"))[0] == 401
    assert (await export(served, "theirs"))[0] == 429


async def test_zero_switches_a_limit_off_and_its_headers_with_it(start: Start) -> None:
    served = await start(
        api_rate=0, failed_bearer_rate=0, analysis_rate=0, otlp_rate=0, failed_key_rate=0, visitor_rate=0
    )
    for method, path in (("GET", PATH), ("POST", "/orgs/acme/analysis"), ("POST", "/auth/session")):
        for _ in range(5):
            status, headers, _ = await served.request(method, path, headers=MINE)
            assert (status, standing(headers)) == (200, NOTHING)
    assert [await status_of(served, "") for _ in range(5)] == [401] * 5
    assert [await export(served, "mine") for _ in range(5)][-1][0] == 200
    assert [(await export(served, ""))[0] for _ in range(5)] == [401] * 5


async def test_refused_requests_are_counted_by_class_and_nothing_else(served: Served) -> None:
    for _ in range(4):
        await status_of(served, "me@acme")
        await status_of(served, "me@acme", "/orgs/acme/analysis", "POST")
    for _ in range(5):
        await status_of(served, "")
        await export(served, "mine")
        await export(served, "")
    lines = served.telemetry.exposition().decode().splitlines()
    assert sorted(line for line in lines if line.startswith("sluice_http_rate_limited_requests_total")) == [
        'sluice_http_rate_limited_requests_total{limit="analysis"} 3.0',
        'sluice_http_rate_limited_requests_total{limit="api"} 2.0',
        'sluice_http_rate_limited_requests_total{limit="failed_bearer"} 2.0',
        'sluice_http_rate_limited_requests_total{limit="failed_key"} 2.0',
        'sluice_http_rate_limited_requests_total{limit="otlp"} 3.0',
    ]
