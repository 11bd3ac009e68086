"""The fingerprint of an error: 16 bytes that stay the same across releases, builds and starts of a process.

It is a hash of the exception's type, the type of its innermost cause and the top frames of that cause in the
application's own code; of types and messages where no frame is the application's. Line numbers, addresses, ids, hashes,
versions and directories are removed first: they change with every build while the error stays the same.
"""

import hashlib
from typing import Final

from proto.grouping.messages import normalize_message
from proto.stack_traces import Trace, read_trace
from proto.stack_traces.recursion import fold, says_overflow

RULES_VERSION: Final = 2
FINGERPRINT_BYTES: Final = 16
FINGERPRINT_FRAMES: Final = 5  # the deeper ones change with the callers
MAX_CAUSES: Final = 8  # whose messages count

# Types that only carry another exception from a thread, task or call to its caller: the cause's type says what failed.
_CARRIERS: Final = frozenset(
    [
        "java.util.concurrent.ExecutionException",
        "java.util.concurrent.CompletionException",
        "java.lang.reflect.InvocationTargetException",
        "java.lang.reflect.UndeclaredThrowableException",
        "java.lang.ExceptionInInitializerError",
        "scala.concurrent.ExecutionException",
        "System.AggregateException",
        "System.Reflection.TargetInvocationException",
        "System.TypeInitializationException",
        "ExceptionGroup",
        "BaseExceptionGroup",
        "exceptiongroup.ExceptionGroup",
        "exceptiongroup.BaseExceptionGroup",
        "AggregateError",
        "*fmt.wrapError",
        "*fmt.wrapErrors",
        "*errors.withStack",
        "*errors.withMessage",
        "*errors.joinError",
    ]
)


def fingerprint(kind: str, message: str, stacktrace: str) -> bytes:
    """16 bytes that identify an error across releases. Takes a few microseconds for a trace whose lines were seen
    before, at most some milliseconds for a hostile one.
    """
    kind = kind.strip()
    trace = read_trace(stacktrace)
    parts = _of_frames(kind, message, trace) if trace.own else _of_messages(kind, message, stacktrace, trace)
    return hashlib.blake2b("\n".join(parts).encode(errors="replace"), digest_size=FINGERPRINT_BYTES).digest()


def _of_frames(kind: str, message: str, trace: Trace) -> list[str]:
    overflow = says_overflow(kind, message)
    frames = fold([frame.text for frame in trace.own], overflow=overflow)
    types = [kind] if not trace.cause or trace.cause == kind else [kind, trace.cause]
    if len(types) > 1 and kind in _CARRIERS:
        types = [trace.cause]
    parts = [*types, "", *frames[:FINGERPRINT_FRAMES]]
    if any(frame.is_named for frame in trace.own):
        return parts
    return [*parts, "", normalize_message(message)]  # a minifier took the names away: the frames say hardly anything


def _of_messages(kind: str, message: str, stacktrace: str, trace: Trace) -> list[str]:
    if not kind and not message.strip():
        message = stacktrace.strip()
    return [kind, "", normalize_message(message), *map(normalize_message, trace.causes[:MAX_CAUSES])]
