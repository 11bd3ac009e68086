"""What a project's large resources and scopes may take in a day, and what becomes of those beyond it."""

import pytest

from gateway import large_origins
from gateway.large_origins import LEAST_CHARGE, SMALL, LargeOrigins, without_large_ones
from proto.otlp.policy import NANOS_PER_DAY, Policy

LARGE = SMALL + 1_000


def text(number: int, size: int = LARGE) -> bytes:
    return (b"%d " % number).ljust(size, b"x")


def test_distinct_ones_use_the_allowance_up_and_known_ones_do_not() -> None:
    large = LargeOrigins(2_500, lambda: 0)
    assert large.admit(1, [text(1), text(2)])
    assert not large.admit(1, [text(3)])
    assert large.admit(1, [text(2), text(1)])
    assert not large.admit(1, [text(2), text(3)])
    assert large.admit(1, [text(4, SMALL + 300)])  # there is room for a smaller one
    assert large.admit(1, [])


def test_a_project_has_its_own() -> None:
    large = LargeOrigins(1_500, lambda: 0)
    assert large.admit(1, [text(1)])
    assert not large.admit(1, [text(2)])
    assert large.admit(2, [text(2)])


def test_the_next_day_begins_anew() -> None:
    now = [0]
    large = LargeOrigins(1_500, lambda: now[0])
    assert large.admit(1, [text(1)])
    assert not large.admit(1, [text(2)])
    now[0] = NANOS_PER_DAY
    assert large.admit(1, [text(2)])


def test_even_the_smallest_excess_is_charged() -> None:
    large = LargeOrigins(3 * LEAST_CHARGE, lambda: 0)
    assert [large.admit(1, [text(n, SMALL + 1)]) for n in range(4)] == [True, True, True, False]


def test_what_is_remembered_is_bounded_over_all_projects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_origins, "MOST_REMEMBERED", 3)
    large = LargeOrigins(10**9, lambda: 0)
    assert [large.admit(project, [text(1)]) for project in range(5)] == [True, True, True, False, False]
    assert large.admit(0, [text(1)])


def test_without_a_limit_all_are_stored() -> None:
    large = LargeOrigins(0, lambda: 0)
    assert all(large.admit(1, [text(n, 10 * LARGE)]) for n in range(100))


def test_the_policy_without_large_ones_allows_no_more_than_the_one_before() -> None:
    assert without_large_ones(Policy()).max_resource_bytes == SMALL
    assert without_large_ones(Policy(max_resource_bytes=100_000, max_scope_bytes=100)).max_scope_bytes == 100
