"""Prints CPU of the gateway per request of 512 spans, gzipped protobuf."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.command import command
from benchmarks.gateway.bodies import Kind, bodies, message
from benchmarks.overload.deployment import Cores, Deployment, deployed
from benchmarks.overload.offering import BROKEN, Outcome, repeat
from benchmarks.processes import spawned
from benchmarks.report import Table, print_machine
from benchmarks.stores import opened
from control.identity.organizations import organization_store, project_key_store
from control.identity.organizations.bootstrap import provision

KIND: Final = Kind("traces", "protobuf gzip")
_WARM_S: Final = 1.0


class Case(NamedTuple):
    """One row: what is sent, and the status that it must get."""

    name: str
    key: str
    status: int


def main() -> None:
    """Starts the gateway, measures, stops it."""
    arguments = command(__package__, __doc__, seconds=5.0, settings=True).parse_args()
    print_machine()
    # No case is to be another's: neither more places than there are, nor failures of an address.
    settings = {"SLUICE_FAILED_KEY_RATE": "0", "SLUICE_OTLP_RATE": "1000000", **arguments.settings}
    with (
        TemporaryDirectory(prefix="sluice-refusals-") as directory,
        deployed(Path(directory), Cores.split(), 2, settings) as deployment,
        spawned() as sender,
    ):
        cases = asyncio.run(_cases(deployment, Path(directory) / "sluice" / "shared.db"))
        columns = {"request": "", "answered so": ".1%", "requests/s": ".0f", "CPU us of the gateway": ".0f"}
        table = Table(columns, compared="CPU us of the gateway")
        for case in cases:
            sent = message(KIND, case.key, bodies(KIND)[0])
            sender.submit(repeat, deployment.port, sent, _WARM_S).result()
            before = deployment.cpu_s()
            outcome = sender.submit(repeat, deployment.port, sent, arguments.seconds).result()
            cost_us = (deployment.cpu_s() - before) / outcome.answered * 1e6
            table.row(case.name, _share(case, outcome), outcome.answered / outcome.elapsed_s, cost_us)


def _share(case: Case, outcome: Outcome) -> float:
    """Of the answers as they must be: a request over a limit is accepted now and then. A connection that is closed with
    the rest of a body unread may break before its answer is read.
    """
    share = outcome.count(case.status) / outcome.answered
    if share < 0.95 or set(outcome.statuses) - {case.status, BROKEN, *((200,) if case.status == 429 else ())}:
        raise SystemExit(f"{case.name}: answered {outcome.statuses}")
    return share


async def _cases(deployment: Deployment, file: Path) -> Sequence[Case]:
    """Keys for each of them, made in the store of the running gateway."""
    async with opened(f"sqlite:///{file}") as database, database.write() as connection:
        limited = await provision(connection, "http://localhost", "limited", "p", 1)
        organization = await organization_store.find_organization(connection, "limited")
        if organization is None:
            raise RuntimeError("there is no organization")
        project = await organization_store.find_project(connection, organization.id, "p")
        if project is None:
            raise RuntimeError("there is no project")
        rated = await project_key_store.create_project_key(connection, organization.id, project.id, "rated")
        await project_key_store.set_key_rate(connection, organization.id, rated.key.id, 1)
    return [
        Case("taken", deployment.keys[0], 200),
        Case("over the rate of its key", rated.secret, 429),
        Case("of an organization without quota left", limited.legacy_key, 429),
        Case("with a key that is none", "0" * 32, 401),
    ]


if __name__ == "__main__":
    main()
