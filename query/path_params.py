"""What stands in the path of a request: the project that the guard found, and ids."""

from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from chassis.errors import NotFound
from chassis.http.access import authorization_context
from chassis.http.validation import Issues, check_length

T = TypeVar("T")


def get_project_id(request: web.Request) -> int:
    """The number of the project; every path of explore names one."""
    project_id = authorization_context(request).project_id
    if project_id is None:
        raise TypeError("explore is routed below a project")
    return project_id


def parse_path_id(request: web.Request, name: str, max_length: int, parse: Callable[[str], T | None]) -> T:
    """An id in the path: too long is a 400, a text that can be no stored id names nothing."""
    issues = Issues()
    text = request.match_info[name]
    check_length(f"path.{name}", text, 1, max_length, issues)
    issues.raise_if_any()
    value = parse(text)
    if value is None:
        raise NotFound
    return value
