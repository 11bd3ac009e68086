"""Generates the random part of ids and secrets; their formats are in `proto.identity`."""

import secrets
import threading
import time
from typing import Final

from proto.identity import (
    EMAIL_VERIFICATION_PREFIX,
    INVITATION_PREFIX,
    MAX_PROJECT_ID,
    PROJECT_KEY_ENTROPY_BYTES,
    REFRESH_PREFIX,
    SCIM_PREFIX,
    TOKEN_ENTROPY_BYTES,
    encode_project_key,
    encode_token,
)

_CROCKFORD: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_STEP_BITS: Final = 40  # between two ids of the same millisecond
_ID_DIGITS: Final = 26  # for 128 bits, five per digit


class _Numbers:
    """128-bit numbers that ascend in this process, also within a millisecond and when the clock goes back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
        with self._lock:
            self._last = max(number, self._last + 1 + secrets.randbits(_STEP_BITS))
            return self._last


_numbers: Final = _Numbers()


def new_id(prefix: str) -> str:
    """`prefix_` and a ULID in lower case: 48 bits of milliseconds, 80 random bits. Sorts by time of creation, and
    within one process in the order of the calls.
    """
    number = _numbers.next()
    digits = [_CROCKFORD[number >> shift & 31] for shift in range(5 * (_ID_DIGITS - 1), -1, -5)]
    return f"{prefix}_{''.join(digits)}"


def new_project_id() -> int:
    """A random positive integer of 53 bits: exact in JSON everywhere, and it does not reveal the number of projects."""
    return 1 + secrets.randbelow(MAX_PROJECT_ID)


def new_token() -> str:
    """A new personal access token, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES))


def new_invitation() -> str:
    """A new invitation token, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES), INVITATION_PREFIX)


def new_refresh_token() -> str:
    """A new refresh token of a session, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES), REFRESH_PREFIX)


def new_email_verification() -> str:
    """A new secret that verifies an e-mail address, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES), EMAIL_VERIFICATION_PREFIX)


def new_project_key() -> str:
    """A new project key, in plain text."""
    return encode_project_key(secrets.token_bytes(PROJECT_KEY_ENTROPY_BYTES))


def new_scim_token() -> str:
    """A new token of a directory, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES), SCIM_PREFIX)
