"""Signatures of inbound webhooks, over the exact bytes of the body. Pure functions, in constant time with regard to
secrets.

    platform                            header                                      signed with HMAC-SHA256
    GitHub, Bitbucket, Jira             X-Hub-Signature-256, X-Hub-Signature        body            sha256=HEX
    Gitea, Forgejo, Linear              X-Gitea-Signature, ...                      body            HEX
    PagerDuty                           X-PagerDuty-Signature                       body            v1=HEX[,v1=HEX]
    chat-a                              X-Slack-Signature                           v0:TIME:body    v0=HEX
    payments                            Stripe-Signature                            TIME.body       t=TIME,v1=HEX[,...]
    Standard Webhooks, GitLab           webhook-signature                           ID.TIME.body    v1,BASE64[ ...]
    chat-b                              X-Signature-Ed25519                         Ed25519 of TIME and body, HEX

Every function returns False for a signature that is missing, malformed or made with another secret. `secrets` are the
secrets that are valid now. During a rotation there are two. An empty secret is ignored, since any sender could sign
with it. If a time is signed, it must be within REPLAY_WINDOW_S of `now`. Sources: the platforms' documentation, named
in docs/webhooks.md; standardwebhooks.com 1.0.0.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

REPLAY_WINDOW_S: Final = 300
MAX_SIGNATURES: Final = 10  # in one header; further ones are ignored
MAX_HEADER_LENGTH: Final = 2_048
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_ED25519_HEX: Final = re.compile(r"[0-9a-fA-F]{128}")
_TIME: Final = re.compile(r"[0-9]{1,12}")
_DIGEST_BYTES: Final = 32


def verify_body(secrets: Sequence[bytes], body: bytes, header: str | None, *, prefix: str = "") -> bool:
    """Verify a hexadecimal signature of the body alone, behind `prefix`."""
    if header is None or not header.startswith(prefix):
        return False
    return _matches(secrets, (body,), [header.removeprefix(prefix)])


def verify_versioned(secrets: Sequence[bytes], body: bytes, header: str | None) -> bool:
    """Verify hexadecimal signatures of the body alone, as `v1=HEX,v1=HEX`. One valid signature suffices."""
    given = [item.removeprefix("v1=") for item in _items(header, ",") if item.startswith("v1=")]
    return _matches(secrets, (body,), given)


def verify_chat_a(secrets: Sequence[bytes], body: bytes, timestamp: str | None, header: str | None, now: float) -> bool:
    """Verify the signature of chat-a: `v0=HEX` over `v0:TIME:body`."""
    if timestamp is None or header is None or not header.startswith("v0=") or not is_fresh(timestamp, now):
        return False
    signed = (b"v0:", timestamp.encode("ascii"), b":", body)
    return _matches(secrets, signed, [header.removeprefix("v0=")])


def verify_payments(secrets: Sequence[bytes], body: bytes, header: str | None, now: float) -> bool:
    """Verify the signature of payments: `t=TIME,v1=HEX`, one or more, over `TIME.body`. Other schemes (v0) are
    ignored.
    """
    times: list[str] = []
    given: list[str] = []
    for item in _items(header, ",", 1 + MAX_SIGNATURES):
        name, _, value = item.partition("=")
        if name == "t":
            times.append(value)
        elif name == "v1":
            given.append(value)
    if len(times) != 1 or not is_fresh(times[0], now):
        return False
    return _matches(secrets, (times[0].encode("ascii"), b".", body), given)


def verify_standard(
    secrets: Sequence[bytes],
    body: bytes,
    message_id: str | None,
    timestamp: str | None,
    header: str | None,
    now: float,
) -> bool:
    """Verify a signature of Standard Webhooks: `v1,BASE64`, one or more separated by spaces, over `ID.TIME.body`."""
    if message_id is None or timestamp is None or not message_id or not is_fresh(timestamp, now):
        return False
    given = [_from_base64(item.removeprefix("v1,")) for item in _items(header, " ") if item.startswith("v1,")]
    try:
        signed = (message_id.encode("latin-1"), b".", timestamp.encode("ascii"), b".", body)
    except UnicodeEncodeError:
        return False
    return _matches_bytes(secrets, signed, given)


def verify_ed25519(
    public_key: Ed25519PublicKey, body: bytes, timestamp: str | None, header: str | None, now: float
) -> bool:
    """Verify the signature of chat-b: Ed25519 over the time and the body."""
    if timestamp is None or header is None or not is_fresh(timestamp, now) or _ED25519_HEX.fullmatch(header) is None:
        return False
    try:
        public_key.verify(bytes.fromhex(header), timestamp.encode("ascii") + body)
    except InvalidSignature:
        return False
    return True


def verify_token(secrets: Sequence[bytes], given: str | None) -> bool:
    """Compare a shared token that is sent as it is. The token proves nothing about the body."""
    if given is None or len(given) > MAX_HEADER_LENGTH:
        return False
    try:
        return _any_equal(filter(None, secrets), [given.encode("utf-8", "surrogateescape")])
    except UnicodeEncodeError:
        return False


def is_fresh(timestamp: str, now: float) -> bool:
    """Whether the time, in seconds since 1970, is within the window."""
    return _TIME.fullmatch(timestamp) is not None and abs(now - int(timestamp)) <= REPLAY_WINDOW_S


def _items(header: str | None, separator: str, limit: int = MAX_SIGNATURES) -> list[str]:
    if header is None or len(header) > MAX_HEADER_LENGTH:
        return []
    return [item.strip(" ") for item in header.split(separator)[:limit]]


def _matches(secrets: Sequence[bytes], signed: Sequence[bytes], given: Iterable[str]) -> bool:
    """Whether the hexadecimal signature matches. Only lower case matches, because a platform sends only one spelling of
    its signature.
    """
    return _matches_bytes(secrets, signed, [bytes.fromhex(one) for one in given if _HEX.fullmatch(one)])


def _matches_bytes(secrets: Sequence[bytes], signed: Sequence[bytes], given: Sequence[bytes | None]) -> bool:
    digests = [one for one in given if one is not None and len(one) == _DIGEST_BYTES]
    if not digests:
        return False
    return _any_equal([_hmac(secret, signed) for secret in secrets if secret], digests)


def _any_equal(expected: Iterable[bytes], given: Sequence[bytes]) -> bool:
    """Whether a signature matches a secret. Every pair is compared, so that the time does not tell which pair
    matched.
    """
    found = False
    for one in expected:
        for other in given:
            found |= hmac.compare_digest(one, other)
    return found


def _hmac(secret: bytes, parts: Iterable[bytes]) -> bytes:
    digest = hmac.new(secret, digestmod=hashlib.sha256)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _from_base64(encoded: str) -> bytes | None:
    """Decode base64. Returns None for a text that is not the canonical encoding of its bytes: unused bits must be
    zero.
    """
    try:
        decoded = base64.b64decode(encoded.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        return None
    return decoded if base64.b64encode(decoded) == encoded.encode("ascii") else None
