"""Codes by the vectors of RFC 6238 and by another's program."""

import pyotp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.totp import STEP_S, base32, matching_step, normalize_recovery_code, otpauth_uri, recovery_code, totp

SECRET = b"12345678901234567890"
# RFC 6238, appendix B, in six digits.
VECTORS = [
    (59, "287082"),
    (1_111_111_109, "081804"),
    (1_111_111_111, "050471"),
    (1_234_567_890, "005924"),
    (2_000_000_000, "279037"),
    (20_000_000_000, "353130"),
]


@pytest.mark.parametrize(("moment", "code"), VECTORS)
def test_the_vectors_of_the_rfc(moment: int, code: str) -> None:
    assert totp(SECRET, moment // STEP_S) == code
    assert matching_step(SECRET, code, moment, None) == moment // STEP_S


@given(st.binary(min_size=20, max_size=20), st.integers(0, 2**35))
def test_another_program_says_the_same(secret: bytes, moment: int) -> None:
    assert pyotp.TOTP(base32(secret)).at(moment) == totp(secret, moment // STEP_S)
    parsed = pyotp.parse_uri(otpauth_uri(secret, "Sluice", "ada+x@example.org"))
    assert isinstance(parsed, pyotp.TOTP)
    assert (parsed.secret, parsed.issuer, parsed.name) == (base32(secret), "Sluice", "ada+x@example.org")
    assert (parsed.interval, parsed.digits) == (30, 6)


def test_a_clock_may_be_a_step_off_and_a_step_counts_once() -> None:
    now = 1_111_111_111
    current = now // STEP_S
    found = [matching_step(SECRET, totp(SECRET, current + drift), now, None) for drift in (-2, -1, 0, 1, 2)]
    assert found == [None, current - 1, current, current + 1, None]
    assert matching_step(SECRET, totp(SECRET, current), now, current - 1) == current
    assert matching_step(SECRET, totp(SECRET, current), now, current) is None
    assert matching_step(SECRET, totp(SECRET, current - 1), now, current) is None, "nor does one before it"


def test_what_is_no_code_matches_nothing() -> None:
    fullwidth = "".join(chr(0xFEE0 + ord(digit)) for digit in "287082")
    for code in ("", "28708", "2870820", "28708\n", "287082\n", fullwidth, " 287082", "28708a"):
        assert matching_step(SECRET, code, 59, None) is None


def test_recovery_codes_are_the_same_however_they_are_typed() -> None:
    code = recovery_code(bytes(range(10)))
    assert code == "aaaqeaye-audaocaj"
    for typed in (code, code.upper(), code.replace("-", "")):
        assert normalize_recovery_code(typed) == code
    for typed in ("", code[:-1], code + "a", code + "\n", code.replace("a", "1"), "-" + code):
        assert normalize_recovery_code(typed) is None
    with pytest.raises(ValueError, match="10 random bytes"):
        recovery_code(b"")
