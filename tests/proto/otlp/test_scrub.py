"""What is taken for a secret, and what is not (docs/codec.md 4)."""

from itertools import cycle

import pytest

from proto.otlp.policy import Policy, is_exemptible
from proto.otlp.protobuf_writer import bytes_field
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.sent import array, attributes, integer, mapping, pair, request, span, string

SENSITIVE = (
    *("password", "PassWord", "user.password", "user-password", "user_password_hash", "http.request.header.x-api-key"),
    *("API_KEY", "x.api.key", "api-key", "Set-Cookie", "http.response.header.set_cookie", "token", "id.token", "auth"),
    *("_auth_", "..auth", "client.secret", "db.credentials.x", "passwords", "ssn1", "token=x", "a=token"),
    *("clientSecret", "APIKey", "dbPassword", "HTTPAuthorization", "refreshToken", "userAPIKeyID", "oauth2Token"),
    *("accesstoken", "accessToken", "ACCESSTOKEN", "Access-Token", "x.accesstoken.y", "sessionId", "session_id"),
    *("password2", "cvv2", "apiKey10", "PGPASSWORD", "JSESSIONID", "PHPSESSID", "env.PGPASSWORD", "SSHPASS"),
    *("pass", "PASS", "jwt", "Bearer", "user.otp", "pin", "connect.sid", "db_pass", "csrfToken", "1Password"),
    *("token_key", "tokens.token", "session.id.token", "gen_ai.usage.password", "a.token_count.apiKey"),
)
HARMLESS = (
    *("tokens", "author", "authority", "api.x.key", "keyapi", "", "_", "cookiex", "xtoken", "password1x", "2password"),
    *("tokën", "PASSWORÐ", "http.route", "session", "session.x.id", "pas.sword", "to_ken", "p.in", "tokenizer"),
    *("OAuthClient", "oAuthClient", "x.OAuth", "getOAuthClient", "compass", "jwt.claims", "x.pass", "api__key"),
    *("session.id", "session.previous_id", "mcp.session.id", "auth_mode", "k8s.secret.name", "gen_ai.token.type"),
    *("gen_ai.usage.token_type", "llm.token_count.prompt", "aws.secretsmanager.secret.arn", "token_usage"),
)
MEASURED = (
    *("token_count", "llm.tokenCount", "auth.duration_ms", "authRetryCount2", "secret_size", "session_id.length"),
    *("tokenTtl", "token.expires", "TOKEN-LIMIT", "max_token", "auth.attempts", "client_secret_age"),
)
NEVER_MEASURED = [
    "password_length",
    "cookie_count",
    "api_key_count",
    "pin.size",
    "authorization.time",
    "pass",
    "otp_ttl",
]


def texts(
    decoder: Decoder, *pairs: bytes, policy: Policy | None = None
) -> tuple[list[tuple[bytes, bytes]], dict[str, int]]:
    decoded = decoder.decode("traces", request(span(attributes(9, *pairs))), policy)
    (row,) = decoder.rows("spans", decoded)
    found: list[tuple[bytes, bytes]] = row["attributes"]
    return found, dict(decoded.modified)


def alone(decoder: Decoder, *pairs: bytes) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """The same of attributes of which each is on a span of its own: how many spans were modified is told."""
    decoded = decoder.decode("traces", request(*(span(attributes(9, each)) for each in pairs)))
    rows = decoder.rows("spans", decoded)
    return [(key.decode(), text.decode()) for row in rows for key, text in row["attributes"]], dict(decoded.modified)


def test_sensitive_and_harmless_keys(decoder: Decoder) -> None:
    scrubbed = [(key, "[scrubbed]") for key in SENSITIVE], {"scrubbed": len(SENSITIVE)}
    assert alone(decoder, *(pair(key, array(string(b"\xff"))) for key in SENSITIVE)) == scrubbed
    assert alone(decoder, *(pair(key, string("v")) for key in HARMLESS)) == ([(key, "v") for key in HARMLESS], {})


NUMBERS = {
    "integer": (integer(2**63 - 1), b"9223372036854775807"),
    "double": (bytes.fromhex("21000000000000e0bf"), b"-0.5"),
    "text": (string("12"), b"12"),
    "text with everything": (string("-1.50e+07"), b"-1.50e+07"),
    "a plus": (string("+7"), b"+7"),
    "forty characters": (string("1" * 40), b"1" * 40),
}
OTHERS = {
    "text": string("v"),
    "empty text": string(""),
    "no value": b"",
    "bytes": bytes.fromhex("3a0131"),
    "array": array(integer(1)),
    "map": mapping(pair("a", integer(1))),
    "a unit": string("12s"),
    "a point at the end": string("1."),
    "a point at the start": string(".5"),
    "an exponent without digits": string("1e"),
    "a sign alone": string("-"),
    "hexadecimal": string("0x1f"),
    "a space": string(" 1"),
    "a line feed": string("1\n"),
    "other digits": string("\uff11"),
    "forty-one characters": string("1" * 41),
}
TRUE = bytes.fromhex("1001")


def test_measured_numbers_are_kept(decoder: Decoder) -> None:
    for key in MEASURED:
        kept = [(key, text.decode()) for _, text in NUMBERS.values()]
        assert alone(decoder, *(pair(key, value) for value, _ in NUMBERS.values())) == (kept, {})


def test_what_is_not_a_number_is_scrubbed_under_a_measure(decoder: Decoder) -> None:
    for name, value in OTHERS.items():
        assert alone(decoder, pair("token_count", value)) == ([("token_count", "[scrubbed]")], {"scrubbed": 1}), name


def test_other_numbers_are_scrubbed(decoder: Decoder) -> None:
    keys = [key for key in (*NEVER_MEASURED, "token", "auth.code", "session_id") for _ in NUMBERS]
    sent = [pair(key, value) for key, (value, _) in zip(keys, cycle(NUMBERS.values()), strict=False)]
    assert alone(decoder, *sent) == ([(key, "[scrubbed]") for key in keys], {"scrubbed": len(keys)})


def test_booleans_are_kept(decoder: Decoder) -> None:
    keys = [*SENSITIVE, *MEASURED, *NEVER_MEASURED]
    assert alone(decoder, *(pair(key, TRUE) for key in keys)) == ([(key, "true") for key in keys], {})


def test_nested_keys_are_judged_like_others(decoder: Decoder) -> None:
    entries = [pair("token", TRUE), pair("tokenCount", integer(3)), pair("token_count", string("4"))]
    entries += [pair("pin", integer(5)), pair("session.id", string("v"))]
    found, modified = texts(decoder, pair("k", mapping(*entries)))
    assert found == [(b"k", b'{"token":true,"tokenCount":3,"token_count":"4","pin":"[scrubbed]","session.id":"v"}')]
    assert modified == {"scrubbed": 1}


def test_a_kept_value_is_searched_for_numbers(decoder: Decoder) -> None:
    keys = "session.id", "token_count"
    scrubbed = [(key, "[scrubbed]") for key in keys], {"scrubbed": 2}
    assert alone(decoder, *(pair(key, string("4111111111111111")) for key in keys)) == scrubbed


EXEMPT = Policy(exempt_keys=("user.token", "api_key", "cookie", "db.passWord", "PASS", "\ud800", ""))


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        ("user.token api_key", True),
        ("user_token User.token user.token.x x.api_key cookie db.passWord PASS", False),
    ],
)
def test_an_exempt_key_is_kept_unless_it_is_of_the_floor(decoder: Decoder, keys: str, kept: bool) -> None:
    text = "v" if kept else "[scrubbed]"
    for key in keys.split():
        nested = pair("k", mapping(pair(key, string("v"))))
        found, modified = texts(decoder, pair(key, string("v")), nested, policy=EXEMPT)
        assert found == [(key.encode(), text.encode()), (b"k", f'{{"{key}":"{text}"}}'.encode())]
        assert modified == ({} if kept else {"scrubbed": 1})


def test_an_exemption_lifts_no_value_rule(decoder: Decoder) -> None:
    found, _ = texts(decoder, pair("user.token", string("card 4111111111111111")), policy=EXEMPT)
    assert found == [(b"user.token", b"card [scrubbed]")]


def test_an_exemption_names_the_complete_key(decoder: Decoder) -> None:
    long = "x" * 256
    policy = Policy(exempt_keys=(long + ".token", long + ".auth"))
    for rest, text in ((".token", b"v"), (".secret", b"[scrubbed]")):
        assert texts(decoder, pair(long + rest, string("v")), policy=policy)[0] == [(long.encode(), text)]


EXEMPTIBLE = (
    *("token", "api_key", "session.id", "gpio.pin", "x.pass", "passwort", "otp.version", "cookiex", "privateer.key"),
    *("\ud800", "authorizations", "http.route"),
)
NOT_EXEMPTIBLE = (
    *("", "password", "user.passWord", "passwordHash", "db_password2", "userpassword", "PGPASSWORD", "Authorization"),
    *("HTTPAuthorization", "http.request.header.cookie", "x.set-cookie", "setcookie", "cookie.consent", "private.key"),
    *("cvv", "JSESSIONID", "PASS", "jwt", "passphrase", "card_number", "ssn"),
)


def test_which_keys_can_be_exempt() -> None:
    assert [key for key in EXEMPTIBLE if not is_exemptible(key)] == []
    assert [key for key in NOT_EXEMPTIBLE if is_exemptible(key)] == []


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
    policy = Policy(sensitive_words=("Wallet-Id", "", "a.b.c.d", "taxid", "e164", "session"))
    for key, hit in (
        *(("my.wallet.ID", True), ("walletId", True), ("walletid", True), ("wallet_id_count", True)),
        *(("wallet", False), ("x_a-b.c_d", True), ("aBCD", True), ("abcd", True), ("password", False), ("__", False)),
        *(("taxId", True), ("TAXID3", True), ("tax_id", False), ("user.e164", True), ("e", False), ("e1", False)),
        *(("session.x", True), ("session.id", False)),
    ):
        found, _ = texts(decoder, pair(key, string("v")), policy=policy)
        assert found == [(key.encode(), b"[scrubbed]" if hit else b"v")], key


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
    "amex with spaces": "3782 822463 10005",
    "amex with dashes": "3782-822463-10005",
    "mir": "2200000000000004",
    "rupay": "5085000000000007",
}


def test_card_numbers(decoder: Decoder) -> None:
    found, modified = alone(decoder, *(pair("k", string(f"paid {card}, thanks")) for card in CARDS.values()))
    assert {name: text for name, (_, text) in zip(CARDS, found, strict=True)} == dict.fromkeys(
        CARDS, "paid [scrubbed], thanks"
    )
    assert modified == {"scrubbed": len(CARDS)}


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
    "maestro with a prefix that is not issued": "5710977633876551",
    "two kinds of separators": "4111 1111-1111 1111",
    "odd groups": "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
    "groups of another issuer": "41111111 11111111",
    "4-6-5 with two kinds of separators": "3782-822463 10005",
    "columns of a log line": "500 5226 146 3898 96018",
    "four groups that are no card": "1111 2222 3333 4444",
    "in a uuid": "47223179-9330-4259-b66c-f2db26efb20c",
    "in hexadecimal digits": "a4111111111111111",
    "before hexadecimal digits": "4111111111111111f",
    "a decimal": "0.4111111111111111",
    "a version": "4111111111111111.2",
    "a part of a name": "4111111111111111_x",
    "behind an underscore": "x_4111111111111111",
    "in a longer number with dashes": "4111111111111111-77",
    "groups behind a dash": "-4111-1111-1111-1111",
    "a point and letters behind": "4111111111111111.pdf",
    "social security with spaces": "123 45 6789",
    "social security in a longer number": "1-123-45-6789-1",
    "social security before a letter": "123-45-6789a",
    "social security after an underscore": "_123-45-6789",
    "social security before a point": "123-45-6789.1",
    "social security of other lengths": "123-45-67890",
    "nothing at all": "just text",
    "twelve digits": "411111111111",
}


def test_other_digits_stay(decoder: Decoder) -> None:
    found, modified = alone(decoder, *(pair("k", string(text)) for text in LEFT.values()))
    assert {name: text for name, (_, text) in zip(LEFT, found, strict=True)} == LEFT
    assert modified == {}


PLACES: dict[str, tuple[str | bytes, str]] = {
    "social security": ("ssn is 123-45-6789, so", "ssn is [scrubbed], so"),
    "at the end of a sentence": ("ssn 123-45-6789. Card 4111111111111111.", "ssn [scrubbed]. Card [scrubbed]."),
    "before an ellipsis": ("4111 1111 1111 1111...", "[scrubbed]..."),
    "a card after a group that is none": ("7 4111111111111111", "7 [scrubbed]"),
    "two cards": ("4111111111111111 4111111111111111", "[scrubbed] [scrubbed]"),
    "two cards of 13": ("4222222222222 4222222222222", "[scrubbed] [scrubbed]"),
    "a card that begins at the second group": ("1111 4111 1111 1111 1111 1", "1111 [scrubbed] 1"),
    "social security after a card": ("4111-1111-1111-1111/123-45-6789", "[scrubbed]/[scrubbed]"),
    "in quotes, brackets and lists": ('["4111111111111111",(123-45-6789)]', '["[scrubbed]",([scrubbed])]'),
    "behind an equals sign": ("card=4111111111111111&x", "card=[scrubbed]&x"),
    "in other text": ("é4111111111111111é", "é[scrubbed]é"),
    "broken UTF-8 before it": (b"\xff 4111111111111111", "\ufffd [scrubbed]"),
    "scrubbed before it is cut": ("x" * 65531 + " 4111111111111111", "x" * 65531 + " [scr"),
}


def test_where_in_a_text(decoder: Decoder) -> None:
    found, modified = alone(decoder, *(pair("k", string(text)) for text, _ in PLACES.values()))
    scrubbed = {name: text for name, (_, text) in zip(PLACES, found, strict=True)}
    assert scrubbed == {name: expected for name, (_, expected) in PLACES.items()}
    assert modified["scrubbed"] == len(PLACES)


@pytest.mark.parametrize("number", ["4111111111111111", "3782 822463 10005", "4111-1111-1111-1111", "123-45-6789"])
def test_wherever_a_number_begins(decoder: Decoder, number: str) -> None:
    befores = [""] + ["." * length + " " for length in range(19)]
    afters = [""] + [" " + "." * length for length in range(9)]
    around = [f"{before}%s{after}" for before in befores for after in afters]
    found, _ = alone(decoder, *(pair("k", string(text % number)) for text in around))
    assert [text for _, text in found] == [text % "[scrubbed]" for text in around]


def test_what_may_stand_beside_a_number(decoder: Decoder) -> None:
    expected = {}
    for beside in map(chr, range(128)):
        adjoins = beside.isalnum() or beside in "._-"
        for text in (f"{beside}4111111111111111", f"4111111111111111{beside}", f"{beside}123-45-6789"):
            ends_sentence = text.endswith(".")
            number = text.strip(beside) if ends_sentence or not adjoins else ""
            expected[text] = text.replace(number, "[scrubbed]") if number else text
    found, _ = alone(decoder, *(pair("k", string(text)) for text in expected))
    assert [text for _, text in found] == [*expected.values()]


def test_a_text_is_scrubbed_before_it_is_cut(decoder: Decoder) -> None:
    found, modified = texts(decoder, pair("k", string("x 4111111111111111")), policy=Policy(max_value_bytes=6))
    assert (found, modified) == ([(b"k", b"x [scr")], {"scrubbed": 1, "truncated": 1})


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
