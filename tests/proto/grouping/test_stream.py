"""In a stream of known bugs there are as many fingerprints as bugs."""

from collections import defaultdict

import pytest

from proto.grouping.fingerprint import fingerprint
from tests.proto.grouping.stream import occurrences
from tests.proto.grouping.stream.bugs import bugs


def _fingerprints(count: int) -> dict[bytes, set[int]]:
    """Which bugs have which fingerprint."""
    found: dict[bytes, set[int]] = defaultdict(set)
    for occurrence in occurrences(count):
        found[fingerprint(*occurrence.error)].add(occurrence.bug)
    return found


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_each_bug_of_a_stream_is_one_issue(count: int) -> None:
    found = _fingerprints(count)
    assert [numbers for numbers in found.values() if len(numbers) > 1] == []
    assert len(bugs()) <= len(found) <= 310


def test_a_stream_is_the_same_each_time() -> None:
    assert list(occurrences(400)) == list(occurrences(400))
    assert {occurrence.bug for occurrence in occurrences(400)} == set(range(300))
