"""Ids of resources in paths."""

import re
from typing import Final

from aiohttp import web

from chassis.errors import NotFound

_ID: Final = re.compile(r"[a-z]{3}_[0-9a-z]{26}")


def path_id(request: web.Request, name: str) -> str:
    """The id in the path. Raises NotFound for a text that is none: it may hold characters that no column accepts."""
    text = request.match_info[name]
    if _ID.fullmatch(text) is None:
        raise NotFound
    return text
