"""The skeleton around handlers: ids, errors, access, health, metrics, logs."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from chassis.auth.model import AuthenticatedCredential, AuthorizationContext, ProjectIdentity
from chassis.errors import ApiError, BadRequest, Conflict, Forbidden, Issue, RateLimited, ServiceUnavailable
from chassis.http.access import Guards
from chassis.http.web import (
    Route,
    authorization_context,
    bearer,
    build_app,
    json_response,
    project,
    project_key,
    public,
    request_id,
)
from chassis.runtime.health import REUSE_S, Health, NotReady, OptionalDependency
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from proto.errors import STATUS, ErrorCode
from proto.identity import Role, Scope
from tests.chassis.conftest import Serve
from tests.logs import captured_log

REACH = AuthorizationContext("p1", "t1", "o1", "acme", Role.MEMBER, frozenset({Scope.EXPLORE_READ}), 7, "shop")
GRANT = AuthenticatedCredential("t1", "p1", "o1", "acme", Role.MEMBER, REACH.scopes)
SAID = "connection to db.internal:5432 as sluice_rw failed"  # what a driver says, and nobody outside should read
PROJECT = ProjectIdentity(7, "shop", "o1", "acme", "k1")


async def ok(request: web.Request) -> web.Response:
    return json_response({"id": request_id(request)})


async def broken(_request: web.Request) -> web.Response:
    raise RuntimeError("boom at pat_0123456789 in /srv/secret/place")


def refusing(error: ApiError) -> Any:
    async def handler(_request: web.Request) -> web.Response:
        raise error

    return handler


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What this process logs, and the logging of the suite put back afterwards."""
    with captured_log() as stream:
        yield stream


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def error_of(body: bytes) -> dict[str, Any]:
    answer = json.loads(body)
    assert list(answer) == ["error"]
    error: dict[str, Any] = answer["error"]
    return error


async def test_a_harmless_request_id_is_kept_and_any_other_is_replaced(serve: Serve) -> None:
    served = await serve([Route("GET", "/x", ok, public())])
    for kept in ("a", "A-Z.0_9", "x" * 64):
        status, headers, body = await served.get("/x", headers={"X-Request-Id": kept})
        assert (status, headers["Content-Type"], headers["X-Request-Id"]) == (200, "application/json", kept)
        assert json.loads(body) == {"id": kept}
    for dropped in ("", "x" * 65, "a b", "a/b", 'a"', "é"):
        _, headers, body = await served.get("/x", headers={"X-Request-Id": dropped})
        assert headers["X-Request-Id"] != dropped
        assert json.loads(body) == {"id": headers["X-Request-Id"]}


async def test_every_answer_has_a_request_id_and_no_version_of_ours(serve: Serve) -> None:
    served = await serve([Route("GET", "/x", broken, public())])
    for method, path in (("GET", "/x"), ("PUT", "/x"), ("GET", "/nowhere"), ("GET", "/livez")):
        _, headers, _ = await served.request(method, path)
        assert headers["X-Request-Id"]
        assert headers["Server"] == "sluice"


async def test_a_fault_is_a_generic_500_and_logged_under_its_id(serve: Serve, log: io.StringIO) -> None:
    served = await serve([Route("GET", "/x", broken, public())])
    status, headers, body = await served.get("/x", headers={"X-Request-Id": "r1"})
    assert (status, headers["Content-Type"]) == (500, "application/json")
    assert error_of(body) == {
        "code": "internal_error",
        "message": "An internal error occurred.",
        "requestId": "r1",
    }
    fault = next(line for line in lines(log) if line["event"] == "request failed")
    assert fault["request_id"] == "r1"
    assert "RuntimeError: boom" in fault["exception"]
    assert "pat_0123456789" not in log.getvalue()


async def test_an_unrouted_path_is_404(serve: Serve) -> None:
    served = await serve([Route("GET", "/x", ok, public())])
    status, headers, body = await served.get("/y")
    assert status == 404
    assert error_of(body) == {"code": "not_found", "message": "Not found.", "requestId": headers["X-Request-Id"]}


async def test_a_wrong_method_is_405_and_names_the_right_ones(serve: Serve) -> None:
    served = await serve([Route("GET", "/x", ok, public()), Route("POST", "/x", ok, public())])
    status, headers, body = await served.request("DELETE", "/x")
    assert (status, headers["Allow"]) == (405, "GET, HEAD, POST")
    assert error_of(body)["code"] == "method_not_allowed"


async def test_every_code_travels_under_its_status(serve: Serve) -> None:
    served = await serve([Route("GET", f"/{code}", refusing(ApiError(code, "Why.")), public()) for code in ErrorCode])
    for code in ErrorCode:
        status, headers, body = await served.get(f"/{code}", headers={"X-Request-Id": "r1"})
        assert (status, headers["X-Request-Id"]) == (STATUS[code], "r1")
        assert error_of(body) == {"code": code.value, "message": "Why.", "requestId": "r1"}


async def test_details_are_one_per_field(serve: Serve) -> None:
    error = BadRequest("Two fields.", [Issue("limit", "At most 200.", "too_large"), Issue("from", "No time.", "type")])
    served = await serve([Route("GET", "/x", refusing(error), public())])
    _, headers, body = await served.get("/x")
    assert error_of(body) == {
        "code": "bad_request",
        "message": "Two fields.",
        "details": [
            {"path": "limit", "message": "At most 200.", "code": "too_large"},
            {"path": "from", "message": "No time.", "code": "type"},
        ],
        "requestId": headers["X-Request-Id"],
    }


async def test_a_refusal_says_when_to_come_back_and_may_close_the_connection(serve: Serve) -> None:
    refusals = {"/busy": ServiceUnavailable("Busy."), "/limited": RateLimited("Slow down.", 7)}
    refusals |= {"/closed": BadRequest("No.", close=True)}
    served = await serve([Route("GET", path, refusing(error), public()) for path, error in refusals.items()])
    status, headers, _ = await served.get("/busy")
    assert (status, 1 <= int(headers["Retry-After"]) <= 5) == (503, True)
    assert (await served.get("/limited"))[1]["Retry-After"] == "7"
    assert (await served.get("/closed"))[1]["Connection"] == "close"


async def test_a_route_renders_its_refusals_itself_also_a_wrong_method(serve: Serve) -> None:
    def render(_request: web.Request, error: ApiError, rid: str) -> web.Response:
        return web.Response(status=error.status, body=f"{error.code}/{rid}".encode())

    served = await serve([Route("POST", "/x", refusing(Conflict("No.")), public(), render_error=render)])
    status, headers, body = await served.request("POST", "/x")
    assert (status, body.decode()) == (409, f"conflict/{headers['X-Request-Id']}")
    status, headers, body = await served.get("/x")
    assert (status, body.decode()) == (405, f"method_not_allowed/{headers['X-Request-Id']}")
    assert headers["Allow"] == "POST"


class RecordingBearer:
    """Answers every check with the same reach, or refuses; remembers what it was asked."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.asked: list[tuple[str | None, str, str | None, str]] = []
        self._error = error
        self._authorization: str | None = None

    async def authenticate(self, authorization: str | None) -> AuthenticatedCredential:
        self._authorization = authorization
        return GRANT

    async def authorize(
        self, grant: AuthenticatedCredential, org_slug: str, project_slug: str | None, scopes: Collection[str]
    ) -> AuthorizationContext:
        assert grant is GRANT
        self.asked.append((self._authorization, org_slug, project_slug, " ".join(scopes)))
        if self._error is not None:
            raise self._error
        return REACH


class RecordingKey:
    """The same for project keys."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.asked: list[dict[str, str | None]] = []
        self._error = error

    async def check(
        self,
        *,
        before_lookup: Callable[[], Awaitable[None]],
        on_authenticated: Callable[[ProjectIdentity], Awaitable[None]],
        **given: str | None,
    ) -> ProjectIdentity:
        await before_lookup()
        self.asked.append(given)
        if self._error is not None:
            raise self._error
        await on_authenticated(PROJECT)
        return PROJECT


async def test_a_bearer_route_hands_the_reach_to_its_handler(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        assert authorization_context(request) is REACH
        return json_response({})

    guard = RecordingBearer()
    routes = [Route("GET", "/orgs/{orgSlug}/projects/{projectSlug}/x", handler, bearer("explore:read"))]
    served = await serve(routes, guards=Guards(bearer=guard))
    status, _, _ = await served.get("/orgs/acme/projects/shop/x", headers={"Authorization": "Bearer t"})
    assert status == 200
    assert guard.asked == [("Bearer t", "acme", "shop", "explore:read")]


async def test_a_refused_bearer_never_reaches_the_handler(serve: Serve) -> None:
    guard = RecordingBearer(Forbidden())
    served = await serve(
        [Route("GET", "/orgs/{orgSlug}/x", broken, bearer("explore:read"))], guards=Guards(bearer=guard)
    )
    status, _, body = await served.get("/orgs/acme/x")
    assert (status, error_of(body)["code"]) == (403, "forbidden")
    assert guard.asked == [(None, "acme", None, "explore:read")]


async def test_a_project_key_route_hands_over_every_place_a_key_may_stand_in(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        assert project(request) is PROJECT
        return json_response({})

    guard = RecordingKey()
    served = await serve([Route("POST", "/v1/x", handler, project_key())], guards=Guards(project_key=guard))
    headers = {"X-Legacy-Auth": "Legacy legacy_key=k", "Authorization": "DSN d"}
    status, _, _ = await served.request("POST", "/v1/x?legacy_key=k&project_id=7", headers=headers)
    assert status == 200
    assert guard.asked == [
        {"legacy_auth": "Legacy legacy_key=k", "authorization": "DSN d", "legacy_key": "k", "project_id": "7"}
    ]


async def test_credentials_that_repeat_must_agree(serve: Serve) -> None:
    guard = RecordingKey()
    served = await serve([Route("POST", "/v1/x", ok, project_key())], guards=Guards(project_key=guard))
    status, headers, body = await served.request("POST", "/v1/x?legacy_key=a&legacy_key=b")
    assert (status, error_of(body)["code"]) == (401, "unauthorized")
    assert headers["Connection"] == "close"
    assert guard.asked == []
    assert (await served.request("POST", "/v1/x?legacy_key=a&legacy_key=a"))[0] == 200


def test_a_route_that_nothing_guards_cannot_be_built() -> None:
    for access in (bearer("explore:read"), project_key()):
        with pytest.raises(ValueError, match="no guard for"):
            build_app(
                [Route("GET", "/orgs/{orgSlug}", ok, access)],
                service="test",
                settings=ChassisSettings(),
                telemetry=Telemetry("test"),
            )


class Store:
    """A dependency that is there or away."""

    def __init__(self, name: str, fault: Exception | None = None) -> None:
        self.name = name
        self.fault = fault

    async def probe(self) -> None:
        if self.fault is not None:
            raise self.fault


def told_of(name: str, *, ok: bool = True, required: bool = True) -> dict[str, object]:
    """What /readyz says of a dependency."""
    return {"name": name, "ok": ok, "error": None if ok else "does not respond", "required": required}


async def test_ready_names_its_dependencies(serve: Serve) -> None:
    served = await serve([], readiness=[Store("clickhouse"), Store("database")])
    status, _, body = await served.get("/readyz")
    ready = {"status": "ready", "service": "test", "dependencies": [told_of("clickhouse"), told_of("database")]}
    assert (status, json.loads(body)) == (200, ready)


async def test_not_ready_says_which_dependency_is_away_and_alive_nothing_of_it(serve: Serve) -> None:
    served = await serve([], readiness=[Store("clickhouse", OSError(SAID)), Store("database")])
    status, headers, body = await served.get("/readyz")
    answer = json.loads(body)
    assert status == 503
    assert 1 <= int(headers["Retry-After"]) <= 5
    assert answer["dependencies"] == [told_of("clickhouse", ok=False), told_of("database")]
    assert answer["error"] == {
        "code": "service_unavailable",
        "message": "Not ready: clickhouse unavailable.",
        "details": [{"path": "clickhouse", "message": "does not respond", "code": "unavailable"}],
        "requestId": headers["X-Request-Id"],
    }
    status, _, body = await served.get("/livez")
    assert (status, json.loads(body)) == (200, {"status": "alive", "service": "test"})
    assert (await served.request("HEAD", "/livez"))[0] == 200, "as load balancers ask"
    status, _, body = await served.request("HEAD", "/readyz")
    assert (status, body) == (503, b"")


async def test_a_tolerated_dependency_that_is_away_is_shown_and_sends_nobody_away(serve: Serve) -> None:
    served = await serve([], readiness=[Store("clickhouse"), OptionalDependency(Store("database", OSError("refused")))])
    status, _, body = await served.get("/readyz")
    assert status == 200
    shown = json.loads(body)["dependencies"]
    assert shown == [told_of("clickhouse"), told_of("database", ok=False, required=False)]


async def test_why_something_cannot_be_worked_with_now_is_told() -> None:
    (probe,) = await Health("test", [Store("journal", NotReady("has no room"))]).probes()
    assert (probe.ok, probe.error) == (False, "has no room")


async def test_what_a_driver_says_is_logged_once_per_change_and_told_to_nobody() -> None:
    store, now = Store("database", OSError(SAID)), [0.0]
    health = Health("test", [store], lambda: now[0])
    with capture_logs() as lines:
        for fault in (OSError(SAID), OSError("another text"), None, None, OSError(SAID)):
            store.fault = fault
            (probe,) = await health.probes()
            assert probe.error == (None if fault is None else "does not respond")
            now[0] += REUSE_S
    away = {"event": "dependency unavailable", "log_level": "warning", "service": "test", "dependency": "database"}
    back = away | {"event": "dependency recovered"}
    assert lines == [away | {"detail": SAID}, back, away | {"detail": SAID}]


async def test_the_log_has_an_error_s_own_words_and_not_its_cause_s() -> None:
    fault = ServiceUnavailable("The database is temporarily unavailable. Retry later.")
    fault.__cause__ = OSError("password=hunter2")
    with capture_logs() as lines:
        await Health("test", [Store("database", fault)]).probes()
    assert [line["detail"] for line in lines] == ["The database is temporarily unavailable. Retry later."]


async def test_a_dependency_that_keeps_silent_is_said_to_have_had_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Store):
        async def probe(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("chassis.runtime.health.PROBE_TIMEOUT_S", 0.01)
    with capture_logs() as lines:
        (probe,) = await Health("test", [Silent("clickhouse")]).probes()
    assert (probe.ok, probe.error) == (False, "no response within 2 s")
    assert [line["detail"] for line in lines] == ["no response within 2 s"]


async def test_metrics_count_by_route_template_and_never_by_path(serve: Serve) -> None:
    served = await serve([Route("GET", "/orgs/{orgSlug}/x", ok, public())])
    await served.get("/orgs/acme/x?legacy_key=k")
    await served.get("/nowhere/acme")
    _, headers, body = await served.get("/metrics")
    text = body.decode()
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'sluice_http_requests_total{method="GET",route="/orgs/{orgSlug}/x",status="200"} 1.0' in text
    assert 'sluice_http_requests_total{method="GET",route="unrouted",status="404"} 1.0' in text
    assert "acme" not in text


async def test_an_unusual_method_makes_no_metric_of_its_own(serve: Serve) -> None:
    served = await serve([Route("GET", "/x", ok, public())])
    assert (await served.request("PROPFIND", "/x"))[0] == 405
    assert 'method="other"' in (await served.get("/metrics"))[2].decode()


FOREIGN = {"X-Forwarded-For": "203.0.113.9"}


async def test_metrics_open_to_loopback_or_to_the_token(serve: Serve) -> None:
    plain, behind_proxy = await serve([]), await serve([], trusted_proxies=("127.0.0.1",))
    with_token = await serve([], metrics_token="opens")
    for served, headers, status in (
        (plain, {}, 200),
        (plain, FOREIGN, 403),  # a proxy here that speaks for somebody unknown
        (plain, {"Forwarded": "for=203.0.113.9"}, 403),
        (plain, {"Authorization": "Bearer "}, 401),
        (behind_proxy, FOREIGN, 403),
        (behind_proxy, {"X-Forwarded-For": "127.0.0.1"}, 200),
        (with_token, FOREIGN | {"Authorization": "Bearer opens"}, 200),
        (with_token, FOREIGN | {"Authorization": "Bearer wrong"}, 401),
        (with_token, {"Authorization": "Bearer wrong"}, 401),
    ):
        assert (await served.get("/metrics", headers=headers))[0] == status


async def test_the_access_log_has_the_path_without_secrets(serve: Serve, log: io.StringIO) -> None:
    served = await serve([Route("GET", "/x", ok, public())], telemetry=Telemetry("test", log))
    headers = {"Authorization": "Bearer hunter2hunter2", "X-Legacy-Auth": "Legacy legacy_key=hunter2"}
    await served.get("/x?legacy_key=hunter2", headers=headers | {"X-Request-Id": "r1"})
    line = next(line for line in lines(log) if line["event"] == "request")
    assert {name: line[name] for name in ("method", "path", "status", "remote", "request_id")} == {
        "method": "GET",
        "path": "/x",
        "status": 200,
        "remote": "127.0.0.1",
        "request_id": "r1",
    }
    assert "hunter2" not in log.getvalue()


@pytest.mark.parametrize(
    ("trusted", "forwarded", "remote"),
    [
        ((), "203.0.113.9", "127.0.0.1"),
        (("10.0.0.0/8",), "203.0.113.9", "127.0.0.1"),
        (("127.0.0.1",), "203.0.113.9", "203.0.113.9"),
        (("127.0.0.0/8",), "198.51.100.1, 203.0.113.9", "203.0.113.9"),
        (("127.0.0.1", "203.0.113.0/24"), "198.51.100.1, 203.0.113.9", "198.51.100.1"),
        (("127.0.0.1",), "not an address", "127.0.0.1"),
        (("127.0.0.1",), "", "127.0.0.1"),
    ],
)
async def test_forwarded_addresses_are_believed_from_configured_proxies_only(
    serve: Serve, log: io.StringIO, trusted: tuple[str, ...], forwarded: str, remote: str
) -> None:
    served = await serve([Route("GET", "/x", ok, public())], telemetry=Telemetry("test", log), trusted_proxies=trusted)
    await served.get("/x", headers={"X-Forwarded-For": forwarded})
    assert next(line for line in lines(log) if line["event"] == "request")["remote"] == remote


async def test_resources_start_in_order_and_close_in_reverse(serve: Serve) -> None:
    seen: list[str] = []

    def resource(name: str) -> Any:
        async def run(_app: web.Application) -> AsyncIterator[None]:
            seen.append(f"{name} up")
            yield
            seen.append(f"{name} down")

        return run

    app = build_app(
        [],
        service="test",
        settings=ChassisSettings(),
        telemetry=Telemetry("test"),
        cleanup_contexts=[resource("store"), resource("cache")],
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await runner.cleanup()
    assert seen == ["store up", "cache up", "cache down", "store down"]
