"""The same bug has one fingerprint, whatever build, machine or input it is from; other bugs have others."""

import pytest

from proto.grouping.fingerprint import fingerprint
from tests.proto.grouping.pairs import Pair, read_pairs, runtimes
from tests.proto.grouping.pairs.constructed import constructed

PAIRS = [*(pair for runtime in runtimes() for pair in read_pairs(runtime)), *constructed()]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_same_bug_is_one_issue_and_other_bugs_are_others(pair: Pair) -> None:
    found = [fingerprint(*error) for error in pair.errors]
    assert len(set(found)) == (1 if pair.same else len(found)), pair.name


def test_no_pair_is_trivial() -> None:
    for pair in PAIRS:
        assert len(set(pair.errors)) == len(pair.errors), pair.name
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
