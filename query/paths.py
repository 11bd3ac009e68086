"""What stands in the path of a request: the project that the guard found, and ids."""

from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from chassis.access import reach
from chassis.errors import NotFound
from chassis.validation import Issues, check_length

T = TypeVar("T")


def project_of(request: web.Request) -> int:
    """The number of the project; every path of explore names one."""
    project_id = reach(request).project_id
    if project_id is None:
        raise TypeError("explore is routed below a project")
    return project_id


def id_of(request: web.Request, name: str, longest: int, parse: Callable[[str], T | None]) -> T:
    """An id in the path: too long is a 400, a text that can be no stored id names nothing."""
    issues = Issues()
    text = request.match_info[name]
    check_length(f"path.{name}", text, 1, longest, issues)
    issues.raise_if_any()
    value = parse(text)
    if value is None:
        raise NotFound
    return value
