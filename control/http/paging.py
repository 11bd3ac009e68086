"""Keyset pages: `?limit=` (1 to 100, 25 by default) and `?cursor=` in, `{data, nextCursor, hasMore}` out."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from aiohttp import web
from msgspec import Meta

from chassis.errors import BadRequest
from chassis.http.cursor import MAX_CURSOR_LENGTH, CursorSigner
from chassis.http.route import Parameter
from chassis.http.validation import Issues, bounded_int, bounded_text

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
    """The requested part of a list: at most `limit` items after the one with key `after` (None: from the start)."""

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
    """Raises BadRequest for a limit out of bounds, for a cursor of another list, and for what `issues` hold."""
    collected = Issues() if issues is None else issues
    limit = bounded_int(request.query, "limit", default, 1, maximum, collected)
    after = open_cursor(request, cursors, binding, tuple[str], collected)
    collected.raise_if_any("The query is not valid.")
    return PageRequest(limit, None if after is None else after[0])


def open_cursor(
    request: web.Request, cursors: CursorSigner, binding: bytes, shape: type[T], issues: Issues
) -> T | None:
    """The position in `?cursor=`; None for none, and after recording an issue. A cursor is bound to the filters: beside
    a fault of them only its length is checked.
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


def page_body(
    found: Sequence[T],
    page: PageRequest,
    to_body: Callable[[T], Any],
    key: Callable[[T], str | int],
    cursors: CursorSigner,
    binding: bytes,
) -> dict[str, Any]:
    """The JSON body of a page. `found` has up to one item more than the page; that item means there is a next page."""
    items = found[: page.limit]
    has_more = len(found) > page.limit
    return {
        "data": [to_body(item) for item in items],
        "nextCursor": cursors.sign((key(items[-1]),), binding) if has_more else None,
        "hasMore": has_more,
    }
