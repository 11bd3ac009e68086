"""Blocks as the gateway makes them, of the same requests, written to files for whoever inserts them."""

import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from benchmarks.gateway.bodies import Kind, bodies
from chassis.runtime.settings import ChassisSettings
from gateway.inserts.blocks import build_insert_blocks, new_batch_id
from gateway.inserts.pending_requests import PendingRequest, redecode
from gateway.settings import GatewaySettings
from proto.otlp.responses import Media

_PROJECT: Final = 1
_ENCODINGS: Final = {"protobuf gzip": "gzip"}


def write(directory: Path, kind: Kind, requests: int, batches: int) -> int:
    """The blocks of so many requests in so many batches of about the same size, as files `NUMBER.TOKEN.TABLE` in the
    order of their inserts. Gives their bytes.
    """
    directory.mkdir()
    sending, nbytes, number = _requests(kind), 0, 0
    for batch in range(batches):
        size = requests * (batch + 1) // batches - requests * batch // batches
        for sealed in build_insert_blocks(list(islice(sending, size)), new_batch_id(), time.time_ns() // 10**6):
            path = directory / f"{number:06}.{sealed.token.replace(':', '-')}.{sealed.block.table}"
            path.write_bytes(b"".join(sealed.block.pieces))
            nbytes += sealed.nbytes
            number += 1
    return nbytes


def _requests(kind: Kind) -> Iterator[PendingRequest]:
    """The requests in turn, without an end, each decoded when it comes."""
    policy = GatewaySettings().policy(ChassisSettings().retention_days)
    media: Media = "json" if kind.encoding == "JSON" else "protobuf"
    encoding = _ENCODINGS.get(kind.encoding, "identity")
    for body in cycle(bodies(kind)):
        received_ns = time.time_ns()
        decoded = redecode(kind.signal, media, encoding, body, _PROJECT, policy, received_ns)
        yield PendingRequest(0, decoded, decoded.accepted, len(body), received_ns)
