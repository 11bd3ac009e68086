"""Authenticated reads on SQLite: one control process on one core, senders on the others."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Final

from benchmarks.control.service import Served, served
from benchmarks.overload.deployment import Cores
from benchmarks.overload.offering import repeat
from benchmarks.processes import spawned
from benchmarks.report import Table
from tests.e2e.product import call

REQUESTS: Final = 50  # that a list shows
_WARM_S: Final = 1.0


def measure(directory: Path, arguments: Namespace) -> None:
    """Print a row for each kind of read."""
    cores = Cores.split()
    with (
        served(directory / "control", f"sqlite:///{directory / 'sluice.db'}", cores=cores.gateway[:1]) as control,
        spawned() as sender,
    ):
        asked = [_ask(control, str(number)) for number in range(REQUESTS)]
        table = Table({"read": "", "requests/s": ".0f", "requests in a second of CPU": ".0f", "CPU us": ".0f"})
        for name, path in (
            ("its organization", ""),
            ("projects", "/projects"),
            ("one approval request", f"/approval-requests/{asked[0]}"),
            (f"{REQUESTS} approval requests", f"/approval-requests?limit={REQUESTS}"),
        ):
            message = _message(control, path)
            sender.submit(repeat, control.port, message, _WARM_S).result()
            before = control.cpu_s()
            sent = sender.submit(repeat, control.port, message, arguments.seconds).result()
            spent = control.cpu_s() - before
            if set(sent.statuses) != {200}:
                raise SystemExit(f"{name}: answered {sent.statuses}")
            cost = spent / sent.answered
            table.row(name, sent.answered / sent.elapsed_s, 1 / cost, cost * 1e6)


def _ask(control: Served, target: str) -> str:
    """The id of a new approval request."""
    body = {"action": "deploy.production", "targetType": "service", "targetId": target}
    headers = {"Authorization": f"Bearer {control.tokens[0]}", "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{control.port}/orgs/acme/approval-requests"
    return str(call("POST", url, json.dumps(body).encode(), headers).json()["request"]["id"])


def _message(control: Served, path: str) -> bytes:
    head = f"GET /orgs/acme{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {control.tokens[0]}\r\n\r\n"
    return head.encode()
