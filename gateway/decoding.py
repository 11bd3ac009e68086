"""From a body as it came to columns: on the event loop while that is cheaper than a thread, or in one.

`Decoder` is the way of a request that comes in. `decoded_again` is that of one that was accepted before and kept as it
came: by the policy and at the time of then, so that it gives the same columns, and without the caps of today, so that
nothing that was acknowledged is refused.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import lru_cache, partial
from typing import Final, TypeVar

from chassis.errors import PayloadTooLarge
from gateway.answers import Undecodable
from gateway.faults import faults
from gateway.inflate import IDENTITY, InflateLimits, inflate
from gateway.settings import GatewaySettings
from proto.otlp import json as otlp_json
from proto.otlp.codec import decode, decode_json
from proto.otlp.json import FieldError
from proto.otlp.policy import Decoded, DecodeError, Policy, Signal
from proto.otlp.responses import Media

T = TypeVar("T")

# A hop to a thread and back costs about 0.1 ms of CPU; up to these sizes the work itself is hardly longer.
INLINE_WIRE: Final = 64 * 2**10  # encoded bytes, provided that no more than INLINE_INFLATED come out
INLINE_INFLATED: Final = 2**20
INLINE_DECODE: Final = 512 * 2**10
INLINE_JSON: Final = 64 * 2**10  # this and the next of what the kernel leaves to the reader in Python
SHARED_JSON: Final = 2**20  # larger ones are converted one at a time: that holds the interpreter's lock

POLICIES: Final = 1_024  # kept at once; one per set of additional sensitive words
UNLIMITED: Final = InflateLimits(2**31 - 2, 2**31, 2**31)  # what zlib takes as a length


class Decoder:
    """Inflates and decodes within the limits of the settings."""

    def __init__(self, settings: GatewaySettings, retention_days: int, threads: Executor) -> None:
        self._threads = threads
        self.policy: Callable[[tuple[str, ...]], Policy] = lru_cache(POLICIES)(partial(settings.policy, retention_days))
        body_limits = InflateLimits(settings.max_body_bytes, settings.max_members, settings.max_window_bytes)
        json_bytes = min(settings.max_json_bytes, settings.max_body_bytes)
        self.limits: Mapping[Media, InflateLimits] = {
            "protobuf": body_limits,
            "json": body_limits._replace(max_bytes=json_bytes),
        }
        self._json_lane = asyncio.Lock()

    async def inflated(self, encoding: str, wire: bytes, limits: InflateLimits) -> bytes:
        """The body without its encoding; raises like `inflate`."""
        if encoding == IDENTITY:
            return inflate(encoding, wire, limits)
        if len(wire) <= INLINE_WIRE:
            try:
                return inflate(encoding, wire, limits._replace(max_bytes=min(INLINE_INFLATED, limits.max_bytes)))
            except PayloadTooLarge:
                pass  # too large for the event loop; whether for the cap as well, a thread finds out
        return await self._off_loop(inflate, encoding, wire, limits)

    async def decoded(
        self, signal: Signal, media: Media, body: bytes, project_id: int, policy: Policy, now_ns: int
    ) -> Decoded:
        """Columns and outcomes of an inflated body; Undecodable when it is refused as a whole."""
        try:
            if media == "json":
                read = await self._sized(decode_json, signal, body, project_id, policy, now_ns)
                if read is not None:
                    return read
                body = await self._converted(signal, body, policy)
            return await self._sized(decode, signal, body, project_id, policy, now_ns)
        except FieldError as error:
            raise Undecodable(error, faults(signal, body, error)) from error
        except DecodeError as error:
            raise Undecodable(error) from error

    async def _sized(
        self, function: Callable[..., T], signal: Signal, body: bytes, project_id: int, policy: Policy, now_ns: int
    ) -> T:
        if len(body) <= INLINE_DECODE:
            return function(signal, body, project_id, policy, now_ns)
        return await self._off_loop(function, signal, body, project_id, policy, now_ns)

    async def _converted(self, signal: Signal, body: bytes, policy: Policy) -> bytes:
        """OTLP/JSON as protobuf, by the slower way: what the kernel left, be it refused or merely unusual."""
        if len(body) <= INLINE_JSON:
            return otlp_json.to_protobuf(signal, body, policy)
        if len(body) <= SHARED_JSON:
            return await self._off_loop(otlp_json.to_protobuf, signal, body, policy)
        async with self._json_lane:
            return await self._off_loop(otlp_json.to_protobuf, signal, body, policy)

    async def _off_loop(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


def decoded_again(
    signal: Signal, media: Media, encoding: str, wire: bytes, project_id: int, policy: Policy, received_ns: int
) -> Decoded:
    """The columns of a request that was accepted at `received_ns` by `policy`. Takes milliseconds; raises what the
    steps raise when the bytes are not those that were accepted.
    """
    body = inflate(encoding, wire, UNLIMITED)
    if media == "json":
        read = decode_json(signal, body, project_id, policy, received_ns)
        if read is not None:
            return read
        body = otlp_json.to_protobuf(signal, body, policy)
    return decode(signal, body, project_id, policy, received_ns)
