"""The active decoder: the kernel if it was built, otherwise the reference. Both have the same results
(docs/codec.md).
"""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Final, NamedTuple, Protocol

from proto.otlp.json import ItemReader, to_protobuf
from proto.otlp.policy import Block, DecodedPayload, FieldFaults, Policy, Signal


class NamedKeySet(Protocol):
    """The attribute keys that the roll-up names (`proto.otlp.reference.blocks`). Each decoder has its own class."""


def _load() -> ModuleType:
    try:
        kernel = importlib.import_module("proto.otlp.kernel")
    except ImportError:  # not built for this Python
        return importlib.import_module("proto.otlp.reference")
    return kernel if hasattr(kernel, "decode") else importlib.import_module("proto.otlp.reference")


_decoder = _load()
KERNEL: Final = _decoder.__name__ == "proto.otlp.kernel"


def decode(
    signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int, faults: FieldFaults | None = None
) -> DecodedPayload:
    """Decode one export request, `body` in OTLP's protobuf encoding. Raises DecodeError if the request is refused.

    `faults`: items of the request that were already rejected.
    """
    decoded: DecodedPayload = _decoder.decode(signal, body, project_id, policy, now_ns, faults)
    return decoded


class PythonReadLimit(NamedTuple):
    """How much of an OTLP/JSON body Python may read, because Python reads at a twentieth of the kernel's speed: the
    bytes of all items that the kernel leaves to Python, and the bytes of one such item.
    """

    total_bytes: int
    item_bytes: int


def decode_json(signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int) -> DecodedPayload:
    """Decode one export request, `body` in OTLP/JSON. Raises DecodeError if the request is refused. Items with an
    invalid field are rejected. Python may read any amount.
    """
    decoded = _decode_by_kernel(PythonReadLimit(len(body), len(body)), signal, body, project_id, policy, now_ns)
    return decoded if decoded is not None else decode_json_in_python(signal, body, project_id, policy, now_ns)


def decode_json_within(
    left: PythonReadLimit, signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int
) -> DecodedPayload | None:
    """Like `decode_json`, but returns None if Python would have to read more than `left`.

    Python reads everything if the kernel was not built. Otherwise Python reads the items, or the complete body, that
    the kernel does not read (docs/codec.md section 6).
    """
    decoded = _decode_by_kernel(left, signal, body, project_id, policy, now_ns)
    if decoded is None and len(body) <= min(left):
        decoded = decode_json_in_python(signal, body, project_id, policy, now_ns)
    return decoded


def _decode_by_kernel(
    left: PythonReadLimit, signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int
) -> DecodedPayload | None:
    if not KERNEL:
        return None
    reader = ItemReader(signal)
    decoded: DecodedPayload | None = _decoder.decode_json(signal, body, project_id, policy, now_ns, reader, *left)
    return decoded


def decode_json_in_python(signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int) -> DecodedPayload:
    """Like `decode_json`, but Python converts the complete body to protobuf."""
    converted = to_protobuf(signal, body, policy)
    return decode(signal, converted.body, project_id, policy, now_ns, converted.faults)


def estimate_json_memory(body: bytes, policy: Policy, left: PythonReadLimit | None) -> int:
    """Upper bound of the memory in bytes that reading `body` in OTLP/JSON takes in addition to the body (`python -m
    benchmarks.codec memory`). With `left`, the kernel reads the body, and Python reads one item at a time. With None,
    Python reads the complete body.
    """
    objects = min(_count_objects(body), policy.max_parts)
    if left is None:
        return _READ_IN_PYTHON.estimate(len(body), objects)
    item = min(left.item_bytes, len(body))
    return _READ_BY_KERNEL.estimate(len(body), objects) + _ITEM.estimate(item, min(item // _SMALLEST_OBJECT, objects))


class _MemoryCost(NamedTuple):
    """Bytes of memory per body, per byte of the body, and per opening brace in the body."""

    base_bytes: int
    per_byte: int
    per_object: int

    def estimate(self, nbytes: int, objects: int) -> int:
        """Bytes of memory for a body of `nbytes` with `objects` opening braces."""
        return self.base_bytes + self.per_byte * nbytes + self.per_object * objects


_READ_BY_KERNEL: Final = _MemoryCost(16 * 2**20, 4, 80)
_READ_IN_PYTHON: Final = _MemoryCost(16 * 2**20, 9, 160 if KERNEL else 540)
_ITEM: Final = _READ_IN_PYTHON._replace(base_bytes=0)
_SMALLEST_OBJECT: Final = 3  # bytes, including the comma before the next one
_STEP: Final = 2**20


def _count_objects(body: bytes) -> int:
    if KERNEL:
        counted: int = _decoder.count_objects(body)
        return counted
    # Count in steps, so that other threads can run between them.
    return sum(body.count(b"{", at, at + _STEP) for at in range(0, len(body), _STEP))


def new_named_keys(per_batch: int, per_day: int) -> NamedKeySet:
    """The state with which `build_blocks` limits attribute keys, one per process (`proto.otlp.reference.blocks`)."""
    named: NamedKeySet = _decoder.NamedKeys(per_batch, per_day)
    return named


def build_blocks(decoded: Sequence[DecodedPayload], batch_id: int, named: NamedKeySet | None = None) -> list[Block]:
    """The insert blocks of one batch: one block per table and day, with the rows of these requests in the given order.
    The roll-up of attribute keys contains the `named` keys, or all keys for None.
    """
    blocks: list[Block] = _decoder.build_blocks(decoded, batch_id, named)
    return blocks
