"""The unchanged rules of fingerprint version 1, by which builds before 0.1.0 grouped errors.

For an error whose current fingerprint is unknown, the follower of issues also computes the fingerprint of these rules,
to find the issue that the error had before an upgrade. Never change this module: a change here loses issues.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Final, NamedTuple

_END_CHARS: Final = 4_096
_MAX_LINES: Final = 64
_MAX_LINE_CHARS: Final = 512
_MAX_MESSAGE_CHARS: Final = 1_024


class _Frame(NamedTuple):
    """A stack frame: `location` is a file or class, and `in_app` is false for code of a library. `file` is the path of
    the source file as far as it is known from the trace, or empty if `location` is this path.
    """

    location: str
    function: str
    in_app: bool
    file: str = ""


# Parts of a message that differ between occurrences of one error, more specific patterns first.
_VARIABLE: Final = (
    (re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s\"'<>)]+"), "<url>"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+"), "<email>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "<n>"),
    (re.compile(r"(?<![\w/\\])(?:[A-Za-z]:)?(?:[/\\][\w.@~+-]+){2,}[/\\]?"), "<path>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b"), "<hash>"),
    (re.compile(r"\bv?\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.-]+)?"), "<version>"),
    (re.compile(r"\d+"), "<n>"),
)
_SPACES: Final = re.compile(r"\s+")


def _normalize_message(text: str) -> str:
    """The first line of a message, with ids, times, addresses, paths, hashes, versions and numbers replaced."""
    line = text.strip()[:_MAX_MESSAGE_CHARS].split("\n", 1)[0]
    for pattern, name in _VARIABLE:
        line = pattern.sub(name, line)
    return _SPACES.sub(" ", line).strip()


def _in_app_frames(stacktrace: str) -> list[str]:
    """Stable texts of the application's own frames, innermost first. Texts of all frames if none is the
    application's.
    """
    return [_normalize_frame(frame) for frame in _parse_in_app(stacktrace)]


def _parse_in_app(stacktrace: str) -> list[_Frame]:
    if not stacktrace:
        return []
    frames = (
        _parse_python(stacktrace[-_END_CHARS:])
        if '\n  File "' in stacktrace or stacktrace.startswith('  File "')
        else []
    )
    if not frames:
        frames = _parse_innermost_first(stacktrace[:_END_CHARS])
    return [frame for frame in frames if frame.in_app] or frames


_PYTHON: Final = re.compile(r'  File "([^"]+)", line \d+(?:, in (.+))?')
_PYTHON_LIBRARY: Final = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python\d)|^<frozen ")


def _parse_python(text: str) -> list[_Frame]:
    """Parse a Python trace. Python prints the innermost frame last, and the raised exception last in a chain."""
    lines = text.rsplit("Traceback (most recent call last)", 1)[-1].splitlines()
    frames = []
    for line in reversed(lines[-2 * _MAX_LINES :]):
        match = _PYTHON.match(line[:_MAX_LINE_CHARS])
        if match:
            frames.append(_Frame(match[1], match[2] or "", not _PYTHON_LIBRARY.search(match[1])))
    return frames


def _parse_innermost_first(text: str) -> list[_Frame]:
    """Parse a trace of another language, which prints the innermost frame first. The first parser that matches a line
    parses the rest.
    """
    lines = [line[:_MAX_LINE_CHARS] for line in text.splitlines()[:_MAX_LINES]]
    for number, line in enumerate(lines):
        for parse in _FRAME_PARSERS:
            if parse(line, lines[number + 1] if number + 1 < len(lines) else ""):
                return _parse_section(lines[number:], parse)
    return []


_NEXT_SECTION: Final = ("Caused by: ", "Suppressed: ", " ---> ", "goroutine ", "[cause]", "caused by: ")


def _parse_section(lines: list[str], parse: "_FrameParser") -> list[_Frame]:
    """Parse frames up to the next exception of a chain (or goroutine). The first exception is the reported one."""
    frames = []
    for number, line in enumerate(lines):
        if line.lstrip().startswith(_NEXT_SECTION):
            break
        frame = parse(line, lines[number + 1] if number + 1 < len(lines) else "")
        if frame:
            frames.append(frame)
    return frames


_FrameParser = Callable[[str, str], _Frame | None]

# at com.shop.Cart.add(Cart.java:42), with an optional class loader and module before it: app//com.shop@1.2/...
_JAVA: Final = re.compile(
    r"\s*at (?:[\w.@-]*/){0,2}([\w.$]+(?:/0x[0-9a-f]+)?)\.([\w$<>-]+)"
    r"\((?:([\w$-]+\.\w+)(?::\d+)?|Native Method|Unknown Source)\)"
)
_JAVA_LIBRARY: Final = (
    "java.",
    "javax.",
    "jakarta.",
    "jdk.",
    "sun.",
    "com.sun.",
    "kotlin.",
    "kotlinx.",
    "scala.",
    "groovy.",
    "android.",
    "androidx.",
    "org.springframework.",
    "org.apache.",
    "org.eclipse.",
    "org.hibernate.",
    "org.junit.",
    "io.netty.",
    "io.micrometer.",
    "io.opentelemetry.",
    "io.undertow.",
    "reactor.",
    "com.zaxxer.",
)
_JAVA_GENERATED: Final = re.compile(
    r"\$\$.*|\$Proxy\d+|GeneratedMethodAccessor\d+|GeneratedConstructorAccessor\d+|\$\d+(?=$|\$)"
)


def _parse_java(line: str, _following: str) -> _Frame | None:
    match = _JAVA.match(line)
    if not match or "$$Lambda" in match[1]:  # a class that the JVM generated
        return None
    location = _JAVA_GENERATED.sub("$", match[1])
    function = re.sub(r"lambda\$([^$]*)\$\d+", r"lambda$\1", match[2])
    package, _, name = match[1].rpartition(".")
    file = match[3] or f"{name.partition('$')[0]}.java"
    path = f"{package.replace('.', '/')}/{file}" if package else file
    return _Frame(location, function, not match[1].startswith(_JAVA_LIBRARY), path)


# at Shop.Cart.Add(Int32 id) in /src/Cart.cs:line 42
_DOTNET: Final = re.compile(r"\s*at ([\w.`+<>\[\]|,$-]+)\.([\w`<>.|\[\],$-]+)\(([^()]*)\)(?: in (.*):line \d+)?\s*$")
_DOTNET_LIBRARY: Final = ("System.", "Microsoft.", "MS.", "Npgsql.", "Newtonsoft.", "NUnit.", "Xunit.")
_DOTNET_STATE_MACHINE: Final = re.compile(r"[.+]<(\w+)>d(?:__\d+)?(?:`\d+)?$")
_DOTNET_CLOSURE: Final = re.compile(r"[.+]<>c(?:__DisplayClass[\d_]+)?(?:`\d+)?$")


def _parse_dotnet(line: str, _following: str) -> _Frame | None:
    match = _DOTNET.match(line)
    if not match:
        return None
    location, function = match[1], match[2]
    in_app = not location.startswith(_DOTNET_LIBRARY)
    machine = _DOTNET_STATE_MACHINE.search(location)
    if machine:  # an async method: its compiler-generated class is named after it
        location, function = location[: machine.start()], machine[1]
    location = _DOTNET_CLOSURE.sub("", location)
    lambda_of = re.match(r"<(\w+)>b_", function)
    file = match[4] or re.split(r"[`+<\[]", location, maxsplit=1)[0].replace(".", "/") + ".cs"
    return _Frame(location, lambda_of[1] if lambda_of else function, in_app, file)


# at add (/app/src/cart.js:10:5), at /app/src/cart.js:10:5, add@https://shop.example/app.js:10:5
_V8: Final = re.compile(
    r"\s*at (?:(?:async |new )*([^()]{1,200}?) )?\(?((?:[^()\s]|\([^()\s]*\)){1,400}?):\d+:\d+\)?\s*$"
)
_GECKO: Final = re.compile(r"([^@\s]{0,200})@(\S{1,400}?):\d+(?::\d+)?\s*$")
_JS_LIBRARY: Final = re.compile(
    r"[/\\]node_modules[/\\]|^node:|^internal[/\\]|^<anonymous>|-extension://|[/\\]webpack[/\\]"
)


def _parse_javascript(line: str, _following: str) -> _Frame | None:
    match = _V8.match(line) or _GECKO.match(line)
    if not match:
        return None
    function = (match[1] or "").removeprefix("async ").replace("Object.<anonymous>", "<anonymous>")
    return _Frame(match[2].split("?", 1)[0], function, not _JS_LIBRARY.search(match[2]))


_GO: Final = re.compile(r"([\w./~%-]+(?:\.\([^()]*\))?[\w.·\[\]]*)\((?:[^()]|\([^()]*\))*\)$")
_GO_FILE: Final = re.compile(r"\t(.+\.(?:go|s)):\d+")
_GO_LIBRARY: Final = re.compile(r"/pkg/mod/|/vendor/|/go/src/|/libexec/src/|^runtime/")
_GO_CLOSURE: Final = re.compile(r"\.func\d+(?:\.\d+)*|\.gowrap\d+|-fm$")


def _parse_go(line: str, following: str) -> _Frame | None:
    """Parse a line with the function and the next line with its file, which distinguishes libraries from the
    application.
    """
    file = _GO_FILE.match(following)
    match = _GO.match(line) if file else None
    if not file or not match:
        return None
    name = _GO_CLOSURE.sub(".func", match[1])
    package, _, function = name.rpartition("/")[2].partition(".")
    library = _GO_LIBRARY.search(file[1]) or name.startswith(("runtime.", "runtime/", "panic"))
    return _Frame(package, function, not library, file[1])


_RUBY: Final = re.compile(r"\s*(?:from )?(\S[^:]*\.rb):\d+:in [`']([^']+)'")
_RUBY_LIBRARY: Final = re.compile(r"/gems/|/lib/ruby/")


def _parse_ruby(line: str, _following: str) -> _Frame | None:
    match = _RUBY.match(line)
    return _Frame(match[1], match[2], not _RUBY_LIBRARY.search(match[1])) if match else None


_PHP: Final = re.compile(r"#\d+ (\S.*?\.php)\(\d+\): ([\w\\:>{}-]+)\(")


def _parse_php(line: str, _following: str) -> _Frame | None:
    match = _PHP.match(line)
    return _Frame(match[1], match[2], "/vendor/" not in match[1]) if match else None


_FRAME_PARSERS: Final[tuple[_FrameParser, ...]] = (
    _parse_java,
    _parse_javascript,
    _parse_dotnet,
    _parse_go,
    _parse_ruby,
    _parse_php,
)

_LOCATION_PARTS: Final = 2
_BUILD: Final = (
    (re.compile(r"(?<![A-Za-z0-9])(?=[0-9a-f]*[0-9])[0-9a-f]{6,}(?![A-Za-z0-9])"), "<hash>"),
    (re.compile(r"v?\d+(?:\.\d+)+"), "<version>"),
    (re.compile(r"0x[0-9a-fA-F]+"), "<n>"),
    (re.compile(r"\d{3,}"), "<n>"),
)


def _normalize_frame(frame: _Frame) -> str:
    """The last two parts of the location, with hashes, versions and numbers replaced. The other parts depend on where
    the application was built or installed.
    """
    location = "/".join(re.split(r"[/\\]", frame.location)[-_LOCATION_PARTS:])
    text = f"{location}:{frame.function}"
    for pattern, name in _BUILD:
        text = pattern.sub(name, text)
    return text


_FINGERPRINT_BYTES: Final = 16
_FINGERPRINT_FRAMES: Final = 5


def fingerprint_version_1(kind: str, message: str, stacktrace: str) -> bytes:
    """The fingerprint of version 1: 16 bytes."""
    frames = _in_app_frames(stacktrace)[:_FINGERPRINT_FRAMES]
    parts = [kind.strip(), *frames] if frames else [kind.strip(), "", _normalize_message(message)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=_FINGERPRINT_BYTES).digest()
