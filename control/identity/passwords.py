"""Passwords: hashed with argon2id (RFC 9106), in threads, a few at a time."""

import asyncio
import unicodedata
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from chassis.errors import ServiceUnavailable

MIN_LENGTH: Final = 12  # characters
MAX_LENGTH: Final = 200
AT_ONCE: Final = 2  # each takes 64 MiB and a core
MAX_WAITING: Final = 32

# The second recommended option of RFC 9106, 4.
HASHER: Final = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=4)


class Passwords:
    """Hashes and compares. Both raise ServiceUnavailable when too many wait already."""

    def __init__(self) -> None:
        self._hasher = HASHER
        self._decoy = ""  # what is compared where there is nothing to compare; made when it is needed
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """What is stored: parameters, salt and hash."""
        return await self._in_turn(_normal(password))

    async def matches(self, stored: str | None, password: str) -> bool:
        """Whether it is the password. Without a stored one it never is, and that takes as long to say."""
        if not self._decoy:
            self._decoy = await self._in_turn("nobody's password")
        found = await self._in_turn(_normal(password), stored or self._decoy)
        return stored is not None and found == stored

    def is_dated(self, stored: str) -> bool:
        """Whether it was hashed with other parameters than a new one would be."""
        return self._hasher.check_needs_rehash(stored)

    async def _in_turn(self, password: str, stored: str | None = None) -> str:
        """A new hash; with `stored` that, when it is of this password, else nothing."""
        if self._waiting >= MAX_WAITING:
            raise ServiceUnavailable("Too many passwords are being compared.")
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(self._work, password, stored)
        finally:
            self._waiting -= 1

    def _work(self, password: str, stored: str | None) -> str:
        if stored is None:
            return self._hasher.hash(password)
        try:
            self._hasher.verify(stored, password)
        except (VerifyMismatchError, VerificationError, InvalidHashError):
            return ""
        return stored


def _normal(password: str) -> str:
    """The same characters however a keyboard composes them (NIST SP 800-63B, 5.1.1.2)."""
    return unicodedata.normalize("NFKC", password)
