"""Senders as a deployment has them: `locust -f benchmarks/locust/locustfile.py --host URL`.

LOAD_KEYS has the project keys, separated by commas; each sender takes one of them in turn. Half of the senders
are SDKs, a tenth Collectors, the rest browsers and shippers of logs. A sender that is told to come back (429, 503) does
so after the time it is told, with the same request, five times at most: each time counts as a failure of its own, with
that status, and `sent again` has those that got through.
"""

import itertools
import os
import sys
from pathlib import Path
from typing import Any, Final

import gevent

from locust import FastHttpUser, between, task

sys.path.insert(0, str(Path(__file__).parent))
import mix

ATTEMPTS: Final = 6
RETRYABLE: Final = (429, 502, 503, 504)
NOTHING_REJECTED: Final = (b"", b"{}")

_keys = itertools.cycle([key for key in os.environ.get("LOAD_KEYS", "").split(",") if key])
_numbers = itertools.count(1)


class Sender(FastHttpUser):
    """Has a key and sends requests of a mix."""

    abstract = True
    default_headers: Final = {"User-Agent": "sluice-load"}

    def on_start(self) -> None:
        """Take a key."""
        key = next(_keys, None)
        if key is None:
            sys.exit("LOAD_KEYS has no project key.")
        self._auth = {"X-Legacy-Auth": f"Legacy legacy_key={key}"}
        self._mix = mix.Mix(next(_numbers))

    def send(self, kind: mix.Kind) -> None:
        """Send a request, and again while it is to be sent again."""
        export = self._mix.next(kind)
        for attempt in range(ATTEMPTS):
            wait_s = self._attempt(kind.name if attempt == 0 else f"{kind.name}, sent again", export)
            if wait_s is None:
                return
            gevent.sleep(wait_s)

    def _attempt(self, name: str, export: mix.Export) -> float | None:
        """Seconds after which to send it again, None when that is not to be."""
        headers = {**export.headers, **self._auth}
        with self.client.post(export.path, data=export.body, headers=headers, name=name, catch_response=True) as answer:
            if answer.status_code == 200:
                if answer.content not in NOTHING_REJECTED:
                    answer.failure(f"partial success: {answer.content[:200]!r}")
                return None
            answer.failure(f"{answer.status_code}")
            return _retry_after(answer) if answer.status_code in RETRYABLE else None


def _retry_after(answer: Any) -> float:
    try:
        return float(answer.headers.get("Retry-After", "1"))
    except ValueError:
        return 1.0


class Sdk(Sender):
    """An instrumented service: small batches of spans and of logs, and a full batch of spans now and then."""

    weight = 5
    wait_time = between(0.2, 1.8)

    @task(6)
    def traces(self) -> None:
        self.send(mix.SDK_TRACES)

    @task(3)
    def logs(self) -> None:
        self.send(mix.SDK_LOGS)

    @task(1)
    def full_batch(self) -> None:
        self.send(mix.FULL_TRACES)


class Collector(Sender):
    """An OpenTelemetry Collector: large compressed batches of many services."""

    weight = 1
    wait_time = between(0.2, 1.0)

    @task(2)
    def traces(self) -> None:
        self.send(mix.COLLECTOR_TRACES)

    @task(1)
    def logs(self) -> None:
        self.send(mix.COLLECTOR_LOGS)


class Browser(Sender):
    """A page: a few spans in JSON."""

    weight = 3
    wait_time = between(1.0, 5.0)

    @task
    def traces(self) -> None:
        self.send(mix.BROWSER_TRACES)


class Shipper(Sender):
    """A shipper of logs that speaks JSON."""

    weight = 1
    wait_time = between(0.5, 2.0)

    @task
    def logs(self) -> None:
        self.send(mix.JSON_LOGS)
