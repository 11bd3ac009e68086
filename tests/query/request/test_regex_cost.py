"""The size of a regular expression, which bounds what a filter costs."""

import pytest

from query.request.patterns import expanded_size, is_within_limit


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        *(("", 0), ("abc", 3), ("a{10}", 10), ("a{3,}", 4), ("a{2,5}b", 6), ("(ab){3}", 6), ("((a{10}){10}){9}", 900)),
        *(("((a{10}){10}){10}0", 1001), ("[a-z]{7}", 7), (r"[\]{9}]{7}", 7), (r"\{9}", 3), (r"\p{Greek}{4}", 4)),
        *((r"\x{1F600}{4}", 4), (r"\Qa{9}\E", 8), ("a{x}", 4), ("(a|b){5}", 15), ("a{0}", 1), (")", 1)),
        ("(a{1000}){1000}", 1_000_000),
    ],
)
def test_repetitions_are_written_out(pattern: str, size: int) -> None:
    assert expanded_size(pattern) == size


def test_repetition_is_bounded_and_length_is_not() -> None:
    assert is_within_limit("a{200}")
    assert not is_within_limit("a{201}")
    assert not is_within_limit("((a{10}){10}){9}0")
    assert is_within_limit("a" * 1024)
