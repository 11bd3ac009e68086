"""Stack traces and messages as anyone may send them: the fingerprint never fails, is soon done and always the same.

An input is an exception's type, message and stack trace, separated by NUL. What takes longer than the target's time
limit is a finding as well. The oracle: the same result whatever was read before, and wherever an endless recursion was
when the stack was full, and in whatever order a group has its members; the message counts only where no frame has a
name.
"""

from proto.grouping.fingerprint import FINGERPRINT_BYTES, fingerprint, forget
from proto.grouping.messages import normalize_message
from proto.stack_traces import in_app_frames, source_frames
from proto.stack_traces.trace import read_trace

TURNS = 4


def check(data: bytes) -> None:
    kind, message, stacktrace = (*data.decode(errors="replace").split("\0"), "", "", "")[:3]
    first = fingerprint(kind, message, stacktrace)
    assert len(first) == FINGERPRINT_BYTES
    assert first == fingerprint(kind, message, stacktrace)
    forget()
    assert first == fingerprint(kind, message, stacktrace)
    trace = read_trace(stacktrace)
    assert len(in_app_frames(stacktrace)) == len(source_frames(stacktrace)) == len(trace.frames)
    assert all(frame.in_app and "\n" not in frame.text for frame in trace.own)
    assert trace.place <= len(trace.own)
    if any(frame.is_named for frame in trace.own[: trace.place]):  # then the message says nothing
        assert first == fingerprint(kind, message + "x", stacktrace)
    elif message.strip() and "\n" not in message:
        assert first == fingerprint(kind, message + "\n" + message, stacktrace)
    assert "\n" not in normalize_message(message)
    check_recursion(data)
    check_group(data)


def check_recursion(data: bytes) -> None:
    """An endless recursion through functions that the input names, ended at each of them."""
    names = [f"f{byte}" for byte in dict.fromkeys(data[:5])]
    found = set()
    for start in range(len(names)):
        turn = [*names[start:], *names[:start]] * TURNS
        frames = "".join(f'  File "/app/shop/walk.py", line {line}, in {name}\n' for line, name in enumerate(turn))
        trace = f"Traceback (most recent call last):\n{frames}RecursionError: maximum recursion depth exceeded"
        found.add(fingerprint("RecursionError", "maximum recursion depth exceeded", trace))
    assert len(found) <= 1


def check_group(data: bytes) -> None:
    """Exceptions of a group, in functions that the input names, in the order of the input and in the reverse one."""
    members = [
        f'    | Traceback:\n    |   File "/app/shop/jobs.py", line 1, in f{byte}\n    | E: {byte}\n'
        for byte in data[:9]
    ]
    found = set()
    for order in (members, members[::-1], [*members, *members]):
        trace = "    +---------------- 1 ----------------\n".join(
            ["  + Exception Group Traceback\n  | ExceptionGroup: a\n", *order]
        )
        found.add(fingerprint("ExceptionGroup", "a", trace))
    assert len(found) == 1
