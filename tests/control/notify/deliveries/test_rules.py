"""What a reply means and what follows (research: Standard Webhooks 1.0.0)."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from control.notify.deliveries.rules import (
    JITTER,
    MAX_ATTEMPTS,
    RETRY_DELAYS_S,
    AttemptResult,
    backoff,
    clamp_wait,
    from_failure,
    from_reply,
    is_failing_too_long,
    parse_retry_after,
)
from control.outbound.egress import AddressBlocked, EgressError, HttpReply

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def reply(status: int, **headers: str) -> HttpReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpReply(status, CIMultiDictProxy(CIMultiDict(named)), b"secret")


def test_the_schedule_is_that_of_standard_webhooks() -> None:
    assert RETRY_DELAYS_S == (5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600)
    assert MAX_ATTEMPTS == 10


@given(st.integers(1, 20), st.none() | st.integers(1, 86_400), st.floats(0, 1))
def test_backoff_grows_with_jitter_and_respects_retry_after(attempts: int, wanted: int | None, draw: float) -> None:
    planned = RETRY_DELAYS_S[min(attempts, 9) - 1]
    found = backoff(attempts, wanted, draw).total_seconds()
    assert found >= (wanted or 0)
    if not wanted:
        assert planned * (1 - JITTER) - 1e-3 <= found <= planned * (1 + JITTER) + 1e-3


def test_every_status_is_success_permanent_or_transient() -> None:
    for status in range(100, 600):
        outcome = from_reply(reply(status), NOW)
        passing = status in {408, 409, 425, 429} or status >= 500
        assert outcome.ok is (200 <= status < 300), status
        assert outcome.permanent is (not outcome.ok and not passing), status
        assert outcome.endpoint_gone is (status == 410), status
        assert outcome.detail.endswith(f"(HTTP {status})."), status
        assert len(outcome.detail) <= 200, status
        assert "secret" not in outcome.detail, status


def test_retry_after_is_a_number_or_a_date() -> None:
    for text, seconds in (
        (None, None), ("", None), ("1", 1), ("0", 1), ("86400", 86_400), ("86401", 86_400), ("999999999", 86_400),
        ("9" * 400, None), ("-1", None), ("1.5", None), (" 30 ", 30), ("٣", None), ("soon", None), ("nan", None),
        ("Sat, 21 Nov 2026 12:01:00 GMT", 60), ("Sat, 21 Nov 2026 11:00:00 GMT", 1),
        ("Sat, 21 Nov 2026 12:01:00", 60), ("Sat, 21 Nov 2027 12:01:00 GMT", 86_400), ("Sat, 99 Nov 2026", None),
        ("Sat, 21 Nov 2026 12:01:00 +9999", None),
    ):  # fmt: skip
        assert parse_retry_after(text, NOW) == seconds, text


@given(st.text(max_size=60))
def test_no_retry_after_breaks_anything(text: str) -> None:
    found = parse_retry_after(text, NOW)
    assert found is None or 1 <= found <= 86_400


def test_waits_are_rounded_up_and_bounded() -> None:
    for asked, whole in ((0.2, 1), (1.0, 1), (1.2, 2), (64.5, 65), (1e9, 86_400), (-5, 1), (float("nan"), 1)):
        assert clamp_wait(asked) == whole


def test_a_failure_without_a_response_keeps_its_detail() -> None:
    assert from_failure(EgressError("The server did not respond in time.")) == AttemptResult(
        False, "The server did not respond in time."
    )
    assert from_failure(AddressBlocked()).permanent is True


def test_five_days_without_success_are_enough() -> None:
    assert not is_failing_too_long(None, NOW)
    assert not is_failing_too_long(NOW - timedelta(days=5) + timedelta(seconds=1), NOW)
    assert is_failing_too_long(NOW - timedelta(days=5), NOW)
