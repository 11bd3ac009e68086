"""Signatures of webhooks: what official packages sign is accepted, and nothing else."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from control.inbound.webhooks import signatures
from control.inbound.webhooks.signatures import MAX_HEADER_LENGTH, MAX_SIGNATURES, REPLAY_WINDOW_S
from tests.control.inbound.webhooks.senders import Senders
from tests.selection import scaled

NOW: Final = 1_790_000_000
ED25519_SEED: Final = bytes(range(32))
STANDARD_KEY: Final = bytes(range(24))
BODIES: Final = (
    '{"action":"opened","number":7}',
    '{"text":"Größe 🚀 \\u0000"}',
    "payload=%7B%22type%22%3A%22block_actions%22%7D&x=1",
    "{}\n",
    '{"id":"evt_1","padding":"' + "x" * 4_000 + '"}',
)


@dataclass(frozen=True)
class Sent:
    """A delivery as it arrives."""

    body: bytes
    signature: str | None
    time: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class Scheme:
    """How the official package names it, the secret that it is given, and our verification with secrets of ours."""

    name: str
    secret: str
    key: bytes
    verify: Callable[[Sequence[bytes], Sent, float], bool]
    is_timed: bool = True

    def accepts(self, sent: Sent, now: float = NOW, *keys: bytes) -> bool:
        return self.verify(keys or (self.key,), sent, now)


@cache
def public_key(seed: bytes) -> Ed25519PublicKey:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key()


def _ed25519(keys: Sequence[bytes], sent: Sent, now: float) -> bool:
    return signatures.verify_ed25519(public_key(keys[0]), sent.body, sent.time, sent.signature, now)


GITHUB = Scheme(
    "github",
    "It's a Secret to Everybody",
    b"It's a Secret to Everybody",
    lambda keys, sent, _now: signatures.verify_body(keys, sent.body, sent.signature, prefix="sha256="),
    is_timed=False,
)
SLACK = Scheme(
    "slack",
    "8f742231b10e8888abcd99yyyzzz85a5",
    b"8f742231b10e8888abcd99yyyzzz85a5",
    lambda keys, sent, now: signatures.verify_chat_a(keys, sent.body, sent.time, sent.signature, now),
)
DISCORD = Scheme("discord", ED25519_SEED.hex(), ED25519_SEED, _ed25519)
STRIPE = Scheme(
    "stripe",
    "whsec_test_secret",
    b"whsec_test_secret",
    lambda keys, sent, now: signatures.verify_payments(keys, sent.body, sent.signature, now),
)
STANDARD = Scheme(
    "standard",
    "whsec_" + base64.b64encode(STANDARD_KEY).decode(),
    STANDARD_KEY,
    lambda keys, sent, now: signatures.verify_standard(keys, sent.body, sent.id, sent.time, sent.signature, now),
)
SCHEMES: Final = (GITHUB, SLACK, DISCORD, STRIPE, STANDARD)


@pytest.fixture(scope="module")
def senders() -> Iterator[Senders]:
    with Senders() as senders:
        yield senders


@pytest.fixture(scope="module")
def signed(senders: Senders) -> dict[str, list[Sent]]:
    """Every body, signed by every official package."""
    cases = [(scheme, body) for scheme in SCHEMES for body in BODIES]
    asked = [
        {"scheme": scheme.name, "secret": scheme.secret, "body": body, "id": "msg_1", "time": str(NOW)}
        for scheme, body in cases
    ]
    found: dict[str, list[Sent]] = {scheme.name: [] for scheme in SCHEMES}
    for (scheme, body), signature in zip(cases, senders.sign(asked), strict=True):
        found[scheme.name].append(Sent(body.encode(), signature, str(NOW), "msg_1"))
    return found


def official(scheme: Scheme, sent: Sent, now: float = NOW) -> dict[str, object]:
    """The delivery as the official package is asked about it."""
    return {
        "scheme": scheme.name,
        "secret": scheme.secret,
        "publicKey": public_key(ED25519_SEED).public_bytes_raw().hex(),
        "body": sent.body.decode(),
        "signature": sent.signature,
        "time": sent.time,
        "id": sent.id,
        "now": now,
    }


def flipped(data: bytes, bits: Sequence[int]) -> Iterator[bytes]:
    for bit in bits:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def decoded(scheme: Scheme, signature: str) -> tuple[str, bytes, Callable[[bytes], str]]:
    """What is in front of the signature, its bytes, and how they are written."""
    if scheme is STANDARD:
        return "v1,", base64.b64decode(signature.removeprefix("v1,")), lambda raw: base64.b64encode(raw).decode()
    front, equals, digits = signature.rpartition("=")
    return front + equals, bytes.fromhex(digits), bytes.hex


def with_time(scheme: Scheme, sent: Sent, time: str) -> Sent:
    if scheme is STRIPE and sent.signature is not None:
        return replace(sent, signature=sent.signature.replace(f"t={sent.time}", f"t={time}"), time=time)
    return replace(sent, time=time)


def test_what_official_packages_sign_is_accepted(senders: Senders, signed: dict[str, list[Sent]]) -> None:
    """Slack and Discord publish verifiers only: they accept what is signed here, and so do we."""
    for scheme in SCHEMES:
        assert [scheme.accepts(sent) for sent in signed[scheme.name]] == [True] * len(BODIES), scheme.name
    judged = [official(scheme, sent) for scheme in (GITHUB, SLACK, DISCORD, STRIPE) for sent in signed[scheme.name]]
    assert senders.verify(judged) == [True] * len(judged)


@pytest.mark.sized
def test_every_changed_bit_is_refused(signed: dict[str, list[Sent]]) -> None:
    random = Random(1)
    for scheme in SCHEMES:
        for sent in signed[scheme.name]:
            if sent.signature is None or sent.time is None:
                raise AssertionError
            front, raw, write = decoded(scheme, sent.signature)
            for changed in flipped(raw, random.sample(range(len(raw) * 8), scaled(64, len(raw) * 8))):
                assert not scheme.accepts(replace(sent, signature=front + write(changed)))
            for changed in flipped(sent.body, random.sample(range(len(sent.body) * 8), min(64, len(sent.body) * 8))):
                assert not scheme.accepts(replace(sent, body=changed))
            assert not scheme.accepts(replace(sent, body=sent.body + b" "))
            assert not scheme.accepts(replace(sent, body=sent.body[:-1]))
            if scheme.is_timed:
                for changed in flipped(sent.time.encode(), range(len(sent.time) * 8)):
                    assert not scheme.accepts(with_time(scheme, sent, changed.decode("latin-1")))
            if scheme is STANDARD:
                for changed in flipped(b"msg_1", range(40)):
                    assert not scheme.accepts(replace(sent, id=changed.decode("latin-1")))


def test_only_current_secrets_are_accepted_and_no_empty_one(signed: dict[str, list[Sent]]) -> None:
    """The wrong one is refused; during a rotation either is accepted; an empty one signs nothing."""
    for scheme in SCHEMES:
        sent = signed[scheme.name][0]
        other = bytes(reversed(ED25519_SEED))
        assert not scheme.accepts(sent, NOW, other)
        if scheme is not DISCORD:  # which has one key
            assert scheme.accepts(sent, NOW, other, scheme.key)
            assert scheme.accepts(sent, NOW, scheme.key, other)
            assert not scheme.verify((), sent, NOW)
    empty = Sent(b"{}", "sha256=" + hmac.digest(b"", b"{}", "sha256").hex())
    assert not GITHUB.accepts(empty, NOW, b"")
    assert not signatures.verify_token((b"",), "")


def test_the_window_of_replays(senders: Senders) -> None:
    """A time may be 300 seconds old or ahead, and not one more."""
    offsets = (0, -REPLAY_WINDOW_S, REPLAY_WINDOW_S, -REPLAY_WINDOW_S - 1, REPLAY_WINDOW_S + 1, -86_400, 86_400)
    timed = [scheme for scheme in SCHEMES if scheme.is_timed]
    cases = [(scheme, str(NOW + offset), offset) for scheme in timed for offset in offsets]
    asked = [
        {"scheme": scheme.name, "secret": scheme.secret, "body": "{}", "id": "m", "time": at} for scheme, at, _ in cases
    ]
    for (scheme, at, offset), signature in zip(cases, senders.sign(asked), strict=True):
        sent = Sent(b"{}", signature, at, "m")
        assert scheme.accepts(sent) is (abs(offset) <= REPLAY_WINDOW_S), (scheme.name, offset)
        assert scheme.accepts(sent, NOW + 0.25) is (-REPLAY_WINDOW_S < offset <= REPLAY_WINDOW_S)
    for odd in ("", " ", "-1", "+1", "1e9", "1790000000.0", "٣", "9" * 13, "0x1", "1790000000\n", "nan", "1_000"):
        assert not signatures.is_fresh(odd, NOW)


def test_malformed_headers_are_refused(signed: dict[str, list[Sent]]) -> None:
    for scheme in SCHEMES:
        sent = signed[scheme.name][0]
        signature = sent.signature or ""
        front, raw, write = decoded(scheme, signature)
        odd = [
            *("", " ", "=", ",", "v1", "v1,", "v1=", "sha256=", "v0=", "\0", "é", "\udcff", "x" * 5_000),
            *(signature + "0", signature[:-1], front + write(raw[:-1]), front + write(raw + b"\0"), front + front),
            *(signature + "\n", front + " " + write(raw), front.upper() + write(raw) if front else "x" + signature),
        ]
        for one in odd:
            assert not scheme.accepts(replace(sent, signature=one)), (scheme.name, one)
        assert not scheme.accepts(replace(sent, signature=None))
        if scheme.is_timed and scheme is not STRIPE:
            assert not scheme.accepts(replace(sent, time=None))
    standard = signed["standard"][0]
    for odd_id in (None, "", "msg_2", "msg_1 ", "é", "\udcff", "\ud800", "🚀"):
        assert not STANDARD.accepts(replace(standard, id=odd_id))


def test_the_case_of_hexadecimal_digits(senders: Senders, signed: dict[str, list[Sent]]) -> None:
    """Of an HMAC, lower case only, as official packages have it; of Ed25519, either, as they have it, too."""
    for scheme in (GITHUB, SLACK, DISCORD, STRIPE):
        sent = signed[scheme.name][0]
        front, raw, _ = decoded(scheme, sent.signature or "")
        upper = replace(sent, signature=front + raw.hex().upper())
        assert scheme.accepts(upper) is (scheme is DISCORD)
        assert senders.verify([official(scheme, upper)]) == [scheme is DISCORD]


def test_several_signatures_in_one_header(senders: Senders, signed: dict[str, list[Sent]]) -> None:
    wrong = "0" * 64
    sent = signed["stripe"][0]
    right = (sent.signature or "").partition("v1=")[2]

    def stripe(*items: str) -> bool:
        return STRIPE.accepts(replace(sent, signature=",".join(items)))

    at = f"t={NOW}"
    assert stripe(at, f"v1={wrong}", f"v1={right}")
    assert stripe(f"v1={right}", f"v0={wrong}", at)
    assert stripe(at, *[f"v1={wrong}"] * (MAX_SIGNATURES - 1), f"v1={right}")
    assert not stripe(at, *[f"v1={wrong}"] * MAX_SIGNATURES, f"v1={right}")
    assert not stripe(at, f"v0={right}")
    assert not stripe(at, at, f"v1={right}")
    assert not stripe(at, f"t={NOW + 1}", f"v1={right}")
    assert not stripe(f"v1={right}")
    assert not stripe(at, f"v1={right}", "x" * MAX_HEADER_LENGTH)
    unknown_scheme = replace(sent, signature=f"{at},v0={right}")
    assert senders.verify([official(STRIPE, unknown_scheme)]) == [False]

    sent = signed["standard"][0]
    right, wrong = sent.signature or "", "v1," + base64.b64encode(bytes(32)).decode()
    for header, accepted in (
        (f"{wrong} {right}", True),
        (f"{right} {wrong}", True),
        (f"v1a,{right[3:]} {right}", True),
        (f"v1a,{right[3:]}", False),
        (f"v2,{right[3:]}", False),
        (" ".join([wrong] * (MAX_SIGNATURES - 1) + [right]), True),
        (" ".join([wrong] * MAX_SIGNATURES + [right]), False),
        (right.rstrip("="), False),  # another spelling of the same bytes
    ):
        assert STANDARD.accepts(replace(sent, signature=header)) is accepted, header

    body = b'{"event":{"id":"x"}}'
    digest = hmac.digest(b"s", body, "sha256").hex()
    for header, accepted in (
        (f"v1={digest}", True),
        (f"v1={'0' * 64}, v1={digest}", True),
        (",".join([f"v1={'0' * 64}"] * MAX_SIGNATURES + [f"v1={digest}"]), False),
        (f"v0={digest}", False),
        (digest, False),
    ):
        assert signatures.verify_versioned((b"s",), body, header) is accepted


def test_known_vectors() -> None:
    """Those that the platforms print in their documentation."""
    github = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert GITHUB.accepts(Sent(b"Hello, World!", github))
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    slack = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert SLACK.accepts(Sent(body, slack, "1531420618"), 1_531_420_618)
    assert not SLACK.accepts(Sent(body, slack, "1531420618"), 1_531_420_618 + REPLAY_WINDOW_S + 1)


def test_only_an_equal_token_is_accepted() -> None:
    assert signatures.verify_token((b"other", b"token"), "token")
    for odd in (None, "", "Token", "token ", "é", "\ud800", "\udcff", "token" * 1_000):
        assert not signatures.verify_token((b"token",), odd)


TEXT = st.one_of(
    st.none(),
    st.text(max_size=100),
    st.text("0123456789abcdef=,v1t ", max_size=200),
    st.just(str(NOW)),
    st.builds(lambda digest: "v1=" + digest.hex(), st.binary(min_size=32, max_size=32)),
    st.builds(lambda digest: "v1," + base64.b64encode(digest).decode(), st.binary(min_size=32, max_size=32)),
    st.builds(lambda raw: raw.hex(), st.binary(min_size=64, max_size=64)),
)


@given(st.binary(max_size=200), TEXT, TEXT, TEXT)
def test_nothing_else_is_accepted_and_nothing_raises(
    body: bytes, signature: str | None, at: str | None, message_id: str | None
) -> None:
    sent = Sent(body, signature, at, message_id)
    for scheme in SCHEMES:
        assert not scheme.accepts(sent)
    stamped = Sent(body, f"t={NOW},{signature}", str(NOW), message_id)
    for scheme in SCHEMES:
        assert not scheme.accepts(stamped)
    assert not signatures.verify_versioned((b"s",), body, signature)
    assert not signatures.verify_token((hashlib.sha256(body).digest(),), signature)


@given(st.binary(max_size=500), st.binary(min_size=1, max_size=80), st.integers(0, 10**11))
def test_what_is_signed_is_accepted(body: bytes, key: bytes, at: int) -> None:
    digest = hmac.digest(key, b"%d." % at + body, "sha256").hex()
    assert signatures.verify_payments((key,), body, f"t={at},v1={digest}", at)
    assert not signatures.verify_payments((key,), body + b"x", f"t={at},v1={digest}", at)
    assert not signatures.verify_payments((key + b"x",), body, f"t={at},v1={digest}", at)
