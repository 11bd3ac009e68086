"""Frames of Elixir and Erlang: `(shop 0.1.0) lib/shop/cart.ex:12: Shop.Cart.add/2`."""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, Line, frame_line, make_frame
from proto.stack_traces.libraries import ELIXIR, ELIXIR_STANDARD

FAMILY: Final = "elixir"
_FRAME: Final = re.compile(
    r"(?:\((\w+)(?: [^()\s]+)?\) )?(?:(\S+\.(?:exs?|[eh]rl|yrl|xrl|l?eex|heex)):\d+: )?(\S.*/\d+)(?: in .+)?"
)
_ANONYMOUS: Final = re.compile(r"^anonymous fn/\d+ in |-anonymous-\d+-|^-|/\d+-(?:fun|lc\$\^|inlined)-\d+-?/?")


def read(body: str, indent: int) -> Line:
    """Reads a line without its indentation."""
    match = _FRAME.fullmatch(body) or _FRAME.fullmatch(body.partition(" in ")[0])
    if not match or not (match[1] or match[2]):
        return OTHER
    file = match[2] or ""
    in_app = match[1] not in ELIXIR and not file.startswith("deps/") and not file.endswith(".erl")
    if file.endswith(".erl") and match[1] and match[1] not in ELIXIR:
        in_app = True
    function = _ANONYMOUS.sub("", match[3])
    is_standard = match[1] in ELIXIR_STANDARD
    is_named = not match[3].startswith("anonymous fn/")
    frame = make_frame(file or match[1] or "", function, in_app, is_standard=is_standard, is_named=is_named)
    return frame_line(FAMILY, frame, indent)
