"""The decoder in force: the kernel where it was built, else the reference, which gives the same (docs/codec.md)."""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from proto.otlp.json import ItemReader, to_protobuf
from proto.otlp.policy import Block, Decoded, Faults, Policy, Signal


def _load() -> ModuleType:
    try:
        kernel = importlib.import_module("proto.otlp.kernel")
    except ImportError:  # not built for this Python
        return importlib.import_module("proto.otlp.reference")
    return kernel if hasattr(kernel, "decode") else importlib.import_module("proto.otlp.reference")


_decoder = _load()
KERNEL: Final = _decoder.__name__ == "proto.otlp.kernel"


def decode(
    signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int, faults: Faults | None = None
) -> Decoded:
    """One export request, `body` in OTLP's protobuf encoding. Raises DecodeError when it is refused as a whole. `faults`:
    its items that are rejected already.
    """
    decoded: Decoded = _decoder.decode(signal, body, project_id, policy, now_ns, faults)
    return decoded


def decode_json(signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int) -> Decoded:
    """The same for `body` in OTLP/JSON, whatever it takes."""
    decoded = decode_json_within(len(body), signal, body, project_id, policy, now_ns)
    assert decoded is not None
    return decoded


def decode_json_within(
    most_left: int, signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int
) -> Decoded | None:
    """The same, or None when more than `most_left` bytes of it would be read in Python, at a twentieth of the speed: all
    of it where the kernel was not built, else the items that the kernel leaves, or all of a body that it leaves
    (docs/codec.md section 6).
    """
    if KERNEL:
        reader = ItemReader(signal)
        decoded: Decoded | None = _decoder.decode_json(signal, body, project_id, policy, now_ns, reader, most_left)
        if decoded is not None:
            return decoded
    if len(body) > most_left:
        return None
    converted = to_protobuf(signal, body, policy)
    return decode(signal, converted.body, project_id, policy, now_ns, converted.faults)


def assemble(decoded: Sequence[Decoded], batch_id: int) -> list[Block]:
    """One batch: a block per table and day of what these requests left, in the order given."""
    blocks: list[Block] = _decoder.assemble(decoded, batch_id)
    return blocks
