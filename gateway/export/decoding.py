"""Decompresses and decodes a body into columns: on the event loop if that is cheaper than a thread, else in one.

`gateway.ingest.redecoding` decodes accepted requests again.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import lru_cache, partial
from typing import Final, TypeVar

from chassis.errors import PayloadTooLarge
from gateway.admission.memory_budget import Lease
from gateway.decompression import IDENTITY, DecompressionLimits, decompress
from gateway.export.json_errors import find_field_errors
from gateway.export.refusals import DecodeRejected
from gateway.settings import GatewaySettings
from proto.otlp.codec import (
    KERNEL,
    PythonReadLimit,
    decode,
    decode_json_in_python,
    decode_json_within,
    estimate_json_memory,
)
from proto.otlp.json import FieldError
from proto.otlp.policy import DecodedPayload, DecodeError, Policy, RequestRejection, Signal
from proto.otlp.responses import Media

T = TypeVar("T")
DecodeAttempt = tuple[AbstractAsyncContextManager[None], PythonReadLimit]

# A switch to a thread and back costs about 0.1 ms of CPU; up to these sizes the work itself takes hardly longer.
INLINE_WIRE: Final = 64 * 2**10  # encoded bytes, if they decompress to at most INLINE_INFLATED
INLINE_INFLATED: Final = 2**20
INLINE_DECODE: Final = 512 * 2**10
INLINE_COUNT: Final = 2 * 2**20
INLINE_JSON: Final = PythonReadLimit(64 * 2**10, 64 * 2**10)  # of items that the kernel leaves to the Python parser
FEW_ITEMS: Final = PythonReadLimit(2**20, 64 * 2**10)  # the same in a thread that other requests wait for
MOST_PYTHON_BYTES: Final = 8 * 2**20  # of one body, with a kernel: Python may take seconds for them
MANY_ITEMS: Final = PythonReadLimit(MOST_PYTHON_BYTES, 2**20)  # and in one that they do not wait for
LARGE_JSON_BYTES: Final = 2**20  # larger bodies are parsed in Python one at a time, because that holds the GIL

_IRREGULAR: Final = (
    f"The body is larger than {MOST_PYTHON_BYTES // 2**20} MiB, and too much of it is faulty or unusual JSON, which "
    "takes long to read. Send the names of OTLP in lowerCamelCase, each member once, and values of the types of OTLP; "
    "or send smaller batches, or protobuf."
)

POLICY_CACHE_SIZE: Final = 1_024  # policies; one per set of additional sensitive words and exempt keys


class Decoder:
    """Decompresses and decodes bodies within the limits of the settings."""

    def __init__(self, settings: GatewaySettings, retention_days: int, threads: Executor) -> None:
        self._threads = threads
        self.policy: Callable[[tuple[str, ...], tuple[str, ...]], Policy] = lru_cache(POLICY_CACHE_SIZE)(
            partial(settings.policy, retention_days)
        )
        body_limits = DecompressionLimits(settings.max_body_bytes, settings.max_members, settings.max_window_bytes)
        json_bytes = min(settings.max_json_bytes, settings.max_body_bytes)
        self.limits: Mapping[Media, DecompressionLimits] = {
            "protobuf": body_limits,
            "json": body_limits._replace(max_bytes=json_bytes),
        }
        self._json_lock = asyncio.Lock()  # JSON that the kernel parses in a thread
        self._python_json_lock = asyncio.Lock()  # large JSON that Python parses, in whole or in part

    async def decompress(self, encoding: str, wire: bytes, limits: DecompressionLimits) -> bytes:
        """Decompress a body; raises what `gateway.decompression.decompress` raises."""
        if encoding == IDENTITY:
            return decompress(encoding, wire, limits)
        if len(wire) <= INLINE_WIRE:
            try:
                return decompress(encoding, wire, limits._replace(max_bytes=min(INLINE_INFLATED, limits.max_bytes)))
            except PayloadTooLarge:
                pass  # too large for the event loop; a thread checks it against the cap
        return await self._off_loop(decompress, encoding, wire, limits)

    async def decode(
        self, signal: Signal, media: Media, body: bytes, project_id: int, policy: Policy, now_ns: int, lease: Lease
    ) -> DecodedPayload:
        """Columns and outcomes of a decompressed body. Raises DecodeRejected when the request is refused, and
        ServiceUnavailable when there is no memory to parse it. `lease` must hold the body already.
        """
        try:
            if media == "json":
                return await self._decode_json(lease, signal, body, project_id, policy, now_ns)
            if len(body) <= INLINE_DECODE:
                return decode(signal, body, project_id, policy, now_ns)
            return await self._off_loop(decode, signal, body, project_id, policy, now_ns)
        except FieldError as error:
            raise DecodeRejected(error, find_field_errors(signal, body, error)) from error
        except DecodeError as error:
            raise DecodeRejected(error) from error

    async def _decode_json(
        self, lease: Lease, signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int
    ) -> DecodedPayload:
        """Decode with the kernel, which leaves faulty and unusual items to Python, one at a time. A body that is faulty
        or unusual outside of its items, or in a very large item, is parsed in Python entirely. Raises DecodeError if
        that is more than MOST_PYTHON_BYTES and there is a kernel.

        Large bodies are parsed in a thread, one at a time, and their memory is leased. Bodies that leave few items to
        Python do not wait for those that leave many.
        """
        request = (signal, body, project_id, policy, now_ns)
        python_lock: AbstractAsyncContextManager[None] = (
            self._python_json_lock if len(body) > LARGE_JSON_BYTES else nullcontext()
        )
        few: tuple[DecodeAttempt, ...] = ((self._json_lock, FEW_ITEMS),)
        if len(body) <= INLINE_DECODE:
            decoded = decode_json_within(INLINE_JSON, *request)  # nothing else is parsed meanwhile: no lease needed
            if decoded is not None:
                return decoded
            few = ()
        for lock, python_limit in (*few, (python_lock, MANY_ITEMS)) if KERNEL else ():
            async with lock:
                with lease.reading(await self._estimate_memory(body, policy, python_limit)):
                    decoded = await self._off_loop(decode_json_within, python_limit, *request)
            if decoded is not None:
                return decoded
        if KERNEL and len(body) > MOST_PYTHON_BYTES:
            raise DecodeError(RequestRejection.IRREGULAR_JSON, _IRREGULAR)
        async with python_lock:
            with lease.reading(await self._estimate_memory(body, policy, None)):
                return await self._off_loop(decode_json_in_python, *request)

    async def _estimate_memory(self, body: bytes, policy: Policy, python_limit: PythonReadLimit | None) -> int:
        """Bytes of memory to parse a JSON body. Up to INLINE_COUNT the kernel counts it faster than a thread switch."""
        if KERNEL and len(body) <= INLINE_COUNT:
            return estimate_json_memory(body, policy, python_limit)
        return await self._off_loop(estimate_json_memory, body, policy, python_limit)

    async def _off_loop(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments))
