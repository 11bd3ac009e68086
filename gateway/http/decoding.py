"""From a body as received to columns: on the event loop while that is cheaper than a thread, or in one.

`gateway.ingest.redecoding` decodes what was accepted before.
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
from gateway.http.json_errors import find_field_errors
from gateway.http.responses import DecodeRejected
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
from proto.otlp.policy import DecodedPayload, DecodeError, Policy, Signal
from proto.otlp.responses import Media

T = TypeVar("T")
DecodeAttempt = tuple[AbstractAsyncContextManager[None], PythonReadLimit]

# A hop to a thread and back costs about 0.1 ms of CPU; up to these sizes the work itself is hardly longer.
INLINE_WIRE: Final = 64 * 2**10  # encoded bytes, provided that no more than INLINE_INFLATED come out
INLINE_INFLATED: Final = 2**20
INLINE_DECODE: Final = 512 * 2**10
INLINE_COUNT: Final = 2 * 2**20
INLINE_JSON: Final = PythonReadLimit(64 * 2**10, 64 * 2**10)  # of what the kernel leaves to the reader in Python
FEW_ITEMS: Final = PythonReadLimit(2**20, 64 * 2**10)  # the same in a thread, which others wait for
MANY_ITEMS: Final = PythonReadLimit(2**63, 2**20)  # and in one that they do not wait for
LARGE_JSON_BYTES: Final = 2**20  # larger ones are read in Python one at a time: that holds the interpreter's lock

POLICY_CACHE_SIZE: Final = 1_024  # kept at once; one per set of additional sensitive words


class Decoder:
    """Inflates and decodes within the limits of the settings."""

    def __init__(self, settings: GatewaySettings, retention_days: int, threads: Executor) -> None:
        self._threads = threads
        self.policy: Callable[[tuple[str, ...]], Policy] = lru_cache(POLICY_CACHE_SIZE)(
            partial(settings.policy, retention_days)
        )
        body_limits = DecompressionLimits(settings.max_body_bytes, settings.max_members, settings.max_window_bytes)
        json_bytes = min(settings.max_json_bytes, settings.max_body_bytes)
        self.limits: Mapping[Media, DecompressionLimits] = {
            "protobuf": body_limits,
            "json": body_limits._replace(max_bytes=json_bytes),
        }
        self._json_lock = asyncio.Lock()  # what of JSON the kernel reads in a thread
        self._python_json_lock = asyncio.Lock()  # and what Python does

    async def decompress(self, encoding: str, wire: bytes, limits: DecompressionLimits) -> bytes:
        """The body without its encoding; raises like `inflate`."""
        if encoding == IDENTITY:
            return decompress(encoding, wire, limits)
        if len(wire) <= INLINE_WIRE:
            try:
                return decompress(encoding, wire, limits._replace(max_bytes=min(INLINE_INFLATED, limits.max_bytes)))
            except PayloadTooLarge:
                pass  # too large for the event loop; whether for the cap as well, a thread finds out
        return await self._off_loop(decompress, encoding, wire, limits)

    async def decode(
        self, signal: Signal, media: Media, body: bytes, project_id: int, policy: Policy, now_ns: int, lease: Lease
    ) -> DecodedPayload:
        """Columns and outcomes of an inflated body; Undecodable when it is refused as a whole, ServiceUnavailable when
        there is no memory for reading it. `lease` has the body already.
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
        """By the kernel, but for items that are faulty or merely odd: those it leaves to Python, one at a time. A body
        that is so outside of its items, or in a very large one, is read in Python as a whole.

        Large bodies are read in a thread, one at a time, and paid for; who leaves few items does not wait for who
        leaves many.
        """
        request = (signal, body, project_id, policy, now_ns)
        shared: AbstractAsyncContextManager[None] = (
            self._python_json_lock if len(body) > LARGE_JSON_BYTES else nullcontext()
        )
        few: tuple[DecodeAttempt, ...] = ((self._json_lock, FEW_ITEMS),)
        if len(body) <= INLINE_DECODE:
            read = decode_json_within(INLINE_JSON, *request)  # nothing else is read meanwhile: no need to pay for it
            if read is not None:
                return read
            few = ()
        for lane, left in (*few, (shared, MANY_ITEMS)) if KERNEL else ():
            async with lane:
                with lease.reading(await self._estimate_memory(body, policy, left)):
                    read = await self._off_loop(decode_json_within, left, *request)
            if read is not None:
                return read
        async with shared:
            with lease.reading(await self._estimate_memory(body, policy, None)):
                return await self._off_loop(decode_json_in_python, *request)

    async def _estimate_memory(self, body: bytes, policy: Policy, left: PythonReadLimit | None) -> int:
        """What reading JSON takes; the kernel counts a body of `INLINE_COUNT` in less time than a hop takes."""
        if KERNEL and len(body) <= INLINE_COUNT:
            return estimate_json_memory(body, policy, left)
        return await self._off_loop(estimate_json_memory, body, policy, left)

    async def _off_loop(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments))
