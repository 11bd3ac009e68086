"""Lua scripts, and the errors of running them."""

import hashlib
from typing import Literal

FailureKind = Literal["timeout", "connection", "refused"]


class Script:
    """A Lua script. Redis identifies a loaded script by its SHA-1."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisFailure(Exception):
    """One call failed: timeout, no connection, or an error reply. The text contains no password."""

    def __init__(self, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.kind: FailureKind = kind


class RedisUnavailable(Exception):
    """Redis cannot be used now. The caller continues without Redis."""
