"""Where a sign-on leads back to: Sluice sends on what a browser goes to, held against the URL parser of browsers."""

import random
from collections.abc import Iterator
from typing import Final

import pytest

from control.identity.sso.login import return_path
from tests.control.identity.sso.url_standard import EXAMPLES, UrlStandard
from tests.selection import scaled

_PIECES: Final = (
    *("/", ".", "..", "%2e", "%2E", ".%2e", "\\", "\t", "\n", "\r", " ", "?", "#", "a", "é", "evil.example", "@", ":"),
    *("u:p@", "//", "%", "%2f", "%5c", "\0", "\x1f", "\x7f", "\u2028", "\uff0f", "\u3002", "\U0001f600", "'", '"', "^"),
    *("`", "{", "|", "}", "<", ">", "[", "]", "~", ";", "C:", "sluice.example", "javascript:", "127.0.0.1:8080"),
)


@pytest.fixture(scope="module")
def standard() -> Iterator[UrlStandard]:
    found = UrlStandard()
    yield found
    found.close()


@pytest.mark.sized
def test_a_return_path_is_where_a_browser_goes(standard: UrlStandard) -> None:
    draw = random.Random(37)
    drawn = ("/" + "".join(draw.choices(_PIECES, k=draw.randrange(1, 12))) for _ in range(scaled(5_000, 200_000)))
    accepted = 0
    for text in (*EXAMPLES, *drawn):
        resolved = return_path.resolve(text)
        assert resolved == standard.return_path(text), repr(text)
        if resolved is not None:
            accepted += 1
            assert return_path.resolve(resolved) == resolved, "resolving it again changes nothing"
    assert accepted > 1_000


def test_what_no_browser_sends_is_no_error() -> None:
    assert return_path.resolve("/\ud800?\udfff#\ud800") == "/%3F??#?"
    assert return_path.resolve_stored(None) is None
    assert return_path.resolve_stored("/.//evil.example") is None
