"""Numbers in filters: written as JSON or as text, compared exactly, and stored in one of several spellings."""

import re
from fractions import Fraction
from typing import Final

Scalar = str | int | float | bool

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,4}))?")


def canonical_text(value: Scalar) -> str:
    """The text (docs/codec.md 2) that is stored for an attribute with this value."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value).removesuffix(".0")
    return str(value)


def without_exponent(text: str) -> str:
    """Rewrite a whole number with an exponent in plain digits, as epochs are written; return any other
    text unchanged.
    """
    number = parse_number(text) if "e" in text else None
    return text if number is None or number.denominator != 1 else str(number.numerator)


def parse_number(text: str) -> Fraction | None:
    """Parse a finite decimal number exactly; None for any other text."""
    match = _NUMBER.fullmatch(text)
    if match is None or abs(int(match[1] or 0)) > 400:
        return None
    number = Fraction(text)
    try:
        float(number)
    except OverflowError:
        return None
    return number


def numeric_spellings(text: str) -> tuple[str, ...]:
    """The canonical texts (docs/codec.md 2) of the stored integers and doubles that equal `text`; empty if it is not a
    number.

    `1e23` and `0.1` mean the nearest double, as everywhere; an integer in plain digits means exactly itself.
    """
    number = parse_number(text)
    if number is None:
        return ()
    found = [str(number.numerator)] if number.denominator == 1 else []
    double = float(number)
    spelling = repr(double).removesuffix(".0")
    # A double without point and exponent reads as an integer, so it must equal the number exactly.
    if Fraction(double) == number or (set(text) & set(".eE") and set(spelling) & set(".e")):
        found.append(spelling)
    if number == 0:
        found.append("-0")
    return tuple(dict.fromkeys(found))
