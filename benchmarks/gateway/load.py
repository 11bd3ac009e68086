"""The senders, in a process of their own: connections that each send the next request once they have an answer."""

import asyncio
import itertools
import time
from typing import Final, NamedTuple

import uvloop

from benchmarks.gateway.bodies import Kind, bodies
from benchmarks.gateway.grpc_load import GrpcSender, grpc_messages
from benchmarks.overload.offering import Load, exports, offer

_ANSWER_S: Final = 60.0


class Target(NamedTuple):
    """Where to send, over HTTP or over gRPC, and the project key, if it wants one."""

    port: int
    key: str
    grpc: bool = False


class Sent(NamedTuple):
    """What a stretch of load came to: items of requests answered 200, other requests by status, seconds to the 200s."""

    items: int
    refused: dict[int, int]
    latencies: list[float]
    seconds: float


def send(target: Target, kind: Kind, connections: int, seconds: float) -> Sent:
    """Send for so long, and wait for the last answers. Blocks; meant for a process of its own."""
    if target.grpc:
        return uvloop.run(_send_grpc(target, kind, connections, seconds))
    outcome = offer(Load(target.port, exports(kind, target.key), 0, seconds, connections))
    refused = {status: count for status, count in outcome.statuses.items() if status != 200}
    return Sent(outcome.count(200) * kind.items, refused, list(outcome.seconds.get(200, ())), outcome.elapsed_s)


def prepare(kind: Kind) -> int:
    """Make the bodies; their mean size."""
    made = bodies(kind)
    return sum(map(len, made)) // len(made)


async def _send_grpc(target: Target, kind: Kind, connections: int, seconds: float) -> Sent:
    loop = asyncio.get_running_loop()
    begin = time.perf_counter()
    framed = itertools.cycle(grpc_messages(kind, target.key, bodies(kind)))
    senders = [GrpcSender(framed, begin + seconds, loop.create_future()) for _ in range(connections)]
    for sender in senders:
        await loop.create_connection(lambda sender=sender: sender, "127.0.0.1", target.port)  # type: ignore[misc]
    async with asyncio.timeout(seconds + _ANSWER_S):
        await asyncio.gather(*(sender.done for sender in senders))
    latencies = [seconds for sender in senders for seconds in sender.latencies]
    return Sent(len(latencies) * kind.items, {}, latencies, time.perf_counter() - begin)
