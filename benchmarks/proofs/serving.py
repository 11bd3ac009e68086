"""Bundles handed in to `sluice control`, each another one, beside an authenticated read."""

import json
from concurrent.futures import Executor
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

from benchmarks.control.service import Served, served
from benchmarks.processes import peak_mib, resident_mib, spawned
from benchmarks.proofs.making import ISSUER, KEY, submission
from benchmarks.report import Table
from benchmarks.webhooks.sending import Maker, read, send
from proto.proofs import dsse
from tests.e2e.product import call

_READS: Final = 2_000
_AGAIN: Final = 500


def measure(directory: Path, url: str, count: int) -> None:
    """Prints a row for the read, for bundles, and for bundles that are there."""
    with served(directory, url) as control, spawned() as sender:
        register(control)
        token = str(control.tokens[0])
        reading, handing_in = partial(read, token), partial(submission, token, "b")
        _send(sender, control, reading, range(-200, 0))  # imports, connections and caches
        _send(sender, control, handing_in, range(-20, 0))
        idle = resident_mib(control.pid)
        columns = {f"request ({url.partition(':')[0]})": "", "requests/s": ".0f", "CPU ms": ".2f"}
        table = Table(columns, compared="CPU ms")
        for name, maker, numbers in (
            ("an authenticated read", reading, range(_READS)),
            (f"a signed bundle of 200 claims, {count} of them", handing_in, range(count)),
            ("the same bytes again", handing_in, range(min(count, _AGAIN))),
            ("an authenticated read, afterwards", reading, range(_READS)),
        ):
            table.row(name, *_send(sender, control, maker, numbers))
        print(f"At most {peak_mib(control.pid) - idle:.0f} MiB above idle.", flush=True)


def register(control: Served) -> None:
    """The key of KEY, for acme."""
    headers = {"Authorization": f"Bearer {control.tokens[0]}", "Content-Type": "application/json"}
    body = {"issuer": ISSUER, "name": "CI", "publicKey": dsse.public_pem(KEY.public_key())}
    body["validFrom"] = "2026-01-01T00:00:00Z"
    url = f"http://127.0.0.1:{control.port}/orgs/acme/proof-issuers"
    made = call("POST", url, json.dumps(body).encode(), headers)
    if made.status != 201:
        raise SystemExit(str(made))


def _send(sender: Executor, control: Served, maker: Maker, numbers: range) -> tuple[float, float]:
    """Each number once: requests a second, ms of CPU of each."""
    before = control.cpu_s()
    sent = sender.submit(send, control.port, maker, inf, numbers).result()
    if set(sent.statuses) - {200, 201}:
        raise SystemExit(f"answered {sent.statuses}")
    return len(numbers) / sent.seconds, (control.cpu_s() - before) / len(numbers) * 1e3
