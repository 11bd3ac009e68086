"""Normalized messages: the same bug has the same text whatever it was called with, and words keep bugs apart."""

import uuid
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.grouping.messages import MAX_NORMALIZED_CHARS, normalize_message

NUMBERS = (
    "7", "12", "1.5", "-3", "+3", ".5", "1e-9", "1.5E+10", "1,234", "1,234,567.89", "1_000", "1'234", "0xff",
    "0XDEADBEEF", "0b101", "0o17", "12%", "12.5 %", "10ms", "1.2s", "2m3.5s", "PT1H30M", "P3D", "1h30m", "900 ms",
    "12 seconds",
    "1 second", "5 MiB", "512 bytes", "3rd", "1.2.3", "v1.2.3-rc1", "10.0.0.1", "10.0.0.1:5432", "::1", "[::1]:5432",
    "fe80::1%eth0", "2001:db8::8a2e:370:7334", "00:1b:44:11:3a:b7",
    "00:11:22:aa:bb:cc", "2001:db8:10:20:30:40:50:60", "-12", "١٢",
    "550e8400-e29b-41d4-a716-446655440000", "12345678-1234-4234-8234-123456789012", "01HZX3K9Q8V7B6N5M4A3S2D1F0",
    "01JABCDEF2GHJKMNPQRSTVWXYZ", "deadbeef12", "3f2a1b9", "3f2a1b9c4d5e", "9e107d9d372bb6826bd81d3542a419d6",
    "V1StGXR8_Z5jdHi6B-myT", "2bXk9QmZ", "507f1f77bcf86cd799439011", "1, 2, 3", "1 234",
)  # fmt: skip

TIMES = (
    "2026-11-28", "2026-11-28T08:00:00Z", "2026-11-28T08:00:00.123456+02:00", "2026-11-28 08:00:00,123",
    "2026/11/28 08:00", "20261128T080000Z", "Sat, 28 Nov 2026 08:00:00 GMT", "Mon, 5 Oct 2026 09:11:10 +0200",
    "Saturday, 28-Nov-26 08:00:00 GMT", "28/Nov/2026:08:00:00 +0000", "Sat Nov 28 08:00:00 2026",
    "Sat Nov 28 08:00:00 UTC 2026", "Sat Nov 28 2026 08:00:00 GMT+0000", "Nov 28 08:00:00", "Nov  8 08:00:00",
    "November 28, 2026", "Nov 28, 2026 at 8:00 AM", "11/28/2026", "11/28/2026, 8:00:00 AM", "28.11.2026",
    "28.11.2026 08:00", "08:00:00", "8:00 PM",
)  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_or_an_id_of_any_spelling_is_the_same(number: str) -> None:
    assert normalize_message(f"order {number} failed") == "order <n> failed"
    assert normalize_message(f"no order ({number})") == "no order (<n>)"


@pytest.mark.parametrize("time", TIMES)
def test_a_time_of_any_spelling_is_the_same(time: str) -> None:
    assert normalize_message(f"expired at {time}") == "expired at <time>"
    assert normalize_message(f"expired [{time}] in cart") == "expired [<time>] in cart"


@pytest.mark.parametrize(
    ("text", "stable"),
    [
        ("GET https://x.example/y?a=1 failed", "GET <url> failed"),
        ("jdbc:postgresql://db/shop: refused", "jdbc:<url> refused"),
        ("User bob+shop@mail.example.com is gone", "User <email> is gone"),
        ("open /srv/a/b.py: no", "open <path>: no"),
        ("open C:\\srv\\a.txt: no", "open <path>: no"),
        ("open 'C:\\Program Files\\a b.txt': no", "open '<path>': no"),
        ("open ~/a/b-1.txt", "open <path>"),
        ("user usr_2bXk9QmZ gone", "user usr_<n> gone"),
        ("user usr_bXkQmZwT gone", "user usr_<n> gone"),
        ("customer cus_NffrFeUfNV2Hib", "customer cus_<n>"),
        ("request req-3f2a1b9c4d", "request req-<n>"),
        ("pod web-7d9f8b6c5d-x2x4z died", "pod web-<n> died"),
        ("pod web-7d9f8b6c5d-kqzlm died", "pod web-<n> died"),
        ("pod agent-x2x4z died", "pod agent-<n> died"),
        ("pod db-0 died", "pod db-<n> died"),
        ("container 3f2a1b9c4d5e exited", "container <n> exited"),
        ("com.shop.Cart@1b6d3586 is closed", "com.shop.Cart@<n> is closed"),
        ("index 7 out of range [0, 3)", "index <n> out of range [<n>)"),
        ("Thread-12 in pool-3-thread-7", "Thread-<n> in pool-<n>-thread-<n>"),
        ("worker3 failed", "worker<n> failed"),
        ("after 1 attempt", "after <n> attempt"),
        ("after 3 attempts", "after <n> attempt"),
        ("after 2 retries", "after <n> retry"),
        ("invalid literal for int() with base 10: 'a b'", "invalid literal for int() with base <n>: <value>"),
        ("Duplicate entry 'bob' for key 'users.email'", "Duplicate entry <value> for key 'users.email'"),
        ('For input string: "x"', "For input string: <value>"),
        ('strconv.Atoi: parsing "x": invalid syntax', "strconv.Atoi: parsing <value>: invalid syntax"),
        ("  many   spaces\tand tabs ", "many spaces and tabs"),
        ("first\nsecond", "first"),
        ("", ""),
    ],
)
def test_what_differs_between_occurrences_is_replaced(text: str, stable: str) -> None:
    assert normalize_message(text) == stable


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'price'",
        "Cannot read properties of undefined (reading 'id')",
        "no column user_id in order_items",
        "unknown encoding utf8",
        "unknown encoding UTF-16",
        "sha256 of base64url",
        "SHA-512 and HMAC-SHA256",
        "ISO-8859-15 to windows-1252",
        "HTTP2 error, not HTTP/1.1",
        "x509: certificate signed by unknown authority",
        "TLSv1.2 or TLSv1.3",
        "utf8mb4_unicode_ci",
        "int32 is no float64",
        "i18n of k8s by OAuth2 in S3",
        "connect ECONNREFUSED",
        "read EACCES or ENOENT",
        "status 404",
        "Request failed with status code 500",
        "HTTP 503: Service Unavailable",
        "HTTP/1.1 502 Bad Gateway",
        "SQLSTATE[42P01]: undefined table",
        "ERROR: relation missing (SQLSTATE 23505)",
        "ORA-00942: table or view does not exist",
        "E11000 duplicate key",
        "[Errno 13] Permission denied",
        "No such file (os error 2)",
        "exited with code 137",
        "Minified React error #418",
        "expected application/json, not text/html",
        "read/write and/or TCP/IP",
        "POST /orders/{id} is no route",
        "get_userById and on_ButtonClick",
        "order-items-validator and createdAt",
        "std::vector::_M_range_check",
        "MAX_RETRIES_EXCEEDED in OrderService.createOrder",
    ],
)
def test_words_and_codes_stay(text: str) -> None:
    assert normalize_message(text) == text


def test_a_status_is_a_code_and_other_numbers_behind_the_word_are_not() -> None:
    assert normalize_message("status 404") != normalize_message("status 500")
    assert normalize_message("status 1404") == "status <n>"
    assert normalize_message("status 40.5") == "status <n>"


def test_a_long_line_is_cut_where_a_short_value_cuts_it() -> None:
    tail = " word" * 300
    assert normalize_message(f"{7:>1}{tail}") == normalize_message(f"{10**30}{tail}")
    assert len(normalize_message("x" * 100_000)) == MAX_NORMALIZED_CHARS


WORDS = st.lists(
    st.sampled_from(["order", "user_id", "utf8", "failed", "of", "KeyError:", "'price'", "sha256", "(no", "cart)"]),
    max_size=6,
)
SCRAPS = (
    "<n>", "<path>", "/", "\\", "/a/b", "@", "a@b.c", "://", "x://", ":", "-", "_", "usr_", "aB", "'", '"', "s", "\n",
    " ", ".", ",", "12", "é", "Jan", "status", "parsing", "%", "+", "E", "v", "C:", "[", "utf",
    "\u2028", "\x1f", "\u00a0",
)  # fmt: skip
TEXTS = st.text(max_size=300) | st.lists(st.sampled_from([*NUMBERS, *TIMES, *SCRAPS]), max_size=25).map("".join)


@given(TEXTS)
def test_a_normalized_message_is_one_bounded_line_and_stays_as_it_is(text: str) -> None:
    once = normalize_message(text)
    assert len(once) <= MAX_NORMALIZED_CHARS
    assert len(once.splitlines()) <= 1
    assert once == once.strip()
    assert normalize_message(once) == once


@given(WORDS, st.floats(allow_nan=False, allow_infinity=False) | st.integers(), st.floats(0, 1e9), WORDS)
def test_no_message_depends_on_a_number(before: list[str], one: float, other: float, after: list[str]) -> None:
    texts = {
        normalize_message(" ".join([*before, number, *after]))
        for number in (
            str(one),
            str(other),
            f"{other:,.2f}",
            f"{other:e}",
            f"{other:.3f}s",
            hex(int(other)),
            f"{int(other):_}",
        )
    }
    assert len(texts) == 1, texts


@given(WORDS, st.uuids(), st.uuids(version=4))
def test_no_message_depends_on_an_id(before: list[str], one: uuid.UUID, other: uuid.UUID) -> None:
    texts = {
        normalize_message(" ".join([*before, text])) for text in (str(one), other.hex, str(other).upper(), f"{other}")
    }
    assert len(texts) == 1, texts


@given(WORDS, st.datetimes(datetime(1970, 1, 1), datetime(2099, 1, 1)))  # noqa: DTZ001 (in UTC below)
def test_no_message_depends_on_a_time(before: list[str], naive: datetime) -> None:
    time = naive.replace(tzinfo=UTC)
    texts = {
        normalize_message(" ".join([*before, "at", text]))
        for text in (
            time.isoformat(),
            format_datetime(time),
            time.ctime(),
            f"{time:%m/%d/%Y %H:%M:%S}",
            f"{time:%d/%b/%Y:%H:%M:%S +0000}",
        )
    }
    assert len(texts) == 1, texts
