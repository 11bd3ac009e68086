"""Opaque page cursors: a position in an ordered list, signed together with what the list was asked for.

A cursor is `base64url(msgpack(payload) + tag)`; the tag is HMAC-SHA256 over binding and payload, cut to 128 bits. The
binding (resource, organization, project, window, filters) is not in the cursor: the next request must bring the same.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, overload

import msgspec

from chassis.errors import BadRequest, Issue, StartupError

MAX_CURSOR_LENGTH: Final = 500  # specification 8
KEY_BYTES: Final = 32
_TAG_BYTES: Final = 16
_CONTEXT: Final = b"sluice cursor 1\0"

T = TypeVar("T")
CursorValue = str | int | bytes | None


class CursorKeyUnusable(StartupError):
    """The key file cannot be read or created; the message is one sentence for the operator."""


class CursorSigner:
    """Signs and opens cursors with one key; stateless otherwise."""

    def __init__(self, key: bytes) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"a cursor key has at least {KEY_BYTES} bytes")
        self._key = key

    def sign(self, payload: Sequence[CursorValue], binding: bytes) -> str:
        """At most 500 URL-safe characters; ValueError for a payload too long for that (about 350 bytes)."""
        body = msgspec.msgpack.encode(tuple(payload))
        text = base64.urlsafe_b64encode(body + self._tag(body, binding)).rstrip(b"=").decode("ascii")
        if len(text) > MAX_CURSOR_LENGTH:
            raise ValueError(f"a cursor of {len(text)} characters is longer than {MAX_CURSOR_LENGTH}")
        return text

    @overload
    def open(self, text: str, binding: bytes) -> tuple[Any, ...]: ...

    @overload
    def open(self, text: str, binding: bytes, shape: type[T]) -> T: ...

    def open(self, text: str, binding: bytes, shape: Any = tuple[Any, ...]) -> Any:
        """The payload as `shape`, say `tuple[int, str]`. BadRequest when altered, foreign or of another shape."""
        try:
            if len(text) > MAX_CURSOR_LENGTH:
                raise ValueError
            raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
            body, tag = raw[:-_TAG_BYTES], raw[-_TAG_BYTES:]
            # Decoding drops the unused low bits of the last digit, so the text itself must be the canonical one.
            if base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") != text:
                raise ValueError
            if not hmac.compare_digest(tag, self._tag(body, binding)):
                raise ValueError
            return msgspec.msgpack.decode(body, type=shape)
        except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
            raise _invalid_cursor() from error

    def _tag(self, body: bytes, binding: bytes) -> bytes:
        message = _CONTEXT + len(binding).to_bytes(8, "big") + binding + body
        return hmac.digest(self._key, message, hashlib.sha256)[:_TAG_BYTES]


def load_or_create_key(path: Path) -> bytes:
    """The 32 bytes in `path` (hex, mode 0600), drawn and written atomically when there is no such file yet.

    Raises CursorKeyUnusable. Two processes that start together end up with the same key.
    """
    try:
        if not path.exists():
            _create_key(path)
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise CursorKeyUnusable(f"The cursor key {path} cannot be used: {error.strerror}.") from error
    except ValueError as error:
        raise CursorKeyUnusable(f"The cursor key {path} is damaged: it must hold hexadecimal digits.") from error
    if len(key) != KEY_BYTES:
        raise CursorKeyUnusable(f"The cursor key {path} is damaged: it must hold {KEY_BYTES} bytes in hexadecimal.")
    return key


def cursor_signer(configured: str, path: Path) -> CursorSigner:
    """From the configured text when there is one (several machines must share it), else from the key file."""
    if configured:
        return CursorSigner(hashlib.sha256(_CONTEXT + configured.encode()).digest())
    return CursorSigner(load_or_create_key(path))


def _create_key(path: Path) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".cursor-")  # created with mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)  # never overwrites: the first process wins, the others read its key
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def _invalid_cursor() -> BadRequest:
    issue = Issue(path="query.cursor", message="The cursor is not valid for this request.", code="invalid")
    return BadRequest("The cursor is not valid for this request.", [issue])
