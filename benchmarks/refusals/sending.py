"""A sender that takes no for no answer."""

import asyncio
import time
from collections import Counter
from typing import Final, NamedTuple

import uvloop

CONNECTIONS: Final = 8
_ANSWER_S: Final = 30.0


class Sent(NamedTuple):
    """Answers by status, connections that were made, seconds it took."""

    statuses: dict[int, int]
    connections: int
    seconds: float

    @property
    def requests(self) -> int:
        """All that were answered."""
        return sum(self.statuses.values())


def repeat(port: int, message: bytes, seconds: float) -> Sent:
    """Send it again and again for so long. Blocks; meant for a process of its own."""
    return uvloop.run(_repeat(port, message, seconds))


async def _repeat(port: int, message: bytes, seconds: float) -> Sent:
    statuses: Counter[int] = Counter()
    begun = time.perf_counter()
    made = await asyncio.gather(*(_one(port, message, begun + seconds, statuses) for _ in range(CONNECTIONS)))
    return Sent(dict(statuses), sum(made), time.perf_counter() - begun)


async def _one(port: int, message: bytes, end: float, statuses: Counter[int]) -> int:
    """One connection after the other; how many."""
    made = 0
    while time.perf_counter() < end:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        made += 1
        try:
            while time.perf_counter() < end:
                writer.write(message)
                async with asyncio.timeout(_ANSWER_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    await reader.readexactly(_length(head))
                statuses[int(head[9:12])] += 1
                if b"connection: close" in head.lower():
                    break
        except ConnectionError:
            pass  # closed with the rest of the body unread, before the answer was: the next one goes on
        finally:
            writer.close()
    return made


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or b"0")
