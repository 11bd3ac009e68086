"""What is taken for a secret, and what is not (docs/codec.md 4)."""

import pytest

from proto.otlp.policy import Policy
from proto.otlp.protobuf_writer import bytes_field
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.sent import array, attributes, integer, mapping, pair, request, span, string

SENSITIVE = (
    *("password", "PassWord", "user.password", "user-password", "user_password_hash", "http.request.header.x-api-key"),
    *("API_KEY", "x.api.key", "api-key", "Set-Cookie", "http.response.header.set_cookie", "token", "id.token", "auth"),
    *("_auth_", "..auth", "client.secret", "db.credentials.x"),
)
HARMLESS = (
    *("tokens", "passwords", "author", "authority", "apikeys", "api.x.key", "keyapi", "", "_", "cookiex", "xtoken"),
    *("tokën", "PASSWORÐ", "http.route", "session", "session.x.id", "ssn1"),
)


def texts(
    decoder: Decoder, *pairs: bytes, policy: Policy | None = None
) -> tuple[list[tuple[bytes, bytes]], dict[str, int]]:
    decoded = decoder.decode("traces", request(span(attributes(9, *pairs))), policy)
    (row,) = decoder.rows("spans", decoded)
    found: list[tuple[bytes, bytes]] = row["attributes"]
    return found, dict(decoded.modified)


@pytest.mark.parametrize("key", SENSITIVE)
def test_sensitive_keys(decoder: Decoder, key: str) -> None:
    assert texts(decoder, pair(key, array(string(b"\xff")))) == ([(key.encode(), b"[scrubbed]")], {"scrubbed": 1})


@pytest.mark.parametrize("key", HARMLESS)
def test_harmless_keys(decoder: Decoder, key: str) -> None:
    assert texts(decoder, pair(key, string("v"))) == ([(key.encode(), b"v")], {})


@pytest.mark.parametrize("key", ["x" * 300 + ".password", "password." + "x" * 300, "é" * 200 + "-token"])
def test_what_truncation_takes_from_a_key_still_counts(decoder: Decoder, key: str) -> None:
    stored = key.encode()[:256]
    assert texts(decoder, pair(key, string("hunter2"))) == ([(stored, b"[scrubbed]")], {"truncated": 1, "scrubbed": 1})


def test_a_key_that_is_sensitive_only_once_truncated_is_not(decoder: Decoder) -> None:
    key = "x" * 250 + ".token"
    assert texts(decoder, pair(key + "izer", string("v"))) == ([(key.encode(), b"v")], {"truncated": 1})


def test_of_keys_that_are_truncated_to_the_same_the_one_whose_value_counts_is_judged(decoder: Decoder) -> None:
    sensitive, harmless = "x" * 256 + ".token", "x" * 256 + ".other"
    for first, second, text in ((sensitive, harmless, b"b"), (harmless, sensitive, b"[scrubbed]")):
        assert texts(decoder, pair(first, string("a")), pair(second, string("b")))[0] == [(b"x" * 256, text)]


def test_a_value_without_content_is_scrubbed_too(decoder: Decoder) -> None:
    assert texts(decoder, pair("token")) == ([(b"token", b"[scrubbed]")], {"scrubbed": 1})


def test_words_of_a_policy_are_read_like_keys(decoder: Decoder) -> None:
    policy = Policy(sensitive_words=("Wallet-Id", "", "a.b.c.d"))
    for key, hit in (
        ("my.wallet.ID", True),
        ("wallet", False),
        ("x_a-b.c_d", True),
        ("password", False),
        ("__", False),
    ):
        found, _ = texts(decoder, pair(key, string("v")), policy=policy)
        assert found == [(key.encode(), b"[scrubbed]" if hit else b"v")]


def test_a_scrubbed_value_is_whole_even_below_the_limit(decoder: Decoder) -> None:
    found, modified = texts(decoder, pair("token", string("v")), policy=Policy(max_value_bytes=3))
    assert (found, modified) == ([(b"token", b"[scrubbed]")], {"scrubbed": 1})


CARDS = {
    "visa": "4111111111111111",
    "visa of 13": "4222222222222",
    "visa of 19": "4000000000000000006",
    "mastercard": "5555555555554444",
    "mastercard of 2 series": "2223003122003222",
    "amex": "378282246310005",
    "diners": "36227206271667",
    "discover": "6011000990139424",
    "jcb": "3530111333300000",
    "unionpay": "6200000000000005",
    "maestro": "6759649826438453",
    "spaces": "4111 1111 1111 1111",
    "dashes": "4111-1111-1111-1111",
    "both": "4111 1111-1111 1111",
    "odd groups": "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
}


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS.keys())
def test_card_numbers(decoder: Decoder, card: str) -> None:
    assert texts(decoder, pair("k", string(f"paid {card}, thanks"))) == (
        [(b"k", b"paid [scrubbed], thanks")],
        {"scrubbed": 1},
    )


LEFT = {
    "bad checksum": "4111111111111112",
    "unknown issuer": "9000000000000001",
    "visa of 14 digits": "41111111111114",
    "mastercard of 15": "555555555555442",
    "20 digits": "41111111111111110000",
    "two spaces": "4111  1111 1111 1111",
    "a dot between": "4111.1111.1111.1111",
    "inside a longer run": "14111111111111111",
    "fullwidth digits": "4111111111111111".translate({ord("1"): 0xFF11}),
    "social security with spaces": "123 45 6789",
    "social security of other lengths": "123-45-67890",
    "nothing at all": "just text",
    "twelve digits": "411111111111",
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT.keys())
def test_other_digits_stay(decoder: Decoder, text: str) -> None:
    assert texts(decoder, pair("k", string(text))) == ([(b"k", text.encode())], {})


PLACES = {
    "social security": ("ssn is 123-45-6789.", "ssn is [scrubbed]."),
    "social security after another group": ("1-123-45-6789-1", "1-[scrubbed]-1"),
    "a card after a group that is none": ("7 4111111111111111", "7 [scrubbed]"),
    "two cards": ("4111111111111111 4111111111111111", "[scrubbed] [scrubbed]"),
    "the longest that is a card": ("4222222222222 4222222222222", "[scrubbed] [scrubbed]"),
    "a card and a group that is none": ("4111111111111111-77", "[scrubbed]-77"),
    "in other text": ("é4111111111111111é", "é[scrubbed]é"),
    "scrubbed before it is cut": ("x" * 65532 + "4111111111111111", "x" * 65532 + "[scr"),
}


@pytest.mark.parametrize(("text", "scrubbed"), PLACES.values(), ids=PLACES.keys())
def test_where_in_a_text(decoder: Decoder, text: str, scrubbed: str) -> None:
    found, modified = texts(decoder, pair("k", string(text)))
    assert found == [(b"k", scrubbed.encode())]
    assert modified["scrubbed"] == 1


def test_at_every_depth(decoder: Decoder) -> None:
    value = array(mapping(pair("a", array(string("4111111111111111"))), pair("x-token", integer(1))))
    found, modified = texts(decoder, pair("k", value))
    assert found == [(b"k", b'[{"a":["[scrubbed]"],"x-token":"[scrubbed]"}]')]
    assert modified == {"scrubbed": 1}


def test_on_resource_scope_events_and_links(decoder: Decoder) -> None:
    token = pair("token", string("v"))
    events = bytes_field(11, attributes(3, token)) + bytes_field(13, attributes(4, token))
    body = request(span(events), resource=attributes(1, token), scope=attributes(3, token))
    (row,) = decoder.rows("spans", decoder.decode("traces", body))
    assert row["resource"] == row["scope"] == b"\1token\2s[scrubbed]\1"
    assert b'"token":"[scrubbed]"' in row["events"]
    assert b'"token":"[scrubbed]"' in row["links"]
