"""The application skeleton: what happens to a request before its handler and after it.

    request id -> access log and metrics -> error rendering -> access check -> handler

The access check of a bearer route (`chassis.http.access`): address limit 429, 401, principal limit 429, 404, 403.

A service states its routes; each carries its access rule, and `build_app` refuses a rule that nothing guards. A handler
answers or raises `ApiError`; whatever else comes out of it is a 500 without detail, and the log has the traceback under
the request id.
"""

import hmac
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler as AiohttpHandler
from aiohttp.typedefs import Middleware

from chassis.errors import (
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
from chassis.http.connections.context import CANCEL_ON_DISCONNECT
from chassis.http.cors import Cors, cors_middleware
from chassis.http.not_found import add_catch_all, resolve_path, route_name
from chassis.http.openapi import Endpoint
from chassis.http.operation import JSON_TYPE
from chassis.http.preparse import PRE_PARSE_FILTERS, require_slot
from chassis.http.request_ids import resolve_request_id
from chassis.http.route import ErrorRenderer, Route
from chassis.limits.limiter import Limiter
from chassis.limits.local import LocalLimiter
from chassis.limits.rate_limits import RateLimits, limit_headers, rules_from_settings
from chassis.limits.trusted_proxies import TrustedProxies
from chassis.runtime.health import HEALTH, Dependency, Health
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import METRICS_TYPE, Telemetry

__all__ = (
    "API_DOCS",
    "AUTHENTICATED_CREDENTIAL",
    "AUTHORIZATION_CONTEXT",
    "JSON_TYPE",
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
CLIENT_CLOSED_REQUEST: Final = 499  # in log and metrics only: nobody is there to read an answer
PROBE_METHODS: Final = ("GET", "HEAD")  # load balancers ask with either
KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

REQUEST_ID: Final = web.RequestKey("request_id", str)
RATE_LIMITS: Final = web.AppKey("admission", RateLimits)
API_DOCS: Final = web.AppKey("reference", ApiDocs)


def render_json_error(_request: web.Request, error: ApiError, rid: str) -> web.Response:
    """The error envelope; what a route answers unless it names another renderer."""
    return json_response(envelope(error, rid), status=error.status)


@dataclass(frozen=True, slots=True)
class Service:
    """What a service brings into a process; the composition root joins several into one application.

    Resources are started in order and closed in reverse; readiness lists what the service cannot work without.
    """

    name: str
    routes: Sequence[Route]
    cleanup_contexts: Sequence[CleanupContext] = ()
    readiness: Sequence[Dependency] = ()


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """`body` (anything msgspec encodes) with exactly `Content-Type: application/json`: some clients mind a charset."""
    answer = web.Response(body=msgspec.json.encode(body), status=status, headers=headers)
    answer.headers["Content-Type"] = JSON_TYPE
    return answer


def request_id(request: web.Request) -> str:
    """The id that this request is answered and logged under."""
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
    """One application out of routes, resources and readiness; adds health, metrics, `/openapi.json` and `/docs`.

    `whole_interface`: the document that `/docs` shows, where `service` is a part of something; by default its own.
    `limiter` counts for the limits of the settings; by default one inside the process.
    Raises ValueError for a route whose access rule has no guard in this process.
    """
    proxies = TrustedProxies(settings.trusted_proxies)
    counting = LocalLimiter() if limiter is None else limiter
    admission = RateLimits(rules_from_settings(settings), counting, proxies, telemetry.rate_limited)
    health = Health(service, readiness)
    renderers: dict[web.AbstractResource, ErrorRenderer] = {}
    policies: dict[web.AbstractResource, Cors] = {}
    middlewares = [
        _request_id_middleware,
        _access_log_middleware(telemetry, proxies),
        _error_middleware(telemetry, renderers),
    ]
    if any(route.cors for route in routes):
        middlewares.insert(1, cors_middleware(policies))
    app = web.Application(middlewares=middlewares, client_max_size=MAX_DEFAULT_BODY)
    app[HEALTH] = health
    app[RATE_LIMITS] = admission
    app[PRE_PARSE_FILTERS] = {
        f"{route.method} {route.path}".encode(): route.pre_parse_filter
        for route in routes
        if route.pre_parse_filter is not None
    }
    app.cleanup_ctx.extend([*telemetry.cleanup_contexts(), *cleanup_contexts])
    resources_by_path: dict[str, web.Resource] = {}
    every = [*routes, *_system_routes(health, telemetry, settings, proxies)]
    app[API_DOCS] = _add_docs_routes(service, every, full_document)
    for route in every:
        resource = resources_by_path.get(route.path) or app.router.add_resource(route.path)
        resources_by_path[route.path] = resource
        handler = _with_preparse(
            route, with_access_check(route.access, route.handler, guards or Guards(), admission, route.limit)
        )
        resource.add_route(route.method, handler, expect_handler=delay_100_continue)
        renderers.setdefault(resource, route.render_error or render_json_error)
        if route.cors is not None:
            policies[resource] = route.cors
    add_catch_all(app, list(renderers))
    return app


def _with_preparse(route: Route, handler: Handler) -> Handler:
    """Mark the request for the connection (`chassis.http.connections`), which sees the client go; turn it away where
    its gate does.
    """
    cancel = route.method == "GET" if route.cancel_on_disconnect is None else route.cancel_on_disconnect
    gate = route.pre_parse_filter

    async def prepared(request: web.Request) -> web.StreamResponse:
        request[CANCEL_ON_DISCONNECT] = cancel
        if gate is not None:
            require_slot(request, gate)
        return await handler(request)

    return prepared


@web.middleware
async def _request_id_middleware(request: web.Request, handler: AiohttpHandler) -> web.StreamResponse:
    """Give the request its id, in the logs and on whatever is answered; say there how its limit stands."""
    rid = resolve_request_id(request.headers.get("X-Request-Id", ""))
    request[REQUEST_ID] = rid
    structlog.contextvars.bind_contextvars(request_id=rid)
    answer = await handler(request)
    answer.headers["X-Request-Id"] = rid
    answer.headers.update(limit_headers(request))
    answer.headers["Server"] = "sluice"  # without versions
    return answer


def _access_log_middleware(telemetry: Telemetry, proxies: TrustedProxies) -> Middleware:
    @web.middleware
    async def observe(request: web.Request, handler: AiohttpHandler) -> web.StreamResponse:
        started = time.perf_counter()
        status = CLIENT_CLOSED_REQUEST
        try:
            answer = await handler(request)
            status = answer.status
            return answer
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
    """That of the path, also when the path has other methods only."""
    resource = request.match_info.route.resource
    if resource not in renderers:
        resource, _ = await resolve_path(request, renderers)
    return render_json_error if resource is None else renderers[resource]


def _to_api_error(raised: web.HTTPException) -> ApiError:
    """What aiohttp itself refuses, in our words."""
    if raised.status == web.HTTPNotFound.status_code:
        return NotFound()
    if raised.status == web.HTTPRequestEntityTooLarge.status_code:
        return PayloadTooLarge(f"The body is larger than {MAX_DEFAULT_BODY} bytes.")
    return BadRequest("The request cannot be understood.") if raised.status < 500 else InternalError()


def _with_error_headers(answer: web.Response, error: ApiError) -> web.Response:
    answer.headers.update(error.headers)
    if error.retry_after is not None:
        answer.headers["Retry-After"] = str(error.retry_after)
    if error.close:
        answer.force_close()
    return answer


def _system_routes(
    health: Health, telemetry: Telemetry, settings: ChassisSettings, proxies: TrustedProxies
) -> list[Route]:
    async def livez(_request: web.Request) -> web.StreamResponse:
        """Whether the process is alive."""
        return json_response({"status": "alive", "service": health.service})

    async def readyz(request: web.Request) -> web.StreamResponse:
        """Whether the process can do its work, and which dependency is away."""
        probes = await health.probes()
        reason = health.not_ready_reason(probes)
        if reason is None:
            return json_response({"status": "ready", "service": health.service, "dependencies": probes})
        away = [probe for probe in probes if probe.required and not probe.ok]
        error = ServiceUnavailable(
            f"Not ready, {reason}.", details=[Issue(probe.name, probe.error or "", "unavailable") for probe in away]
        )
        body = {"status": "unavailable", "service": health.service, "dependencies": probes}
        return _with_error_headers(
            json_response(body | envelope(error, request_id(request)), status=error.status), error
        )

    async def metrics(request: web.Request) -> web.StreamResponse:
        """Prometheus metrics, for loopback or the configured token."""
        _require_metrics_access(request, settings.metrics_token, proxies)
        return web.Response(body=await telemetry.merged_exposition(), headers={"Content-Type": METRICS_TYPE})

    return [
        *(Route(method, "/livez", livez, public(), operation=system_routes.LIVEZ) for method in PROBE_METHODS),
        *(Route(method, "/readyz", readyz, public(), operation=system_routes.READYZ) for method in PROBE_METHODS),
        Route("GET", "/metrics", metrics, public(), operation=system_routes.METRICS),
    ]


def _add_docs_routes(service: str, routes: list[Route], full_document: Callable[[], dict[str, Any]] | None) -> ApiDocs:
    """What describes every route; adds its own two."""
    reference = ApiDocs(
        f"Sluice {service}" if service != "sluice" else "Sluice",
        lambda: [
            Endpoint(route.method, route.path, route.access, route.handler.__doc__ or "", route.operation)
            for route in routes
            if route.operation is not None
        ],
        full_document,
    )
    routes.append(Route("GET", "/openapi.json", reference.openapi, public(), operation=system_routes.OPENAPI))
    routes.append(Route("GET", "/docs", reference.docs, public(), operation=system_routes.DOCS))
    return reference


def _require_metrics_access(request: web.Request, token: str, proxies: TrustedProxies) -> None:
    """Loopback, or the configured token; the numbers tell an outsider how busy and how broken we are."""
    given = request.headers.get("Authorization", "")
    if token and hmac.compare_digest(given.encode("utf-8", "surrogateescape"), f"Bearer {token}".encode()):
        return
    if given:
        raise Unauthorized("This token does not open the metrics.")
    if not proxies.is_local(request):
        raise Forbidden("Metrics are for loopback, or for the configured token.")
