"""How lines of browsers and of V8 are rewritten."""

import json

import pytest

from proto.source_maps.compact_map import CompactMap, StoredMap
from proto.source_maps.frame_rewriting import MAX_LINES, resolve_stack_trace, url_path
from proto.source_maps.parsing import find_declarations, read_source_map

# `t` is declared at column 9 of the first line, and once more at column 40 of it, under other names.
DOCUMENT = {
    "version": 3,
    "sources": ["src/cart.ts"],
    "names": ["addLine", "fillCart"],
    "mappings": "AAAA,SAASA,UAUT,uBAAqBC;AAAA",
    "x_minified_functions": {"t": [0, 9, 0, 42]},
}


def stored_map() -> StoredMap:
    return read_source_map(json.dumps(DOCUMENT).encode()).stored


FOUND = CompactMap(stored_map())


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("    at t (https://shop.example/a.js:1:21)", "    at addLine (src/cart.ts:11:1)"),
        ("    at t (https://shop.example/a.js?v=1#x:1:21)", "    at addLine (src/cart.ts:11:1)"),
        ("    at async t (file:///a.js:1:21)", "    at async addLine (src/cart.ts:11:1)"),
        ("    at new t (/a.js:1:21)", "    at new addLine (src/cart.ts:11:1)"),
        ("    at t.add [as x] (/a.js:1:21)", "    at addLine.add (src/cart.ts:11:1)"),
        ("    at t.add [as put] (/a.js:1:21)", "    at addLine.put (src/cart.ts:11:1)"),
        ("    at Object.t (C:\\a.js:1:21)", "    at src/cart.ts:11:1"),
        ("    at https://shop.example/a.js:1:21", "    at src/cart.ts:11:1"),
        ("    at async https://shop.example/a.js:1:21", "    at async src/cart.ts:11:1"),
        ("    at e (https://shop.example/a.js:1:21)", "    at src/cart.ts:11:1"),
        ("    at onClick (https://shop.example/a.js:1:21)", "    at onClick (src/cart.ts:11:1)"),
        ("t@https://shop.example/a.js:1:21", "addLine@src/cart.ts:11:1"),
        ("setup/t/<@https://shop.example/a.js:1:21", "setup/addLine/<@src/cart.ts:11:1"),
        ("async*t@https://shop.example/a.js:1:21", "async*addLine@src/cart.ts:11:1"),
        ("@https://shop.example/a.js:1:21", "@src/cart.ts:11:1"),
        ("https://shop.example/a.js:1:21", "@src/cart.ts:11:1"),
        ("    at t (https://shop.example/a.js:1:60)\r", "    at fillCart (src/cart.ts:11:22)"),
    ],
)
def test_a_frame_is_rewritten_in_its_own_spelling(sent: str, shown: str) -> None:
    text = f"Error: no\n{sent}\n    at q (https://shop.example/other.js:1:2)"
    expected = f"Error: no\n{shown}\n    at q (https://shop.example/other.js:1:2)"
    assert resolve_stack_trace(text, {"/a.js": FOUND}.get) == expected


@pytest.mark.parametrize(
    "line",
    [
        "Error: no",
        "    at t (https://shop.example/b.js:1:21)",
        "    at t (https://shop.example/a.js:3:1)",
        "    at t (https://shop.example/a.js:0:1)",
        "    at t (https://shop.example/a.js:1)",
        "    at t (https://shop.example/a.js:1:1234567890)",
        "    at Array.forEach (<anonymous>)",
        "    at eval (eval at t (https://shop.example/a.js:1:21), <anonymous>:1:1)",
        '  File "/a.js", line 1, in t',
        "    at com.shop.Cart.add(Cart.java:42)",
        "    at t (" + "/" * 3_000 + "a.js:1:21)",
        "",
    ],
)
def test_other_lines_stay(line: str) -> None:
    assert resolve_stack_trace(f"Error\n{line}", {"/a.js": FOUND}.get) is None


@pytest.mark.parametrize(
    ("first", "second", "stable"),
    [
        ("    at Xe.addItem", "    at Qt.addItem", "    at addItem (src/cart.ts:11:1)"),
        ("    at Object.q [as onClick]", "    at Object.abc [as onClick]", "    at onClick (src/cart.ts:11:1)"),
        ("    at Cart.q [as onClick]", "    at Cart.$e [as onClick]", "    at Cart.onClick (src/cart.ts:11:1)"),
        ("    at Cart.addItem [as x]", "    at Cart.addItem [as y]", "    at Cart.addItem (src/cart.ts:11:1)"),
        (*["    at Cart.addItem [as put]"] * 2, "    at Cart.addItem [as put] (src/cart.ts:11:1)"),
        ("    at new q", "    at new e1", "    at src/cart.ts:11:1"),
        ("    at async q.r", "    at async s.u", "    at async src/cart.ts:11:1"),
        ("    at Abc.add", "    at q.add", "    at add (src/cart.ts:11:1)"),
        ("    at get total", "    at get total", "    at get total (src/cart.ts:11:1)"),
        ("setup/q/<@", "setup/e/<@", "setup/<@src/cart.ts:11:1"),
        ("q/<@", "e/<@", "@src/cart.ts:11:1"),
        ("async*q@", "async*abc@", "async*@src/cart.ts:11:1"),
        ("Xe.prototype.addItem@", "q.prototype.addItem@", "prototype.addItem@src/cart.ts:11:1"),
    ],
)
def test_names_that_the_next_build_changes_are_left_out(first: str, second: str, stable: str) -> None:
    for sent in (first, second):
        line = f"{sent}/a.js:1:21" if sent.endswith("@") else f"{sent} (/a.js:1:21)"
        assert resolve_stack_trace(line, {"/a.js": FOUND}.get) == stable


def test_names_stay_where_the_build_renames_nothing() -> None:
    plain = CompactMap(read_source_map(json.dumps(DOCUMENT | {"names": [], "mappings": "AAAA"}).encode()).stored)
    for name in ("Xe.addItem", "new q", "Object.q [as onClick]"):
        resolved = resolve_stack_trace(f"    at {name} (/a.js:1:21)", {"/a.js": plain}.get)
        assert resolved == f"    at {name} (src/cart.ts:1:1)"


def test_only_the_first_lines_are_read() -> None:
    frame = "    at t (/a.js:1:21)"
    resolved = resolve_stack_trace("\n".join([frame] * (MAX_LINES + 1)), {"/a.js": FOUND}.get)
    assert resolved is not None
    assert resolved.split("\n") == ["    at addLine (src/cart.ts:11:1)"] * MAX_LINES + [frame]


def test_a_name_is_the_one_that_is_declared_before_the_frame() -> None:
    names = [FOUND.function("t", 0, column) for column in (8, 9, 41, 42, 900)]
    assert names == [None, "addLine", "addLine", "fillCart", "fillCart"]
    assert FOUND.function("u", 0, 20) is None


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://shop.example/assets/a.js?v=1#top", "/assets/a.js"),
        ("https://shop.example", "/"),
        ("file:///app/dist/a.js", "/app/dist/a.js"),
        ("C:\\app\\a.js", "/app/a.js"),
        ("file:///C:/app/a.js", "/app/a.js"),
        ("file:///c:\\app\\a.js?v=1", "/app/a.js"),
        ("/C:/app/a.js", "/app/a.js"),
        ("https://shop.example/C:/a.js", "/C:/a.js"),
        ("/proxy/https://shop.example/a.js", "/proxy/https://shop.example/a.js"),
        ("assets/a.js", "/assets/a.js"),
        ("webpack://shop/./a.js", "/./a.js"),
    ],
)
def test_a_path_is_that_of_the_url(url: str, path: str) -> None:
    assert url_path(url) == path


@pytest.mark.parametrize(
    ("minified", "found"),
    [
        ("function t(e){}", {"t": [0, 9]}),
        ("async function*t(){}", {"t": [0, 15]}),
        ("\n;class t extends e{}", {"t": [1, 7]}),
        ("var t=e=>e,n=(e,r)=>r,o=async()=>1", {"t": [0, 4], "n": [0, 11], "o": [0, 22]}),
        ("var t=class{},n=function(){}", {"t": [0, 4], "n": [0, 14]}),
        ("e.t=function(){}", {}),
        ("var t=(1+2)*3,n=functional", {}),
        ("'🍏';function t(){}", {"t": [0, 14]}),
    ],
)
def test_declarations_of_functions_are_found(minified: str, found: dict[str, list[int]]) -> None:
    assert find_declarations(minified) == found
