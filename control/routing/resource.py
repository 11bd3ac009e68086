"""Resources: objects that a path names by an id, declared once.

A `Resource` declares its table, who may see it and how it is shown. The declaration gives the check that the resource
exists (before a 403 for a missing scope, and before a 400 for a wrong body), its lists with pages, and `find`. Special
behaviour of a resource stays plain code in its handlers.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import msgspec
import sqlalchemy as sa
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential, AuthorizationContext
from chassis.auth.tables import projects
from chassis.db.database import Database, format_time
from chassis.errors import NotFound
from chassis.http.access import BearerAuth
from chassis.http.declaration import ChecksQuery, PageOf
from chassis.http.web import Route
from control.http.context import HandlerContext
from control.http.lists import parse_page_request
from proto.identity import Scope

R = TypeVar("R")
S = TypeVar("S", bound=msgspec.Struct)

_PATH_VARIABLE: Final = re.compile(r"\{(\w+)\}")
ORG_ID: Final[sa.BindParameter[Any]] = sa.bindparam("org_id")
PROJECT_ID: Final = sa.select(projects.c.id).where(
    projects.c.org_id == ORG_ID, projects.c.slug == sa.bindparam("projectSlug"), projects.c.deleted_at.is_(None)
)
CALLER_ID: Final[sa.BindParameter[Any]] = sa.bindparam("caller_id")


def ids(prefix: str) -> str:
    """The pattern of ids that `new_id` makes with this prefix."""
    return prefix + "_[0-9a-z]{26}"


def in_organization(table: sa.Table) -> sa.ColumnElement[bool]:
    """Rows of the organization in the path."""
    return table.c.org_id == ORG_ID


def in_project(table: sa.Table) -> sa.ColumnElement[bool]:
    """Rows of the project in the path."""
    return table.c.project_id.in_(PROJECT_ID)


@dataclass(frozen=True, slots=True)
class Identified:
    """Rows of which the path variable `variable` is the `id`.

    `id_pattern`: the pattern of ids that the column can hold. `where` restricts the rows to the parents that the path
    names and to rows that the caller may see. Only a caller with `read_scope` learns that a resource does not exist.
    """

    variable: str
    id_pattern: str
    read_scope: Scope
    id: sa.Column[str]
    where: sa.ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class Resource(Identified, Generic[S]):
    """Identified rows and how they are shown: `rows` selects them, `body` makes the response body from a row."""

    rows: sa.Select[Any]
    body: Callable[[Any, AuthorizationContext], S]

    async def find(
        self,
        connection: AsyncConnection,
        caller: AuthorizationContext,
        resource_id: str,
        where: sa.ColumnElement[bool] | None = None,
    ) -> sa.Row[Any]:
        """The row of the resource with this id. `where` replaces the condition of the list. Raises NotFound."""
        found = self.rows.where(self.where if where is None else where, self.id == resource_id)
        row: sa.Row[Any] | None = (await connection.execute(found, _values(caller))).one_or_none()
        if row is None:
            raise NotFound
        return row

    async def show(
        self,
        connection: AsyncConnection,
        caller: AuthorizationContext,
        resource_id: str,
        where: sa.ColumnElement[bool] | None = None,
    ) -> S:
        """The response body of the resource with this id. Arguments and errors as in `find`."""
        return self.body(await self.find(connection, caller, resource_id, where), caller)

    async def delete(
        self,
        connection: AsyncConnection,
        caller: AuthorizationContext,
        resource_id: str,
        where: sa.ColumnElement[bool] | None = None,
    ) -> None:
        """Delete the row with this id, if `find` would find it."""
        found = sa.delete(self.id.table).where(self.where if where is None else where, self.id == resource_id)
        await connection.execute(found, _values(caller))


@dataclass(frozen=True, slots=True)
class PageReader(ChecksQuery):
    """Reads the page of a list that `?limit=` and `?cursor=` request."""

    request: web.Request
    context: HandlerContext
    default: int
    maximum: int

    async def of(
        self, resource: Resource[S], caller: AuthorizationContext, *filters: sa.ColumnElement[bool]
    ) -> PageOf[S]:
        """The page of resources that the caller may see and that pass the filters, newest first. Raises BadRequest."""
        values = {**_values(caller), **self.request.match_info}
        statement = resource.rows.where(resource.where, *filters).order_by(resource.id.desc())

        async def fetch(connection: AsyncConnection, before: str | None, limit: int) -> Sequence[sa.Row[Any]]:
            older = statement if before is None else statement.where(resource.id < before)
            rows: Sequence[sa.Row[Any]] = (await connection.execute(older.limit(limit), values)).all()
            return rows

        filtered = [each.compile().params for each in filters]
        return await self.read((resource.variable, values, filtered), fetch, lambda row: resource.body(row, caller))

    async def read(
        self,
        list_name: object,
        fetch: Callable[[AsyncConnection, str | None, int], Awaitable[Sequence[R]]],
        body: Callable[[R], S],
        key: Callable[[R], str] = lambda item: item.id,  # type: ignore[attr-defined]  # most have one
    ) -> PageOf[S]:
        """The page of items that `fetch(connection, after, limit)` finds. An invalid query is refused before `fetch` is
        called. `list_name` identifies the list with its filters: a cursor of another list is refused. Raises
        BadRequest.
        """
        binding, cursors = repr(list_name).encode(), self.context.cursors
        page = parse_page_request(self.request, cursors, binding, default=self.default, maximum=self.maximum)
        async with self.context.database.read() as connection:
            found = await fetch(connection, page.after, page.limit + 1)
        items, has_more = found[: page.limit], len(found) > page.limit
        cursor = cursors.sign((key(items[-1]),), binding) if has_more else None
        return PageOf([body(item) for item in items], cursor, has_more)


def shown_as(type_: type[S], row: Any, **computed: Any) -> S:
    """A structure with the row's columns of the same names and the values in `computed`. Times become texts."""
    stored = {name: getattr(row, name) for name in type_.__struct_fields__ if name not in computed}
    return type_(**{name: _shown(value) for name, value in {**stored, **computed}.items()})


def _shown(value: Any) -> Any:
    return format_time(value) if isinstance(value, datetime) else value


def _values(caller: AuthorizationContext) -> dict[str, Any]:
    principal = {"caller_id": caller.principal_id, "principalId": caller.principal_id}  # a path may name another one
    return {"org_id": caller.org_id, "projectSlug": caller.project_slug, **principal}


def with_existence_checks(database: Database, routes: Iterable[Route], resources: Iterable[Identified]) -> list[Route]:
    """Add a check to `bearer` routes whose path names resources: if a resource does not exist, the answer is 404, not
    400, 403, 413 or 415.
    """
    by_variable = {resource.variable: resource for resource in resources}
    return [_with_existence_check(database, route, by_variable) for route in routes]


def _with_existence_check(database: Database, route: Route, resources: Mapping[str, Identified]) -> Route:
    named = tuple(resources[name] for name in _PATH_VARIABLE.findall(route.path) if name in resources)
    if not named or not isinstance(route.access, BearerAuth):
        return route
    return replace(route, access=replace(route.access, existence_check=_ExistenceCheck(database, named)))


@dataclass(frozen=True, slots=True)
class _ExistenceCheck:
    """Checks that all resources of a path exist. A caller without a resource's read scope does not learn whether it
    exists.
    """

    database: Database
    resources: tuple[Identified, ...]

    async def __call__(self, request: web.Request, caller: AuthenticatedCredential) -> None:
        """Check the path. Raises NotFound for a malformed id, too: it may hold characters that no column accepts."""
        path = request.match_info
        values = {"org_id": caller.org_id, "caller_id": caller.principal_id, "principalId": caller.principal_id, **path}
        async with self.database.read() as connection:
            for resource in self.resources:
                if resource.read_scope not in caller.scopes:
                    return
                resource_id = path[resource.variable]
                if re.fullmatch(resource.id_pattern, resource_id) is None:
                    raise NotFound
                statement = sa.select(resource.id).where(resource.where, resource.id == resource_id).limit(1)
                if await connection.scalar(statement, values) is None:
                    raise NotFound
