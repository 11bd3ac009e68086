"""Replace the invalid parts of decoded JSON, so that the rest can be checked in the same pass.

Paths have the form of `Issue.path`: `body.figures[0].filters[1].op`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_STEP: Final = re.compile(r"\.(\w+)|\[([0-9]{1,9})\]")


def is_any_under(path: str, paths: Iterable[str]) -> bool:
    """Whether one of `paths` is `path` or lies below it."""
    return any(each == path or each.startswith((f"{path}.", f"{path}[")) for each in paths)


def replace_faulty_items(root: Any, path: str, placeholders: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """Replace faulty items in the JSON `root`, which is at `path`. An item of a list called `name` is faulty if one of
    `paths` lies in the item, and is replaced with `placeholders["name[]"]`. Of nested items, the innermost is replaced.
    Returns the paths that lie in no such item.
    """
    names = "|".join(re.escape(name[:-2]) for name in placeholders if name.endswith("[]"))
    if not names:
        return list(paths)
    item = re.compile(rf"({re.escape(path)}(?:\.\w+|\[[0-9]+\])*\.({names}))\[([0-9]{{1,9}})\]")
    left = []
    for each in paths:
        found = item.match(each)
        items = None if found is None else _value_at(root, found[1][len(path) :])
        if found is not None and isinstance(items, list) and int(found[3]) < len(items):
            items[int(found[3])] = placeholders[f"{found[2]}[]"]
        else:
            left.append(each)
    return left


def _value_at(value: Any, path: str) -> Any:
    """The part of decoded JSON at `path`, such as `.figures[0].filters`. None if there is no such part."""
    for name, index in _STEP.findall(path):
        if name and isinstance(value, dict):
            value = value.get(name)
        elif index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            return None
    return value
