"""Windows of time: defaults, precedence, bounds, and slices."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import BadRequest
from chassis.http.validation import Issues
from query.statements import BUCKET, TimeRange, Window, slices, slices_oldest_first
from query.values import HOUR, MAX_NANOS, SECOND, format_timestamp

NOW = 1_795_188_000_123_456_789


def resolve(
    from_: str | None = None, to: str | None = None, hours: int | None = None
) -> Window | list[tuple[str, str]]:
    issues = Issues()
    window = TimeRange(from_, to, hours).resolve(NOW, "query", issues)
    try:
        issues.raise_if_any()
    except BadRequest as error:
        assert window is None
        return [(issue.path, issue.code) for issue in error.details or ()]
    assert window is not None
    return window


def test_without_anything_the_last_day() -> None:
    assert resolve() == Window(NOW - 24 * HOUR, NOW)


def test_hours_count_back_from_to() -> None:
    assert resolve(to="now-1h", hours=3) == Window(NOW - 4 * HOUR, NOW - HOUR)


def test_hours_count_from_from() -> None:
    assert resolve(from_="now-7h", hours=3) == Window(NOW - 7 * HOUR, NOW - 4 * HOUR)
    assert resolve(from_="now-2h", hours=700) == Window(NOW - 2 * HOUR, NOW + 698 * HOUR)
    assert resolve(from_=str(MAX_NANOS - HOUR), hours=3) == Window(MAX_NANOS - HOUR, MAX_NANOS)


def test_hours_with_both_ends_must_agree() -> None:
    assert resolve(from_="now-7h", to="now-4h", hours=3) == Window(NOW - 7 * HOUR, NOW - 4 * HOUR)
    for to in ("now-5h", "now-9h", "now-14400001ms"):
        assert resolve(from_="now-7h", to=to, hours=3) == [("query.hours", "range")]
    assert resolve(from_="x", to="now", hours=3) == [("query.from", "format")]


def test_a_window_may_be_720_hours_long_and_not_a_nanosecond_more() -> None:
    edge = NOW - 720 * HOUR
    assert resolve(from_=format_timestamp(edge)) == Window(edge, NOW)
    assert resolve(from_=format_timestamp(edge - 1)) == [("query.from", "range")]


def test_from_must_be_before_to() -> None:
    assert resolve(from_="now", to="now") == [("query.from", "range")]
    assert resolve(from_=format_timestamp(NOW - 1)) == Window(NOW - 1, NOW)
    assert resolve(from_="now+1s") == [("query.from", "range")]
    assert resolve(to="0") == [("query.to", "range")]


def test_each_bad_time_is_named() -> None:
    assert resolve(from_="x", to="y") == [("query.from", "format"), ("query.to", "format")]


def test_a_window_near_1970_is_cut_there() -> None:
    assert resolve(to="3600") == Window(0, 3600 * SECOND)


@given(st.integers(0, MAX_NANOS - 1), st.integers(1, 720 * HOUR))
def test_slices_cover_the_window_once_newest_first(from_ns: int, length: int) -> None:
    window = Window(from_ns, min(from_ns + length, MAX_NANOS))
    parts = list(slices(window))
    assert parts[0].to_ns == window.to_ns
    assert parts[-1].from_ns == window.from_ns
    assert all(newer.from_ns == older.to_ns for newer, older in pairwise(parts))
    assert all(part.from_ns % BUCKET == 0 for part in parts[:-1])
    assert len(parts) <= 8


@given(st.integers(0, MAX_NANOS - 1), st.integers(1, 720 * HOUR))
def test_slices_upward_cover_it_oldest_first(from_ns: int, length: int) -> None:
    window = Window(from_ns, min(from_ns + length, MAX_NANOS))
    parts = list(slices_oldest_first(window))
    assert (parts[0].from_ns, parts[-1].to_ns) == (window.from_ns, window.to_ns)
    assert all(older.to_ns == newer.from_ns for older, newer in pairwise(parts))
    assert all(part.to_ns % BUCKET == 0 for part in parts[:-1])
    assert len(parts) <= 8
