"""Prints CPU of the gateway per request: `python -m benchmarks.refusals [--seconds N] [--redis URL] [NAME=VALUE ...]`.

Requests are of 512 spans, gzipped protobuf. NAME=VALUE are settings of the product.
"""

import argparse
import asyncio
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.codec.__main__ import machine
from benchmarks.gateway.bodies import Kind, bodies
from benchmarks.overload.deployment import Cores, Deployment, deployed
from benchmarks.refusals.sending import Sent, repeat
from chassis.db.database import Database
from control.identity.organizations import organization_store, project_key_store
from control.identity.organizations.bootstrap import provision

KIND: Final = Kind("traces", "protobuf gzip")
_SETTLE_S: Final = 5.5  # what keys may do is known by then
_WARM_S: Final = 1.0


class Case(NamedTuple):
    """One row: what is sent, and the status that it must get."""

    name: str
    key: str
    status: int


def main() -> None:
    """Starts the gateway, measures, stops it."""
    arguments = _arguments()
    print(machine(), flush=True)
    # No case is to be another's: neither more places than there are, nor failures of an address.
    settings = {"SLUICE_FAILED_KEY_RATE": "0", "SLUICE_OTLP_RATE": "1000000", **arguments.settings}
    spawned = get_context("spawn")
    with (
        TemporaryDirectory(prefix="sluice-refusals-") as directory,
        deployed(Path(directory), Cores.split(), 2, settings) as deployment,
        ProcessPoolExecutor(1, mp_context=spawned) as sender,
    ):
        cases = asyncio.run(_cases(deployment, Path(directory) / "sluice" / "shared.db"))
        taken = 0.0
        print("| request | answer | requests/s | connections | CPU us of the gateway | of one that is taken |")
        print("|---|---|---|---|---|---|")
        for case in cases:
            sender.submit(repeat, deployment.port, _message(case.key), _WARM_S).result()
            before = deployment.cpu_s()
            sent = sender.submit(repeat, deployment.port, _message(case.key), arguments.seconds).result()
            cost = (deployment.cpu_s() - before) / sent.requests
            taken = taken or cost
            _print(case, sent, cost, taken)


def _print(case: Case, sent: Sent, cost: float, taken: float) -> None:
    if set(sent.statuses) - {case.status, *((200,) if case.status == 429 else ())}:
        raise SystemExit(f"{case.name}: answered {sent.statuses}")
    share = sent.statuses.get(case.status, 0) / sent.requests
    answers = ", ".join(f"{status}: {count / sent.requests:.1%}" for status, count in sorted(sent.statuses.items()))
    if share < 0.95:
        raise SystemExit(f"{case.name}: {answers}")
    print(
        f"| {case.name} | {answers} | {sent.requests / sent.seconds:.0f} | {sent.connections} | {cost * 1e6:.0f} |"
        f" {cost / taken:.1%} |",
        flush=True,
    )


def _message(key: str) -> bytes:
    body = bodies(KIND)[0]
    head = (
        f"POST /v1/{KIND.signal} HTTP/1.1\r\nHost: localhost\r\n{KIND.headers}"
        f"X-Legacy-Auth: Legacy legacy_key={key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _cases(deployment: Deployment, file: Path) -> Sequence[Case]:
    """Keys for each of them, made in the store of the running gateway."""
    database = Database(f"sqlite:///{file}")
    await database.start()
    async with database.write() as connection:
        limited = await provision(connection, "http://localhost", "limited", "p", 1)
        organization = await organization_store.find_organization(connection, "limited")
        if organization is None:
            raise RuntimeError("there is no organization")
        project = await organization_store.find_project(connection, organization.id, "p")
        if project is None:
            raise RuntimeError("there is no project")
        rated = await project_key_store.create_project_key(connection, organization.id, project.id, "rated")
        await project_key_store.set_key_rate(connection, organization.id, rated.key.id, 1)
    await database.close()
    return [
        Case("taken", deployment.keys[0], 200),
        Case("over the rate of its key", rated.secret, 429),
        Case("of an organization without quota left", limited.legacy_key, 429),
        Case("with a key that is none", "0" * 32, 401),
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.refusals", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each row")
    parser.add_argument("settings", nargs="*", type=lambda text: tuple(text.split("=", 1)), help="NAME=VALUE")
    arguments = parser.parse_args()
    arguments.settings = dict(arguments.settings)
    return arguments


if __name__ == "__main__":
    main()
