"""What lifts the limit on passwords that are tried at an account from new addresses: a proof of work or a mailed link.

Both are signed texts that no store holds. A challenge is for an account and an address, five minutes, once. The secret
in a link is for an account and the browser that asked for it, half an hour; it stands for no password and no second
factor. Addresses are hashed with the same key.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.errors import BadRequest, RateLimited
from chassis.http.cursor import MAX_CURSOR_LENGTH, CursorSigner
from proto.errors import ErrorCode
from proto.identity import normalize_email

CHALLENGE_LIFETIME: Final = timedelta(minutes=5)
LINK_LIFETIME: Final = timedelta(minutes=30)
BITS: Final = 20  # a million hashes on average: a second or two in a browser
MAX_PROOF_LENGTH: Final = 64
_NONCE_BYTES: Final = 24  # makes a challenge of 64 characters, one block of SHA-256


class Challenge(msgspec.Struct, frozen=True):
    """A proof-of-work challenge."""

    challenge: Annotated[str, Meta(max_length=MAX_CURSOR_LENGTH)]
    bits: int


class ChallengeErrorBody(msgspec.Struct, frozen=True, rename="camel"):
    """Why a login was refused; `details` only if a proof of work helps."""

    code: ErrorCode
    message: str
    request_id: str
    details: Challenge | UnsetType = UNSET


class ChallengeError(msgspec.Struct, frozen=True):
    """The error of a refused login."""

    error: ChallengeErrorBody


class ChallengeRequired(RateLimited):
    """429: too many passwords were tried at this account from new addresses. `details`: the challenge to solve."""

    def __init__(self, challenge: str, retry_after: int) -> None:
        super().__init__(
            "Too many failed logins to this account from new addresses. Repeat the request with `challenge` and a "
            "`proof`: SHA-256 of the challenge followed directly by the proof (UTF-8) must begin with `bits` zero "
            "bits.",
            retry_after,
            challenge={"challenge": challenge, "bits": BITS},
        )


@dataclass(frozen=True, slots=True)
class LoginChallenges:
    """Signs and verifies; stateless otherwise. `email` in any spelling; `address`: as limits count it."""

    signer: CursorSigner

    def new_challenge(self, email: str, address: str) -> str:
        """A challenge for an attempt to log in."""
        payload = (secrets.token_bytes(_NONCE_BYTES), _expiry(CHALLENGE_LIFETIME))
        return self.signer.sign(payload, _binding("challenge", email, address))

    def is_solved(self, challenge: str, proof: str, email: str, address: str) -> bool:
        """Whether the challenge is ours, for this account and address, not too old, and solved. Says nothing about
        whether it was used before.
        """
        try:
            _, expiry = self.signer.open(challenge, _binding("challenge", email, address), tuple[bytes, int])
        except BadRequest:
            return False
        digest = hashlib.sha256((challenge + proof).encode("utf-8", "surrogatepass")).digest()
        return datetime.now(UTC).timestamp() < expiry and int.from_bytes(digest) >> (256 - BITS) == 0

    def new_link_secret(self, email: str, browser: str) -> str:
        """The secret of a link for the browser that has this secret of its own."""
        return self.signer.sign((_expiry(LINK_LIFETIME),), _binding("link", email, browser))

    def is_link_secret(self, link_secret: str, email: str, browser: str) -> bool:
        """Whether the secret was mailed to the address for this browser, not too long ago."""
        try:
            (expiry,) = self.signer.open(link_secret, _binding("link", email, browser), tuple[int])
        except BadRequest:
            return False
        return datetime.now(UTC).timestamp() < expiry

    def hash_address(self, principal_id: str, address: str) -> str:
        """The keyed hash that is stored for an address: without the key, addresses cannot be guessed."""
        return self.signer.sign((), b"\0".join((b"login address", principal_id.encode(), address.encode())))


def _expiry(lifetime: timedelta) -> int:
    """Seconds since 1970; five bytes of MessagePack until 2106."""
    return int((datetime.now(UTC) + lifetime).timestamp())


def _binding(purpose: str, email: str, holder: str) -> bytes:
    account = hashlib.sha256(normalize_email(email).encode("utf-8", "surrogatepass")).digest()
    return b"login " + purpose.encode() + b"\0" + account + holder.encode("utf-8", "surrogatepass")
