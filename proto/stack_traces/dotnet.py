"""Frames of .NET, CoreCLR and Mono: `at Shop.Cart.Add(Int32 id) in /src/Cart.cs:line 42`."""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, Line, frame_line, make_frame
from proto.stack_traces.libraries import DOTNET

FAMILY: Final = "dotnet"
_NAME: Final = re.compile(r"[\w.`+<>\[\]|,$@/=-]+")
_ARGUMENTS: Final = re.compile(r"\[[^\[\]]*\]|`\d+")
_CLOSURE: Final = re.compile(r"\.<>c(?:__DisplayClass[\d_]+)?(?=\.|$)")
# <Post>d__5, <Map>b__1_0, <<Map>b__2>d, <Main>g__Local|0_1, <Main>$: classes and methods that the compiler names.
_COMPILED: Final = re.compile(
    r"<{1,3}(\w*)>\$?>?(?:g__(\w+)\|[\d_]+|[bd](?:__[\d_]+)?|c__[A-Za-z]+[0-9A-F]*)?(?:>d(?:__[\d_]+)?)?"
)
_LAMBDA: Final = re.compile(r">b_|<>m__|@\d")
_MONO_LAMBDA: Final = re.compile(r"\.<>m__[0-9A-F]+$")
_FSHARP: Final = re.compile(r"@\d+(?:-\d+)?(?:\.Invoke)?")
_DYNAMIC: Final = re.compile(r"(?<=lambda_method)\d+")


def read(head: str, rest: str, indent: int) -> Line:
    """Reads `at <head>(<rest>`. Mono has a space before the parenthesis and offsets after it."""
    head = head.rstrip()
    if head.startswith("(wrapper"):
        return frame_line(FAMILY, make_frame(head, "", False, is_standard=True), indent)
    if "." not in head or not _NAME.fullmatch(head):
        return OTHER
    in_app = not head.startswith(DOTNET)
    location, function = _stable(head)
    file = rest[rest.rfind(")") :].partition(" in ")[2].rpartition(":")[0]
    if not file or file.startswith("<"):
        file = f"{location.replace('.', '/')}.cs"
    return frame_line(
        FAMILY,
        make_frame(
            location,
            function,
            in_app,
            file=file,
            is_standard=head.startswith("System."),
            is_named=not _LAMBDA.search(head),
        ),
        indent,
    )


def _stable(head: str) -> tuple[str, str]:
    name = head.replace("+", ".").replace("/", ".")
    if "[" in name or "`" in name:
        name = _ARGUMENTS.sub("", _ARGUMENTS.sub("", name))
    if "<" in name:
        is_machine = name.endswith(".MoveNext")
        name = _MONO_LAMBDA.sub("", _CLOSURE.sub("", name))
        name = _COMPILED.sub(lambda match: match[1] + (f"/{match[2]}" if match[2] else ""), name)
        if is_machine:  # an async method: its class is named after it
            name = name.removesuffix(".MoveNext")
    if "@" in name:
        name = _FSHARP.sub("", name)
    name = _DYNAMIC.sub("", name)
    location, _, function = name.rpartition(".")
    return location.rstrip("."), function
