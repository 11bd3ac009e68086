"""From the acknowledgement to the row: requests with a mark, and somebody who asks for those that have one.

A mark is a request of one item whose service has a name of its own, so that a poll (`GET .../spans` or `.../logs` with
a filter on it) reads few rows. The time that a poll takes, and the pause between polls, is in what is measured.
Meant for a process of its own: it has nothing else to do between an answer and its clock.
"""

import asyncio
import json
import time
from random import Random
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import aiohttp

from proto.otlp.policy import Signal
from tests.proto.otlp.realistic import request

_SERVICE: Final = "mark"
_PAUSE_S: Final = 0.05  # between polls
_EVERY_S: Final = 0.1  # on average: no marks in step with the batches
_LONGEST_S: Final = 60.0
_PAGE: Final = 100  # of a poll; more marks than ever wait at once


class Watch(NamedTuple):
    """Where to send and ask. `explore_url` is that of the project's explore."""

    signal: Signal
    otlp_url: str
    explore_url: str
    key: str
    token: str
    seconds: float


class Seen(NamedTuple):
    """Seconds from the acknowledgement of each mark to the answer that had it, and of each poll."""

    visible: list[float]
    polls: list[float]


def watch(order: Watch) -> Seen:
    """Send marks for so long, and wait until the last one is seen. Blocks."""
    return asyncio.run(_Watcher(order).run())


class _Watcher:
    """One stretch of marks."""

    def __init__(self, order: Watch) -> None:
        self._order = order
        self._random = Random(order.signal)
        self._acked: dict[str, tuple[float, int]] = {}  # by name: when, by the clock of time spans; and its own time
        self._seen = Seen([], [])

    async def run(self) -> Seen:
        """Both at once: a mark is not sent later because a poll takes long."""
        async with aiohttp.ClientSession() as session:
            sending = asyncio.create_task(self._send_all(session))
            deadline = time.perf_counter() + self._order.seconds + _LONGEST_S
            while not sending.done() or self._acked:
                await self._poll(session)
                await asyncio.sleep(_PAUSE_S)
                if time.perf_counter() > deadline:
                    raise TimeoutError(f"{len(self._acked)} marks were acknowledged and not seen")
            await sending
        return self._seen

    async def _send_all(self, session: aiohttp.ClientSession) -> None:
        end, number = time.perf_counter() + self._order.seconds, 0
        while time.perf_counter() < end:
            await self._send(session, f"{time.time_ns()}-{number}")
            number += 1
            await asyncio.sleep(self._random.uniform(0, 2 * _EVERY_S))

    async def _send(self, session: aiohttp.ClientSession, name: str) -> None:
        now_ns = time.time_ns()
        headers = {
            "Content-Type": "application/x-protobuf",
            "X-Legacy-Auth": f"Legacy legacy_key={self._order.key}",
        }
        body = _marked(self._order.signal, name, now_ns)
        async with session.post(self._order.otlp_url, data=body, headers=headers) as answer:
            if answer.status == 200:  # one that is refused promises nothing
                self._acked[name] = time.perf_counter(), now_ns

    async def _poll(self, session: aiohttp.ClientSession) -> None:
        """Ask for what was acknowledged and not seen yet."""
        if not self._acked:
            return
        began = time.perf_counter()
        for name in await self._asked(session, min(at_ns for _, at_ns in self._acked.values())):
            if name in self._acked:
                acked, _ = self._acked.pop(name)
                self._seen.visible.append(time.perf_counter() - acked)
        self._seen.polls.append(time.perf_counter() - began)

    async def _asked(self, session: aiohttp.ClientSession, from_ns: int) -> list[str]:
        """Names of the marks since then."""
        traces = self._order.signal == "traces"
        filters = json.dumps([{"key": "service.name", "op": "eq", "value": _SERVICE}])
        window = {"from": from_ns, "to": time.time_ns() + 10**9, "filters": filters, "limit": _PAGE}
        url = f"{self._order.explore_url}/{'spans' if traces else 'logs'}?{urlencode(window)}"
        async with session.get(url, headers={"Authorization": f"Bearer {self._order.token}"}) as answer:
            if answer.status != 200:  # explores are refused before exports suffer; the next poll asks again
                return []
            page: dict[str, Any] = await answer.json()
        return [one["name" if traces else "body"] for one in page["data"]]


def _marked(signal: Signal, name: str, now_ns: int) -> bytes:
    """A request of one item that begins now."""
    message: Any = request(signal, 1)
    sent = message.resource_spans[0] if signal == "traces" else message.resource_logs[0]
    for attribute in sent.resource.attributes:
        if attribute.key == "service.name":
            attribute.value.string_value = _SERVICE
    if signal == "traces":
        span = sent.scope_spans[0].spans[0]
        span.name, span.start_time_unix_nano, span.end_time_unix_nano = name, now_ns, now_ns
    else:
        record = sent.scope_logs[0].log_records[0]
        record.body.string_value, record.time_unix_nano = name, now_ns
    return bytes(message.SerializeToString())
