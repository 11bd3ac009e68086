"""Times as people and programs write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.timestamps import MAX_NANOS, TimestampError, format_millis, format_timestamp, parse_timestamp

NOW = 1_795_188_000_123_456_789  # 2026-11-20T15:20:00.123456789Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T15:17:03.123456789Z", 1_795_187_823_123_456_789),
        ("2026-11-20T15:17:03.1234567891Z", 1_795_187_823_123_456_789),
        ("2026-11-20T15:17:03Z", 1_795_187_823_000_000_000),
        ("2026-11-20t15:17:03z", 1_795_187_823_000_000_000),
        ("2026-11-20T15:17:03", 1_795_187_823_000_000_000),  # naive is UTC
        ("2026-11-20 15:17:03.5", 1_795_187_823_500_000_000),
        ("2026-11-20T15:17Z", 1_795_187_820_000_000_000),
        ("2026-11-20", 1_795_132_800_000_000_000),
        ("2026-11-20T17:17:03+02:00", 1_795_187_823_000_000_000),
        ("2026-11-20T17:17:03 02:00", 1_795_187_823_000_000_000),  # a "+" that was not percent-encoded
        ("2026-11-20T17:17:03+0200", 1_795_187_823_000_000_000),
        ("2026-11-20T10:17:03-05:00", 1_795_187_823_000_000_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000_000),  # a leap second
        ("2024-02-29", 1_709_164_800_000_000_000),
        ("1795187823", 1_795_187_823_000_000_000),
        ("1795187823.25", 1_795_187_823_250_000_000),
        ("1795187823123", 1_795_187_823_123_000_000),
        ("1795187823123456", 1_795_187_823_123_456_000),
        ("1795187823123456789", 1_795_187_823_123_456_789),
        ("99999999999", None),  # the largest number of seconds lies in the year 5138
        ("100000000000", 100_000_000_000 * 10**6),  # the smallest number of milliseconds
        ("99999999999999", None),
        ("100000000000000", 100_000_000_000_000 * 10**3),
        ("99999999999999999", None),
        ("100000000000000000", 100_000_000_000_000_000),
        ("0", 0),
        ("1970-01-01T00:00:00Z", 0),
        (str(MAX_NANOS), MAX_NANOS),
        ("now", NOW),
        ("now-15m", NOW - 900 * 10**9),
        ("now+1h", NOW + 3600 * 10**9),
        ("now 1h", NOW + 3600 * 10**9),
        ("-15m", NOW - 900 * 10**9),
        ("-1500ms", NOW - 1_500_000_000),
        ("-90s", NOW - 90 * 10**9),
        ("-2d", NOW - 2 * 86_400 * 10**9),
        ("now-1w", NOW - 7 * 86_400 * 10**9),
    ],
)
def test_reads_a_time(text: str, expected: int | None) -> None:
    if expected is None:
        with pytest.raises(TimestampError, match="1970 and 2262"):
            parse_timestamp(text, NOW)
    else:
        assert parse_timestamp(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "yesterday",
        "now-",
        "now-15",
        "15m",
        "--15m",
        "-15y",
        "now-15m-1h",
        "-5",
        "1e9",
        "١٧٩٥",
        "2026-13-01",
        "2026-02-29",
        "2026-11-20T24:00:00Z",
        "2026-11-20T15:60:00Z",
        "2026-11-20T15:17:61Z",
        "2026-11-20T15:17:03.Z",
        "2026-11-20T15:17:03+25:00",
        "2026-11-20T15:17:03+02:60",
        "2026-11-20T15:17:03+2",
        "2026-11-20T15",
        "0000-01-01",
        "1969-12-31T23:59:59Z",
        "2262-04-12",
        "9999-12-31T23:59:59Z",
        "now-999999999w",
        "2026-11-20T15:17:03Z ",
        "99999999999999999999",
    ],
)
def test_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(TimestampError):
        parse_timestamp(text, NOW)


@given(st.integers(0, MAX_NANOS))
def test_what_is_shown_reads_back_the_same(nanos: int) -> None:
    shown = format_timestamp(nanos)
    assert len(shown) == 30
    assert parse_timestamp(shown, NOW) == nanos


@pytest.mark.parametrize(
    ("nanos", "expected"),
    [
        (0, "0.000000"),
        (1, "0.000001"),
        (12_345_678, "12.345678"),
        (10**6, "1.000000"),
        (2**63 - 1, "9223372036854.775807"),
    ],
)
def test_milliseconds_are_exact(nanos: int, expected: str) -> None:
    assert format_millis(nanos) == expected
