"""The fingerprint of an error: 16 bytes that stay the same across releases, builds and starts of a process.

The fingerprint is a hash of the exception's type, the type of its innermost cause, and the top frames of that cause in
the application's own code. If no frame belongs to the application, it is a hash of types and messages. For a group of
exceptions all members count. Line numbers, addresses, ids, hashes, versions and directories are removed first, because
they change with every build while the error stays the same. Repeated calls of a recursion count once, because the depth
of a recursion says nothing about the error.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from proto.grouping.messages import normalize_message
from proto.stack_traces import trace
from proto.stack_traces.frames import Frame, Memo
from proto.stack_traces.trace import Trace, read_trace

FINGERPRINT_FRAMES: Final = 5  # deeper frames change with the callers

_KIND: Final = re.compile(r"Recursion|StackOverflow|SystemStack|^InternalError$")
# In browsers, the type of a full stack and of many other errors; V8 names the reason in the first line.
_RANGE_ERROR: Final = "RangeError"
_TRACE: Final = re.compile(r"stack overflow|call stack|stack level too deep|goroutine stack exceeds", re.IGNORECASE)
_TRACE_CHARS: Final = 300
_INNER: Final = re.compile(r"<genexpr>$|\{closure\}$")  # functions within a function, besides functions without a name
_SELDOM: Final = 4  # functions this much rarer than the most frequent function belong to the end of the cycle


def fold(frames: Sequence[Frame], kind: str, stacktrace: str) -> list[str]:
    """The texts of the five innermost functions, in alphabetical order, because functions that call one another appear
    in any order. Of functions that recur together all are included. If the stack was full, which the type or the first
    lines say, only the recurring functions count.
    """
    texts = [frame.text for frame in frames]
    distinct = list(dict.fromkeys(texts))
    if len(distinct) == len(texts):
        return sorted(distinct[:FINGERPRINT_FRAMES])
    cycle = _overflown(texts, kind, stacktrace)
    if cycle:
        return [" ".join(sorted(cycle))]
    return sorted(_innermost(distinct, _cycles(texts), _passed_by(frames)))


def _overflown(texts: Sequence[str], kind: str, stacktrace: str) -> set[str]:
    """The functions of an endless recursion. Empty if the stack was not full."""
    counts = Counter(texts)
    most = max(counts.values())
    cycle = {text for text, count in counts.items() if count > max(1, most // _SELDOM)}
    if _KIND.search(kind) or _TRACE.search(stacktrace[:_TRACE_CHARS]):
        return cycle
    is_full = kind == _RANGE_ERROR and texts[0] in cycle and not stacktrace.lstrip().startswith(_RANGE_ERROR)
    return cycle if is_full else set()


def _innermost(distinct: Sequence[str], cycles: dict[str, set[str]], passed_by: set[str]) -> set[str]:
    """The innermost functions: FINGERPRINT_FRAMES of them, or more if they belong to a cycle."""
    found: set[str] = set()
    for text in distinct:
        if len(found) >= FINGERPRINT_FRAMES:
            break
        if text not in passed_by:
            found |= cycles.get(text, {text}) - passed_by
    return found


def _cycles(texts: Sequence[str]) -> dict[str, set[str]]:
    """For each function, all functions between its first and its last call."""
    ends = {text: number for number, text in enumerate(texts)}
    found: dict[str, set[str]] = {}
    cycle: set[str] = set()
    end = -1
    for number, text in enumerate(texts):
        if number > end:
            cycle, end = set(), number
        end = max(end, ends[text])
        cycle.add(text)
        found[text] = cycle
    return found


def _passed_by(frames: Sequence[Frame]) -> set[str]:
    """Lambdas and similar functions through which a function only called itself. Without recursion they do not
    appear.
    """
    inner = {frame.text for frame in frames if not frame.is_named or _INNER.search(frame.text)}
    if not inner:
        return inner
    path: dict[str, None] = {}  # from the outermost to the innermost function, without repetitions
    for frame in reversed(frames):
        if frame.text in path:
            while next(reversed(path)) != frame.text:
                path.popitem()
        path[frame.text] = None
    return inner - path.keys()


FINGERPRINT_VERSION: Final = 2  # version of the rules by which fingerprints are computed
FINGERPRINT_BYTES: Final = 16
MAX_CAUSES: Final = 8  # causes whose messages count

_MESSAGE_CHARS: Final = 2_048  # more than `normalize_message` reads
_MESSAGES_BYTES: Final = 2 * 2**20
_RULES_BYTES: Final = 16 * 2**20
_RULE_BYTES: Final = 64 * 2**10

# Types that only pass another exception from a thread, task or call to its caller. The cause's type says what failed.
_WRAPPER_NAMES = """
java.util.concurrent.ExecutionException java.util.concurrent.CompletionException
java.lang.reflect.InvocationTargetException java.lang.reflect.UndeclaredThrowableException
java.lang.ExceptionInInitializerError java.lang.NoClassDefFoundError
System.AggregateException System.Reflection.TargetInvocationException System.TypeInitializationException
ExceptionGroup BaseExceptionGroup exceptiongroup.ExceptionGroup exceptiongroup.BaseExceptionGroup AggregateError
*fmt.wrapError *fmt.wrapErrors *errors.withStack *errors.withMessage *errors.joinError
"""
_TRANSPARENT_WRAPPERS: Final = frozenset(_WRAPPER_NAMES.split())

# Functions that a framework calls around other functions: middlewares, filters, interceptors, decorators.
_PASSES_ON: Final = re.compile(
    r"(?:^|\W)(?:__call__|dispatch|wrapp(?:er|ed)|inner|decorat(?:or|ed)|call|handle|Handle|ServeHTTP|doFilter(?:Internal)?"
    r"|intercept|[iI]nvoke(?:Async)?|process(?:_request|_view|_response)?|use|next|\w*[mM]iddleware)$"
)


class _Rule(NamedTuple):
    """The contribution of an exception's type and stack trace to its fingerprint: `digest`. If the message counts too,
    it is hashed between `before` and `after`.
    """

    digest: bytes
    before: str = ""
    after: str = ""


def fingerprint(kind: str, message: str, stacktrace: str) -> bytes:
    """16 bytes that identify an error across releases. Takes some microseconds for a trace, or a trace with lines, that
    was seen before, and at most some milliseconds for a hostile trace.
    """
    digest, before, after = _RULES[kind, stacktrace]
    if digest:
        return digest
    if not (message or kind or not stacktrace):
        message = stacktrace.strip()
    return _hash(f"{before}{_MESSAGES[message[:_MESSAGE_CHARS]]}{after}")


def forget() -> None:
    """Clear the caches, as in a new process."""
    _RULES.forget()
    _MESSAGES.forget()
    trace.forget()


def _read_rule(error: tuple[str, str]) -> _Rule:
    kind, stacktrace = error[0].strip(), error[1]
    found = read_trace(stacktrace)
    if not found.own:
        return _Rule(b"", f"{kind}\n\n", _join(_causes(one) for one in (found, *found.others)))
    members = (found, *found.others)
    text = _join(_place(one, kind, stacktrace) if one.own else f"{kind}{_causes(one)}" for one in members)
    if any(frame.is_named for one in members for frame in one.own[: one.place]):
        return _Rule(_hash(text))
    return _Rule(b"", f"{text}\n\n")  # functions without a name: frames alone do not identify the error


def _join(texts: Iterable[str]) -> str:
    """Join the members of a group as a set, because they fail in any order, and many of them for the same reason."""
    return "\n\n".join(sorted(set(texts)))


def _causes(trace: Trace) -> str:
    return "".join(f"\n{normalize_message(cause)}" for cause in trace.causes[:MAX_CAUSES])


def _place(trace: Trace, kind: str, stacktrace: str) -> str:
    """The types and frames of an exception, as one text."""
    types = [kind] if not trace.cause or trace.cause == kind else [kind, trace.cause]
    if len(types) > 1 and kind in _TRANSPARENT_WRAPPERS:
        types = [trace.cause]
    return "\n".join([*types, "", *fold(_with_caller(trace), kind, stacktrace)])


def _with_caller(trace: Trace) -> Sequence[Frame]:
    """The frames at the place of the error. If there is only one function, which may be a helper that a library calls,
    its caller is included, unless the name of the caller is the name of a middleware.
    """
    place, around = trace.own[: trace.place], trace.own[trace.place :]
    if any(frame.text != place[0].text for frame in place):
        return place
    callers = (one for one in around if one.is_named and one.text != place[0].text and not _PASSES_ON.search(one.text))
    return [*place, *islice(callers, 1)]


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=FINGERPRINT_BYTES).digest()


_RULES: Final[Memo[tuple[str, str], _Rule]] = Memo(_read_rule, _RULES_BYTES, _RULE_BYTES)
_MESSAGES: Final[Memo[str, str]] = Memo(normalize_message, _MESSAGES_BYTES, 16 * _MESSAGE_CHARS)
