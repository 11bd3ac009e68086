"""Envelopes: held against securesystemslib in both directions, and hostile ones."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from securesystemslib import dsse as oracle
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer._crypto_signer import CryptoSigner

from proto.proofs import dsse
from proto.proofs.dsse import Envelope, InvalidEnvelope, InvalidKey, PrivateKey, PublicKey

PAYLOAD = b'{ "a" : 1.0, "\xc3\xa9": "\\u00e9" }\n'
KEYS: list[PrivateKey] = [Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256R1())]


def _signed(key: PrivateKey = KEYS[0], payload: bytes = PAYLOAD, key_id: str = "k") -> Envelope:
    return dsse.sign(payload, dsse.BUNDLE_TYPE, key, key_id)


def find_signer(envelope: Envelope, keys: Sequence[tuple[str, PublicKey]]) -> str | None:
    """The id of the first key that has made one of the signatures."""
    return next((keys[at][0] for at in dsse.find_signers(envelope, keys)), None)


@pytest.mark.parametrize("key", KEYS, ids=["ed25519", "p256"])
@pytest.mark.parametrize("payload", [PAYLOAD, b"", b"\0" * 70_000])
def test_as_securesystemslib_has_it(key: PrivateKey, payload: bytes) -> None:
    signer = CryptoSigner(key)
    theirs = oracle.Envelope(payload, dsse.STATEMENT_MEDIA_TYPE, {})
    theirs.sign(signer)
    assert theirs.pae() == dsse.pae(dsse.STATEMENT_MEDIA_TYPE, payload)
    read = dsse.parse(json.dumps(theirs.to_dict()).encode())
    assert (read.payload, read.payload_type) == (payload, dsse.STATEMENT_MEDIA_TYPE)
    assert find_signer(read, [("ours", key.public_key())]) == "ours"

    ours = dsse.sign(payload, dsse.BUNDLE_TYPE, key, signer.public_key.keyid)
    back = oracle.Envelope.from_dict(json.loads(dsse.encode(ours)))
    assert set(back.verify([signer.public_key], 1)) == {signer.public_key.keyid}
    other = CryptoSigner(Ed25519PrivateKey.generate())
    with pytest.raises(VerificationError):
        back.verify([other.public_key], 1)


def test_every_bit_counts() -> None:
    known = [("k", KEYS[0].public_key())]
    good = _signed()
    assert find_signer(good, known) == "k"
    signature = dsse.decode_base64(good.signatures[0].sig)
    for at in range(len(signature) * 8):
        changed = bytearray(signature)
        changed[at // 8] ^= 1 << at % 8
        forged = dsse.Signature(base64.b64encode(changed).decode(), "k")
        assert find_signer(good._replace(signatures=(forged,)), known) is None
    for at in range(len(PAYLOAD)):
        changed = bytearray(PAYLOAD)
        changed[at] ^= 1
        assert find_signer(good._replace(payload=bytes(changed)), known) is None
    assert find_signer(good._replace(payload=json.dumps(json.loads(PAYLOAD)).encode()), known) is None


def test_a_payload_of_another_type_is_not_signed() -> None:
    confused = _signed()._replace(payload_type=dsse.STATEMENT_MEDIA_TYPE)
    assert find_signer(confused, [("k", KEYS[0].public_key())]) is None


def test_keyid_is_a_hint() -> None:
    known = [("k", KEYS[0].public_key()), ("other", KEYS[1].public_key())]
    for hint in ("k", "other", "", "unknown"):
        assert find_signer(_signed(key_id=hint), known) == "k"
    assert find_signer(_signed(Ed25519PrivateKey.generate(), key_id="k"), known) is None


def test_of_two_signatures_one_is_enough() -> None:
    stranger, ours = _signed(Ed25519PrivateKey.generate()), _signed()
    both = ours._replace(signatures=(*stranger.signatures, *ours.signatures))
    assert find_signer(both, [("k", KEYS[0].public_key())]) == "k"
    assert find_signer(both, [("p256", KEYS[1].public_key())]) is None


def test_every_signer_is_found_and_attempts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = _signed()
    both = ours._replace(signatures=(*_signed(KEYS[1]).signatures, *ours.signatures))
    keys = [("a", KEYS[0].public_key()), ("b", Ed25519PrivateKey.generate().public_key()), ("c", KEYS[1].public_key())]
    assert list(dsse.find_signers(both, keys)) == [0, 2]
    tried: list[bytes] = []
    monkeypatch.setattr(dsse, "_is_made_by", lambda _key, signature, *_: tried.append(signature))
    strangers = [("x", Ed25519PrivateKey.generate().public_key())] * 100
    worthless = tuple(dsse.Signature(base64.b64encode(bytes([at]) * 64).decode()) for at in range(16))
    for payload, attempts in ((PAYLOAD, 64), (bytes(3 * 2**20), 21), (bytes(30 * 2**20), 4)):
        tried.clear()
        assert not list(dsse.find_signers(Envelope(payload, dsse.BUNDLE_TYPE, worthless), strangers))
        assert len(tried) == attempts
    tried.clear()
    assert not list(dsse.find_signers(Envelope(PAYLOAD, dsse.BUNDLE_TYPE, worthless[:1] * 16), strangers[:3]))
    assert len(tried) == 3, "equal signatures are tried once"


def test_both_alphabets_of_base64() -> None:
    fields = json.loads(dsse.encode(_signed(payload=b"\xfb\xff\xfe?")))
    fields["payload"] = base64.urlsafe_b64encode(b"\xfb\xff\xfe?").decode().rstrip("=")
    fields["signatures"][0]["sig"] = fields["signatures"][0]["sig"].replace("+", "-").replace("/", "_")
    read = dsse.parse(json.dumps(fields).encode())
    assert find_signer(read, [("k", KEYS[0].public_key())]) == "k"


@pytest.mark.parametrize(
    "change",
    [
        {"payload": "%%%%"},
        {"payload": "a"},
        {"payload": "+-+-"},
        {"payload": "AAAA\n"},
        {"payload": 1},
        {"payloadType": "text/plain"},
        {"payloadType": dsse.BUNDLE_TYPE.upper()},
        {"payloadType": dsse.BUNDLE_TYPE + " "},
        {"signatures": []},
        {"signatures": [{"sig": ""}]},
        {"signatures": [{"keyid": "k"}]},
        {"signatures": [{"sig": "AAAA", "keyid": "k" * 201}]},
        {"signatures": [{"sig": "AAAA"}] * 17},
        {"signatures": [{"sig": "AAAA", "keyid": 1}]},
        {"signatures": [{"sig": "A" * 70_001}]},
        {"signatures": {"sig": "AAAA"}},
        {"more": 1e400},
    ],
    ids=lambda change: str(change)[:60],
)
def test_no_envelope(change: dict[str, Any]) -> None:
    fields = json.loads(dsse.encode(_signed()))
    with pytest.raises(InvalidEnvelope):
        dsse.parse(json.dumps(fields | change).encode())


@pytest.mark.parametrize(
    ("in_signature", "in_envelope"),
    [
        ({"keyid": None}, {}),
        ({"keyid": ""}, {}),
        ({"extension": {"kind": "k", "ext": {"a": [1, {"b": "c"}]}}}, {}),
        ({"certificate": "QUFB"}, {}),
        ({"keyid": None, "cert": None}, {"payloadUtf8": None, "note": {"payload": "x", "signatures": []}}),
        ({}, {"unknown": 'quotes " and \\ in it', "": [[], {}]}),
    ],
)
def test_unknown_fields_are_ignored_and_an_unset_key_id_is_an_empty_one(
    in_signature: dict[str, Any], in_envelope: dict[str, Any]
) -> None:
    """As envelope.md has it under "Parsing rules"."""
    fields = json.loads(dsse.encode(_signed()))
    del fields["signatures"][0]["keyid"]
    plain = dsse.parse(json.dumps(fields).encode())
    fields["signatures"][0] |= in_signature
    fields |= in_envelope
    read = dsse.parse(json.dumps(fields).encode())
    assert (read.payload, read.payload_type) == (plain.payload, plain.payload_type)
    assert [each.sig for each in read.signatures] == [each.sig for each in plain.signatures]
    assert [each.keyid or "" for each in read.signatures] == [""]
    assert find_signer(read, [("other", KEYS[1].public_key()), ("k", KEYS[0].public_key())]) == "k"


def test_a_long_signature_of_another_kind_may_stand_beside_ours() -> None:
    longest = dsse.Signature(base64.b64encode(bytes(49_856)).decode(), "slh-dsa")
    ours = _signed()
    both = dsse.parse(dsse.encode(ours._replace(signatures=(longest, *ours.signatures))))
    assert find_signer(both, [("k", KEYS[0].public_key())]) == "k"


@pytest.mark.parametrize(
    "addition",
    ['"note":1,"note":2', '"note":{"a":1,"\\u0061":2}', '"note":[{"a":1},{"b":1,"b":1}]', '"keyid":1,"keyid":1'],
)
def test_keys_of_ignored_fields_must_not_repeat_either(addition: str) -> None:
    text = dsse.encode(_signed()).decode()
    for start in ("{", '"signatures":[{'):
        with pytest.raises(InvalidEnvelope):
            dsse.parse(text.replace(start, f"{start}{addition},", 1).encode())


def test_repeated_keys_and_what_is_no_json() -> None:
    text = dsse.encode(_signed()).decode()
    twice = text.replace('"payload":', '"payload":"AAAA","pay\\u006coad":', 1)
    deep = text.replace("{", '{"deep":' + "[" * 100_000 + "]" * 100_000 + ",", 1)
    for raw in (deep.encode(), twice.encode(), b"", b"[]", b"{", b"\xff", b"[" * 100_000, text.encode() + b"{}"):
        with pytest.raises(InvalidEnvelope):
            dsse.parse(raw)


def test_signatures_that_are_no_base64_are_nobodys() -> None:
    broken = _signed()._replace(signatures=(dsse.Signature("%%%%"), dsse.Signature("AAAA")))
    for key in KEYS:
        assert find_signer(broken, [("k", key.public_key())]) is None


def test_keys() -> None:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    for key in KEYS:
        pem = key.private_bytes(*form, serialization.NoEncryption())
        loaded = dsse.load_private_key(pem)
        public = dsse.load_public_key(dsse.public_pem(loaded.public_key()).encode())
        assert dsse.default_key_id(public) == dsse.default_key_id(key.public_key())
        secret = key.private_bytes(*form, serialization.BestAvailableEncryption(b"pass"))
        assert dsse.default_key_id(dsse.load_private_key(secret, b"pass").public_key()) == dsse.default_key_id(public)
        for password in (None, b"other"):
            with pytest.raises(InvalidKey):
                dsse.load_private_key(secret, password)
    for unsupported in (rsa.generate_private_key(65_537, 2_048), ec.generate_private_key(ec.SECP384R1())):
        with pytest.raises(InvalidKey):
            dsse.load_private_key(unsupported.private_bytes(*form, serialization.NoEncryption()))
        public_pem = unsupported.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        with pytest.raises(InvalidKey):
            dsse.load_public_key(public_pem)
    for text in (b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", b"\xff"):
        with pytest.raises(InvalidKey):
            dsse.load_public_key(text)


@pytest.mark.parametrize(
    "point",
    [
        b"\x01" + bytes(31),
        b"\x01" + bytes(30) + b"\x80",
        bytes(32),
        b"\xec" + b"\xff" * 30 + b"\x7f",
        b"\xee" + b"\xff" * 30 + b"\x7f",
        bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
        bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
    ],
)
def test_a_key_that_verifies_what_anybody_makes_is_refused(point: bytes) -> None:
    """The points of small order, as of 1, 4, 2 and 8, and another form of the neutral one."""
    key = Ed25519PublicKey.from_public_bytes(point)
    with pytest.raises(InvalidKey, match="weak"):
        dsse.load_public_key(dsse.public_pem(key).encode())
