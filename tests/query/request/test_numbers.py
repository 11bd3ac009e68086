"""Numbers of filters: what is one, and under which texts it is stored."""

from fractions import Fraction

import pytest

from query.request.numbers import Scalar, canonical_text, numeric_spellings, parse_number, without_exponent


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", Fraction(1)),
        ("-1.50", Fraction(-3, 2)),
        ("+.5", Fraction(1, 2)),
        ("1.", Fraction(1)),
        ("1e3", Fraction(1000)),
        ("1E-3", Fraction(1, 1000)),
        ("1e308", Fraction(10**308)),
        ("1e309", None),
        ("1e-400", Fraction(1, 10**400)),
        ("1e-401", None),
        ("1e99999", None),
        ("nan", None),
        ("Infinity", None),
        ("0x10", None),
        ("1_000", None),
        (" 1", None),
        ("", None),
        (".", None),
        ("٣", None),
        ("9" * 1024, None),
    ],
)
def test_numbers_are_finite_decimals(text: str, expected: Fraction | None) -> None:
    assert parse_number(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200", ("200",)),
        ("200.0", ("200",)),
        ("0.1", ("0.1",)),
        ("0", ("0", "-0")),
        ("1e16", ("10000000000000000", "1e+16")),
        ("9007199254740993", ("9007199254740993",)),  # no double is that
        ("9007199254740993.0", ("9007199254740993",)),
        ("9007199254740993.5", ()),
        ("1e23", ("100000000000000000000000", "1e+23")),
        ("100000000000000000000000", ("100000000000000000000000",)),
        ("x", ()),
    ],
)
def test_a_number_equals_the_canonical_texts_of_equal_numbers(text: str, expected: tuple[str, ...]) -> None:
    assert numeric_spellings(text) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1.0", "1.0"),
        (1, "1"),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63), "-9223372036854775808"),
        (1.0, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (1e16, "1e+16"),
        (5e-324, "5e-324"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_a_value_in_json_stands_for_the_text_it_is_stored_as(value: Scalar, text: str) -> None:
    assert canonical_text(value) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.7951844e+18", "1795184400000000000"), ("1e-3", "1e-3"), ("1e400", "1e400"), ("12", "12"), ("never", "never")],
)
def test_a_whole_number_in_digits_alone(text: str, expected: str) -> None:
    assert without_exponent(text) == expected
