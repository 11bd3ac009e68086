"""`/orgs/{orgSlug}/projects/{projectSlug}/views`: list, create, delete."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import Forbidden, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.paging import page_body, page_parameters, parse_page_request
from control.http.path_ids import path_id
from control.saved_views import repository
from control.saved_views.repository import MAX_VIEWS
from control.saved_views.schemas import NewSavedView, SavedView, SavedViewPage, StoredView, view_body
from proto.identity import Role, Scope

_PARAMETERS: Final = page_parameters(default=MAX_VIEWS, maximum=MAX_VIEWS)
_EXAMPLE_PATH: Final = "/ui/default/web/explore?from=now-1h&to=now&q=serviceName%3Apayment"

TAG: Final = Tag("saved-views", "Addresses of the page, under a name.")
LIST: Final = Operation("listSavedViews", TAG, (ResponseSpec("A page.", json_content(SavedViewPage)),), _PARAMETERS)
CREATE: Final = Operation(
    "createSavedView",
    TAG,
    (ResponseSpec("The view.", json_content(SavedView), 201),),
    body=Body(
        json_content(NewSavedView), example={"name": "Payment, last hour", "path": _EXAMPLE_PATH, "shared": False}
    ),
    error_statuses=(409,),
)
DELETE: Final = Operation(
    "deleteSavedView",
    TAG,
    (ResponseSpec("The view was deleted.", status=204),),
    (Parameter("viewId", "path", Annotated[str, Meta(min_length=1)], "The view."),),
)


@dataclass(frozen=True, slots=True)
class SavedViews:
    """Handlers of saved views, and their dependencies."""

    context: HandlerContext
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, write = "/orgs/{orgSlug}/projects/{projectSlug}/views", bearer(Scope.VIEWS_WRITE)
        return [
            Route("GET", every, self.list, bearer(Scope.EXPLORE_READ), operation=LIST),
            Route("POST", every, self.create, write, operation=CREATE),
            Route("DELETE", every + "/{viewId}", self.delete, write, operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the caller's views and those that are shared, newest first."""
        caller = authorization_context(request)
        project_id = _project_id(caller)
        binding = f"saved views of {project_id} for {caller.principal_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding, default=MAX_VIEWS, maximum=MAX_VIEWS)
        async with self.context.database.read() as connection:
            found = await repository.list_views(connection, project_id, caller.principal_id, page.after, page.limit + 1)
        return json_response(
            page_body(
                found, page, lambda one: view_body(one, caller), lambda one: one.id, self.context.cursors, binding
            )
        )

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Save an address of the page under a name.

        409 at the maximum number of views, of the project or of the caller. 403 for a viewer who wants to share one.
        """
        body = await self.context.read_body(request, NewSavedView)
        async with self.context.write_transaction(request) as (connection, caller):
            if body.shared and caller.role is Role.VIEWER:
                raise Forbidden("Sharing a view requires the role MEMBER, ADMIN or OWNER.")
            created = await repository.create(
                connection, caller.org_id, _project_id(caller), caller.principal_id, body, self.now()
            )
            await _record_audit(connection, request, caller, "saved_view.create", created)
        return json_response(view_body(created, caller), status=201)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a view.

        403 for a shared one of somebody else, unless the caller is an administrator.
        """
        view_id = path_id(request, "viewId")
        async with self.context.write_transaction(request) as (connection, caller):
            view = await repository.find(connection, _project_id(caller), view_id)
            if view is None or not (view.may_be_deleted_by(caller) or view.is_visible_to(caller.principal_id)):
                raise NotFound
            if not view.may_be_deleted_by(caller):
                raise Forbidden("Only its creator or an administrator can delete a shared view.")
            await repository.delete(connection, view.id)
            await _record_audit(connection, request, caller, "saved_view.delete", view)
        return web.Response(status=204)


def _project_id(caller: AuthorizationContext) -> int:
    if caller.project_id is None:
        raise LookupError("the path has no project")
    return caller.project_id


async def _record_audit(
    connection: AsyncConnection, request: web.Request, caller: AuthorizationContext, action: str, view: StoredView
) -> None:
    """Without the path: what somebody searches for may be personal, and the audit log keeps it for good."""
    data = {"name": view.name, "shared": view.shared, "projectSlug": caller.project_slug, "createdBy": view.created_by}
    await record(connection, caller, action, view.id, data, request_id(request))
