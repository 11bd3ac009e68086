"""Passwords: hashed with argon2id (RFC 9106), in threads, at most MAX_CONCURRENT at a time.

All accounts of one e-mail address have the same salt, so one computation compares a password with all of them. So a
login costs the same work and time for any number of accounts with the address. Salts differ between addresses as they
must, because the salt is drawn at random with the first account of an address.
"""

import asyncio
import hmac
import secrets
import unicodedata
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Collection, Sequence
from typing import Final

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError

from chassis.errors import ServiceUnavailable

MIN_LENGTH: Final = 12  # characters
MAX_LENGTH: Final = 200
MAX_CONCURRENT: Final = 2  # each takes 64 MiB and a core
MAX_WAITING: Final = 32
MIN_SALT_BYTES: Final = 8  # RFC 9106, 3.1
MAX_COMPUTATIONS: Final = 2  # per comparison: one for hashes of the current parameters, one for older hashes

# The second recommended option of RFC 9106, 4.
HASHER: Final = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=4)


class Passwords:
    """Hashes and verifies passwords. All methods raise ServiceUnavailable if MAX_WAITING calls wait already."""

    def __init__(self) -> None:
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT)
        self._waiting = 0

    async def hash(self, password: str, *, salted_like: str | None = None) -> str:
        """The hash to store: parameters, salt and digest. The salt is the salt of `salted_like`, the hash of an account
        with the same address, or random without `salted_like`.
        """
        salt = _salt(salted_like or "") or secrets.token_bytes(HASHER.salt_len)
        return await self._run_limited(HASHER, _normalize(password), salt)

    async def matches(self, stored: str | None, password: str) -> bool:
        """Whether the password is right. Without a stored hash the result is False, and the check takes as long."""
        return bool(await self.find_matching([] if stored is None else [stored], password))

    async def find_matching(self, stored: Collection[str], password: str) -> frozenset[str]:
        """The stored hashes that the password matches. Hashes with one salt and the same parameters need one
        computation together. At most MAX_COMPUTATIONS are made. Without a hash, the check takes as long.
        """
        groups: dict[str, list[str]] = {}
        for encoded in stored:
            if _salt(encoded) is not None:
                groups.setdefault(encoded.rpartition("$")[0], []).append(encoded)
        if not groups:
            await self._run_limited(HASHER, _normalize(password), bytes(HASHER.salt_len))
        matching: list[str] = []
        for encodings in list(groups.values())[:MAX_COMPUTATIONS]:
            matching += await self._matching_of_group(encodings, password)
        return frozenset(matching)

    def needs_rehash(self, stored: str) -> bool:
        """Whether the hash has other parameters than the current ones."""
        return HASHER.check_needs_rehash(stored)

    async def _matching_of_group(self, encodings: Sequence[str], password: str) -> list[str]:
        """The matching hashes of a group with one salt and the same parameters."""
        hasher = PasswordHasher.from_parameters(extract_parameters(encodings[0]))
        computed = await self._run_limited(hasher, _normalize(password), _salt(encodings[0]) or b"")
        return [encoded for encoded in encodings if hmac.compare_digest(computed, encoded)]

    async def _run_limited(self, hasher: PasswordHasher, password: str, salt: bytes) -> str:
        if self._waiting >= MAX_WAITING:
            raise ServiceUnavailable("Too many password checks are in progress. Retry later.")
        self._waiting += 1
        try:
            async with self._semaphore:
                return await asyncio.to_thread(hasher.hash, password, salt=salt)
        finally:
            self._waiting -= 1


def same_salt(one: str | None, other: str) -> bool:
    """Whether two hashes have the same salt. True if a hash is missing or unreadable."""
    salt = _salt(one or "")
    return salt is None or salt == _salt(other)


def _salt(encoded: str) -> bytes | None:
    """The salt of a stored hash, None if it is not a hash of Argon2."""
    try:
        extract_parameters(encoded)
        text = encoded.split("$")[-2]
        salt = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (InvalidHashError, Base64Error):
        return None
    return salt if len(salt) >= MIN_SALT_BYTES else None


def _normalize(password: str) -> str:
    """The password in Unicode NFKC, so that the hash does not depend on how a keyboard composes characters (NIST SP
    800-63B, 5.1.1.2).
    """
    return unicodedata.normalize("NFKC", password)
