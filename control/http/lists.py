"""Lists. Keyset pages: `?limit=` (1 to 100, 25 by default) and `?cursor=` in, `{data, nextCursor, hasMore}` out.
Filters in query strings: names, and projects by slug.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple, TypeVar

import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.errors import BadRequest, Issue
from chassis.http.cursor import MAX_CURSOR_LENGTH, CursorSigner
from chassis.http.route import Parameter, line
from chassis.http.validation import Issues, bounded_int, bounded_text, must_be_one_of, single_value
from proto.identity import MAX_SLUG_LENGTH, UNPRINTABLE

DEFAULT_LIMIT: Final = 25
MAX_LIMIT: Final = 100


def page_parameters(default: int = DEFAULT_LIMIT, maximum: int = MAX_LIMIT) -> tuple[Parameter, Parameter]:
    """`limit` and `cursor` of a list."""
    return (
        Parameter(
            "limit",
            "query",
            Annotated[int, Meta(ge=1, le=maximum)],
            "Maximum number of items per page.",
            default=default,
        ),
        Parameter(
            "cursor",
            "query",
            Annotated[str, Meta(max_length=MAX_CURSOR_LENGTH)],
            "`nextCursor` of the previous page of the same list. Empty: the first page.",
        ),
    )


PAGE_PARAMETERS: Final = page_parameters()
NextCursor = Annotated[str | None, Meta(description="`cursor` of the next page. Null: this is the last page.")]

T = TypeVar("T")


class PageRequest(NamedTuple):
    """The requested page of a list: at most `limit` items after the item with key `after` (None: from the start)."""

    limit: int
    after: str | None


def parse_page_request(
    request: web.Request,
    cursors: CursorSigner,
    binding: bytes,
    issues: Issues | None = None,
    *,
    default: int = DEFAULT_LIMIT,
    maximum: int = MAX_LIMIT,
) -> PageRequest:
    """Read `limit` and `cursor`. Raises BadRequest for a limit out of bounds, for a cursor of another list, and for the
    faults that are already in `issues`.
    """
    collected = Issues() if issues is None else issues
    limit = bounded_int(request.query, "limit", default, 1, maximum, collected)
    after = open_cursor(request, cursors, binding, tuple[str], collected)
    collected.raise_if_any("The query is not valid.")
    return PageRequest(limit, None if after is None else after[0])


def open_cursor(
    request: web.Request, cursors: CursorSigner, binding: bytes, shape: type[T], issues: Issues
) -> T | None:
    """The position in `?cursor=`. None without a cursor, and after recording an issue. A cursor is bound to the
    filters, so if the filters have issues, only the length of the cursor is checked.
    """
    is_list_valid = not any(each.path != "query.limit" and each.code != "unknown_field" for each in issues)
    cursor = bounded_text(request.query, "cursor", 0, MAX_CURSOR_LENGTH, issues)
    if cursor and is_list_valid:
        try:
            return cursors.open(cursor, binding, shape)
        except BadRequest as error:
            for issue in error.details or ():
                issues.add(issue.path, issue.message, issue.code)
    return None


ProjectFilter = Annotated[str | None, line(MAX_SLUG_LENGTH), Meta(description="Only items of this project.")]
_LINE: Final = re.compile(f"[^{UNPRINTABLE}\ud800-\udfff]+")

E = TypeVar("E", bound=StrEnum)


def line_filter(query: Mapping[str, str], name: str, max_length: int, issues: Issues) -> str | None:
    """A name to filter by. None if absent, and after recording an issue for a name that no column can hold."""
    text = bounded_text(query, name, 1, max_length, issues)
    if text is None or _LINE.fullmatch(text) is not None:
        return text
    issues.add(f"query.{name}", "Must consist of printable characters.", "format")
    return None


def choice_filter(query: Mapping[str, str], name: str, choices: type[E], issues: Issues) -> E | None:
    """One of the names of an enum. None if absent, and after recording an issue for another text."""
    text = single_value(query, name, issues)
    if text is None:
        return None
    try:
        return choices(text)
    except ValueError:
        issues.add(f"query.{name}", must_be_one_of(choices), "not_allowed")
        return None


async def find_project_ids(connection: AsyncConnection, org_id: str, slugs: Iterable[str]) -> dict[str, int]:
    """The ids of the organization's projects with these slugs, by slug."""
    statement = sa.select(projects.c.slug, projects.c.id).where(
        projects.c.org_id == org_id, projects.c.slug.in_(sorted(set(slugs))), projects.c.deleted_at.is_(None)
    )
    return {row.slug: row.id for row in await connection.execute(statement)}


async def find_project_id(
    connection: AsyncConnection, org_id: str, slug: str | None, path: str, issues: Issues
) -> int | None:
    """The id of the project with this slug. None without a slug, and after recording an issue at `path` for an unknown
    slug.
    """
    found = {} if slug is None else await find_project_ids(connection, org_id, [slug])
    if slug is not None and slug not in found:
        issue = unknown_project(path)
        issues.add(issue.path, issue.message, issue.code)
    return found.get(slug or "")


async def require_project_id(connection: AsyncConnection, org_id: str, slug: str | None, path: str) -> int | None:
    """The id of the project with this slug, None without a slug. Raises BadRequest at `path` for an unknown slug."""
    issues = Issues()
    found = await find_project_id(connection, org_id, slug, path, issues)
    issues.raise_if_any("The query is not valid." if path.startswith("query.") else "The request is not valid.")
    return found


async def require_project_ids(
    connection: AsyncConnection, org_id: str, slugs: Sequence[str], path: str
) -> dict[str, int]:
    """The ids of the projects by slug. Raises BadRequest for unknown slugs, with places in the list at `path`."""
    found = await find_project_ids(connection, org_id, slugs) if slugs else {}
    unknown = [unknown_project(f"{path}[{number}]") for number, slug in enumerate(slugs) if slug not in found]
    if unknown:
        raise BadRequest("The request body is not valid.", unknown)
    return found


def unknown_project(path: str) -> Issue:
    """The issue for a slug that no project of the organization has."""
    return Issue(path, "Is not a project of the organization.", "unknown")
