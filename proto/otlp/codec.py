"""The decoder in force: the kernel where it was built, else the reference, which gives the same (docs/codec.md)."""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Final, Protocol

from proto.otlp.policy import Block, Decoded, Policy, Signal


class NamedKeys(Protocol):
    """The keys that the roll-up names (`proto.otlp.reference.named`); each decoder has its own."""


def _load() -> ModuleType:
    try:
        kernel = importlib.import_module("proto.otlp.kernel")
    except ImportError:  # not built for this Python
        return importlib.import_module("proto.otlp.reference")
    return kernel if hasattr(kernel, "decode") else importlib.import_module("proto.otlp.reference")


_decoder = _load()
KERNEL: Final = _decoder.__name__ == "proto.otlp.kernel"


def decode(signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int) -> Decoded:
    """One export request, `body` in OTLP's protobuf encoding. Raises DecodeError when it is refused as a whole."""
    decoded: Decoded = _decoder.decode(signal, body, project_id, policy, now_ns)
    return decoded


def decode_json(signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int) -> Decoded | None:
    """The same for `body` in OTLP/JSON; None where the kernel leaves it to `proto.otlp.json` (docs/codec.md section 6).

    It leaves everything that is refused, what hardly anybody writes, and, where it was not built, every body.
    """
    if not KERNEL:
        return None
    decoded: Decoded | None = _decoder.decode_json(signal, body, project_id, policy, now_ns)
    return decoded


def named_keys(per_batch: int, per_day: int) -> NamedKeys:
    """What `assemble` is told to limit keys by, one for a process (`proto.otlp.reference.named`)."""
    named: NamedKeys = _decoder.NamedKeys(per_batch, per_day)
    return named


def assemble(decoded: Sequence[Decoded], batch_id: int, named: NamedKeys | None = None) -> list[Block]:
    """One batch: a block per table and day of what these requests left, in the order given. The roll-up of keys has
    those that are `named`, or all.
    """
    blocks: list[Block] = _decoder.assemble(decoded, batch_id, named)
    return blocks
