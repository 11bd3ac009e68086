"""Proof bundles and envelopes: refused with a bounded message; or read as another JSON library reads them, with bounded
findings, and an envelope is the same after it was written again.

Other libraries keep the last of repeated keys: the bundle that we read must have none.
"""

import json
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proto.json_keys import RepeatedKey
from proto.proofs import dsse
from proto.proofs.dsse import InvalidEnvelope
from proto.proofs.reading import bundle_of, is_envelope, payload_shape, read_payload
from proto.proofs.semantics import MAX_FINDINGS
from proto.proofs.semantics import check as find

_KEYS: Final = [("stranger", Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key())]


def check(data: bytes) -> None:
    is_envelope(data)
    for payload_type in dsse.PAYLOAD_TYPES:
        check_payload(data, payload_type)
    try:
        envelope = dsse.parse(data)
    except InvalidEnvelope:
        return
    assert is_envelope(data)
    assert not has_repeated_key(data)
    assert not list(dsse.find_signers(envelope, _KEYS))
    assert dsse.parse(dsse.encode(envelope)) == envelope
    check_payload(envelope.payload, envelope.payload_type)


def check_payload(payload: bytes, payload_type: str) -> None:
    try:
        bundle = read_payload(payload, payload_type)
    except RepeatedKey:
        assert has_repeated_key(payload)
        return
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    assert not has_repeated_key(payload)
    value: Any = json.loads(payload)
    assert bundle_of(msgspec.convert(value, payload_shape(payload_type))) == bundle
    found = find(bundle)
    assert len(found) <= MAX_FINDINGS
    assert all(one.message.isprintable() and len(one.path) < 200 for one in found)


def has_repeated_key(payload: bytes) -> bool:
    """As a decoder says it that looks at each object."""
    repeated = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.append(len(pairs) != len(dict(pairs)))
        return dict(pairs)

    json.loads(payload, object_pairs_hook=look)
    return any(repeated)
