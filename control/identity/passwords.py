"""Passwords: hashed with argon2id (RFC 9106), in threads, at most MAX_CONCURRENT at a time."""

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
    """Hashes and verifies passwords. Both raise ServiceUnavailable when MAX_WAITING calls wait already."""

    def __init__(self) -> None:
        self._hasher = HASHER
        self._dummy_hash = ""  # verified when there is no stored hash, for equal timing; created on first use
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """The hash to store: parameters, salt and digest."""
        return await self._run_limited(_normalize(password))

    async def matches(self, stored: str | None, password: str) -> bool:
        """Whether the password is right. Without a stored hash it never is, and the check takes as long."""
        if not self._dummy_hash:
            self._dummy_hash = await self._run_limited("dummy password")
        found = await self._run_limited(_normalize(password), stored or self._dummy_hash)
        return stored is not None and found == stored

    def needs_rehash(self, stored: str) -> bool:
        """Whether it was hashed with other parameters than the current ones."""
        return self._hasher.check_needs_rehash(stored)

    async def _run_limited(self, password: str, stored: str | None = None) -> str:
        """Hash the password. With `stored`, verify it: returns `stored` if the password matches, else an empty
        string.
        """
        if self._waiting >= MAX_WAITING:
            raise ServiceUnavailable("Too many password checks are in progress. Retry later.")
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
    """Unicode NFKC, so that the result does not depend on how a keyboard composes characters (NIST SP 800-63B,
    5.1.1.2).
    """
    return unicodedata.normalize("NFKC", password)
