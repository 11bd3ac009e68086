"""Ids of requests, made many at a time.

The system is asked for random bytes without the interpreter's lock, which a busy process waits for afterwards: with one
id at a time that was a tenth of the event loop's time under overload (docs/adr/011-overload.md).
"""

import os
import re
from typing import Final

_ACCEPTED: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BYTES: Final = 16
_DIGITS: Final = 2 * _BYTES
_AT_ONCE: Final = 256

_pool: Final[list[str]] = []


def new_request_id() -> str:
    """32 hexadecimal digits that nobody can guess. May be called in any thread."""
    while True:
        try:
            return _pool.pop()
        except IndexError:
            digits = os.urandom(_BYTES * _AT_ONCE).hex()
            _pool.extend(digits[start : start + _DIGITS] for start in range(0, len(digits), _DIGITS))


def resolve_request_id(proposed: str) -> str:
    """The id a client proposes when it is harmless (`[A-Za-z0-9._-]{1,64}`), else a fresh one."""
    return proposed if _ACCEPTED.fullmatch(proposed) else new_request_id()


os.register_at_fork(after_in_child=_pool.clear)  # else parent and child would go on with the same ones
