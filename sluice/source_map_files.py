"""Finds the source maps of a build. The map of a script is the map that the script names, the map beside it, or the map
with its debug id.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from chassis.errors import StartupError
from proto.source_maps.parsing import FUNCTIONS_MEMBER, find_declarations

SCRIPTS: Final = (".js", ".mjs", ".cjs")
MAX_FILES: Final = 20_000
MAX_FILE_BYTES: Final = 512 * 2**20  # largest script, and largest map with the text of its sources
_TAIL_BYTES: Final = 4_096  # the end of a script, which names its map
_MAPPING_URL: Final = re.compile(r"//[#@] ?sourceMappingURL=(\S+)")
_DEBUG_ID: Final = re.compile(r"//# debugId=([0-9a-fA-F-]{36})\s")
_GUARD: Final = re.compile(rb"\)\]\}'[^\n]*\n")  # a prefix that prevents execution as a script


class BuiltScript(NamedTuple):
    """A script of a build. `name`: its path below the directory. `map_file` None: no map was found."""

    name: str
    file: Path
    map_file: Path | None


def find_scripts(directory: Path) -> list[BuiltScript]:
    """The scripts below a directory, by name, without scripts of packages. Raises StartupError."""
    if not directory.is_dir():
        raise StartupError(f"{directory} is not a directory.", exit_code=2)
    files = list(_walk(directory))
    maps = [file for file in files if file.suffix == ".map"]

    @cache
    def by_debug_id() -> dict[str, Path]:
        return {debug_id: one for one in reversed(maps) if (debug_id := _debug_id(one)) is not None}

    found: list[BuiltScript] = []
    for file in files:
        if file.suffix in SCRIPTS:
            found.append(BuiltScript(file.relative_to(directory).as_posix(), file, _find_map(file, by_debug_id)))
    return found


def _walk(directory: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if name != "node_modules" and not name.startswith("."))
        for name in sorted(names):
            count += 1
            if count > MAX_FILES:
                raise StartupError(f"{directory} has more than {MAX_FILES} files. Pass the output folder of the build.")
            yield Path(folder, name)


def _find_map(script: Path, by_debug_id: Callable[[], dict[str, Path]]) -> Path | None:
    tail = _read_tail(script)
    urls = _MAPPING_URL.findall(tail)
    if urls and not urls[-1].startswith("data:"):
        name = PurePosixPath(unquote(re.split("[?#]", urls[-1])[0]))
        beside = script.parent / (name.name if name.is_absolute() or "://" in urls[-1] else name)
        if beside.is_file():
            return beside
    beside = script.with_name(f"{script.name}.map")
    if beside.is_file():
        return beside
    ids = _DEBUG_ID.findall(tail + "\n")
    return by_debug_id().get(ids[-1].lower()) if ids else None


def _read_tail(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - _TAIL_BYTES))
            return opened.read().decode("utf-8", "replace")
    except OSError as error:
        raise StartupError(f"{file} cannot be read: {error}.") from error


def _debug_id(map_file: Path) -> str | None:
    found = read_map(map_file)
    text = found.get("debugId", found.get("debug_id"))
    return text.lower() if isinstance(text, str) else None


def read_map(file: Path) -> dict[str, Any]:
    """A map. Raises StartupError."""
    try:
        found = json.loads(_GUARD.sub(b"", _read(file), count=1))
    except (ValueError, RecursionError) as error:
        raise StartupError(f"{file} is not a source map: it is not JSON.") from error
    if not isinstance(found, dict):
        raise StartupError(f"{file} is not a source map.")
    return found


def upload_body(script: BuiltScript) -> bytes:
    """The map of a script as it is uploaded: without the text of the sources, but with the names of the functions that
    the script declares. Raises StartupError.
    """
    if script.map_file is None:
        raise LookupError(script.name)
    found = read_map(script.map_file)
    sections = found.get("sections")
    maps = [one.get("map") for one in sections if isinstance(one, dict)] if isinstance(sections, list) else []
    for one in (found, *maps):
        if isinstance(one, dict):
            one.pop("sourcesContent", None)
    found[FUNCTIONS_MEMBER] = find_declarations(_read(script.file).decode("utf-8", "replace"))
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def _read(file: Path) -> bytes:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise StartupError(f"{file} is larger than {MAX_FILE_BYTES} bytes.")
        return file.read_bytes()
    except OSError as error:
        raise StartupError(f"{file} cannot be read: {error}.") from error
