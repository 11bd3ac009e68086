"""Request ids, generated in batches.

`os.urandom` releases the interpreter's lock, and a busy process then waits to get the lock back. With one call per id,
this took a tenth of the event loop's time under overload (docs/adr/011-overload.md).
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
    """A new id: 32 hexadecimal digits, 128 random bits. Thread-safe."""
    while True:
        try:
            return _pool.pop()
        except IndexError:
            digits = os.urandom(_BYTES * _AT_ONCE).hex()
            _pool.extend(digits[start : start + _DIGITS] for start in range(0, len(digits), _DIGITS))


def resolve_request_id(proposed: str) -> str:
    """The id that the client proposes if it matches `[A-Za-z0-9._-]{1,64}`, otherwise a new id."""
    return proposed if _ACCEPTED.fullmatch(proposed) else new_request_id()


os.register_at_fork(after_in_child=_pool.clear)  # otherwise parent and child would use the same ids
