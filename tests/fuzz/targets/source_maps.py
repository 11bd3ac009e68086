"""Source maps as anyone may upload them, and stack traces that are resolved with them.

An input is a map, NUL, and a stack trace. A map is refused in a short sentence; or every position of a few is where a
plain reading of the same mappings has it, and a stack trace keeps its number of lines.
"""

from bisect import bisect_right
from typing import Any, Final

import msgspec

from proto.source_maps.compact_map import CompactMap, InvalidSourceMap, OriginalPosition
from proto.source_maps.frame_rewriting import resolve_stack_trace
from proto.source_maps.parsing import read_source_map, source_path

MAX_SENTENCE: Final = 400
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

Plain = list[tuple[tuple[int, int], tuple[int, int, int] | None]]  # position, and source, line and column


def check(data: bytes) -> None:
    raw, _, trace = data.partition(b"\0")
    text = trace.decode(errors="replace")
    try:
        stored = read_source_map(raw).stored
    except InvalidSourceMap as refused:
        assert 0 < len(str(refused)) < MAX_SENTENCE
        return
    found = CompactMap.decode(msgspec.msgpack.encode(stored))
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    raw = raw.partition(b"\n")[2] if raw.startswith(b")]}'") else raw
    document = msgspec.json.decode(raw.decode(errors="replace"))  # members that are skipped may hold any bytes
    if document.get("sections") is None:
        compare(found, document)
    resolved = resolve_stack_trace(text, lambda _path: found)
    assert resolved is None or resolved.count("\n") == text.count("\n")


def compare(found: CompactMap, document: dict[str, Any]) -> None:
    plain = plain_reading(document["mappings"])
    keys = [position for position, _ in plain]
    root, sources = document.get("sourceRoot"), document.get("sources", [])
    for line, column in {*keys[:20], *keys[-20:], *((line, column + 1) for line, column in keys[:20]), (0, 0)}:
        at = bisect_right(keys, (line, column)) - 1
        original = plain[at][1] if at >= 0 and keys[at][0] == line else None
        shown = None if original is None else (source_path(sources[original[0]], root), *original[1:])
        position = found.find(line, column)
        if isinstance(position, OriginalPosition):
            assert (position.source, position.line, position.column) == shown
        else:
            assert shown is None or not shown[0]


def plain_reading(mappings: str) -> Plain:
    """Every segment, by the words of the standard."""
    found: Plain = []
    source = line = column = 0
    for number, of_line in enumerate(mappings.split(";")):
        generated = 0
        for segment in filter(None, of_line.split(",")):
            first, *rest = numbers(segment)
            generated += first
            if rest:
                source, line, column = (a + b for a, b in zip((source, line, column), rest, strict=False))
            found.append(((number, generated), (source, line, column) if rest else None))
    return found


def numbers(segment: str) -> list[int]:
    found, bits = [], ""
    for digit in segment:
        value = f"{_ALPHABET.index(digit):06b}"
        bits = value[1:] + bits
        if value[0] == "0":
            found.append(int(bits[:-1], 2) * (-1 if bits[-1] == "1" else 1))
            bits = ""
    return found
