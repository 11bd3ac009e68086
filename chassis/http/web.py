"""The application: `build_app` wraps every handler in these layers, outermost first.

    _request_id_middleware    request id, rate-limit headers
    cors_middleware           CORS headers, where a route permits other origins
    _access_log_middleware    access log and metrics
    compression_middleware    gzip of large responses
    _error_middleware         exceptions to responses
    _with_preparse            the decision of the route's pre-parse filter
    with_access_check         the access rule; for a bearer route: 429 (address), 401, 429 (principal), 404, 403
    with_declared_parameters  for a bearer route: 400 for query parameters that the route does not declare

A service declares its routes, each with its access rule. `build_app` rejects a rule that has no guard. A handler
returns a response or raises `ApiError`. Any other exception becomes a 500 without details, and the log has the
traceback under the request id.
"""

import hmac
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler as AiohttpHandler
from aiohttp.typedefs import Middleware

from chassis.errors import (
    JSON_TYPE,
    ApiError,
    BadRequest,
    Forbidden,
    InternalError,
    Issue,
    NotFound,
    PayloadTooLarge,
    ServiceUnavailable,
    Unauthorized,
    envelope,
)
from chassis.http.access import (
    AUTHENTICATED_CREDENTIAL,
    AUTHORIZATION_CONTEXT,
    PROJECT,
    Access,
    Guards,
    Handler,
    anonymous,
    authenticated_credential,
    authorization_context,
    bearer,
    project,
    project_key,
    public,
    session,
    with_access_check,
)
from chassis.http.api_docs import ApiDocs, system_routes
from chassis.http.body import delay_100_continue, reject_malformed
from chassis.http.compression import compression_middleware, is_compressed
from chassis.http.connections.registry import CANCEL_ON_DISCONNECT
from chassis.http.cors import Cors, cors_middleware
from chassis.http.not_found import add_catch_all, resolve_path, route_name
from chassis.http.openapi import Endpoint
from chassis.http.preparse import PRE_PARSE_FILTERS, require_slot
from chassis.http.request_ids import resolve_request_id
from chassis.http.route import ErrorRenderer, Route, with_declared_parameters
from chassis.limits.limiter import Limiter, LocalLimiter
from chassis.limits.rate_limits import RateLimits, TrustedProxies, limit_headers, rules_from_settings
from chassis.runtime.health import HEALTH, OTHER_SERVERS, Dependency, Health, OtherServers
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import METRICS_TYPE, Telemetry

__all__ = (
    "API_DOCS",
    "AUTHENTICATED_CREDENTIAL",
    "AUTHORIZATION_CONTEXT",
    "JSON_HEADERS",
    "PROJECT",
    "RATE_LIMITS",
    "Access",
    "Dependency",
    "Guards",
    "Handler",
    "Route",
    "Service",
    "anonymous",
    "authenticated_credential",
    "authorization_context",
    "bearer",
    "build_app",
    "json_response",
    "project",
    "project_key",
    "public",
    "request_id",
    "session",
)

CleanupContext = Callable[[web.Application], AsyncIterator[None]]

MAX_DEFAULT_BODY: Final = 2**20  # bytes; for handlers that read with aiohttp's own methods
CLIENT_CLOSED_REQUEST: Final = 499  # in log and metrics only, because the client has disconnected
PROBE_METHODS: Final = ("GET", "HEAD")  # both are declared, because load balancers use either
KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

# Headers of every JSON response: caches must not store it, and browsers must not treat it as another type.
JSON_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
)
REQUEST_ID: Final = web.RequestKey("request_id", str)
RATE_LIMITS: Final = web.AppKey("rate_limits", RateLimits)
API_DOCS: Final = web.AppKey("api_docs", ApiDocs)


def render_json_error(_request: web.Request, error: ApiError, rid: str) -> web.Response:
    """The error envelope, for routes without their own renderer."""
    return json_response(envelope(error, rid), status=error.status)


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of a service: routes, cleanup contexts and dependencies. The composition root joins several services
    into one application.

    `cleanup_contexts` start in order and close in reverse order. `/readyz` checks the dependencies in `readiness`.
    """

    name: str
    routes: Sequence[Route]
    cleanup_contexts: Sequence[CleanupContext] = ()
    readiness: Sequence[Dependency] = ()


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A response with `body` (any value that msgspec encodes) as `Content-Type: application/json`. It names no charset,
    because some clients reject a charset.
    """
    response = web.Response(body=msgspec.json.encode(body), status=status, headers={**JSON_HEADERS, **(headers or {})})
    response.headers["Content-Type"] = JSON_TYPE
    return response


def request_id(request: web.Request) -> str:
    """The id of this request in its response and in the logs."""
    return request[REQUEST_ID]


def build_app(
    routes: Sequence[Route],
    *,
    service: str,
    settings: ChassisSettings,
    telemetry: Telemetry,
    cleanup_contexts: Sequence[CleanupContext] = (),
    guards: Guards | None = None,
    readiness: Sequence[Dependency] = (),
    limiter: Limiter | None = None,
    full_document: Callable[[], dict[str, Any]] | None = None,
) -> web.Application:
    """Build one application from routes, cleanup contexts and dependencies. Adds the routes for health, metrics,
    `/openapi.json` and `/docs`.

    `full_document`: the document that `/docs` shows if `service` is one of several services. The default is the
    process's own document. `limiter` counts for the limits of the settings. The default counts inside the process.
    Raises ValueError for a route whose access rule has no guard in this process.
    """
    proxies = TrustedProxies(settings.trusted_proxies)
    active_limiter = LocalLimiter() if limiter is None else limiter
    rate_limits = RateLimits(rules_from_settings(settings), active_limiter, proxies, telemetry.rate_limited)
    health = Health(service, readiness)
    renderers: dict[web.AbstractResource, ErrorRenderer] = {}
    policies: dict[web.AbstractResource, Cors] = {}
    compressed: set[tuple[web.AbstractResource | None, str]] = set()
    middlewares = [
        _request_id_middleware,
        _access_log_middleware(telemetry, proxies),
        compression_middleware(compressed),
        _error_middleware(telemetry, renderers),
    ]
    if any(route.cors for route in routes):
        middlewares.insert(1, cors_middleware(policies))
    app = web.Application(middlewares=middlewares, client_max_size=MAX_DEFAULT_BODY)
    app[HEALTH] = health
    app[RATE_LIMITS] = rate_limits
    app[OTHER_SERVERS] = OtherServers()
    app[PRE_PARSE_FILTERS] = {
        f"{route.method} {route.path}".encode(): route.pre_parse_filter
        for route in routes
        if route.pre_parse_filter is not None
    }
    app.cleanup_ctx.extend([*telemetry.cleanup_contexts(), *cleanup_contexts])
    resources_by_path: dict[str, web.Resource] = {}
    all_routes = [*routes, *_system_routes(health, telemetry, settings, proxies)]
    app[API_DOCS] = _add_docs_routes(service, all_routes, full_document)
    with_head = {route.path for route in all_routes if route.method == "HEAD"}
    for route in all_routes:
        resource = resources_by_path.get(route.path) or app.router.add_resource(route.path)
        resources_by_path[route.path] = resource
        handler = with_access_check(
            route.access, with_declared_parameters(route), guards or Guards(), rate_limits, route.limit
        )
        for method in _methods(route, with_head):
            resource.add_route(method, _with_preparse(route, handler), expect_handler=delay_100_continue)
            if is_compressed(route):
                compressed.add((resource, method))
        renderers.setdefault(resource, route.render_error or render_json_error)
        if route.cors is not None:
            policies[resource] = route.cors
    add_catch_all(app, list(renderers))
    return app


def _methods(route: Route, with_head: Collection[str]) -> Sequence[str]:
    """The methods that the handler of a route answers. `with_head`: the paths with their own HEAD route. A response to
    HEAD has the same headers as the response to GET, with the length of the body, but the body is not sent.
    """
    is_answered = route.method == "GET" and route.answers_head and route.path not in with_head
    return ("GET", "HEAD") if is_answered else (route.method,)


def _with_preparse(route: Route, handler: Handler) -> Handler:
    """Mark the request with CANCEL_ON_DISCONNECT, which the connection reads when the client disconnects. Refuse the
    request if the route's filter refused it.
    """
    cancel = route.method == "GET" if route.cancel_on_disconnect is None else route.cancel_on_disconnect
    pre_parse_filter = route.pre_parse_filter

    async def filtered(request: web.Request) -> web.StreamResponse:
        request[CANCEL_ON_DISCONNECT] = cancel
        if pre_parse_filter is not None:
            require_slot(request, pre_parse_filter)
        return await handler(request)

    return filtered


@web.middleware
async def _request_id_middleware(request: web.Request, handler: AiohttpHandler) -> web.StreamResponse:
    """Set the id of the request in the logs and in every response, and add the headers of the request's rate limit."""
    rid = resolve_request_id(request.headers.get("X-Request-Id", ""))
    request[REQUEST_ID] = rid
    structlog.contextvars.bind_contextvars(request_id=rid)
    response = await handler(request)
    response.headers["X-Request-Id"] = rid
    response.headers.update(limit_headers(request))
    response.headers["Server"] = "sluice"  # without versions
    return response


def _access_log_middleware(telemetry: Telemetry, proxies: TrustedProxies) -> Middleware:
    @web.middleware
    async def observe(request: web.Request, handler: AiohttpHandler) -> web.StreamResponse:
        started = time.perf_counter()
        status = CLIENT_CLOSED_REQUEST
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            telemetry.record_request(
                route=route_name(request),
                method=request.method if request.method in KNOWN_METHODS else "other",
                path=request.path,
                status=status,
                seconds=time.perf_counter() - started,
                remote=proxies.client_address(request),
                rid=request[REQUEST_ID],
            )

    return observe


def _error_middleware(telemetry: Telemetry, renderers: Mapping[web.AbstractResource, ErrorRenderer]) -> Middleware:
    @web.middleware
    async def render(request: web.Request, handler: AiohttpHandler) -> web.StreamResponse:
        try:
            reject_malformed(request)
            return await handler(request)
        except ApiError as refusal:
            error = refusal
        except web.HTTPException as raised:
            error = _to_api_error(raised)
        except Exception as fault:
            if isinstance(fault, ConnectionError) and request.transport is None:
                return web.Response(status=CLIENT_CLOSED_REQUEST)
            telemetry.log.exception("request failed", method=request.method, path=request.path)
            error = InternalError()
        renderer = await _find_renderer(request, renderers)
        return _with_error_headers(renderer(request, error, request[REQUEST_ID]), error)

    return render


async def _find_renderer(
    request: web.Request, renderers: Mapping[web.AbstractResource, ErrorRenderer]
) -> ErrorRenderer:
    """The error renderer of the path, also when the path has only other methods."""
    resource = request.match_info.route.resource
    if resource not in renderers:
        resource, _ = await resolve_path(request, renderers)
    return render_json_error if resource is None else renderers[resource]


def _to_api_error(raised: web.HTTPException) -> ApiError:
    """An error that aiohttp itself raised, with a message of Sluice."""
    if raised.status == web.HTTPNotFound.status_code:
        return NotFound()
    if raised.status == web.HTTPRequestEntityTooLarge.status_code:
        return PayloadTooLarge(f"The body is larger than {MAX_DEFAULT_BODY} bytes.")
    return BadRequest("The request is malformed.") if raised.status < 500 else InternalError()


def _with_error_headers(response: web.Response, error: ApiError) -> web.Response:
    response.headers.update(error.headers)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if error.close:
        response.force_close()
    return response


def _system_routes(
    health: Health, telemetry: Telemetry, settings: ChassisSettings, proxies: TrustedProxies
) -> list[Route]:
    async def livez(_request: web.Request) -> web.StreamResponse:
        """Report whether the process is alive."""
        return json_response({"status": "alive", "service": health.service})

    async def readyz(request: web.Request) -> web.StreamResponse:
        """Report whether the process can serve requests, and which dependency is unavailable."""
        probes = await health.probes()
        reason = health.not_ready_reason(probes)
        if reason is None:
            return json_response({"status": "ready", "service": health.service, "dependencies": probes})
        unavailable = [probe for probe in probes if probe.required and not probe.ok]
        error = ServiceUnavailable(
            f"Not ready: {reason}.",
            details=[Issue(probe.name, probe.error or "", "unavailable") for probe in unavailable],
        )
        body = {"status": "unavailable", "service": health.service, "dependencies": probes}
        return _with_error_headers(
            json_response(body | envelope(error, request_id(request)), status=error.status), error
        )

    async def metrics(request: web.Request) -> web.StreamResponse:
        """Prometheus metrics, for clients on loopback or with the configured token."""
        _require_metrics_access(request, settings.metrics_token, proxies)
        return web.Response(body=await telemetry.merged_exposition(), headers={"Content-Type": METRICS_TYPE})

    return [
        *(Route(method, "/livez", livez, public(), operation=system_routes.LIVEZ) for method in PROBE_METHODS),
        *(Route(method, "/readyz", readyz, public(), operation=system_routes.READYZ) for method in PROBE_METHODS),
        Route("GET", "/metrics", metrics, public(), operation=system_routes.METRICS, compress=False),
    ]


def _add_docs_routes(service: str, routes: list[Route], full_document: Callable[[], dict[str, Any]] | None) -> ApiDocs:
    """Add the two documentation routes to `routes`. They document every route in `routes`."""
    api_docs = ApiDocs(
        f"Sluice {service}" if service != "sluice" else "Sluice",
        lambda: [
            Endpoint(
                route.method, route.path, route.access, operation.description or route.handler.__doc__ or "", operation
            )
            for route in routes
            if (operation := route.operation) is not None
        ],
        full_document,
    )
    routes.append(Route("GET", "/openapi.json", api_docs.openapi, public(), operation=system_routes.OPENAPI))
    routes.append(Route("GET", "/docs", api_docs.docs, public(), operation=system_routes.DOCS))
    return api_docs


def _require_metrics_access(request: web.Request, token: str, proxies: TrustedProxies) -> None:
    """Require loopback or the configured token, because metrics would reveal load and failures to outsiders."""
    presented = request.headers.get("Authorization", "")
    if token and hmac.compare_digest(presented.encode("utf-8", "surrogateescape"), f"Bearer {token}".encode()):
        return
    if presented:
        raise Unauthorized("The metrics token is not valid.")
    if not proxies.is_local(request):
        raise Forbidden("Metrics require a loopback address or the configured token.")
