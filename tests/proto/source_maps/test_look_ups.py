"""Positions of minified files, held against what Node.js finds in the same maps."""

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from proto.source_maps.compact_map import CompactMap, InvalidSourceMap, OriginalPosition
from proto.source_maps.frame_rewriting import resolve_stack_trace
from proto.source_maps.parsing import PLACE_CHARS, read_source_map
from sluice.source_map_files import find_scripts, upload_body
from tests.programs import program
from tests.source_maps import RESOLVED, build_shop

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
NODE = """
import { SourceMap } from 'node:module';
const { map, positions } = JSON.parse(await new Response(process.stdin).text());
const found = new SourceMap(map);
console.log(JSON.stringify(positions.map(([line, column]) => {
  const { originalSource, originalLine, originalColumn, name, generatedLine } = found.findEntry(line, column);
  return originalSource === undefined || generatedLine !== line ? null
    : [originalSource, originalLine, originalColumn, name ?? null];
})));
"""


def as_stored(document: dict[str, Any]) -> CompactMap:
    stored = read_source_map(json.dumps(document).encode()).stored
    return CompactMap.decode(msgspec.msgpack.encode(stored))


def vlq(number: int) -> str:
    left, digits = -number << 1 | 1 if number < 0 else number << 1, ""
    while True:
        digit, left = left & 31, left >> 5
        digits += BASE64[digit | 32 if left else digit]
        if not left:
            return digits


def random_map(chance: Random, lines: int, most: int) -> dict[str, Any]:
    """A map with lines of up to `most` segments of every kind."""
    sources, names = [f"src/{number}.ts" for number in range(5)], [f"name{number}" for number in range(7)]
    state, of_lines = [0, 0, 0, 0], []
    for _ in range(lines):
        segments = []
        for _ in range(chance.randint(0, most)):
            fields = [chance.randint(1, 50)]
            if chance.random() < 0.9:
                new = [chance.randrange(5), chance.randrange(10_000), chance.randrange(200), state[3]]
                if chance.random() < 0.5:
                    new[3] = chance.randrange(7)
                    fields += [a - b for a, b in zip(new, state, strict=True)]
                else:
                    fields += [a - b for a, b in zip(new[:3], state[:3], strict=True)]
                state = new
            segments.append("".join(map(vlq, fields)))
        of_lines.append(",".join(segments))
    return {"version": 3, "sources": sources, "names": names, "mappings": ";".join(of_lines)}


def of_node(document: dict[str, Any], positions: list[tuple[int, int]]) -> list[OriginalPosition | None]:
    given = json.dumps({"map": document, "positions": positions})
    ran = subprocess.run(
        [program("node"), "--input-type=module", "-e", NODE], input=given, capture_output=True, text=True, check=True
    )
    return [one and OriginalPosition(*one) for one in json.loads(ran.stdout)]


@pytest.mark.parametrize(("lines", "most"), [(1, 3_000), (40, 60), (2_000, 2)])
def test_every_position_is_where_node_finds_it(lines: int, most: int) -> None:
    chance = Random(f"{lines} {most}")
    document = random_map(chance, lines, most)
    assert len(document["mappings"]) > 2 * PLACE_CHARS
    positions = [(chance.randrange(lines), chance.randrange(50 * most)) for _ in range(2_000)]
    stored = as_stored(document)
    expected = of_node(document, positions)
    found = [stored.find(*position) for position in positions]
    # Node.js gives a segment without name that of an earlier one.
    assert found == [b and (b if a and a.name else b._replace(name=None)) for a, b in zip(found, expected, strict=True)]
    assert sum(one is not None for one in expected) > 500


def test_sections_are_found_at_their_offsets() -> None:
    chance = Random(3)
    first, second, third = (random_map(chance, lines, 20) for lines in (3, 1, 2))
    offsets = [{"line": 0, "column": 0}, {"line": 5, "column": 7}, {"line": 5, "column": 5_000}]
    sections = [{"offset": at, "map": one} for at, one in zip(offsets, (first, second, third), strict=True)]
    stored = as_stored({"version": 3, "sections": sections})
    for at, one in zip(offsets, (first, second, third), strict=True):
        alone = as_stored(one)
        for column in range(1_200):
            assert stored.find(at["line"], at["column"] + column) == alone.find(0, column)
        if one is not second:
            assert [stored.find(at["line"] + 1, column) for column in range(1_200)] == [
                alone.find(1, column) for column in range(1_200)
            ]
    assert stored.find(5, 6) is None


@pytest.mark.parametrize(
    "options", [("--sourcemap=external",), ("--sourcemap",), ("--sourcemap", "--keep-names")], ids=lambda one: one[-1]
)
def test_a_real_error_has_the_frames_of_the_sources(tmp_path: Path, options: tuple[str, ...]) -> None:
    shop = build_shop(tmp_path, "", *options)
    (script,) = find_scripts(shop.folder)
    assert (script.name, script.file) == (shop.name, shop.script)
    stored = CompactMap.decode(msgspec.msgpack.encode(read_source_map(upload_body(script)).stored))
    thrown = shop.thrown()
    assert "src/cart.ts" not in thrown
    assert resolve_stack_trace(thrown, {str(shop.script): stored}.get) == RESOLVED


def test_what_node_has_resolved_itself_stays(tmp_path: Path) -> None:
    shop = build_shop(tmp_path, "", "--sourcemap")
    (script,) = find_scripts(shop.folder)
    stored = CompactMap.decode(msgspec.msgpack.encode(read_source_map(upload_body(script)).stored))
    thrown = shop.thrown("--enable-source-maps")
    assert str(tmp_path / "src/cart.ts") in thrown
    assert resolve_stack_trace(thrown, {str(shop.script): stored}.get) is None


def map_of(**members: Any) -> bytes:
    return json.dumps({"version": 3, "sources": ["a"], "names": [], "mappings": "AAAA"} | members).encode()


def section(line: int = 0, **members: object) -> dict[str, object]:
    """A section whose map has also these members."""
    return {"offset": {"line": line, "column": 0}, "map": {"version": 3, "sources": ["a"], "mappings": "A"} | members}


FAULTS: list[tuple[bytes, str]] = [
    (b"", "The source map is not valid JSON."),
    (b'{"version":3', "The source map is not valid JSON."),
    (b'{"x":' * 100_000, "The source map is not valid JSON."),
    (b'{"version":3,"mappings":"\xff"}', "The source map is not valid JSON."),
    (b"[]", "The source map must be an object, not a list."),
    (b"{}", "`version` is missing."),
    (b'{"version":3}', "The source map has neither mappings nor sections."),
    (map_of(version=2), "The source map's version is not 3."),
    (map_of(mappings=7), "`mappings` must be a string or null, not an integer."),
    (map_of(version=3.5), "`version` must be an integer, not a number with a fraction."),
    (map_of(version=10**30), "The source map's version is not 3."),
    (map_of(names=[None]), "`names[0]` must be a string, not null."),
    (map_of(sections={}), "`sections` must be a list or null, not an object."),
    (map_of(sections=[section(mappings=True)]), "`sections[0].map.mappings` must be a string, not a boolean."),
    (map_of(sections=[{"map": {"version": 3}}]), "`sections[0].offset` is missing."),
    (map_of(sections=[section(-1)]), "`sections[0].offset.line` must be at least 0."),
    (map_of(sections=[section(2**31)]), "`sections[0].offset.line` must be at most 2147483647."),
    (map_of(sections=[section(), section(sections=[])]), "`sections[1].map.sections` must be null, not a list."),
    (map_of(x_minified_functions={"t": ["1"]}), "`x_minified_functions[...][0]` must be an integer, not a string."),
    (map_of(mappings=""), "The source map has no mappings."),
    (map_of(mappings="AAA"), "The source map has a segment that does not have 1, 4 or 5 numbers."),
    (map_of(mappings="AAAAAA"), "The source map has a segment that does not have 1, 4 or 5 numbers."),
    (map_of(mappings="g"), "The source map has a segment that does not have 1, 4 or 5 numbers."),
    (map_of(mappings="AAAA,!"), "The mappings of the source map are not base64 VLQ."),
    (map_of(mappings="AAAé"), "The mappings of the source map are not base64 VLQ."),
    (map_of(mappings="gggggggggA"), "The mappings of the source map are not base64 VLQ."),
    (map_of(mappings="g" * 5_000), "The mappings of the source map are not base64 VLQ."),
    (map_of(mappings="CAAA,DAAA"), "The segments of the source map are not in the order of their columns."),
    (map_of(mappings="ACAA"), "`mappings` refers to a source or position that does not exist."),
    (map_of(mappings="ADAA"), "`mappings` refers to a source or position that does not exist."),
    (map_of(mappings="AADA"), "`mappings` refers to a source or position that does not exist."),
    (map_of(mappings="AAAD"), "`mappings` refers to a source or position that does not exist."),
    (map_of(mappings="AAAAA"), "`mappings` refers to a name that does not exist."),
    (
        map_of(x_minified_functions={"t": [1]}),
        "x_minified_functions must map each function name to a list of numbers: a line, a column, and so on.",
    ),
    (
        map_of(x_minified_functions={"": [1, 2]}),
        "x_minified_functions must map each function name to a list of numbers: a line, a column, and so on.",
    ),
]


def test_what_is_wrong_with_a_map_is_said() -> None:
    for raw, fault in FAULTS:
        with pytest.raises(InvalidSourceMap) as raised:
            read_source_map(raw)
        assert str(raised.value) == fault, raw[:100]


def test_sections_must_not_overlap() -> None:
    part = {"version": 3, "sources": ["a"], "names": [], "mappings": "AAAA;AAAA"}
    sections = [{"offset": {"line": line, "column": 0}, "map": part} for line in (2, 2)]
    with pytest.raises(InvalidSourceMap) as raised:
        read_source_map(json.dumps({"version": 3, "sections": sections}).encode())
    assert str(raised.value) == "The sections of the source map are not in the order of their offsets."


@pytest.mark.parametrize(
    ("source", "root", "shown"),
    [
        ("../../src/cart.ts", None, "src/cart.ts"),
        ("./cart.ts", "/work/src/", "/work/src/cart.ts"),
        ("cart.ts", "src", "src/cart.ts"),
        ("webpack://shop/./src/cart.vue?3f2a", "", "src/cart.vue"),
        ("webpack:///src/cart.ts", None, "src/cart.ts"),
        ("webpack://shop/(rsc)/./app/(shop)/page.tsx", None, "(rsc)/app/(shop)/page.tsx"),
        ("turbopack:///[project]/src/cart.ts", "x", "[project]/src/cart.ts"),
        ("file:///work/src/cart.ts", "x", "file:///work/src/cart.ts"),
        ("src/my cart\n.ts", None, "src/my_cart_.ts"),
        ("src/a(b.ts", None, "src/a_b.ts"),
    ],
)
def test_sources_are_shown_without_what_bundlers_add(source: str, root: str | None, shown: str) -> None:
    stored = as_stored({"version": 3, "sources": [source], "sourceRoot": root, "names": [], "mappings": "AAAA"})
    assert stored.find(0, 3) == OriginalPosition(shown, 0, 0, None)


@pytest.mark.parametrize("member", ["debugId", "debug_id"])
def test_the_debug_id_is_read_where_tools_write_it(member: str) -> None:
    written = "85314830-023F-4cf1-a267-535f4e37bb17"
    assert read_source_map(map_of(**{member: written})).debug_id == written.lower()
    assert read_source_map(map_of(**{member: "x"})).debug_id is None


def test_lines_and_segments_are_counted_before_they_are_decoded() -> None:
    for sign in ";,":
        raw = json.dumps({"version": 3, "mappings": "!" + sign * 10_000_001}).encode()
        with pytest.raises(
            InvalidSourceMap, match=r"^The mappings of the source map have more than 10000000 lines and segments\.$"
        ):
            read_source_map(raw)


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b")]}'\n", b"\xef\xbb\xbf)]}' x\r\n"])
def test_what_may_stand_before_the_json_is_left_out(before: bytes) -> None:
    raw = b'{"version": 3, "sources": ["a.ts"], "mappings": "AAAA"}'
    assert read_source_map(before + raw) == read_source_map(raw)
