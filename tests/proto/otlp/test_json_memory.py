"""What is paid for reading JSON covers what reading it takes, for the bodies that take most."""

import pytest

from benchmarks.codec.memory import JSON_CASES, Body, grown


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("a name that is not UTF-8", "kernel"),
        ("2 M links", "kernel"),
        ("50 000 resources", "kernel"),
        ("a name of halves of pairs", "python"),
        ("22 M keys of an entity", "python"),
    ],
)
def test_what_is_paid_for_reading_json_covers_what_it_takes(name: str, way: str) -> None:
    taken = grown(Body(JSON_CASES[name](), is_json=True), way)
    assert taken.outcome.endswith("accepted")
    assert taken.peak < taken.paid, taken
