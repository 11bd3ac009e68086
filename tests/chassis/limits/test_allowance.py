"""What each holder may use in time."""

import pytest

from chassis.limits import limiter
from chassis.limits.limiter import Allowance


def test_a_holder_has_a_burst_and_a_rate_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter, "MAX_HOLDERS", 2)
    now = 0.0
    allowed = Allowance[str](64, 8, lambda: now)
    assert allowed.has("a")
    allowed.use("a", 80)
    assert (allowed.has("a"), allowed.has("b")) == (False, True)
    now = 2.0
    assert not allowed.has("a"), "it owes 0"
    now = 2.5
    assert allowed.has("a")
    now = 1e9
    allowed.use("a", 64)
    assert not allowed.has("a"), "more than the burst is never left"
    assert (allowed.take("b", 65), allowed.take("b", 60), allowed.take("b", 5)) == (False, True, False), "not on credit"
    for name in ("b", "c"):
        allowed.use(name, 100)
    assert [allowed.has(name) for name in ("a", "b", "c")] == [True, False, False], "the oldest is forgotten"
