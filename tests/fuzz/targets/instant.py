"""Times and windows as anyone may write them: up to three lines, `from`, `to` and `hours`."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from chassis.http.validation import Issues, bounded_int
from query.statements import MAX_HOURS, TimeRange, slices
from query.values import HOUR, MAX_NANOS, TimestampError, format_millis, format_timestamp, parse_timestamp

NOW_NS: Final = 1_790_000_000 * 10**9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def check(data: bytes) -> None:
    lines = data.decode(errors="replace").split("\n")
    for line in lines:
        check_instant(line)
    from_text, to_text, hours_text = (*lines, "", "", "")[:3]
    issues = Issues()
    hours = bounded_int({"hours": hours_text}, "hours", 1, 1, MAX_HOURS, issues) if hours_text else None
    window = TimeRange(from_text or None, to_text or None, hours).resolve(NOW_NS, "query", issues)
    assert window is not None or len(issues)
    if window is not None:
        if hours is not None:
            at_an_end = window.from_ns == 0 or window.to_ns == MAX_NANOS
            assert at_an_end or window.to_ns - window.from_ns == hours * HOUR
        parts = list(slices(window))
        assert parts[0].to_ns == window.to_ns
        assert parts[-1].from_ns == window.from_ns
        assert all(newer.from_ns == older.to_ns for newer, older in pairwise(parts))


def check_instant(text: str) -> None:
    try:
        nanos = parse_timestamp(text, NOW_NS)
    except TimestampError:
        return
    assert 0 <= nanos <= MAX_NANOS
    assert parse_timestamp(format_timestamp(nanos), NOW_NS) == nanos
    assert float(format_millis(nanos)) >= 0
    try:  # the library reads much of the same
        moment = datetime.fromisoformat(text) if len(text) >= 10 and text[4] == text[7] == "-" else None
    except ValueError:
        return
    if moment is not None:
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
        assert since // timedelta(microseconds=1) == nanos // 1000, text
