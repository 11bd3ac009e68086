"""Filters of lists in query strings: names, and projects by slug."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Final, TypeVar

import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.errors import Issue
from chassis.http.route import line
from chassis.http.validation import Issues, bounded_text, must_be_one_of, single_value
from proto.identity import MAX_SLUG_LENGTH, UNPRINTABLE

ProjectFilter = Annotated[str | None, line(MAX_SLUG_LENGTH), Meta(description="Only those of this project.")]
_LINE: Final = re.compile(f"[^{UNPRINTABLE}\ud800-\udfff]+")

E = TypeVar("E", bound=StrEnum)


def line_filter(query: Mapping[str, str], name: str, max_length: int, issues: Issues) -> str | None:
    """A name to filter by: None when absent, and after recording an issue for one that no column stores."""
    text = bounded_text(query, name, 1, max_length, issues)
    if text is None or _LINE.fullmatch(text) is not None:
        return text
    issues.add(f"query.{name}", "Must consist of printable characters.", "format")
    return None


def choice_filter(query: Mapping[str, str], name: str, choices: type[E], issues: Issues) -> E | None:
    """One of the names of an enum: None when absent, and after recording an issue for another text."""
    text = single_value(query, name, issues)
    if text is None:
        return None
    try:
        return choices(text)
    except ValueError:
        issues.add(f"query.{name}", must_be_one_of(choices), "not_allowed")
        return None


def boolean_filter(query: Mapping[str, str], name: str, issues: Issues) -> bool | None:
    """`true` or `false`: None when absent, and after recording an issue for another text."""
    text = single_value(query, name, issues)
    if text not in (None, "true", "false"):
        issues.add(f"query.{name}", must_be_one_of(("true", "false")), "not_allowed")
        return None
    return None if text is None else text == "true"


async def find_project_ids(connection: AsyncConnection, org_id: str, slugs: Iterable[str]) -> dict[str, int]:
    """The organization's projects with these slugs."""
    found = sa.select(projects.c.slug, projects.c.id).where(
        projects.c.org_id == org_id, projects.c.slug.in_(sorted(set(slugs))), projects.c.deleted_at.is_(None)
    )
    return {row.slug: row.id for row in await connection.execute(found)}


async def find_project_id(
    connection: AsyncConnection, org_id: str, slug: str | None, path: str, issues: Issues
) -> int | None:
    """The project with this slug; None without one, and after recording an issue at `path` for an unknown one."""
    found = {} if slug is None else await find_project_ids(connection, org_id, [slug])
    if slug is not None and slug not in found:
        issue = unknown_project(path)
        issues.add(issue.path, issue.message, issue.code)
    return found.get(slug or "")


async def require_project_id(connection: AsyncConnection, org_id: str, slug: str | None, path: str) -> int | None:
    """The project with this slug; None without one. Raises BadRequest at `path` for an unknown one."""
    issues = Issues()
    found = await find_project_id(connection, org_id, slug, path, issues)
    issues.raise_if_any("The query is not valid." if path.startswith("query.") else "The request is not valid.")
    return found


def unknown_project(path: str) -> Issue:
    """The issue of a slug that no project of the organization has."""
    return Issue(path, "Is not a project of the organization.", "unknown")
