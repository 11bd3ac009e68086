"""Frames of Rust: `   2: shop::cart::add`, and a line with its file, `at ./src/cart.rs:2:40`, if the file is known."""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, Frame, Kind, Line, make_frame
from proto.stack_traces.libraries import RUST, RUST_STANDARD, RUST_SYMBOLS

FAMILY: Final = "rust"
_FUNCTION: Final = re.compile(r"(\d{1,4}): +(?:0x[0-9a-f]+ - )?(\S.*)")
_FILE: Final = re.compile(r"at (\S.*\.rs)(?::\d+){0,2}")
_LIBRARY: Final = re.compile(
    r"^/rustc/|[/\\]rustc[/\\][0-9a-f]|[/\\]\.?cargo[/\\](?:registry|git)[/\\]|[/\\]rustlib[/\\]|^library[/\\]"
)
_HASH: Final = re.compile(r"::h[0-9a-f]{16}$|\[[0-9a-f]{16}\]")
_CLOSURE: Final = re.compile(r"\{\{?(?:closure|impl|async_fn_env|async_block|vtable\.shim)[^{}]*\}?\}")
_PANIC: Final = re.compile(
    r"rust_begin_unwind|(?:core|std)::panicking::|std::panic::|core::(?:option|result)::(?:expect|unwrap)_"
)


def read_function(body: str, indent: int) -> Line:
    """Reads a numbered line."""
    match = _FUNCTION.fullmatch(body)
    return Line(Kind.FUNCTION, FAMILY, None, match[2], indent, int(match[1])) if match else OTHER


def read_file(body: str, indent: int) -> Line:
    """Reads a line that begins with `at `."""
    match = _FILE.fullmatch(body)
    return Line(Kind.FILE, FAMILY, None, match[1], indent) if match else OTHER


def join(function: str, file: str) -> Frame:
    """The frame of both lines. `file` may be empty."""
    name = _HASH.sub("", function)
    is_panic = bool(_PANIC.match(name))
    crate = _crate(name)
    library = is_panic or crate in RUST or _LIBRARY.search(file)
    is_standard = is_panic or crate in RUST_STANDARD or file.startswith("/rustc/")
    name = _CLOSURE.sub("{closure}", name)
    return make_frame("", name, not library, file=file, is_standard=is_standard, is_panic=is_panic)


def _crate(name: str) -> str:
    """The crate of a function. For `<T as tower::Service>::call` it is the trait's crate, and for
    `<shop::Cart as Drop>::drop` the type's. A function without a crate belongs to the runtime, which is `std` here.
    """
    if name.startswith(RUST_SYMBOLS) or ("::" not in name and name != "main"):
        return "std"
    own, _, trait = name.lstrip("<&*([").removeprefix("dyn ").removeprefix("mut ").partition(" as ")
    return (own if "::" in own else trait or own).partition("::")[0]
