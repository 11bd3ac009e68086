"""`/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/links`: list, create, change, delete."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import bearer
from chassis.http.declaration import Created, PageOf, route
from chassis.http.route import Tag
from chassis.http.validation import Issues
from control.code.issue_links import store
from control.code.issue_links.addresses import ExternalItem, identify_again, identify_named
from control.code.issue_links.store import IssuePlace, StoredLink
from control.http.field_types import Timestamp, Url, check_url, line
from control.issues.lifecycle import add_activity
from control.issues.store import find
from control.issues.tables import (
    MAX_EXTERNAL_ID_LENGTH,
    MAX_LINK_TITLE_LENGTH,
    MAX_SYSTEM_LENGTH,
    ActivityKind,
    LinkState,
    issue_links,
)
from control.routing.arguments import CheckedBody, Handlers, Transaction
from control.routing.resource import PageReader, Resource, ids, in_project, shown_as
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/links"
_WRITE: Final = bearer(Scope.ISSUES_WRITE)
_Title = Annotated[str, line(MAX_LINK_TITLE_LENGTH)]
_System = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_SYSTEM_LENGTH,
        pattern=r"^[a-z][a-z0-9-]*(?!\n)$",
        description="Must consist of lowercase letters, digits and hyphens, such as `github`.",
    ),
]


class NewIssueLink(CheckedBody, frozen=True):
    """The link to create. If `system` and `externalId` are left out, they are taken from the address."""

    url: Url
    title: _Title | None = None
    system: _System | None = None
    external_id: Annotated[str, line(MAX_EXTERNAL_ID_LENGTH)] | None = None
    state: LinkState | None = None

    def check(self, issues: Issues) -> None:
        """Record an address that is not valid."""
        check_url(self.url, "body.url", issues)


class IssueLinkChange(CheckedBody, frozen=True):
    """Changes to a link. Omitted fields are not changed."""

    url: Url | UnsetType = UNSET
    title: _Title | UnsetType | None = UNSET
    state: LinkState | UnsetType | None = UNSET

    def check(self, issues: Issues) -> None:
        """Record an address that is not valid."""
        check_url(self.url, "body.url", issues)


class IssueLink(msgspec.Struct, frozen=True, rename="camel"):
    """A link of an issue. `externalId` identifies the item in its system."""

    id: Annotated[str, Meta(pattern="^lnk_[0-9a-z]{26}$")]
    url: str
    title: str | None
    system: _System
    external_id: str
    state: Annotated[LinkState | None, Meta(description="State of the item. `null`: not known.")]
    created_by: str | None
    created_at: Timestamp
    updated_at: Timestamp


LINKS: Final = Resource(
    "linkId",
    ids("lnk"),
    Scope.ISSUES_READ,
    issue_links.c.id,
    in_project(issue_links) & (issue_links.c.issue_id == sa.bindparam("issueId")),
    sa.select(issue_links),
    lambda row, _caller: shown_as(IssueLink, row),
)


@dataclass(frozen=True, slots=True)
class IssueLinks(Handlers):
    """Handlers of links of issues, and their dependencies."""

    TAG: ClassVar = Tag("issue-links", "Links of issues to tickets, pull requests and pages of other systems.")
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @route("GET", PATH, bearer(Scope.ISSUES_READ))
    async def list_issue_links(
        self, issue_id: str, caller: AuthorizationContext, page: PageReader
    ) -> PageOf[IssueLink]:
        """List the links of an issue, newest first."""
        async with self.context.database.read() as connection:
            await _require_issue(connection, caller, issue_id)
        return await page.of(LINKS, caller)

    @route("POST", PATH, _WRITE, errors=(409,), example={"url": "https://github.com/shop/checkout/issues/17"})
    async def create_issue_link(
        self, issue_id: str, body: NewIssueLink, transaction: Transaction
    ) -> Created[IssueLink] | IssueLink:
        """Link an issue to an item of another system.

        200 with the existing link if the issue has a link to this item. The existing link is not changed. 409 at the
        maximum number of links.
        """
        await _require_issue(transaction.connection, transaction.caller, issue_id)
        link, is_new = await store.create_link(
            transaction.connection,
            _place(transaction, issue_id),
            identify_named(body.url, body.system, body.external_id),
            url=body.url,
            title=body.title,
            state=body.state,
            created_by=transaction.caller.principal_id,
            now=to_milliseconds(self.now()),
        )
        if is_new:
            await self._note(transaction, ActivityKind.LINK_ADDED, link)
        shown = shown_as(IssueLink, link)
        return Created(shown) if is_new else shown

    @route("PATCH", PATH + "/{linkId}", _WRITE, errors=(409,), example={"state": "closed"})
    async def change_issue_link(
        self, issue_id: str, link_id: str, body: IssueLinkChange, transaction: Transaction
    ) -> IssueLink:
        """Change a link: its address, its title, the state of its item.

        A new address may belong to another item. System and id are taken from the new address, unless they were named
        when the link was created. 409 if the issue has another link to that item.
        """
        values = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
        place = _place(transaction, issue_id)
        known = await store.get_link(transaction.connection, place, link_id)
        if body.url is not UNSET:
            old = ExternalItem(known.system, known.external_id)
            item = identify_again(old, known.url, body.url)
            values |= item._asdict()
            if item != old:
                values["changed_at"] = None
        changed = await store.change_link(transaction.connection, place, link_id, values, to_milliseconds(self.now()))
        await self._note(transaction, ActivityKind.LINK_CHANGED, changed)
        return shown_as(IssueLink, changed)

    @route("DELETE", PATH + "/{linkId}", _WRITE)
    async def delete_issue_link(self, issue_id: str, link_id: str, transaction: Transaction) -> None:
        """Delete a link."""
        link = await store.get_link(transaction.connection, _place(transaction, issue_id), link_id)
        await LINKS.delete(transaction.connection, transaction.caller, link_id, in_project(issue_links))
        await self._note(transaction, ActivityKind.LINK_REMOVED, link)

    async def _note(self, transaction: Transaction, kind: ActivityKind, link: StoredLink) -> None:
        """Record the change in the activity of the issue and in the audit log."""
        data = {"linkId": link.id, "url": link.url, "title": link.title, "system": link.system, "state": link.state}
        now, by = to_milliseconds(self.now()), transaction.caller.principal_id
        await add_activity(transaction.connection, link.issue_id, kind, now=now, by=by, data=data)
        await transaction.record(f"issue.{kind.value}", link.issue_id, data)


async def _require_issue(connection: AsyncConnection, caller: AuthorizationContext, issue_id: str) -> None:
    """Require that the issue exists. Raises NotFound."""
    if await find(connection, caller.path_project_id, issue_id) is None:
        raise NotFound


def _place(transaction: Transaction, issue_id: str) -> IssuePlace:
    return IssuePlace(transaction.caller.org_id, transaction.caller.path_project_id, issue_id)
