"""`/orgs/{orgSlug}/projects/{projectSlug}/views`: named addresses of the page, private or shared."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import metadata, new_id, principals
from chassis.db.database import UtcTime, text, to_milliseconds
from chassis.errors import Conflict, Forbidden
from chassis.http.access import bearer
from chassis.http.declaration import Arguments, PageOf, route
from chassis.http.route import Tag
from control.http.field_types import Name, Timestamp
from control.routing.arguments import Handlers, Transaction, control_arguments, page_argument
from control.routing.resource import CALLER_ID, PageReader, Resource, ids, in_project, shown_as
from proto.identity import MAX_NAME_LENGTH, Role, Scope

MAX_PATH_LENGTH: Final = 2_000

saved_views: Final = sa.Table(
    "saved_views",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("path", text(MAX_PATH_LENGTH), nullable=False),
    sa.Column("shared", sa.Boolean, nullable=False),
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Index(None, "org_id", "created_by"),
    sa.Index(None, "project_id", "id"),
)


MAX_VIEWS: Final = 200  # of a project
MAX_OWN_VIEWS: Final = 50  # by one principal in a project, so that one member cannot use up the project's maximum

# Segments begin with a letter or digit, so none is `..`, `%2e%2e` or empty: browsers resolve those to addresses outside
# of the page. A fragment is not allowed, because a fragment of the page may hold a code that logs in.
_SEGMENT: Final = r"[A-Za-z0-9][!$%&'()*+,.0-9:;=@A-Z_a-z~-]*"
_QUERY_CHARACTER: Final = r"[!$-.0-;=?-\[\]-~]"  # visible ASCII without " # / < > \
PATH_PATTERN: Final = rf"^/ui/(?:{_SEGMENT}(?:/{_SEGMENT})*/?)?(?:\?(?:/?{_QUERY_CHARACTER})*/?)?(?!\n)$"

PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/views"
EXAMPLE: Final = {
    "name": "Payment, last hour",
    "path": "/ui/default/web/explore?from=now-1h&to=now&q=serviceName%3Apayment",
    "shared": False,
}
ADMINISTRATORS: Final = (Role.ADMIN, Role.OWNER)
_WRITE: Final = bearer(Scope.VIEWS_WRITE)

ViewPath = Annotated[
    str,
    Meta(
        max_length=MAX_PATH_LENGTH,
        pattern=PATH_PATTERN,
        description="Must be an address of the web page, such as `/ui/default/web/logs?from=now-1h`. It begins with "
        "`/ui/`, and each further segment begins with a letter or digit. It must consist of visible ASCII characters, "
        "and must not contain `//`, backslashes, quotes, angle brackets or a fragment.",
    ),
]


class NewSavedView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view to save."""

    name: Name
    path: ViewPath
    shared: Annotated[
        bool,
        Meta(description="Whether every member who may read the project sees the view. Viewers cannot share."),
    ] = False


class SavedView(msgspec.Struct, frozen=True, rename="camel"):
    """A named address of the page."""

    id: str
    name: Name
    path: ViewPath
    shared: bool
    created_by: Annotated[str, Meta(description="Id of the principal that saved the view.")]
    created_by_name: str
    created_at: Timestamp
    may_delete: Annotated[bool, Meta(description="Whether the caller may delete the view.")]


def _shown(row: Any, caller: AuthorizationContext) -> SavedView:
    may_delete = row.created_by == caller.principal_id or caller.role in ADMINISTRATORS
    return shown_as(SavedView, row, may_delete=may_delete)


VIEWS: Final = Resource(
    "viewId",
    ids("viw"),
    Scope.EXPLORE_READ,
    saved_views.c.id,
    in_project(saved_views) & (saved_views.c.shared | (saved_views.c.created_by == CALLER_ID)),
    sa.select(saved_views, principals.c.name.label("created_by_name")).join(principals),
    _shown,
)


@dataclass(frozen=True, slots=True)
class SavedViews(Handlers):
    """Handlers of saved views, and their dependencies."""

    TAG: ClassVar = Tag("saved-views", "Named addresses of the page.")
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def arguments(self) -> Arguments:
        return control_arguments(self.context, {PageReader: page_argument(self.context, MAX_VIEWS, MAX_VIEWS)})

    @route("GET", PATH, bearer(Scope.EXPLORE_READ))
    async def list_saved_views(self, caller: AuthorizationContext, page: PageReader) -> PageOf[SavedView]:
        """List the caller's views and the shared views, newest first."""
        return await page.of(VIEWS, caller)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example=EXAMPLE)
    async def create_saved_view(self, body: NewSavedView, transaction: Transaction) -> SavedView:
        """Save an address of the page under a name.

        409 if the project or the caller has the maximum number of views. 403 for a viewer who wants to share a view.
        """
        caller = transaction.caller
        if body.shared and caller.role is Role.VIEWER:
            raise Forbidden("Sharing a view requires the role MEMBER, ADMIN or OWNER.")
        await _require_room(transaction, body.shared)
        view_id = new_id("viw")
        made = sa.insert(saved_views).values(
            id=view_id,
            org_id=caller.org_id,
            project_id=caller.project_id,
            created_by=caller.principal_id,
            created_at=to_milliseconds(self.now()),
            **msgspec.structs.asdict(body),
        )
        await transaction.connection.execute(made)
        created = await VIEWS.show(transaction.connection, caller, view_id)
        await _record(transaction, "saved_view.create", created)
        return created

    @route("DELETE", PATH + "/{viewId}", _WRITE)
    async def delete_saved_view(self, view_id: str, transaction: Transaction) -> None:
        """Delete a view.

        403 for a shared view of another member, unless the caller is an administrator.
        """
        # An administrator may delete private views, too. Their ids are in the audit log.
        is_admin = transaction.caller.role in ADMINISTRATORS
        visible = in_project(saved_views) if is_admin else None
        view = await VIEWS.show(transaction.connection, transaction.caller, view_id, visible)
        if not view.may_delete:
            raise Forbidden("Only the creator of a shared view or an administrator can delete it.")
        await VIEWS.delete(transaction.connection, transaction.caller, view_id, visible)
        await _record(transaction, "saved_view.delete", view)


async def delete_private(connection: AsyncConnection, org_id: str, principal_id: str) -> None:
    """Delete the private views of a principal that has left the organization. Its shared views stay."""
    own = (saved_views.c.org_id == org_id) & (saved_views.c.created_by == principal_id) & ~saved_views.c.shared
    await connection.execute(saved_views.delete().where(own))


async def _require_room(transaction: Transaction, shared: bool) -> None:
    """Check that the project has room for one more view. Private views of other principals do not count, because the
    caller could not delete them to make room. Raises Conflict.
    """
    is_own = saved_views.c.created_by == transaction.caller.principal_id
    counts = sa.select(sa.func.count().filter(is_own), sa.func.count().filter(saved_views.c.shared))
    of_project = counts.where(saved_views.c.project_id == transaction.caller.project_id)
    own, of_all = (await transaction.connection.execute(of_project)).one()
    if own >= MAX_OWN_VIEWS:
        raise Conflict(f"You have {MAX_OWN_VIEWS} saved views in the project, the maximum. Delete one first.")
    if shared and of_all >= MAX_VIEWS:
        raise Conflict(f"The project has {MAX_VIEWS} shared views, the maximum. Delete one first.")


async def _record(transaction: Transaction, action: str, view: SavedView) -> None:
    """Record the event without the path: search terms may be personal data, and the audit log keeps events forever."""
    data = {"name": view.name, "shared": view.shared, "createdBy": view.created_by}
    await transaction.record(action, view.id, data | {"projectSlug": transaction.caller.project_slug})
