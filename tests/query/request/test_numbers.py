"""Numbers of filters: what is one, and under which texts it is stored."""

from fractions import Fraction

from query.request.predicates import Scalar, canonical_text, numeric_spellings, parse_number, without_exponent


def test_numbers_are_finite_decimals() -> None:
    numbers = {"1": Fraction(1), "-1.50": Fraction(-3, 2), "+.5": Fraction(1, 2), "1.": Fraction(1)}
    numbers |= {"1e3": Fraction(1000), "1E-3": Fraction(1, 1000), "1e308": Fraction(10**308)}
    numbers["1e-400"] = Fraction(1, 10**400)
    assert {text: parse_number(text) for text in numbers} == numbers
    none = ["1e309", "1e-401", "1e99999", "nan", "Infinity", "0x10", "1_000", " 1", "", ".", "٣", "9" * 1024]
    assert [text for text in none if parse_number(text) is not None] == []


def test_a_number_equals_the_canonical_texts_of_equal_numbers() -> None:
    spellings: dict[str, tuple[str, ...]] = {
        "200": ("200",),
        "200.0": ("200",),
        "0.1": ("0.1",),
        "0": ("0", "-0"),
        "1e16": ("10000000000000000", "1e+16"),
        "9007199254740993": ("9007199254740993",),  # no double is that
        "9007199254740993.0": ("9007199254740993",),
        "9007199254740993.5": (),
        "1e23": ("100000000000000000000000", "1e+23"),
        "100000000000000000000000": ("100000000000000000000000",),
        "x": (),
    }
    assert {text: numeric_spellings(text) for text in spellings} == spellings


def test_a_value_in_json_stands_for_the_text_it_is_stored_as() -> None:
    values: list[Scalar] = ["1.0", 1, 2**63 - 1, -(2**63), 1.0, -0.0, 0.1, 1e16, 5e-324, True, False]
    texts = ["1.0", "1", "9223372036854775807", "-9223372036854775808", "1", "-0", "0.1", "1e+16", "5e-324"]
    assert [canonical_text(value) for value in values] == [*texts, "true", "false"]


def test_a_whole_number_in_digits_alone() -> None:
    digits = {"1.7951844e+18": "1795184400000000000", "1e-3": "1e-3", "1e400": "1e400", "12": "12", "never": "never"}
    assert {text: without_exponent(text) for text in digits} == digits
