"""Why a login is refused: a word for the audit log. The browser gets one sentence, whatever the reason."""

import re
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

MAX_DETAIL_LENGTH: Final = 200
_REASON: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")


class LoginRefused(Exception):
    """A login through an identity provider is refused.

    `reason` is a word for programs (`audience_mismatch`), `detail` at most 200 characters for an administrator: what
    was expected and what came, without characters that are not printable. Neither contains a secret. What the provider
    sent may be hostile text.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        if _REASON.fullmatch(reason) is None:
            raise ValueError(f"not a reason: {reason}")
        super().__init__(reason)
        self.reason = reason
        # A lone surrogate, which JSON may contain, could not be stored.
        self.detail = "".join(each if each.isprintable() else "\ufffd" for each in detail[:MAX_DETAIL_LENGTH])


def decode_document(body: bytes, type_: type[T], reason: str) -> T:
    """JSON that a provider has sent, or signed. Raises LoginRefused with this reason."""
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LoginRefused(reason, str(error)) from error
