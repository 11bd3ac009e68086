"""The kernel's reader of OTLP/JSON: what it does not leave to the reference it reads as the reference does.

Inputs are those of `otlp_json`.
"""

from types import ModuleType
from typing import Any

from proto.otlp.json import to_protobuf
from proto.otlp.policy import DecodeError, Policy, Signal
from tests.fuzz.targets.kernel import BATCH_ID, guarded, load
from tests.fuzz.targets.otlp_json import mutate, parts
from tests.proto.otlp.generate import NOW_NS

__all__ = ["check", "mutate"]

_plain = load("plain")
_tight = load("tight")


def check(data: bytes) -> None:
    signal, policy, body = parts(data)
    body = guarded(body)
    encoded = _tight.to_protobuf(signal, body, policy)
    assert _plain.to_protobuf(signal, body, policy) == encoded, "the two builds differ"
    if encoded is None:
        return
    assert _said(_plain, "decode_json", signal, body, policy) == _said_of_reference(signal, body, policy)


def _said_of_reference(signal: Signal, body: bytes, policy: Policy) -> Any:
    try:
        encoded = to_protobuf(signal, body, policy)
    except DecodeError as error:
        return error.reason
    return _said(_plain, "decode", signal, encoded, policy)


def _said(module: ModuleType, name: str, signal: Signal, body: bytes, policy: Policy) -> Any:
    """A refusal, or everything that is said of a request and its blocks."""
    try:
        decoded = getattr(module, name)(signal, body, 1, policy, NOW_NS)
    except DecodeError as error:
        return error.reason
    blocks = module.assemble([decoded], BATCH_ID)
    counts = (decoded.accepted, dict(decoded.rejected), dict(decoded.modified), decoded.exceptions)
    return counts, [(block.table, block.day, block.rows, b"".join(block.pieces)) for block in blocks]
