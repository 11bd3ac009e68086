"""`/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/links`: list, create, change, delete."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.http.path_ids import path_id
from control.http.url_input import check_url
from control.issue_links import repository
from control.issue_links.addresses import ExternalItem, identify_again, identify_named
from control.issue_links.repository import IssuePlace, StoredLink
from control.issue_links.schemas import IssueLink, IssueLinkChange, IssueLinkPage, NewIssueLink, link_body
from control.issues.lifecycle import add_activity
from control.issues.tables import ActivityKind
from proto.identity import Scope

TAG: Final = Tag("issue-links", "Links of issues to tickets, pull requests and pages of other systems.")
_ISSUE: Final = Parameter("issueId", "path", Annotated[str, Meta(min_length=1)], "The issue.")
_LINK: Final = Parameter("linkId", "path", Annotated[str, Meta(min_length=1)], "The link.")
LIST: Final = Operation(
    "listIssueLinks", TAG, (ResponseSpec("A page.", json_content(IssueLinkPage)),), (_ISSUE, *PAGE_PARAMETERS)
)
CREATE: Final = Operation(
    "createIssueLink",
    TAG,
    (
        ResponseSpec("The link.", json_content(IssueLink), 201),
        ResponseSpec("The link that the issue has to this item.", json_content(IssueLink)),
    ),
    (_ISSUE,),
    body=Body(json_content(NewIssueLink), example={"url": "https://github.com/shop/checkout/issues/17"}),
    error_statuses=(409,),
)
CHANGE: Final = Operation(
    "changeIssueLink",
    TAG,
    (ResponseSpec("The updated link.", json_content(IssueLink)),),
    (_ISSUE, _LINK),
    body=Body(json_content(IssueLinkChange), example={"state": "closed"}),
    error_statuses=(409,),
)
DELETE: Final = Operation("deleteIssueLink", TAG, (ResponseSpec("The link was deleted.", status=204),), (_ISSUE, _LINK))


@dataclass(frozen=True, slots=True)
class IssueLinks:
    """Handlers of links of issues, and their dependencies."""

    context: HandlerContext
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/links"
        one, write = every + "/{linkId}", bearer(Scope.ISSUES_WRITE)
        return [
            Route("GET", every, self.list, bearer(Scope.ISSUES_READ), operation=LIST),
            Route("POST", every, self.create, write, operation=CREATE),
            Route("PATCH", one, self.change, write, operation=CHANGE),
            Route("DELETE", one, self.delete, write, operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the links of an issue, newest first."""
        place = _place(authorization_context(request), request)
        binding = repr(("links", *place)).encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            await _require_issue(connection, place)
            found = await repository.list_links(connection, place, page.after, page.limit + 1)
        return json_response(page_body(found, page, link_body, lambda one: one.id, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Link an issue to an item of another system.

        200 with the link that there is if the issue has one to this item: it stays as it is. 409 at the maximum number
        of links.
        """
        async with self.context.database.read() as connection:  # 404 comes before 415
            await _require_issue(connection, _place(authorization_context(request), request))
        issues = Issues()
        body = await self.context.read_body(request, NewIssueLink, issues)
        check_url(body.url, "body.url", issues)
        issues.raise_if_any("The request body is not valid.")
        item = identify_named(body.url, body.system, body.external_id)
        now = to_milliseconds(self.now())
        async with self.context.write_transaction(request) as (connection, caller):
            place = _place(caller, request)
            await _require_issue(connection, place)
            link, is_new = await repository.create_link(
                connection,
                place,
                item,
                url=body.url,
                title=body.title,
                state=body.state,
                created_by=caller.principal_id,
                now=now,
            )
            if is_new:
                await self._note(connection, request, caller, ActivityKind.LINK_ADDED, link)
        return json_response(link_body(link), status=201 if is_new else 200)

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a link: its address, its title, the state of its item.

        Another address may be that of another item: system and id are taken from it, unless they were named when the
        link was created. 409 if the issue has a link to that item.
        """
        async with self.context.database.read() as connection:  # 404 comes before 415
            await _require_link(connection, _place(authorization_context(request), request), request)
        issues = Issues()
        body = await self.context.read_body(request, IssueLinkChange, issues)
        check_url(body.url, "body.url", issues)
        issues.raise_if_any("The request body is not valid.")
        values = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
        async with self.context.write_transaction(request) as (connection, caller):
            place = _place(caller, request)
            known = await _require_link(connection, place, request)
            if body.url is not UNSET:
                old = ExternalItem(known.system, known.external_id)
                item = identify_again(old, known.url, body.url)
                values |= item._asdict()
                if item != old:
                    values["changed_at"] = None
            changed = await repository.change_link(connection, place, known.id, values, to_milliseconds(self.now()))
            await self._note(connection, request, caller, ActivityKind.LINK_CHANGED, changed)
        return json_response(link_body(changed))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a link."""
        async with self.context.write_transaction(request) as (connection, caller):
            place = _place(caller, request)
            link = await _require_link(connection, place, request)
            await repository.delete_link(connection, place, link.id)
            await self._note(connection, request, caller, ActivityKind.LINK_REMOVED, link)
        return web.Response(status=204)

    async def _note(
        self,
        connection: AsyncConnection,
        request: web.Request,
        caller: AuthorizationContext,
        kind: ActivityKind,
        link: StoredLink,
    ) -> None:
        """Record the change in the activity of the issue and in the audit log."""
        data = {"linkId": link.id, "url": link.url, "title": link.title, "system": link.system, "state": link.state}
        now = to_milliseconds(self.now())
        await add_activity(connection, link.issue_id, kind, now=now, by=caller.principal_id, data=data)
        action = f"issue.{kind.value}"
        await record(connection, caller, action, link.issue_id, data, request_id(request))


def _place(caller: AuthorizationContext, request: web.Request) -> IssuePlace:
    if caller.project_id is None:
        raise LookupError("the path has no project")
    return IssuePlace(caller.org_id, caller.project_id, path_id(request, "issueId"))


async def _require_issue(connection: AsyncConnection, place: IssuePlace) -> None:
    """Raises NotFound."""
    if not await repository.has_issue(connection, place):
        raise NotFound


async def _require_link(connection: AsyncConnection, place: IssuePlace, request: web.Request) -> StoredLink:
    """The link in the path. Raises NotFound."""
    found = await repository.find_link(connection, place, path_id(request, "linkId"))
    if found is None:
        raise NotFound
    return found
