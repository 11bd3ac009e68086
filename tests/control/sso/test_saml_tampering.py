"""No change of a signed response says something else: whatever is believed is what was signed."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from control.sso.refusal import LoginRefused
from control.sso.saml.response import verify_response
from tests.control.sso.saml_idp import Signed, certificate, ec_key, expected, login, post

PLACES: tuple[Signed, ...] = ("assertion", "response", "both")


@pytest.fixture(scope="module", params=PLACES)
def xml(request: pytest.FixtureRequest) -> bytes:
    """Signed with ECDSA: its signatures are as quick to make as to verify."""
    return etree.tostring(login(request.param, key=ec_key()))


def check(xml: bytes, changed: bytes) -> None:
    what_is_expected = expected(certificate(ec_key()))
    good = verify_response(post(xml), what_is_expected)
    try:
        found = verify_response(post(changed), what_is_expected)
    except LoginRefused:
        return
    assert found == good


@given(at=st.floats(0, 1, exclude_max=True), flipped=st.integers(1, 255))
def test_no_flipped_byte_says_something_else(xml: bytes, at: float, flipped: int) -> None:
    place = int(at * len(xml))
    check(xml, xml[:place] + bytes((xml[place] ^ flipped,)) + xml[place + 1 :])


@given(start=st.floats(0, 1), length=st.integers(0, 400), to=st.floats(0, 1), move=st.booleans())
def test_no_moved_piece_says_something_else(xml: bytes, start: float, length: int, to: float, *, move: bool) -> None:
    begin = int(start * len(xml))
    piece = xml[begin : begin + length]
    rest = xml[:begin] + xml[begin + length :] if move else xml
    place = int(to * len(rest))
    check(xml, rest[:place] + piece + rest[place:])


@pytest.mark.long
def test_no_flipped_byte_anywhere_says_something_else(xml: bytes) -> None:
    random = Random(1)
    for place in range(len(xml)):
        check(xml, xml[:place] + bytes((xml[place] ^ random.randint(1, 255),)) + xml[place + 1 :])
        check(xml, xml[:place] + bytes((xml[place] ^ 0x20,)) + xml[place + 1 :])
