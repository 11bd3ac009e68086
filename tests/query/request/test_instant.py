"""Times as people and programs write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.values import MAX_NANOS, TimestampError, format_millis, format_timestamp, parse_timestamp

NOW = 1_795_188_000_123_456_789  # 2026-11-20T15:20:00.123456789Z


READ: dict[int | None, list[str]] = {
    1_795_187_823_123_456_789: [
        *("2026-11-20T15:17:03.123456789Z", "2026-11-20T15:17:03.1234567891Z", "1795187823123456789"),
    ],
    1_795_187_823_000_000_000: [
        *("2026-11-20T15:17:03Z", "2026-11-20t15:17:03z", "2026-11-20T17:17:03+02:00", "2026-11-20T17:17:03+0200"),
        *("2026-11-20T10:17:03-05:00", "1795187823"),
        *("2026-11-20T15:17:03", "2026-11-20T17:17:03 02:00"),  # naive is UTC; a "+" that was not percent-encoded
    ],
    1_795_187_823_500_000_000: ["2026-11-20 15:17:03.5"],
    1_795_187_820_000_000_000: ["2026-11-20T15:17Z"],
    1_795_132_800_000_000_000: ["2026-11-20"],
    1_483_228_800_000_000_000: ["2016-12-31T23:59:60Z"],  # a leap second
    1_709_164_800_000_000_000: ["2024-02-29"],
    1_795_187_823_250_000_000: ["1795187823.25"],
    1_795_187_823_123_000_000: ["1795187823123"],
    1_795_187_823_123_456_000: ["1795187823123456"],
    # the largest number of seconds lies in the year 5138
    None: ["99999999999", "99999999999999", "99999999999999999"],
    # the smallest numbers of milliseconds, microseconds and nanoseconds
    10**17: ["100000000000", "100000000000000", "100000000000000000"],
    0: ["0", "1970-01-01T00:00:00Z"],
    MAX_NANOS: [str(MAX_NANOS)],
    NOW: ["now"],
    NOW - 900 * 10**9: ["now-15m", "-15m"],
    NOW + 3600 * 10**9: ["now+1h", "now 1h"],
    NOW - 1_500_000_000: ["-1500ms"],
    NOW - 90 * 10**9: ["-90s"],
    NOW - 2 * 86_400 * 10**9: ["-2d"],
    NOW - 7 * 86_400 * 10**9: ["now-1w"],
}


def test_reads_a_time() -> None:
    for expected, texts in READ.items():
        for text in texts:
            if expected is None:
                with pytest.raises(TimestampError, match="1970 and 2262"):
                    parse_timestamp(text, NOW)
            else:
                assert parse_timestamp(text, NOW) == expected, text


NO_TIMES = [
    *("", " ", "yesterday", "now-", "now-15", "15m", "--15m", "-15y", "now-15m-1h", "-5", "1e9", "١٧٩٥", "2026-13-01"),
    *("2026-02-29", "2026-11-20T24:00:00Z", "2026-11-20T15:60:00Z", "2026-11-20T15:17:61Z", "2026-11-20T15:17:03.Z"),
    *("2026-11-20T15:17:03+25:00", "2026-11-20T15:17:03+02:60", "2026-11-20T15:17:03+2", "2026-11-20T15", "0000-01-01"),
    *("1969-12-31T23:59:59Z", "2262-04-12", "9999-12-31T23:59:59Z", "now-999999999w", "2026-11-20T15:17:03Z "),
    "99999999999999999999",
]


@pytest.mark.parametrize("text", NO_TIMES)
def test_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(TimestampError):
        parse_timestamp(text, NOW)


@given(st.integers(0, MAX_NANOS))
def test_what_is_shown_reads_back_the_same(nanos: int) -> None:
    shown = format_timestamp(nanos)
    assert len(shown) == 30
    assert parse_timestamp(shown, NOW) == nanos


def test_milliseconds_are_exact() -> None:
    exact = {0: "0.000000", 1: "0.000001", 12_345_678: "12.345678", 10**6: "1.000000"}
    exact[2**63 - 1] = "9223372036854.775807"
    assert {nanos: format_millis(nanos) for nanos in exact} == exact
