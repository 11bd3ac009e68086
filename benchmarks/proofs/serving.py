"""Bundles handed in to `sluice control`, and hostile ones."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.control.service import Served, served
from benchmarks.proofs.making import HOSTILE, ISSUER, KEY, PATH, submission
from benchmarks.webhooks.sending import Maker, read
from proto.proofs import dsse
from tests.e2e.product import call

SENDERS = 4
AT_ONCE = 8


def measure(directory: Path, url: str, count: int) -> None:
    """Bundles beside an authenticated read."""
    with served(directory, url) as control:
        _register(control)
        token = str(control.tokens[0])
        idle = control.process.memory_info().rss
        of_read = _send(control, partial(read, token), 2_000)[0]
        cost, rate = _send(control, partial(submission, token, "b"), count)
        again = _send(control, partial(submission, token, "b"), min(count, 500))[0]
        above = (_peak(control) - idle) / 2**20
        print("| request | CPU ms | CPU to that of a read | requests/s |\n|---|---|---|---|")
        print(f"| a signed bundle of 200 claims, {count} of them | {cost:.1f} | {cost / of_read:.1f} | {rate:.0f} |")
        print(f"| the same bytes again | {again:.1f} | {again / of_read:.1f} | |")
        print(f"At most {above:.0f} MiB above idle.", flush=True)


def measure_hostile(directory: Path, url: str) -> None:
    """Eight bodies at once, and what somebody else waits meanwhile."""
    with served(directory, url) as control:
        _register(control, 50)
        token = str(control.tokens[0])
        print("| eight at once | MiB | answer | CPU s | MiB above idle | longest wait of another request, ms |")
        print("|---|---|---|---|---|---|")
        for name, (media_type, make) in HOSTILE.items():
            body = make()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": media_type}
            send = partial(call, "POST", f"http://127.0.0.1:{control.port}{PATH}/validate", body, headers)
            with _watched(control) as seen, ThreadPoolExecutor(AT_ONCE) as senders:
                sent = [senders.submit(send) for _ in range(AT_ONCE)]
                statuses = Counter(one.result().status for one in sent)
            print(
                f"| {name} | {len(body) / 2**20:.1f} | {dict(statuses)} | {seen['cpu']:.1f} | {seen['above']:.0f} | "
                f"{seen['wait'] * 1e3:.0f} |",
                flush=True,
            )


def _register(control: Served, more: int = 0) -> None:
    """The key of KEY, and others."""
    headers = {"Authorization": f"Bearer {control.tokens[0]}", "Content-Type": "application/json"}
    for key in (KEY, *(Ed25519PrivateKey.generate() for _ in range(more - 1))):
        body = {"issuer": ISSUER, "name": "CI", "publicKey": dsse.public_pem(key.public_key())}
        body["validFrom"] = "2026-01-01T00:00:00Z"
        url = f"http://127.0.0.1:{control.port}/orgs/acme/proof-issuers"
        made = call("POST", url, json.dumps(body).encode(), headers)
        if made.status != 201:
            raise SystemExit(str(made))


def _send(control: Served, maker: Maker, count: int) -> tuple[float, float]:
    """CPU of the service in ms a request, and requests a second. The senders are processes of their own."""
    before, begun = control.cpu_s(), time.perf_counter()
    with get_context("spawn").Pool(SENDERS) as senders:
        shares = [(control.port, maker, range(share, count, SENDERS)) for share in range(SENDERS)]
        statuses = sum(senders.starmap(_share, shares), Counter[int]())
    if set(statuses) - {200, 201}:
        raise SystemExit(f"answered {statuses}")
    return (control.cpu_s() - before) / count * 1e3, count / (time.perf_counter() - begun)


def _share(port: int, maker: Maker, numbers: range) -> Counter[int]:
    statuses = Counter[int]()
    for number in numbers:
        method, path, headers, body = maker(number)
        statuses[call(method, f"http://127.0.0.1:{port}{path}", body or None, headers).status] += 1
    return statuses


@contextmanager
def _watched(control: Served) -> Iterator[dict[str, float]]:
    """CPU, peak of memory and the longest answer to a cheap request."""
    Path(f"/proc/{control.process.pid}/clear_refs").write_text("5", encoding="ascii")
    idle, before, seen = control.process.memory_info().rss, control.cpu_s(), {"wait": 0.0}
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.002):
            begun = time.perf_counter()
            call("GET", f"http://127.0.0.1:{control.port}/livez", None, {})
            seen["wait"] = max(seen["wait"], time.perf_counter() - begun)

    other = threading.Thread(target=ask)
    other.start()
    try:
        yield seen
    finally:
        done.set()
        other.join()
        seen |= {"cpu": control.cpu_s() - before, "above": (_peak(control) - idle) / 2**20}


def _peak(control: Served) -> int:
    status = Path(f"/proc/{control.process.pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1_024
