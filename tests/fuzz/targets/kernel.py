"""The kernel on any bytes, for speed without the reference: two builds of it must say the same.

An input is a batch: requests, each a byte that chooses signal, policy and clock, two bytes of length, and a body.
"""

import ctypes
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from proto.otlp.policy import YEAR_2000_NS, Block, DecodedPayload, DecodeError, Policy, Signal
from tests.fuzz.protobuf import mutate_batch as mutate
from tests.proto.otlp.generate import NOW_NS, POLICIES, Case

__all__ = ["check", "mutate"]

BUILD_VARIABLE: Final = (
    "FUZZ_KERNELS"  # the directory with both builds; without it the installed kernel stands for both
)
MAX_REQUESTS: Final = 16
COMPARED_BYTES: Final = 400  # longer ones go through one build alone: what a second would find, short ones show as well
BATCH_ID: Final = 2**64 - 3
Outcome = tuple[list[Any], list[tuple[str, int, int, bytes]]]
_SIGNALS: Final[tuple[Signal, Signal]] = ("traces", "logs")
_NOTHING: Final = Policy(
    max_items=1,
    max_parts=9,
    max_key_bytes=0,
    max_value_bytes=0,
    max_name_bytes=0,
    max_body_bytes=0,
    max_attributes=0,
    max_events=0,
    max_links=0,
    max_exceptions=0,
)
CHOICES: Final = (*POLICIES, Policy(max_value_bytes=1, max_key_bytes=2, max_name_bytes=3, max_body_bytes=2), _NOTHING)
CLOCKS: Final = (NOW_NS, NOW_NS + 20 * 3600 * 10**9 + 5, YEAR_2000_NS + 5)


def load(variant: str) -> ModuleType:
    """A build of the kernel, or the installed one where no build is named."""
    folder = os.environ.get(BUILD_VARIABLE)
    if folder is None:
        return importlib.import_module("proto.otlp.kernel")
    path = str(Path(folder) / variant / "_kernel.so")
    loader = importlib.machinery.ExtensionFileLoader("_kernel", path)
    spec = importlib.util.spec_from_file_location("_kernel", path, loader=loader)
    if spec is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def cases(data: bytes) -> Iterator[Case]:
    """The requests of an input."""
    at = number = 0
    while at < len(data) and number < MAX_REQUESTS:
        choice = data[at]
        size = int.from_bytes(data[at + 1 : at + 3], "big")
        choice, policy = divmod(choice, len(CHOICES))
        choice, signal = divmod(choice, len(_SIGNALS))
        body = data[at + 3 : at + 3 + size]
        yield Case(_SIGNALS[signal], guarded(body), number % 3 + 1, CHOICES[policy], CLOCKS[choice % len(CLOCKS)])
        at += 3 + size
        number += 1


def outcome(module: Any, batch: list[Case]) -> Outcome:
    """Everything that a decoder says of a batch: of each request, and of all that were taken as blocks."""
    said: list[Any] = []
    taken: list[DecodedPayload] = []
    for case in batch:
        try:
            decoded: DecodedPayload = module.decode(*case)
        except DecodeError as error:
            said.append(error.reason)
            continue
        taken.append(decoded)
        counts = (decoded.accepted, dict(decoded.rejected), dict(decoded.modified), list(decoded.warnings))
        said.append((decoded.signal, decoded.project_id, *counts, decoded.exceptions, decoded.exceptions_over_limit))
    blocks: list[Block] = module.build_blocks(taken, BATCH_ID)
    return said, [(block.table, block.day, block.rows, b"".join(block.pieces)) for block in blocks]


def agree(one: Outcome, other: Outcome) -> None:
    """Fails with the first difference alone: a whole batch tells nobody anything."""
    for place, (mine, yours) in enumerate(zip(one[0], other[0], strict=True)):
        assert mine == yours, f"request {place}"
    assert [block[:3] for block in one[1]] == [block[:3] for block in other[1]]
    for mine, yours in zip(one[1], other[1], strict=True):
        assert mine == yours, mine[:3]


def check(data: bytes) -> None:
    """The kernel neither breaks a rule of memory nor says something else when its memory is laid out otherwise."""
    batch = list(cases(data))
    said = outcome(_tight, batch)
    if len(data) <= COMPARED_BYTES:
        agree(outcome(_plain, batch), said)


_poison = getattr(ctypes.CDLL(None), "__asan_poison_memory_region", None)
_HEADER: Final = sys.getsizeof(b"") - 1


def guarded(body: bytes) -> bytes:
    """A copy whose closing NUL, which every `bytes` has, may not be read: under AddressSanitizer, else as it is."""
    if _poison is None or len(body) < 2:
        return body
    copy = bytes(bytearray(body))
    _poison(ctypes.c_void_p(id(copy) + _HEADER + len(copy)), ctypes.c_size_t(1))
    return copy


_plain = load("plain")
_tight = load("tight")
