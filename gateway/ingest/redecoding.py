"""Decodes a request that was accepted before and kept as received.

It uses the policy and the time of acceptance, so that the columns are the same, and no current limits, so that nothing
acknowledged is refused.
"""

from typing import Final

from chassis.errors import PayloadTooLarge
from gateway.decompression import DecompressionLimits, decompress
from proto.otlp.codec import decode, decode_json
from proto.otlp.policy import DecodedPayload, Policy, Signal
from proto.otlp.responses import Media

UNLIMITED: Final = DecompressionLimits(2**31 - 2, 2**31, 2**31)  # the largest length that zlib takes
LARGE_JSON_BYTES: Final = 2**20  # larger bodies are parsed in Python one at a time, because that holds the GIL


class LargeJsonBody(Exception):
    """An OTLP/JSON body of more than LARGE_JSON_BYTES; parsing it takes several times its size in memory."""


def redecode(
    signal: Signal,
    media: Media,
    encoding: str,
    wire: bytes,
    project_id: int,
    policy: Policy,
    received_ns: int,
    *,
    allow_large_json: bool = True,
) -> DecodedPayload:
    """The columns of a request that was accepted at `received_ns` under `policy`. Takes milliseconds. Raises what
    `decompress` and the decoders raise when the bytes are not those that were accepted, and LargeJsonBody for a large
    JSON body unless `allow_large_json`.
    """
    if media != "json":
        return decode(signal, decompress(encoding, wire, UNLIMITED), project_id, policy, received_ns)
    try:
        body = decompress(
            encoding, wire, UNLIMITED if allow_large_json else UNLIMITED._replace(max_bytes=LARGE_JSON_BYTES)
        )
    except PayloadTooLarge as error:
        if allow_large_json:
            raise
        raise LargeJsonBody from error
    return decode_json(signal, body, project_id, policy, received_ns)
