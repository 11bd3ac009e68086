"""Request and response bodies of links."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.db.database import format_time
from control.http.field_types import Timestamp
from control.http.paging import NextCursor
from control.http.text_types import Url, line
from control.issue_links.repository import StoredLink
from control.issues.tables import MAX_EXTERNAL_ID_LENGTH, MAX_LINK_TITLE_LENGTH, MAX_SYSTEM_LENGTH, LinkState

LINK_ID_PATTERN: Final = "^lnk_[0-9a-z]{26}$"
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


class NewIssueLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The link to create. `system` and `externalId` are taken from the address if they are left out."""

    url: Url
    title: _Title | None = None
    system: _System | None = None
    external_id: Annotated[str, line(MAX_EXTERNAL_ID_LENGTH)] | None = None
    state: LinkState | None = None


class IssueLinkChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to a link; omitted fields stay as they are."""

    url: Url | UnsetType = UNSET
    title: _Title | UnsetType | None = UNSET
    state: LinkState | UnsetType | None = UNSET


class IssueLink(msgspec.Struct, frozen=True, rename="camel"):
    """A link of an issue. `externalId` identifies the item in its system."""

    id: Annotated[str, Meta(pattern=LINK_ID_PATTERN)]
    url: str
    title: str | None
    system: _System
    external_id: str
    state: Annotated[LinkState | None, Meta(description="State of the item; null: not known.")]
    created_by: str | None
    created_at: Timestamp
    updated_at: Timestamp


class IssueLinkPage(msgspec.Struct, rename="camel"):
    """A page of links, newest first."""

    data: list[IssueLink]
    next_cursor: NextCursor
    has_more: bool


def link_body(link: StoredLink) -> IssueLink:
    """The API representation."""
    return IssueLink(
        id=link.id,
        url=link.url,
        title=link.title,
        system=link.system,
        external_id=link.external_id,
        state=link.state,
        created_by=link.created_by,
        created_at=format_time(link.created_at),
        updated_at=format_time(link.updated_at),
    )
