"""Clients that send at a rate, and again what was not answered for good, as an SDK does.

    load = Load(url, key, run="7", clients=4, rate=40)     each client: 40 requests a second, as long as few wait
    load.start(); ...; exports = load.finish()             all answered, or the deadline is over

They live on an event loop in a thread of their own, so that a test can kill and wait meanwhile.
"""

import asyncio
import itertools
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from tests.faults.records import REFUSED, Export, Form, Signal, body_of, rejected_of

RETRYABLE: Final = ("429", "502", "503", "504")
FIRST_BACKOFF_S: Final = 0.05
MAX_BACKOFF_S: Final = 0.5  # Retry-After says 1 to 5 s; here nobody has that long
ATTEMPT_S: Final = 10.0
WAITING: Final = 16  # requests of a client that are not answered; then it waits, where an SDK would drop
FORMS: Final[tuple[Form, ...]] = ("protobuf", "gzip", "json")
SIGNALS: Final[tuple[Signal, ...]] = ("traces", "logs")


@dataclass
class Load:
    """Clients under way. `rate` is that of each client, in requests a second; `items` are in a request."""

    url: str
    key: str
    run: str
    clients: int = 4
    rate: float = 40.0
    items: int = 5
    attempt_s: float = ATTEMPT_S
    max_backoff_s: float = MAX_BACKOFF_S
    spoil_every: int = 10  # requests; 0: none has a record that must be rejected
    ahead_ns: int = 0  # of the clients' clocks
    reconnect: bool = False  # each attempt over a connection of its own
    exports: list[Export] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._more = True
        self._give_up_at = float("inf")
        self._error: BaseException | None = None
        self._random = random.Random(self.run)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def finish(self, seconds: float = 60.0) -> list[Export]:
        """Send nothing new, and wait until all is answered for good; what is not within `seconds` is given up."""
        self._give_up_at = time.monotonic() + seconds
        self._more = False
        self._thread.join(seconds + 2 * self.attempt_s)
        if self._thread.is_alive():
            raise AssertionError("the clients do not end")
        self._loop.close()
        if self._error is not None:
            raise self._error
        return self.exports

    @property
    def acknowledged(self) -> int:
        """Requests answered 200 so far."""
        return sum(export.acknowledged for export in self.exports)

    @property
    def acknowledged_records(self) -> int:
        """The same in records, without those that were to be rejected."""
        return sum(len(export.good) for export in self.exports if export.acknowledged)

    def count(self, answer: str) -> int:
        """Attempts that ended so, so far."""
        return sum(export.answers.count(answer) for export in self.exports)

    async def _run(self) -> None:
        try:
            connector = aiohttp.TCPConnector(limit=0, force_close=self.reconnect)
            timeout = aiohttp.ClientTimeout(total=self.attempt_s)
            async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
                await asyncio.gather(*(self._client(session, number) for number in range(self.clients)))
        except BaseException as error:  # noqa: BLE001 (told to whoever waits in `finish`)
            self._error = error

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        waiting: set[asyncio.Task[None]] = set()
        began, sequence = time.monotonic(), 0
        for turn in itertools.count():
            await asyncio.sleep(max(0.0, began + turn / self.rate - time.monotonic()))
            while len(waiting) >= WAITING and self._more:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=0.1)
            if not self._more:
                break
            spoiled = self.spoil_every > 0 and turn % self.spoil_every == self.spoil_every - 1
            export = Export(number, sequence, self.items, SIGNALS[turn % 2], FORMS[turn % 3])
            export.spoiled = spoiled and export.signal == "traces"
            sequence += export.count
            self.exports.append(export)
            task = asyncio.create_task(self._deliver(session, export))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)

    async def _deliver(self, session: aiohttp.ClientSession, export: Export) -> None:
        body = body_of(export, self.run, start_ns=time.time_ns() + self.ahead_ns)
        headers = {**body.headers, "X-Legacy-Auth": f"Legacy legacy_key={self.key}"}
        backoff, export.sent_ns = FIRST_BACKOFF_S, time.time_ns()
        while time.monotonic() < self._give_up_at:
            try:
                async with session.post(self.url + body.path, data=body.content, headers=headers) as answer:
                    content = await answer.read()
                    export.answers.append(str(answer.status))
            except aiohttp.ClientConnectorError:
                export.answers.append(REFUSED)
            except TimeoutError:
                export.answers.append("timeout")
            except (aiohttp.ClientError, OSError):
                export.answers.append("reset")
            else:
                if export.acknowledged:
                    export.acknowledged_ns = time.time_ns()
                    rejected = rejected_of(export, content)
                    if rejected != len(export.bad):
                        export.wrong = f"{rejected} rejected instead of {len(export.bad)}"
                    return
                if export.answers[-1] not in RETRYABLE:
                    export.wrong = f"{export.answers[-1]}: {content[:200]!r}"
                    return
            await asyncio.sleep(backoff * self._random.uniform(0.5, 1.5))
            backoff = min(2 * backoff, self.max_backoff_s)
