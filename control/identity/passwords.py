"""Passwords: hashed with argon2id (RFC 9106), in threads, a few at a time."""

import asyncio
import unicodedata
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from chassis.errors import ServiceUnavailable

MIN_LENGTH: Final = 12  # characters
MAX_LENGTH: Final = 200
MAX_CONCURRENT: Final = 2  # each takes 64 MiB and a core
MAX_WAITING: Final = 32

# The second recommended option of RFC 9106, 4.
HASHER: Final = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=4)


class Passwords:
    """Hashes and compares. Both raise ServiceUnavailable when too many wait already."""

    def __init__(self) -> None:
        self._hasher = HASHER
        self._dummy_hash = ""  # what is compared where there is nothing to compare; made when it is needed
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """What is stored: parameters, salt and hash."""
        return await self._run_limited(_normalize(password))

    async def matches(self, stored: str | None, password: str) -> bool:
        """Whether it is the password. Without a stored one it never is, and that takes as long to say."""
        if not self._dummy_hash:
            self._dummy_hash = await self._run_limited("nobody's password")
        found = await self._run_limited(_normalize(password), stored or self._dummy_hash)
        return stored is not None and found == stored

    def needs_rehash(self, stored: str) -> bool:
        """Whether it was hashed with other parameters than a new one would be."""
        return self._hasher.check_needs_rehash(stored)

    async def _run_limited(self, password: str, stored: str | None = None) -> str:
        """A new hash; with `stored` that, when it is of this password, else nothing."""
        if self._waiting >= MAX_WAITING:
            raise ServiceUnavailable("Too many passwords are being compared.")
        self._waiting += 1
        try:
            async with self._semaphore:
                return await asyncio.to_thread(self._hash_or_verify, password, stored)
        finally:
            self._waiting -= 1

    def _hash_or_verify(self, password: str, stored: str | None) -> str:
        if stored is None:
            return self._hasher.hash(password)
        try:
            self._hasher.verify(stored, password)
        except (VerifyMismatchError, VerificationError, InvalidHashError):
            return ""
        return stored


def _normalize(password: str) -> str:
    """The same characters however a keyboard composes them (NIST SP 800-63B, 5.1.1.2)."""
    return unicodedata.normalize("NFKC", password)
