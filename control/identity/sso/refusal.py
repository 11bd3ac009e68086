"""Reasons why a login is refused, as identifiers for the audit log. The browser gets one sentence for all reasons."""

import re
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

MAX_DETAIL_LENGTH: Final = 200
_REASON: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")


class LoginRefused(Exception):
    """A login through an identity provider is refused.

    `reason` is an identifier for programs (`audience_mismatch`). `detail` describes in at most 200 characters what was
    expected and what was received, for an administrator, without characters that are not printable. Neither contains a
    secret. Data from the provider may be hostile text.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        if _REASON.fullmatch(reason) is None:
            raise ValueError(f"not a reason: {reason}")
        super().__init__(reason)
        self.reason = reason
        # A lone surrogate, which JSON may contain, cannot be stored.
        self.detail = "".join(each if each.isprintable() else "\ufffd" for each in detail[:MAX_DETAIL_LENGTH])


def decode_document(body: bytes, type_: type[T], reason: str) -> T:
    """Decode JSON that a provider has sent, or signed. Raises LoginRefused with this reason."""
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LoginRefused(reason, str(error)) from error
