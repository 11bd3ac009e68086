"""Bytes of a bundle, or of a verified payload, as values."""

from typing import Final

import msgspec

from proto.json_keys import require_unique_keys
from proto.proofs import dsse
from proto.proofs.bundle import ProofBundle, Statement

MAX_BYTES: Final = 4 * 2**20  # of a bundle, with its envelope if it is signed


def payload_shape(payload_type: str) -> type[ProofBundle] | type[Statement]:
    """What a payload must be."""
    return ProofBundle if payload_type == dsse.BUNDLE_TYPE else Statement


def bundle_of(value: ProofBundle | Statement) -> ProofBundle:
    """The bundle itself, or that in the statement."""
    return value.predicate.ledger if isinstance(value, Statement) else value


def read_payload(payload: bytes, payload_type: str) -> ProofBundle:
    """The bundle of a verified payload, or of an unsigned body. Raises msgspec.DecodeError and RepeatedKey."""
    value: ProofBundle | Statement = msgspec.json.decode(payload, type=payload_shape(payload_type))
    require_unique_keys(payload, value)
    return bundle_of(value)


def is_envelope(raw: bytes) -> bool:
    """Whether a file looks like an envelope, for programs that are not told by a media type."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return "payloadType" in fields and "signatures" in fields
