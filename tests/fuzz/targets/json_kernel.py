"""The kernel's reader of OTLP/JSON: what it does not leave to the reference it reads as the reference does.

Inputs are those of `otlp_json`.
"""

from collections.abc import Callable
from typing import Any

from proto.otlp.json import ItemReader, to_protobuf
from proto.otlp.policy import DecodedPayload, DecodeError, Policy, Signal
from tests.fuzz.targets.kernel import BATCH_ID, guarded, load
from tests.fuzz.targets.otlp_json import mutate, parts
from tests.proto.otlp.generate import NOW_NS

__all__ = ["check", "mutate"]

_plain = load("plain")
_tight = load("tight")


def check(data: bytes) -> None:
    signal, policy, body = parts(data)
    body = guarded(body)
    encoded = _tight.to_protobuf(signal, body, policy, ItemReader(signal), len(body))
    assert _plain.to_protobuf(signal, body, policy, ItemReader(signal), len(body)) == encoded, "the two builds differ"
    if encoded is None:
        return
    together = _said(lambda: _plain.decode_json(signal, body, 1, policy, NOW_NS, ItemReader(signal), len(body)))
    assert together == _said(lambda: _by_reference(signal, body, policy))
    alone = _said(lambda: _plain.decode_json(signal, body, 1, policy, NOW_NS, ItemReader(signal), 0))
    assert alone in (None, together)


def _by_reference(signal: Signal, body: bytes, policy: Policy) -> DecodedPayload:
    converted = to_protobuf(signal, body, policy)
    decoded: DecodedPayload = _plain.decode(signal, converted.body, 1, policy, NOW_NS, converted.faults)
    return decoded


def _said(decode: Callable[[], DecodedPayload | None]) -> Any:
    """A refusal, or everything that is said of a request and its blocks; None where it is left."""
    try:
        decoded = decode()
    except DecodeError as error:
        return error.reason
    if decoded is None:
        return None
    blocks = _plain.build_blocks([decoded], BATCH_ID)
    counts = (decoded.accepted, dict(decoded.rejected), dict(decoded.modified), decoded.exceptions)
    return (
        counts,
        decoded.first_fault,
        list(decoded.warnings),
        [(b.table, b.day, b.rows, b"".join(b.pieces)) for b in blocks],
    )
