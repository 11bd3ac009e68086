"""Path parameters of a request: the project that the access check resolved, and ids."""

from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from chassis.errors import NotFound
from chassis.http.access import authorization_context
from chassis.http.validation import Issues, check_length

T = TypeVar("T")


def get_project_id(request: web.Request) -> int:
    """The project's numeric id; every explore path names a project. TypeError if the route has none."""
    project_id = authorization_context(request).project_id
    if project_id is None:
        raise TypeError("explore routes require a project")
    return project_id


def parse_path_id(request: web.Request, name: str, max_length: int, parse: Callable[[str], T | None]) -> T:
    """Parse an id in the path. Too long: 400; a text that cannot be a stored id: NotFound."""
    issues = Issues()
    text = request.match_info[name]
    if not check_length(f"path.{name}", text, 1, max_length, issues):
        issues.raise_if_any()
    value = parse(text)
    if value is None:
        raise NotFound
    return value
