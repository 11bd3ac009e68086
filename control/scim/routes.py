"""All routes of directories: SCIM itself, and what administrators see and change of it."""

from chassis.http.web import Route
from control.http.context import HandlerContext
from control.scim.discovery import Discovery
from control.scim.endpoint import ScimEndpoint
from control.scim.groups import Groups
from control.scim.guard import DirectoryGuard
from control.scim.resources import ScimUrls
from control.scim.settings import ScimSettingsHandlers
from control.scim.tokens import ScimTokens
from control.scim.users import Users


def build_scim_routes(context: HandlerContext, public_url: str) -> list[Route]:
    """`public_url`: that of the API."""
    urls = ScimUrls(public_url.rstrip("/"))
    endpoint = ScimEndpoint(context, DirectoryGuard(context.database), urls)
    return [
        *ScimTokens(context, urls).routes(),
        *ScimSettingsHandlers(context, urls).routes(),
        *Users(endpoint).routes(),
        *Groups(endpoint).routes(),
        *Discovery(endpoint).routes(),
    ]
