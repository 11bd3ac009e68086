"""What is asked of Redis, and how it fails."""

import hashlib
from typing import Literal

FailureKind = Literal["timeout", "connection", "refused"]


class Script:
    """A Lua script, which Redis knows by its hash once it has seen it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisFailure(Exception):
    """One call failed: no answer in time, no connection, or an answer that is an error. The text has no password."""

    def __init__(self, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.kind: FailureKind = kind


class RedisUnavailable(Exception):
    """Go on without it."""
