"""Request and response bodies of saved views."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from control.http.field_types import Name, Timestamp
from control.http.paging import NextCursor
from control.saved_views.tables import MAX_PATH_LENGTH
from proto.identity import Role

# Segments begin with a letter or digit, so none is `..`, `%2e%2e` or empty: browsers resolve those to addresses outside
# of the page. There is no fragment: that of the page may hold a code that logs in.
_SEGMENT: Final = r"[A-Za-z0-9][!$%&'()*+,.0-9:;=@A-Z_a-z~-]*"
_QUERY_CHARACTER: Final = r"[!$-.0-;=?-\[\]-~]"  # visible ASCII without " # / < > \
PATH_PATTERN: Final = rf"^/ui/(?:{_SEGMENT}(?:/{_SEGMENT})*/?)?(?:\?(?:/?{_QUERY_CHARACTER})*/?)?(?!\n)$"

ViewPath = Annotated[
    str,
    Meta(
        max_length=MAX_PATH_LENGTH,
        pattern=PATH_PATTERN,
        description="Must be an address of the page: `/ui/`, segments that begin with a letter or digit, and a query, "
        "in visible ASCII without `//`, backslashes, quotes, angle brackets and a fragment.",
    ),
]


class NewSavedView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view to save."""

    name: Name
    path: ViewPath
    shared: Annotated[
        bool, Meta(description="Whether everybody sees it who may read the project. Viewers cannot share.")
    ] = False


class SavedView(msgspec.Struct, frozen=True, rename="camel"):
    """An address of the page with a name."""

    id: str
    name: Name
    path: ViewPath
    shared: bool
    created_by: Annotated[str, Meta(description="Id of the principal.")]
    created_by_name: str
    created_at: Timestamp
    may_delete: Annotated[bool, Meta(description="Whether the caller may delete it.")]


class SavedViewPage(msgspec.Struct, frozen=True, rename="camel"):
    """A page of views."""

    data: list[SavedView]
    next_cursor: NextCursor
    has_more: bool


@dataclass(frozen=True, slots=True)
class StoredView:
    """A view as stored, with the name of its creator."""

    id: str
    name: str
    path: str
    shared: bool
    created_by: str
    created_by_name: str
    created_at: datetime

    def is_visible_to(self, principal_id: str) -> bool:
        """Whether it is in the principal's list."""
        return self.shared or self.created_by == principal_id

    def may_be_deleted_by(self, caller: AuthorizationContext) -> bool:
        """Whether the caller has created it, or administers the organization."""
        return self.created_by == caller.principal_id or caller.role in (Role.ADMIN, Role.OWNER)


def view_body(view: StoredView, caller: AuthorizationContext) -> SavedView:
    """The API representation for this caller."""
    return SavedView(
        id=view.id,
        name=view.name,
        path=view.path,
        shared=view.shared,
        created_by=view.created_by,
        created_by_name=view.created_by_name,
        created_at=format_time(view.created_at),
        may_delete=view.may_be_deleted_by(caller),
    )
