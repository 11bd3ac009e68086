"""All handlers of a directory's requests, with the library that they need."""

from dataclasses import dataclass

from control.http.context import HandlerContext
from control.identity.scim.discovery import Discovery
from control.identity.scim.endpoint import ScimEndpoint
from control.identity.scim.groups import Groups
from control.identity.scim.guard import DirectoryGuard
from control.identity.scim.urls import ScimUrls
from control.identity.scim.users import Users


@dataclass(frozen=True, slots=True)
class ScimHandlers:
    """The handlers."""

    users: Users
    groups: Groups
    discovery: Discovery


def build_handlers(context: HandlerContext, guard: DirectoryGuard, urls: ScimUrls) -> ScimHandlers:
    """The handlers with these dependencies."""
    endpoint = ScimEndpoint(context, guard, urls)
    return ScimHandlers(Users(endpoint), Groups(endpoint), Discovery(endpoint))
