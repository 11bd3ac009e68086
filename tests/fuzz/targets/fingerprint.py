"""Stack traces and messages as anyone may send them: the fingerprint never fails, is soon done and always the same.

An input is an exception's type, message and stack trace, separated by NUL. What takes longer than the target's time
limit is a finding as well.
"""

from proto.grouping.fingerprint import FINGERPRINT_BYTES, fingerprint
from proto.grouping.messages import normalize_message
from proto.stack_traces import in_app_frames


def check(data: bytes) -> None:
    kind, message, stacktrace = (*data.decode(errors="replace").split("\0"), "", "", "")[:3]
    first = fingerprint(kind, message, stacktrace)
    assert len(first) == FINGERPRINT_BYTES
    assert first == fingerprint(kind, message, stacktrace)
    frames = in_app_frames(stacktrace)
    if frames:  # then the message says nothing
        assert first == fingerprint(kind, message + "x", stacktrace)
    else:
        assert (
            first == fingerprint(kind, message + "\n" + message, stacktrace) or "\n" in message or not message.strip()
        )
    assert "\n" not in normalize_message(message)
