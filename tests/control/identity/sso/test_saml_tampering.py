"""No change of a signed response says something else: whatever is believed is what was signed."""

from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from control.identity.sso.refusal import LoginRefused
from control.identity.sso.saml.response import Assertion, verify_response
from tests.control.identity.sso.saml_idp import Signed, certificate, ec_key, expected, login, post


@cache
def signed(place: Signed) -> bytes:
    """With ECDSA: its signatures are as quick to make as to verify."""
    return etree.tostring(login(place, key=ec_key()))


@cache
def said(place: Signed) -> Assertion:
    """What the response says as it was signed."""
    return verify_response(post(signed(place)), expected(certificate(ec_key())))


def check(place: Signed, changed: bytes) -> None:
    try:
        found = verify_response(post(changed), expected(certificate(ec_key())))
    except LoginRefused:
        return
    assert found == said(place)


PLACES: tuple[Signed, ...] = ("assertion", "response", "both")
PLACE = st.sampled_from(PLACES)


@settings(max_examples=200)
@given(signed_place=PLACE, at=st.floats(0, 1, exclude_max=True), flipped=st.integers(1, 255))
def test_no_flipped_byte_says_something_else(signed_place: Signed, at: float, flipped: int) -> None:
    xml = signed(signed_place)
    place = int(at * len(xml))
    check(signed_place, xml[:place] + bytes((xml[place] ^ flipped,)) + xml[place + 1 :])


@settings(max_examples=200)
@given(signed_place=PLACE, start=st.floats(0, 1), length=st.integers(0, 400), to=st.floats(0, 1), move=st.booleans())
def test_no_moved_piece_says_something_else(
    signed_place: Signed, start: float, length: int, to: float, *, move: bool
) -> None:
    xml = signed(signed_place)
    begin = int(start * len(xml))
    piece = xml[begin : begin + length]
    rest = xml[:begin] + xml[begin + length :] if move else xml
    place = int(to * len(rest))
    check(signed_place, rest[:place] + piece + rest[place:])


@pytest.mark.long
@pytest.mark.parametrize("signed_place", PLACES)
def test_no_flipped_byte_anywhere_says_something_else(signed_place: Signed) -> None:
    random, xml = Random(1), signed(signed_place)
    for place in range(len(xml)):
        for flipped in (random.randint(1, 255), 0x20):
            check(signed_place, xml[:place] + bytes((xml[place] ^ flipped,)) + xml[place + 1 :])
