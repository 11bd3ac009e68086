"""Refuses query parameters that a route does not declare: a misspelled filter would otherwise return everything.

Only routes for bearer tokens refuse: their clients write whole requests on purpose. Identity providers, directories,
browsers, providers of webhooks and OTLP exporters append parameters of their own.
"""

from aiohttp import web

from chassis.http.access import BearerAuth, Handler, SessionAuth
from chassis.http.route import Route
from chassis.http.validation import Issues


def refuses_undeclared(route: Route) -> bool:
    """Whether the route refuses query parameters that its operation does not declare."""
    return isinstance(route.access, BearerAuth | SessionAuth) and route.operation is not None


def with_declared_parameters(route: Route) -> Handler:
    """The handler of `route`, which runs only without undeclared parameters. Raises BadRequest naming each of them."""
    if route.operation is None or not refuses_undeclared(route):
        return route.handler
    handler = route.handler
    declared = {parameter.name for parameter in route.operation.parameters if parameter.location == "query"}
    known = f"Known: {', '.join(sorted(declared))}." if declared else "There are none."

    async def checked(request: web.Request) -> web.StreamResponse:
        if request.query_string:
            issues = Issues()
            for name in dict.fromkeys(request.query):
                if name not in declared:
                    issues.add(f"query.{name}", f"Is not a known parameter. {known}", "unknown_field")
            issues.raise_if_any("The query is not valid.")
        return await handler(request)

    return checked
