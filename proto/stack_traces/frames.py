"""A line of a stack trace as the parser of its runtime reads it, the stable text of a frame, and caches of both.

A parser is pure: its result depends only on one line. So results can be cached for the next trace that has the same
line, because lines and whole traces repeat often in a process. `proto.stack_traces.chain` joins the lines.

The bytes of a cache are limited. When the newer half of a cache is full, it becomes the older half. Entries of the
older half are dropped, unless they are used before the newer half is full again. Caches never change a result.
"""

import re
import sys
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

MAX_LINE_CHARS: Final = 512
MAX_MEMBERS: Final = 32  # of a group of exceptions; Python prints 15


class Frame(NamedTuple):
    """A stack frame. `location` is a file, class or package. `in_app` is false for code of a library. `file` is the
    path of the source file as far as it is known from the trace, or empty if `location` is this path. `text` is stable
    across builds, and empty for library code. `is_standard`: the frame belongs to the runtime's standard library.
    `is_panic`: this frame raises the panic that the frames before it report. `is_named` is false for a function without
    a name (a lambda, a closure), because a file or function may have many of them, and for a name that a minifier has
    replaced.
    """

    location: str
    function: str
    in_app: bool
    file: str = ""
    text: str = ""
    is_standard: bool = False
    is_panic: bool = False
    is_named: bool = True


class Kind(IntEnum):
    """The kind of a line of a stack trace."""

    OTHER = 0  # part of a message, source code, or nothing
    FRAME = 1
    FUNCTION = 2  # the first of two lines of a frame
    FILE = 3  # the second of two lines of a frame
    TYPE = 4  # type and message of an exception
    CAUSE = 5  # the following exceptions are the cause of the previous exception
    WRAPPER = 6  # the previous exception is the cause of the following exception
    CONTEXT = 7  # the following exception was raised while the previous exception was handled
    SUPPRESSED = 8
    TRACEBACK = 9  # a traceback of Python begins
    MEMBER = 10  # the next exception of a group
    MORE = 11  # a number of frames of the wrapper follow
    END = 12  # the following lines belong to another thread, or to another exception of a group


@dataclass(eq=False, slots=True, weakref_slot=True)
class Line:
    """A line, which is immutable. `family` is its runtime, or empty for a line that several runtimes have. `text` is
    the type of an exception, or half of a frame. `number` is the frame's number, or a count of frames. `indent` is in
    characters.
    """

    kind: Kind
    family: str = ""
    frame: Frame | None = None
    text: str = ""
    indent: int = 0
    number: int = -1


OTHER: Final = Line(Kind.OTHER)  # a line that no parser knows
PASSED_OVER: Final = Line(Kind.OTHER)  # a frame of code that is generated while the program runs


@dataclass(slots=True)
class Raised:
    """An exception of a trace: its type if the trace has it, the index of the line with the type, and its frames, the
    innermost first.
    """

    type: str = ""
    line: int = -1
    frames: list[Frame] = field(default_factory=list)


_UNNAMED: Final = re.compile(
    r"<anonymous>$|<fn>$|<lambda>$|(?:^|\\)\{closure\}$|^lambda(?:\$|$)|\$lambda|\$anonfun|^closure in |\.func(?:$|\.)"
)
_MIN_ID: Final = 16
_ID: Final = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=(?:[^0-9]*[0-9]){3})[A-Za-z0-9_-]{16,}")
# Directories in which applications are installed. The name of such a directory says nothing about the files in it.
_ROOT: Final = re.compile(
    r"(?:[A-Za-z]:)?/(?:app|src|srv|code|work|workspace|workdir|project|application|build|opt|root|usr/src|usr/src/app"
    r"|var/task|var/www|var/www/html|home/[^/]+|home/[^/]+/app|opt/app)|.*/releases/[^/]+|.*/current"
)
_VARIES: Final = re.compile(r"\d\d\d|\d\.\d|0x|(?<![A-Za-z0-9])[0-9a-f]{6}")
_VERSION: Final = re.compile(r"v?\d+(?:\.\d+)+(?:[-+.]?(?:rc|alpha|beta|dev|post|snapshot|SNAPSHOT)[\w.]*)?")
_HASH_OR_NUMBER: Final = re.compile(r"(?<![A-Za-z0-9])(?=[0-9a-f]*\d)[0-9a-f]{6,}(?![A-Za-z0-9])|0x[0-9a-fA-F]+|\d{3,}")
# In names that developers choose (`rule_101.py`, `V2024_01__x.java`, `facade2.py`) digits are kept, unless they stand
# alone after a dot or bracket, or are mixed with letters as in a hash.
_DRAWN: Final = (
    (
        re.compile(r"(?<![A-Za-z0-9])(?=\d*[a-f])(?![a-f]+\d{0,2}(?![A-Za-z0-9]))[0-9a-f]{6,}(?![A-Za-z0-9])"),
        "<hash>",
    ),
    (_VERSION, "<version>"),
    (re.compile(r"0x[0-9a-fA-F]+|(?!^)(?<![\w/-])\d{3,}(?![\w-])"), "<n>"),
)


def stable_text(location: str, function: str) -> str:
    """The last two parts of the location and the function, with ids, hashes, versions and numbers replaced that are not
    a part of a name. The other parts depend on where the application was built or installed.
    """
    path, _, name = location.replace("\\", "/").rpartition("/")
    directory = "" if _ROOT.fullmatch(path) else path.rpartition("/")[2]
    if _VARIES.search(directory) and (_VERSION.search(directory) or _HASH_OR_NUMBER.search(directory)):
        directory = ""  # the root of a release
    if len(directory) >= _MIN_ID and _ID.fullmatch(directory):
        directory = "<id>"
    if len(name) >= _MIN_ID and _ID.fullmatch(name):
        name = "<id>"
    if directory:
        name = f"{directory}/{name}"
    text = f"{name}:{function}" if name else function
    return _without_drawn(text) if _VARIES.search(text) else text


def _without_drawn(text: str) -> str:
    for pattern, replacement in _DRAWN:
        text = pattern.sub(replacement, text)
    return text


def make_frame(
    location: str,
    function: str,
    in_app: object,
    *,
    file: str = "",
    is_standard: object = False,
    is_panic: bool = False,
    is_named: bool = True,
) -> Frame:
    """A frame with its stable text."""
    text = stable_text(location, function) if in_app else ""
    is_named = is_named and bool(function) and not _UNNAMED.search(function)
    return Frame(location, function, bool(in_app), file, text, bool(is_standard), is_panic, is_named)


def frame_line(family: str, frame: Frame, indent: int = 0, number: int = -1, text: str = "") -> Line:
    """The line of a whole frame. `text` is the type of the exception, if the line also has it."""
    return Line(Kind.FRAME, family, frame, text, indent, number)


_ENTRY_BYTES: Final = 512  # of the dictionaries, without the objects that key and value refer to

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Memo(dict[Key, Value], Generic[Key, Value]):
    """A dictionary that computes missing values with `compute`, which is pure. Safe for threads. Keys are texts and
    tuples. If key and value with all objects that they refer to have more than `max_entry_bytes`, the value is computed
    each time.
    """

    def __init__(self, compute: Callable[[Key], Value], max_bytes: int, max_entry_bytes: int) -> None:
        super().__init__()
        self._compute = compute
        self._half_bytes = max_bytes // 2
        self._max_entry_bytes = max_entry_bytes
        self._older: dict[Key, Value] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __missing__(self, key: Key) -> Value:
        older = self._older
        value = older[key] if key in older else self._compute(key)
        size = _ENTRY_BYTES + count_bytes((key, value), self._max_entry_bytes)
        if size <= self._max_entry_bytes:
            with self._lock:
                self._keep(key, value, size)
        return value

    def _keep(self, key: Key, value: Value, size: int) -> None:
        if self._bytes + size > self._half_bytes:
            self._older = dict(self)
            self.clear()
            self._bytes = 0
        if key not in self:
            self[key] = value
            self._bytes += size

    def forget(self) -> None:
        """Clear the dictionary, as in a new process."""
        with self._lock:
            self._older = {}
            self.clear()
            self._bytes = 0


def count_bytes(value: object, enough: int) -> int:
    """The bytes of the texts, tuples, lists and lines in `value`, each counted once. Stops counting at `enough`."""
    seen: set[int] = set()
    rest, size = [value], 0
    while rest and size <= enough:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        size += sys.getsizeof(one)
        if isinstance(one, (tuple, list)):
            rest += one
        elif isinstance(one, Line):
            rest += (one.text, one.frame)
    return size
