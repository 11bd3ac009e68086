"""The statements of `sql/`: whole files, and files of several, each below a line `-- name: NAME`."""

import re
from importlib.resources import files
from typing import Final

_NAME: Final = re.compile(r"^-- name: (.+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^\s*--[^\n]*$", re.MULTILINE)


def whole(name: str, **places: object) -> str:
    """A file without its comments, its `{places}` filled in."""
    return filled(_COMMENT.sub("", _read(name)).strip(), **places)


def named(name: str) -> dict[str, str]:
    """The statements of a file by name, in order, their places still open."""
    _, *parts = _NAME.split(_read(name))
    return {title: _COMMENT.sub("", text).strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}


def filled(sql: str, **places: object) -> str:
    """`sql` with each `{place}` replaced; a value may have places of its own that come later."""
    for place, value in places.items():
        sql = sql.replace(f"{{{place}}}", str(value))
    return sql


def _read(name: str) -> str:
    return files(__package__).joinpath(f"sql/{name}.sql").read_text("utf-8")
