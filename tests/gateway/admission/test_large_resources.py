"""What a project's large resources and scopes may take for a day, and what becomes of a request beyond it."""

import pytest

from gateway.admission import budgets
from gateway.admission.budgets import (
    MIN_CHARGE_BYTES,
    SMALL_BYTES,
    LargeResourceBudget,
    with_small_resource_limits,
)
from proto.otlp.policy import Policy

LARGE = SMALL_BYTES + 10_000
TODAY = [20_000]


def sizes(*hashes: int, size: int = LARGE) -> dict[int, int]:
    return dict.fromkeys(hashes, size)


def test_distinct_ones_use_the_allowance_up_and_known_ones_do_not() -> None:
    large = LargeResourceBudget(25_000)
    assert large.admit(1, TODAY, sizes(1, 2))
    assert not large.admit(1, TODAY, sizes(3))
    assert large.admit(1, TODAY, sizes(2, 1))
    assert not large.admit(1, TODAY, sizes(2, 3))
    assert large.admit(1, TODAY, sizes(4, size=SMALL_BYTES + 4_500))  # there is room for a smaller one
    assert large.admit(1, TODAY, {})


def test_a_project_has_its_own_for_each_day_of_its_items() -> None:
    large = LargeResourceBudget(15_000)
    assert large.admit(1, [1], sizes(1))
    assert not large.admit(1, [1], sizes(2))
    assert large.admit(2, [1], sizes(2))
    assert large.admit(1, [2], sizes(2))
    assert not large.admit(1, [1, 3], sizes(3))
    assert large.admit(1, [3], sizes(3))  # what was refused was charged to no day


def test_even_the_smallest_excess_is_charged_unless_there_is_no_limit() -> None:
    for limit, last in ((3 * MIN_CHARGE_BYTES, False), (0, True)):
        large = LargeResourceBudget(limit)
        admitted = [large.admit(1, TODAY, sizes(n, size=SMALL_BYTES + 1)) for n in range(4)]
        assert admitted == [True, True, True, last]


def test_what_is_remembered_is_bounded_and_nobody_is_refused_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "MAX_TRACKED", 3)
    large = LargeResourceBudget(15_000)
    assert all(large.admit(project, TODAY, sizes(1)) for project in range(5))
    assert not large.admit(4, TODAY, sizes(2))
    assert large.admit(0, TODAY, sizes(2))  # forgotten, it begins anew


def test_the_policy_without_large_ones_allows_no_more_than_the_one_before() -> None:
    assert with_small_resource_limits(Policy()).max_resource_bytes == SMALL_BYTES
    assert with_small_resource_limits(Policy(max_resource_bytes=100_000, max_scope_bytes=100)).max_scope_bytes == 100
