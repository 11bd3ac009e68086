"""Where a sign-on leads back to: what the URL parser of browsers makes of the text, or nothing.

The parser runs in Node.js, in a process of its own.
"""

from functools import cache

from control.identity.sso.login import return_path
from tests.control.identity.sso.url_standard import UrlStandard


@cache
def _standard() -> UrlStandard:
    return UrlStandard()


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    resolved = return_path.resolve(text)
    assert resolved == _standard().return_path(text), (text, resolved)
    if resolved is not None:
        assert return_path.resolve(resolved) == resolved
        assert resolved.isascii()
        assert resolved.isprintable()
