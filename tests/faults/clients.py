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

from tests.faults.records import REFUSED, Export, Form, Signal, body_of, rejected_of
from tests.faults.senders import RESET, TIMEOUT, Sender, grpc_sender, http_sender

RETRYABLE: Final = ("429", "502", "503", "504")
FAILED: Final = (REFUSED, TIMEOUT, RESET)
FIRST_BACKOFF_S: Final = 0.05
MAX_BACKOFF_S: Final = 0.5  # Retry-After says 1 to 5 s; here nobody has that long
ATTEMPT_S: Final = 10.0
WAITING: Final = 16  # requests of a client that are not answered; then it waits, where an SDK would drop
FORMS: Final[tuple[Form, ...]] = ("protobuf", "gzip", "json")
GRPC_FORMS: Final[tuple[Form, ...]] = ("protobuf", "gzip", "gzip")
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
    grpc_port: int = 0  # over gRPC instead of over HTTP
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
            opened = (
                grpc_sender(self.grpc_port, self.key, self.attempt_s)
                if self.grpc_port
                else http_sender(self.url, self.key, self.attempt_s, reconnect=self.reconnect)
            )
            async with opened as sender:
                await asyncio.gather(*(self._client(sender, number) for number in range(self.clients)))
        except BaseException as error:  # noqa: BLE001 (told to whoever waits in `finish`)
            self._error = error

    async def _client(self, sender: Sender, number: int) -> None:
        waiting: set[asyncio.Task[None]] = set()
        began, sequence = time.monotonic(), 0
        for turn in itertools.count():
            await asyncio.sleep(max(0.0, began + turn / self.rate - time.monotonic()))
            while len(waiting) >= WAITING and self._more:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=0.1)
            if not self._more:
                break
            spoiled = self.spoil_every > 0 and turn % self.spoil_every == self.spoil_every - 1
            forms = GRPC_FORMS if self.grpc_port else FORMS
            export = Export(number, sequence, self.items, SIGNALS[turn % 2], forms[turn % 3])
            export.spoiled = spoiled and export.signal == "traces"
            sequence += export.count
            self.exports.append(export)
            task = asyncio.create_task(self._deliver(sender, export))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)

    async def _deliver(self, sender: Sender, export: Export) -> None:
        body = body_of(export, self.run, start_ns=time.time_ns() + self.ahead_ns)
        backoff, export.sent_ns = FIRST_BACKOFF_S, time.time_ns()
        while time.monotonic() < self._give_up_at:
            answer, content = await sender.attempt(export.signal, body)
            export.answers.append(answer)
            if export.acknowledged:
                export.acknowledged_ns = time.time_ns()
                rejected = rejected_of(export, content)
                if rejected != len(export.bad):
                    export.wrong = f"{rejected} rejected instead of {len(export.bad)}"
                return
            if answer not in (*RETRYABLE, *FAILED):
                export.wrong = f"{answer}: {content[:200]!r}"
                return
            await asyncio.sleep(backoff * self._random.uniform(0.5, 1.5))
            backoff = min(2 * backoff, self.max_backoff_s)
