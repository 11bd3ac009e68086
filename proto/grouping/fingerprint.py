"""The fingerprint of an error: 16 bytes that stay the same across releases, builds and starts of a process.

It is a hash of the exception's type and its top frames in the application's own code, or of its message where there is
no stack trace. Line numbers, addresses, ids, hashes, versions and directories are removed first: they change with every
build while the error stays the same.
"""

import hashlib
from typing import Final

from proto.grouping.messages import normalize_message
from proto.stack_traces import in_app_frames

RULES_VERSION: Final = 2
FINGERPRINT_BYTES: Final = 16
FINGERPRINT_FRAMES: Final = 5  # the deeper ones change with the callers


def fingerprint(kind: str, message: str, stacktrace: str) -> bytes:
    """16 bytes that identify an error across releases. Takes at most a few hundred microseconds."""
    frames = in_app_frames(stacktrace)[:FINGERPRINT_FRAMES]
    parts = [kind.strip(), *frames] if frames else [kind.strip(), "", normalize_message(message)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=FINGERPRINT_BYTES).digest()
