"""Refuses query parameters that a route does not declare: a misspelled filter would otherwise return everything.

Only routes for bearer tokens refuse: their clients write whole requests on purpose. Identity providers, directories,
browsers, providers of webhooks and OTLP exporters append parameters of their own.
"""

from aiohttp import web

from chassis.errors import BadRequest
from chassis.http.access import BearerAuth, Handler, SessionAuth
from chassis.http.route import Route
from chassis.http.validation import MAX_ISSUES, Issues, with_known_issues


def refuses_undeclared(route: Route) -> bool:
    """Whether the route refuses query parameters that its operation does not declare."""
    return isinstance(route.access, BearerAuth | SessionAuth) and route.operation is not None


def with_declared_parameters(route: Route) -> Handler:
    """The handler of `route`, which does nothing for a request with undeclared parameters: that is a BadRequest, which
    names each of them and what else the handler's checks find. A handler that checks nothing does not run.
    """
    if route.operation is None or not refuses_undeclared(route):
        return route.handler
    handler, body = route.handler, route.operation.body
    declared = {parameter.name for parameter in route.operation.parameters if parameter.location == "query"}
    known = f"Known: {', '.join(sorted(declared))}." if declared else "There are none."

    async def checked(request: web.Request) -> web.StreamResponse:
        undeclared = list(dict.fromkeys(name for name in request.query if name not in declared))
        if not undeclared:
            return await handler(request)
        issues = Issues()
        for name in undeclared:
            issues.add(f"query.{name}", f"Is not a known parameter. {known}", "unknown_field")
        error = BadRequest("The query is not valid.", list(issues))
        raise await _with_further_faults(error, handler, request) if declared or body is not None else error

    return checked


async def _with_further_faults(error: BadRequest, handler: Handler, request: web.Request) -> BadRequest:
    """`error` with the faults that the checks of the handler find. Raises what comes before a 400, such as NotFound."""
    known = error.details or []
    with with_known_issues(known):
        try:
            await handler(request)
        except BadRequest as further:
            others = [issue for issue in further.details or () if issue not in known]
            further.details = [*known, *others][:MAX_ISSUES]
            return further
    return error
