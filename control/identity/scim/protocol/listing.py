"""Pages of resources: filter, order, and where a page begins (RFC 7644 3.4.2, RFC 9865).

`startIndex` counts rows, and the database reads all skipped rows. `cursor` continues after the last row of the previous
page, at the same cost for every page. An empty cursor requests the first page. A cursor holds the id of that row and
the number of matching resources, which is counted for the first page only. If the list is ordered, the row is read
again for its sort value. If the row was deleted in the meantime, the cursor has expired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from aiohttp import web
from multidict import MultiMapping
from scim2_models import ListResponse, SearchRequest
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import BadRequest
from chassis.http.access import directory_identity
from chassis.http.cursor import MAX_CURSOR_LENGTH, CursorSigner
from control.http.context import HandlerContext
from control.identity.directory.tables import scim_groups, scim_users
from control.identity.scim.messages import (
    DEFAULT_COUNT,
    MAX_COUNT,
    ScimError,
    decode_object,
    read_scim_bytes,
    scim_response,
)
from control.identity.scim.protocol.filters import CompiledFilter, compile_filter, to_order
from control.identity.scim.protocol.library import ScimResource, ScimUser, translated
from control.identity.scim.protocol.resources import Projection

MAX_LISTED: Final = 20_000  # members of groups, or groups of users, in a page of several resources
MAX_DOCUMENTS_LENGTH: Final = 2_097_152  # characters of JSON in a page of users; 500 users have about half a million
LIST_SCHEMA: Final = str(ListResponse.__schema__)
_PARAMETERS: Final = ("sortBy", "sortOrder", "startIndex", "count", "cursor")
_MAX_OFFSET: Final = 2**31


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A list request. `cursor`: the page begins after the row with this id ("": from the start). None: the page begins
    at `offset`. `binding`: the list that a cursor is valid for. `counted`: the number of matches in the cursor.
    """

    model: type[ScimResource]
    filter: CompiledFilter | None
    order: sa.ColumnElement[Any] | None
    descending: bool
    offset: int
    count: int
    cursor: str | None
    binding: bytes
    counted: int | None
    projection: Projection

    @property
    def condition(self) -> sa.ColumnElement[bool] | None:
        """The condition of the filter."""
        return None if self.filter is None else self.filter.condition

    def total(self, found: int) -> int | None:
        """The number of matches, if it need not be counted. `found`: rows read with the limit `count` plus one."""
        if self.counted is not None:
            return self.counted
        is_last = 0 < found <= self.count or (self.count > 0 and self.offset == 0 and found == 0)
        return self.offset + found if is_last and not self.cursor else None


def parse_query(model: type[ScimResource], org_id: str, query: MultiMapping[str], cursors: CursorSigner) -> ListRequest:
    """The list request of a query string. Raises ScimError."""
    values: dict[str, Any] = {name: query[name] for name in (*_PARAMETERS, "filter") if name in query}
    return _parse(model, org_id, values, Projection.of_query(model, query), cursors)


def parse_search(model: type[ScimResource], org_id: str, raw: bytes, cursors: CursorSigner) -> ListRequest:
    """The list request of a body (RFC 7644 3.4.3). Raises ScimError."""
    named = {name.lower(): value for name, value in decode_object(raw).items()}
    taken = {name: named[name.lower()] for name in (*_PARAMETERS, "filter") if named.get(name.lower()) is not None}
    projection = {name: named.get(name.lower()) for name in ("attributes", "excludedAttributes")}
    return _parse(model, org_id, taken, Projection.of_values(model, projection), cursors)


async def read_list_request(request: web.Request, model: type[ScimResource], context: HandlerContext) -> ListRequest:
    """The list request of a query string, or of the body of a search (POST). Raises ScimError, and the errors of
    `read_scim_bytes`.
    """
    org_id = directory_identity(request).org_id
    if request.method != "POST":
        return parse_query(model, org_id, request.query, context.cursors)
    return parse_search(model, org_id, await read_scim_bytes(request, context), context.cursors)


async def select_page(connection: AsyncConnection, org_id: str, wanted: ListRequest) -> sa.Select[Any]:
    """The statement for the ids of the page and of one more resource. Raises ScimError for an expired cursor."""
    table = scim_users if wanted.model is ScimUser else scim_groups
    found = sa.select(table.c.id).where(table.c.org_id == org_id)
    if wanted.condition is not None:
        found = found.where(wanted.condition)
    if wanted.cursor:
        found = found.where(await _after(connection, org_id, table, wanted))
    found = order_page(found, wanted, table)
    if wanted.cursor is None:
        found = found.offset(wanted.offset)
    return found.limit(wanted.count + 1)


def order_page(statement: sa.Select[Any], wanted: ListRequest, table: sa.Table) -> sa.Select[Any]:
    """The statement with the order of the list."""
    for column in _order_columns(wanted, table):
        if column is table.c.id and wanted.filter is not None and wanted.filter.selects_few:
            # The rows are sorted after the search: SQLite would otherwise read all ids in order, and compare each.
            column = sa.func.coalesce(column, "")  # noqa: PLW2901
        statement = statement.order_by(column.desc() if wanted.descending else column)
    return statement


def _parse(
    model: type[ScimResource],
    org_id: str,
    values: Mapping[str, Any],
    projection: Projection,
    cursors: CursorSigner,
) -> ListRequest:
    if "cursor" in values and len(str(values["cursor"])) > MAX_CURSOR_LENGTH:
        raise _invalid_cursor()
    text = str(values.get("filter") or "")
    with translated():
        parsed = SearchRequest[model].model_validate(  # type: ignore[valid-type]
            {name: value for name, value in values.items() if name != "filter"}
        )
    order = None if parsed.sort_by is None else to_order(model, parsed.sort_by)
    descending = parsed.sort_order == SearchRequest.SortOrder.descending
    binding = repr((org_id, model.__name__, text, str(parsed.sort_by or ""), descending)).encode()
    cursor, counted = parsed.cursor, None
    if cursor:
        try:
            cursor, counted = cursors.open(cursor, binding, tuple[str, int])
        except BadRequest:
            raise _invalid_cursor() from None
    count = DEFAULT_COUNT if parsed.count is None else min(parsed.count, MAX_COUNT)
    return ListRequest(
        model=model,
        filter=compile_filter(model, text) if text else None,
        order=order,
        descending=order is not None and descending,
        offset=min((parsed.start_index or 1) - 1, _MAX_OFFSET),
        count=count,
        cursor=cursor,
        binding=binding,
        counted=counted,
        projection=projection,
    )


def _order_columns(wanted: ListRequest, table: sa.Table) -> list[sa.ColumnElement[Any]]:
    """The sort columns. Resources without the attribute come last, in descending order first (RFC 7644 3.4.2.3)."""
    if wanted.order is None:
        return [table.c.id]
    if wanted.order is table.c.id:
        return [table.c.id]
    return [sa.case((wanted.order.is_(None), 1), else_=0), wanted.order, table.c.id]


async def _after(
    connection: AsyncConnection, org_id: str, table: sa.Table, wanted: ListRequest
) -> sa.ColumnElement[bool]:
    """The condition for rows after the row of the cursor."""
    columns = _order_columns(wanted, table)
    row = (
        await connection.execute(sa.select(*columns).where(table.c.org_id == org_id, table.c.id == wanted.cursor))
    ).one_or_none()
    if row is None:
        if len(columns) > 1:
            raise ScimError("The cursor has expired. Begin with the first page.", "expiredCursor")
        return table.c.id < wanted.cursor if wanted.descending else table.c.id > wanted.cursor
    after: sa.ColumnElement[bool] = sa.false()
    for column, value in zip(reversed(columns), reversed(row), strict=True):
        if value is None:  # the preceding flag says that all following rows have no value, either
            continue
        beyond = column < value if wanted.descending else column > value
        after = beyond | ((column == value) & after)
    return after


def fitting(sizes: Sequence[int], limit: int = MAX_LISTED) -> int:
    """The number of resources on a page, from the lengths of their lists: at least one, and as many as fit. A page may
    be shorter than requested (RFC 7644 3.4.2.4).
    """
    total = 0
    for number, size in enumerate(sizes):
        total += size
        if number and total > limit:
            return number
    return len(sizes)


def page_response(
    wanted: ListRequest,
    resources: Sequence[Mapping[str, Any]],
    total: int,
    last_id: str | None,
    cursors: CursorSigner,
) -> web.Response:
    """A page of resources, of `total` matches. `last_id`: the id before the next page, None for the last page."""
    body: dict[str, Any] = {"schemas": [LIST_SCHEMA], "totalResults": total}
    if wanted.cursor is None:
        body["startIndex"] = wanted.offset + 1
    elif last_id is not None:
        body["nextCursor"] = cursors.sign((last_id, total), wanted.binding)
    return scim_response(body | {"itemsPerPage": len(resources), "Resources": resources})


def _invalid_cursor() -> ScimError:
    return ScimError(
        "The cursor is not valid for this request. Use the same filter and order, or begin with the first page.",
        "invalidCursor",
    )
