"""Time-based one-time passwords (RFC 6238) with six digits, SHA-1 and steps of 30 seconds, which every app supports."""

import base64
import hashlib
import hmac
import re
from typing import Final
from urllib.parse import quote, urlencode

SECRET_BYTES: Final = 20  # RFC 4226, 4: 160 bits recommended
STEP_S: Final = 30
DIGITS: Final = 6
DRIFT: Final = 1  # accepted clock drift in steps, in either direction (RFC 6238, 5.2)
CODE_PATTERN: Final = r"^[0-9]{6}(?!\n)$"
RECOVERY_BYTES: Final = 10
RECOVERY_CODES: Final = 10
RECOVERY_PATTERN: Final = r"^[A-Za-z2-7]{8}-?[A-Za-z2-7]{8}(?!\n)$"

_CODE: Final = re.compile(CODE_PATTERN)
_RECOVERY: Final = re.compile(RECOVERY_PATTERN)


def totp(secret: bytes, step: int) -> str:
    """The code of a step. Steps are counted from 1970."""
    digest = hmac.digest(secret, step.to_bytes(8, "big"), hashlib.sha1)
    offset = digest[-1] & 0xF
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def matching_step(secret: bytes, code: str, now_s: float, after: int | None) -> int | None:
    """The step whose code this is. It must be at most DRIFT steps from the current step, and later than the step
    `after` (None: any). None if there is no such step.
    """
    if _CODE.search(code) is None:
        return None
    current = int(now_s) // STEP_S
    for step in range(current - DRIFT, current + DRIFT + 1):
        if (after is None or step > after) and hmac.compare_digest(totp(secret, step).encode(), code.encode()):
            return step
    return None


def base32(secret: bytes) -> str:
    """The secret in base32 without padding, as users type it into an app."""
    return base64.b32encode(secret).decode("ascii").rstrip("=")


def otpauth_uri(secret: bytes, issuer: str, account: str) -> str:
    """The content of a QR code for an app (Key Uri Format)."""
    label = quote(f"{issuer}:{account}", safe="@:")
    return f"otpauth://totp/{label}?{urlencode({'secret': base32(secret), 'issuer': issuer})}"


def recovery_code(entropy: bytes) -> str:
    """A code such as `abcdefgh-ijklmnop`, made of 10 random bytes. Raises ValueError for another number of bytes."""
    if len(entropy) != RECOVERY_BYTES:
        raise ValueError(f"a recovery code requires {RECOVERY_BYTES} random bytes")
    text = base64.b32encode(entropy).decode("ascii").lower()
    return f"{text[:8]}-{text[8:]}"


def normalize_recovery_code(text: str) -> str | None:
    """The code in the form that is hashed. It may have any case, and the dash may be missing. None if the text is not a
    code.
    """
    if _RECOVERY.search(text) is None:
        return None
    digits = text.lower().replace("-", "")
    return f"{digits[:8]}-{digits[8:]}"
