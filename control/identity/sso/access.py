"""Checks around every route of administrators that single sign-on and the directory have in common."""

from dataclasses import replace

from aiohttp import web

from chassis.errors import Forbidden
from chassis.http.access import BearerAuth, authorization_context
from chassis.http.validation import Issues, check_length
from chassis.http.web import Route
from proto.identity import MAX_SLUG_LENGTH, PrincipalKind, Scope


def only_for_users(route: Route) -> Route:
    """The route. If it changes something, it refuses, before anything else, callers other than users who act for
    themselves: who configures a provider or a directory decides who every user is.
    """
    if not isinstance(route.access, BearerAuth) or Scope.SSO_WRITE not in route.access.scopes:
        return route

    async def checked(request: web.Request) -> web.StreamResponse:
        caller = authorization_context(request)
        if caller.kind is not PrincipalKind.USER or caller.on_behalf_of is not None:
            raise Forbidden(
                "Only users can configure single sign-on: not agents, services, or tokens that act on behalf of "
                "another principal."
            )
        return await route.handler(request)

    return replace(route, handler=checked)


def with_slug_check(route: Route) -> Route:
    """The route. A slug of an organization that is too long is a BadRequest: the paths of single sign-on specify its
    length.
    """
    if not isinstance(route.access, BearerAuth):
        return route
    return replace(route, access=replace(route.access, path_check=_check_org_slug))


def _check_org_slug(request: web.Request) -> None:
    issues = Issues()
    if not check_length("path.orgSlug", request.match_info["orgSlug"], 1, MAX_SLUG_LENGTH, issues):
        issues.raise_if_any("The path is not valid.")
