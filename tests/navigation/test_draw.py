"""What `python -m tests.navigation` asks."""

from collections import Counter

from tests.navigation.__main__ import ROOT, behaviours, draw


def test_a_seed_draws_fourteen_behaviours_of_all_kinds() -> None:
    drawn = draw(7)
    assert drawn == draw(7) != draw(8)
    assert Counter(each.kind for each in drawn) == {"route": 7, "setting": 2, "metric": 2, "log event": 3}
    assert all((ROOT / each.file).exists() for each in drawn)


def test_every_kind_has_many() -> None:
    """Routes that a decorator declares, and everything else that the source names by a text."""
    found = Counter(each.kind for each in set(behaviours()))
    assert {kind: number > 50 for kind, number in found.items()} == dict.fromkeys(found, True)
