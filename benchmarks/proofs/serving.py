"""Bundles handed in to `sluice control`, each another one, beside an authenticated read."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from http.client import HTTPConnection
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.control.service import Served, served
from benchmarks.proofs.making import ISSUER, KEY, submission
from benchmarks.webhooks.sending import Maker, read
from proto.proofs import dsse
from tests.e2e.product import call

SENDERS: Final = 4
_READS: Final = 2_000
_AGAIN: Final = 500


class _Cost(NamedTuple):
    """Of a request: ms of CPU of the service, the part of it in the system; requests a second."""

    cpu: float
    system: float
    rate: float


def measure(directory: Path, url: str, count: int) -> None:
    """Prints a row for the read, for bundles, and for bundles that are there."""
    with served(directory, url) as control, get_context("spawn").Pool(SENDERS) as senders:
        register(control)
        token = str(control.tokens[0])
        reading, handing_in = partial(read, token), partial(submission, token, "b")
        _send(senders, control, reading, range(-200, 0))  # imports, connections and caches
        _send(senders, control, handing_in, range(-20, 0))
        idle = control.process.memory_info().rss
        rows = {
            "an authenticated read": _send(senders, control, reading, range(_READS)),
            f"a signed bundle of 200 claims, {count} of them": _send(senders, control, handing_in, range(count)),
            "the same bytes again": _send(senders, control, handing_in, range(min(count, _AGAIN))),
            "an authenticated read, afterwards": _send(senders, control, reading, range(_READS)),
        }
        above = (peak(control) - idle) / 2**20
    of_read = next(iter(rows.values())).cpu
    print("| request | CPU ms | of it in the system | CPU to that of a read | requests/s |\n|---|---|---|---|---|")
    for name, cost in rows.items():
        beside = f"{cost.cpu / of_read:.1f} | {cost.rate:.0f}"
        print(f"| {name} | {cost.cpu:.2f} | {cost.system:.2f} | {beside} |", flush=True)
    print(f"At most {above:.0f} MiB above idle.", flush=True)


def register(control: Served) -> None:
    """The key of KEY, for acme."""
    headers = {"Authorization": f"Bearer {control.tokens[0]}", "Content-Type": "application/json"}
    body = {"issuer": ISSUER, "name": "CI", "publicKey": dsse.public_pem(KEY.public_key())}
    body["validFrom"] = "2026-01-01T00:00:00Z"
    url = f"http://127.0.0.1:{control.port}/orgs/acme/proof-issuers"
    made = call("POST", url, json.dumps(body).encode(), headers)
    if made.status != 201:
        raise SystemExit(str(made))


def _send(senders: Pool, control: Served, maker: Maker, numbers: Sequence[int]) -> _Cost:
    """Each number once, over a connection of each sender. The senders are processes of their own."""
    before, begun = control.process.cpu_times(), time.perf_counter()
    shares = [(control.port, maker, numbers[share::SENDERS]) for share in range(SENDERS)]
    statuses = sum(senders.starmap(_share, shares), Counter[int]())
    after, seconds = control.process.cpu_times(), time.perf_counter() - begun
    if set(statuses) - {200, 201}:
        raise SystemExit(f"answered {statuses}")
    system = after.system - before.system
    spent = after.user - before.user + system
    return _Cost(spent / len(numbers) * 1e3, system / len(numbers) * 1e3, len(numbers) / seconds)


def _share(port: int, maker: Maker, numbers: Sequence[int]) -> Counter[int]:
    statuses, client = Counter[int](), HTTPConnection("127.0.0.1", port)
    for number in numbers:
        method, path, headers, body = maker(number)
        client.request(method, path, body or None, headers)
        answer = client.getresponse()
        answer.read()
        statuses[answer.status] += 1
    client.close()
    return statuses


def peak(control: Served) -> int:
    """The most bytes in memory, since the start or since they were last reset."""
    status = Path(f"/proc/{control.process.pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1_024
