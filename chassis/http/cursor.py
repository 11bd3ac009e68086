"""Opaque page cursors: a position in an ordered list, signed together with the query that produced the list.

A cursor is `base64url(msgpack(payload) + tag)`. The tag is HMAC-SHA256 over binding and payload, truncated to 128 bits.
The cursor does not contain the binding (resource, organization, project, window, filters), so the next request must
repeat it.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, overload

import msgspec

from chassis.errors import BadRequest, Issue
from chassis.runtime.key_file import KEY_BYTES, load_or_create_key

MAX_CURSOR_LENGTH: Final = 500  # specification 8
_TAG_BYTES: Final = 16
_CONTEXT: Final = b"sluice cursor 1\0"

T = TypeVar("T")
CursorValue = str | int | bytes | None


class CursorSigner:
    """Signs and verifies cursors with one key of at least KEY_BYTES bytes. It has no other state."""

    def __init__(self, key: bytes) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"a cursor key requires at least {KEY_BYTES} bytes")
        self._key = key

    def sign(self, payload: Sequence[CursorValue], binding: bytes) -> str:
        """A cursor of at most 500 URL-safe characters. Raises ValueError for a longer payload (about 350 bytes)."""
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
        """The payload as `shape`, for example `tuple[int, str]`. Raises BadRequest for a cursor that was altered, or
        that has another binding or another shape.
        """
        try:
            if len(text) > MAX_CURSOR_LENGTH:
                raise ValueError
            raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
            body, tag = raw[:-_TAG_BYTES], raw[-_TAG_BYTES:]
            # Decoding ignores the unused low bits of the last digit, so only the canonical text is accepted.
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


def load_cursor_signer(configured: str, path: Path) -> CursorSigner:
    """A signer with the configured key, which several machines must share. Without a configured key, the signer uses
    the key in the file `path`, which is created if it is missing.

    Raises KeyFileUnusable.
    """
    if configured:
        return CursorSigner(hashlib.sha256(_CONTEXT + configured.encode()).digest())
    return CursorSigner(load_or_create_key(path, "cursor key"))


def _invalid_cursor() -> BadRequest:
    issue = Issue(path="query.cursor", message="The cursor is not valid for this request.", code="invalid")
    return BadRequest("The cursor is not valid for this request.", [issue])
