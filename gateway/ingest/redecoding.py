"""Decodes a request that was accepted before and kept as received.

Under the policy and at the time of its acceptance, so that the columns are the same, and without the limits of today,
so that nothing acknowledged is refused.
"""

from typing import Final

from chassis.errors import PayloadTooLarge
from gateway.decompression import DecompressionLimits, decompress
from proto.otlp.codec import decode, decode_json
from proto.otlp.policy import DecodedPayload, Policy, Signal
from proto.otlp.responses import Media

UNLIMITED: Final = DecompressionLimits(2**31 - 2, 2**31, 2**31)  # what zlib takes as a length
LARGE_JSON_BYTES: Final = 2**20  # larger bodies are read in Python one at a time: that holds the interpreter's lock


class LargeJsonBody(Exception):
    """A body in OTLP/JSON of more than SHARED_JSON, which takes several times as much to read."""


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
    """The columns of a request that was accepted at `received_ns` by `policy`. Takes milliseconds; raises what the
    steps raise when the bytes are not those that were accepted, and LargeJson when it is `large` and is not to be.
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
