"""Parse, sign and verify DSSE envelopes (https://github.com/secure-systems-lab/dsse, version 1.0.2).

A payload is read only after one of its signatures was verified over the received bytes. `keyid` is only a hint: any key
may have made any signature.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from msgspec import UNSET, Meta, UnsetType

from proto.json_keys import RepeatedKey, count_strings, require_unique_keys

BUNDLE_TYPE: Final = "application/vnd.sluice.proof-bundle+json"
STATEMENT_MEDIA_TYPE: Final = "application/vnd.in-toto+json"
PAYLOAD_TYPES: Final = frozenset({BUNDLE_TYPE, STATEMENT_MEDIA_TYPE})
ENVELOPE_TYPE: Final = "application/vnd.dsse.envelope.v1+json"
MAX_SIGNATURES: Final = 16
MAX_KEY_ID_LENGTH: Final = 200
MAX_ATTEMPTS: Final = 64  # to verify a signature with a key
MIN_ATTEMPTS: Final = 4
MAX_HASHED_BYTES: Final = 64 * 2**20  # in all attempts, because Ed25519 hashes the payload each time
_ED25519_BYTES: Final = 64
_MAX_P256_BYTES: Final = 72
_DER_SEQUENCE: Final = b"\x30"
_MAX_SIGNATURE_LENGTH: Final = 70_000  # of SLH-DSA in base64, which may accompany a supported one
_MAX_PADDING: Final = 2
_ED25519_PRIME: Final = 2**255 - 19
_ED25519_D: Final = -121_665 * pow(121_666, -1, _ED25519_PRIME) % _ED25519_PRIME
_URL_SAFE: Final = str.maketrans("-_+/", "+/~~")  # characters of the standard alphabet become invalid

PublicKey = Ed25519PublicKey | ec.EllipticCurvePublicKey
PrivateKey = Ed25519PrivateKey | ec.EllipticCurvePrivateKey


class InvalidEnvelope(ValueError):
    """The bytes are not an envelope, or the envelope is not permitted. The message is for people."""


class InvalidKey(ValueError):
    """The text is not a key in PEM, or the kind of the key is not supported."""


class Signature(msgspec.Struct, frozen=True):
    """A signature: `sig` in base64, and `keyid`, which is a hint. A missing, null and empty `keyid` mean the same.
    Other fields are ignored.
    """

    sig: Annotated[str, Meta(min_length=1, max_length=_MAX_SIGNATURE_LENGTH)]
    keyid: Annotated[str, Meta(max_length=MAX_KEY_ID_LENGTH)] | UnsetType | None = UNSET


class EnvelopeBody(msgspec.Struct, frozen=True):
    """An envelope as it is sent, with `payload` in base64. Other fields are ignored (envelope.md, "Parsing rules")."""

    payload: str
    payloadType: Annotated[str, Meta(max_length=200)]  # noqa: N815 (the name in DSSE)
    signatures: Annotated[list[Signature], Meta(min_length=1, max_length=MAX_SIGNATURES)]


class Envelope(NamedTuple):
    """A payload, which must not be read before it is verified, and its signatures."""

    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...]


def parse(raw: bytes) -> Envelope:
    """Parse an envelope. Raises InvalidEnvelope, also for repeated keys and for unknown payload types."""
    try:
        wire = msgspec.json.decode(raw, type=EnvelopeBody)
        has_more = count_strings(raw) != count_strings(msgspec.json.encode(wire))  # ignored fields, or repeated keys
        require_unique_keys(raw, msgspec.json.decode(raw) if has_more else wire)
    except RepeatedKey as error:
        raise InvalidEnvelope(str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEnvelope(f"Is not a DSSE envelope: {error}.") from error
    if wire.payloadType not in PAYLOAD_TYPES:
        raise InvalidEnvelope(f"The payloadType must be one of {', '.join(sorted(PAYLOAD_TYPES))}.")
    return Envelope(decode_base64(wire.payload), wire.payloadType, tuple(wire.signatures))


def encode(envelope: Envelope) -> bytes:
    """The envelope as JSON."""
    payload = base64.b64encode(envelope.payload).decode("ascii")
    return msgspec.json.encode(EnvelopeBody(payload, envelope.payload_type, list(envelope.signatures)))


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding, which is the text that is signed."""
    encoded = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(encoded), encoded, len(payload), payload)


def sign(payload: bytes, payload_type: str, key: PrivateKey, key_id: str) -> Envelope:
    """Create an envelope with one signature."""
    signed = pae(payload_type, payload)
    made = key.sign(signed) if isinstance(key, Ed25519PrivateKey) else key.sign(signed, ec.ECDSA(hashes.SHA256()))
    return Envelope(payload, payload_type, (Signature(base64.b64encode(made).decode("ascii"), key_id),))


def find_signers(envelope: Envelope, keys: Sequence[tuple[str, PublicKey]]) -> Iterator[int]:
    """The positions of the keys that have made one of the signatures. Keys that a `keyid` names are tried first, then
    the others in their order, until MAX_ATTEMPTS pairs of a key and a signature were tried. For a large payload fewer
    pairs are tried.
    """
    signed = pae(envelope.payload_type, envelope.payload)
    digest = hashlib.sha256(signed).digest()
    hinted = {each.keyid for each in envelope.signatures if each.keyid}
    made = dict.fromkeys(decoded for each in envelope.signatures if (decoded := _decoded(each.sig)) is not None)
    left = min(MAX_ATTEMPTS, max(MIN_ATTEMPTS, MAX_HASHED_BYTES // len(signed)))
    for at in sorted(range(len(keys)), key=lambda at: keys[at][0] not in hinted):
        key = keys[at][1]
        for signature in (one for one in made if _may_be_of(key, one)):
            if not left:
                return
            left -= 1
            if _is_made_by(key, signature, signed, digest):
                yield at
                break


def _may_be_of(key: PublicKey, signature: bytes) -> bool:
    """Whether the signature has the form of the key's kind."""
    if isinstance(key, Ed25519PublicKey):
        return len(signature) == _ED25519_BYTES
    return signature.startswith(_DER_SEQUENCE) and len(signature) <= _MAX_P256_BYTES


def _is_made_by(key: PublicKey, signature: bytes, signed: bytes, digest: bytes) -> bool:
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, signed)
        else:
            key.verify(signature, digest, ec.ECDSA(Prehashed(hashes.SHA256())))
    except InvalidSignature:
        return False
    return True


def load_public_key(pem: bytes) -> PublicKey:
    """An Ed25519 or ECDSA P-256 key. Raises InvalidKey."""
    if b"PRIVATE KEY" in pem:
        raise InvalidKey("Is a private key, which must stay secret. Send the public key, and replace this key pair.")
    try:
        key = serialization.load_pem_public_key(pem)
    except Exception as error:  # cryptography documents several
        raise InvalidKey("Is not a public key in PEM (SubjectPublicKeyInfo).") from error
    return _supported_public(key)


def load_private_key(pem: bytes, password: bytes | None = None) -> PrivateKey:
    """An Ed25519 or ECDSA P-256 key. Raises InvalidKey."""
    try:
        key = serialization.load_pem_private_key(pem, password)
    except Exception as error:  # cryptography documents several
        raise InvalidKey("Is not a private key in PEM (PKCS #8), or its password is wrong.") from error
    if not isinstance(key, Ed25519PrivateKey | ec.EllipticCurvePrivateKey):
        raise InvalidKey("Must be an Ed25519 or ECDSA P-256 key.")
    _supported_public(key.public_key())
    return key


def _supported_public(key: object) -> PublicKey:
    if isinstance(key, Ed25519PublicKey):
        if _is_weak(key):
            raise InvalidKey("Is a weak key: it accepts signatures that were made without the private key.")
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise InvalidKey("Must be an Ed25519 or ECDSA P-256 key.")


def _is_weak(key: Ed25519PublicKey) -> bool:
    """Whether the point has an order of 8 or less, or is not written in its canonical form (RFC 8032, 5.1.3).

    On the curve -x² + y² = 1 + d·x²·y², y is 1 or -1 for the orders 1 and 2, and 0 for the order 4. Doubling a point of
    order 8 gives y = 0, which means x² = -y².
    """
    y = int.from_bytes(key.public_bytes_raw(), "little") & (2**255 - 1)
    if y >= _ED25519_PRIME:
        return True
    squared = y * y % _ED25519_PRIME
    return squared in (0, 1) or (_ED25519_D * squared * squared + 2 * squared - 1) % _ED25519_PRIME == 0


def public_pem(key: PublicKey) -> str:
    """The key in PEM."""
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(encoding, form).decode("ascii")


def default_key_id(key: PublicKey) -> str:
    """`sha256:` and the digest of the key in DER."""
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return "sha256:" + hashlib.sha256(key.public_bytes(encoding, form)).hexdigest()


def decode_base64(text: str) -> bytes:
    """Decode base64 in either alphabet, with or without padding. Raises InvalidEnvelope."""
    plain = text.rstrip("=")
    if "-" in plain or "_" in plain:
        plain = plain.translate(_URL_SAFE)
    try:
        if len(text) - len(plain) > _MAX_PADDING:
            raise ValueError("padding")
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError as error:  # also binascii.Error, and for letters beyond ASCII
        raise InvalidEnvelope("The payload is not base64.") from error


def _decoded(signature: str) -> bytes | None:
    try:
        return decode_base64(signature)
    except InvalidEnvelope:
        return None
