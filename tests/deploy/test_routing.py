"""Each proxy sends every path of every service to that service, and what is not for the public nowhere."""

import asyncio
import json
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final

import grpc
import msgspec
import pytest
from aiohttp import web

from chassis.http.web import API_DOCS
from chassis.runtime.telemetry import Telemetry
from sluice.app_builder import ALL_SERVICES, compose_app
from sluice.settings_sources import SettingsSources
from tests.deploy.proxies import CLUSTERS, FOLDER, POOLS, Caddy, Envoy, Nginx, Proxy

OWN: Final = {"/livez", "/readyz", "/metrics"}  # of each process, for its operator
EVERYWHERE: Final = {"/docs", "/openapi.json"}  # every service has them, and a proxy sends them to one
GRPC: Final = "/opentelemetry.proto.collector."
EXPORT: Final = f"{GRPC}trace.v1.TraceService/Export"
HEALTH: Final = "/grpc.health.v1.Health/Check"
SERVING: Final = b"\x08\x01"


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The service of each path, with a value for each parameter."""
    found: dict[str, str] = {}
    for name in ALL_SERVICES:
        settings = {
            "SLUICE_DATA": str(tmp_path_factory.mktemp(name)),
            "SLUICE_CLICKHOUSE_URL": "http://127.0.0.1:1/x",
        }
        sources = SettingsSources(settings, None, {})
        app = compose_app((name,), sources, sources.chassis_settings(), Telemetry(name))
        for path in app[API_DOCS].document()["paths"]:
            if path not in OWN | EVERYWHERE:
                found[re.sub(r"\{\w+\}", "a-value", path)] = name
    assert set(found.values()) == set(ALL_SERVICES)
    return found


class Methods(grpc.GenericRpcHandler):
    """Answer each call with what is said of its client, and that the server is healthy. A check may send no message."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        said = {str(name): value for name, value in handler_call_details.invocation_metadata or ()}
        answer = SERVING if handler_call_details.method == HEALTH else str(said.get("x-forwarded-for")).encode()
        return grpc.stream_unary_rpc_method_handler(lambda _requests, _context: answer)


@contextmanager
def calls() -> Iterator[int]:
    """A server of gRPC; its port."""
    server = grpc.server(ThreadPoolExecutor(2), [Methods()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None).wait()


class Stand:
    """Servers that say who they are and whom they take for their client."""

    def __init__(self) -> None:
        self.pools: dict[str, list[str]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    async def _serve(self, name: str) -> web.AppRunner:
        async def answer(request: web.Request) -> web.Response:
            told = {"service": name, "client": request.headers.get("X-Forwarded-For"), "path": request.path_qs}
            told["id"] = request.headers.get("X-Request-Id")
            return web.json_response(told | {"bytes": len(await request.read())})

        app = web.Application(client_max_size=2**27)
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, max_line_size=2**17, max_field_size=2**17)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.pools[name] = [f"{host}:{port}"]
        return runner

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        runners = [self._run(self._serve(name)) for name in ALL_SERVICES]
        with calls() as port:
            self.pools["grpc"] = [f"127.0.0.1:{port}"]
            yield
        for runner in runners:
            self._run(runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@pytest.fixture(
    scope="module", params=[Nginx, *(pytest.param(kind, marks=pytest.mark.long) for kind in (Caddy, Envoy))]
)
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """In front of one server for each service."""
    stand = Stand()
    with stand.running(), request.param(tmp_path_factory.mktemp("proxy"), stand.pools) as running:
        yield running


def told(proxy: Proxy, path: str, body: bytes | None = None, **headers: str) -> dict[str, Any]:
    """What the server says that got the request; the status instead, where the proxy answers."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(proxy.url + path, data=body, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=30, context=proxy.tls()) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found
    except urllib.error.HTTPError as error:
        return {"status": error.code}


def test_every_path_goes_to_its_service(proxy: Proxy, routes: Mapping[str, str]) -> None:
    assert {path: told(proxy, path)["service"] for path in routes} == routes
    assert told(proxy, "/docs")["service"] == told(proxy, "/openapi.json")["service"] == "control"


def test_calls_of_grpc_go_to_the_gateways(proxy: Proxy) -> None:
    target, authorities = proxy.url.partition("://")[2], proxy.authorities()
    credentials = grpc.ssl_channel_credentials(authorities)
    channel = grpc.secure_channel(target, credentials) if authorities else grpc.insecure_channel(target)
    with channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(EXPORT)
        assert call(b"", timeout=30, metadata=(("x-forwarded-for", "203.0.113.9"),)) == b"127.0.0.1"
        health: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH)
        with pytest.raises(grpc.RpcError):  # of each process, for its operator
            health(b"", timeout=30)


def test_names_that_look_like_other_paths_change_nothing(proxy: Proxy) -> None:
    for path in (
        "/orgs/explore/projects",
        "/orgs/a/projects/explore/keys",
        "/orgs/a/projects/explore",
        "/orgs/a/explore/spans",
        "/x/v1/traces",
        "/webhooks/scm/github?hook=/orgs/a/projects/b/explore/spans",
        "/orgs/v1/projects/b/issues/explore/c",
    ):
        assert told(proxy, path) == {"service": "control", "client": "127.0.0.1", "path": path, "id": None, "bytes": 0}
    assert told(proxy, "/orgs/a/projects/explore/explore/spans")["service"] == "query"


def test_what_is_for_the_operator_is_not_for_the_public(proxy: Proxy) -> None:
    assert [told(proxy, path) for path in sorted(OWN)] == [{"status": 404}] * 3
    assert told(proxy, "/metrics?x=1") == {"status": 404}


def test_what_a_client_says_of_its_address_is_not_believed(proxy: Proxy) -> None:
    for path in ("/v1/traces", "/orgs/a/projects/b/explore/spans", "/auth/login"):
        assert told(proxy, path, X_Forwarded_For="203.0.113.9")["client"] == "127.0.0.1"


def test_the_id_that_a_client_gives_a_request_arrives(proxy: Proxy) -> None:
    for path in ("/v1/traces", "/orgs/a/projects/b/explore/spans", "/auth/login"):
        assert told(proxy, path, X_Request_Id="from-a-client")["id"] == "from-a-client"


def test_bodies_are_as_large_as_the_services_take_them(proxy: Proxy) -> None:
    largest = 64 * 2**20
    assert told(proxy, "/v1/traces", bytes(largest))["bytes"] == largest
    assert told(proxy, "/webhooks/scm/github", bytes(8 * 2**20))["bytes"] == 8 * 2**20
    with suppress(urllib.error.URLError):  # the proxy may answer and close the connection while the body is on its way
        answer = told(proxy, "/webhooks/scm/github", bytes(8 * 2**20 + 1))
        assert answer.get("status") == 413 if proxy.limits_bodies else answer["bytes"] == 8 * 2**20 + 1


def test_queries_arrive_as_they_were_sent(proxy: Proxy) -> None:
    path = "/orgs/a/projects/b/explore/spans?filters=" + urllib.parse.quote("name:" + "x" * 40_000 + " %2F+")
    assert told(proxy, path).get("path") == path, told(proxy, path)


class Routes:
    """Those of Envoy's configuration, which `make test` does not run: the first that matches."""

    def __init__(self) -> None:
        self.document = msgspec.yaml.decode((FOLDER / "envoy.yaml").read_bytes())["static_resources"]
        (listener,) = self.document["listeners"]
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        (host,) = manager["route_config"]["virtual_hosts"]
        self.routes: list[dict[str, Any]] = host["routes"]

    def cluster(self, path: str) -> str | None:
        """None where it answers itself."""
        route = next(each for each in self.routes if self._matches(each["match"], path))
        found: str | None = route.get("route", {}).get("cluster")
        return found

    def _matches(self, match: Mapping[str, Any], path: str) -> bool:
        if "safe_regex" in match:
            return re.fullmatch(match["safe_regex"]["regex"], path) is not None
        return path == match["path"] if "path" in match else path.startswith(match["prefix"])


def test_envoy_sends_every_path_to_its_service(routes: Mapping[str, str]) -> None:
    envoy = Routes()
    assert {path: envoy.cluster(path) for path in routes} == {path: CLUSTERS[name] for path, name in routes.items()}
    assert [envoy.cluster(path) for path in OWN] == [None] * 3
    assert envoy.cluster(EXPORT) == "gateways_grpc"
    assert envoy.cluster("/orgs/a/projects/explore/keys") == "controls"


def test_envoy_has_the_clusters_that_it_names_and_asks_each_whether_it_is_ready() -> None:
    envoy = Routes()
    clusters = {cluster["name"]: cluster for cluster in envoy.document["clusters"]}
    assert {each["route"]["cluster"] for each in envoy.routes if "route" in each} == clusters.keys()
    assert {name: addresses(clusters[CLUSTERS[name]]) for name in POOLS} == {name: list(POOLS[name]) for name in POOLS}
    for name, cluster in clusters.items():
        (check,) = cluster["health_checks"]
        assert check.get("http_health_check") == (None if name == "gateways_grpc" else {"path": "/readyz"})


def addresses(cluster: Mapping[str, Any]) -> list[str]:
    (group,) = cluster["load_assignment"]["endpoints"]
    found = [each["endpoint"]["address"]["socket_address"] for each in group["lb_endpoints"]]
    return [f"{each['address']}:{each['port_value']}" for each in found]


def test_only_what_was_not_sent_is_sent_again() -> None:
    envoy = Routes()
    policies = [each["route"]["retry_policy"]["retry_on"] for each in envoy.routes if "route" in each]
    assert set(policies) == {"connect-failure,refused-stream"}
    nginx = (FOLDER / "nginx.conf").read_text("utf-8")
    assert set(re.findall(r"_next_upstream (.*);", nginx)) == {"error timeout"}
    assert "lb_retry_match" not in (FOLDER / "Caddyfile").read_text("utf-8")
