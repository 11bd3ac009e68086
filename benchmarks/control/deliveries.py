"""How fast a backlog drains. One receiver of the channels takes connections and never answers; its deliveries are
beside the count. The receivers run in a process of their own. Memory is that of the delivering process, over what it
had when it began.
"""

import asyncio
import ipaddress
import os
import socket
import time
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from aiohttp import web

from benchmarks.processes import resident_mib
from benchmarks.report import Table
from chassis.auth.tables import organizations, principals
from chassis.db.database import Database, to_milliseconds
from chassis.db.migrations import migrate
from control.identity.organizations.bootstrap import provision
from control.notify.channels import store as channels
from control.notify.channels.config import Kind, WebhookConfig
from control.notify.channels.store import Channel
from control.notify.channels.tables import deliveries
from control.notify.deliveries import store
from control.notify.deliveries.platforms.transports import Transports
from control.notify.deliveries.sender import DeliveryMetrics, Sender
from control.notify.deliveries.worker import Worker
from control.notify.message import Message
from control.outbound.egress import Egress
from control.outbound.egress_policy import EgressPolicy
from control.secrets.secret_box import KeyFile, SecretBox

CHANNELS: Final = 50
MESSAGE: Final = Message(type="approval.requested", subject="apr_1", title="Approve it?", text="x" * 500)
_SECRET: Final = "whsec_" + "A" * 44


def measure(directory: Path, arguments: Namespace) -> None:
    """Fill, drain, print one row, with SQLite."""
    here, there = get_context("spawn").Pipe()
    receiver = get_context("spawn").Process(target=receive, args=(there,), daemon=True)
    receiver.start()
    url = f"sqlite:///{directory / 'sluice.db'}"
    migrate(url)
    asyncio.run(_measure(url, directory, here.recv(), arguments.deliveries))
    receiver.kill()


def receive(there: Connection) -> None:
    """Answer 204 to everything, on a port that is told."""

    async def serve() -> None:
        async def take(request: web.Request) -> web.Response:
            await request.read()
            return web.Response(status=204)

        app = web.Application()
        app.router.add_post("/{path:.*}", take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        there.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(serve())


async def _measure(url: str, directory: Path, port: int, number: int) -> None:
    """Print one row."""
    database = Database(url)
    await database.start()
    keys = KeyFile(directory / "sealing.keys")
    keys.generate()
    secret_box = SecretBox(keys)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        good, hanging = await fill(database, secret_box, port, silent.getsockname()[1], number)
        egress = Egress(EgressPolicy((ipaddress.ip_network("127.0.0.0/8"),), allow_http=True))
        ways = Transports(egress, egress, None, "", "")
        sender = Sender(database, secret_box, ways, DeliveryMetrics(None))
        memory, cpu, began = resident_mib(os.getpid()), time.process_time(), time.perf_counter()
        most, running, working = memory, egress.running(), Worker(sender).running()
        await anext(running)
        await anext(working)
        while (left := await _left(database, hanging)).keys() - {"DONE"}:
            if left.keys() & {"DEAD", "CANCELLED"}:
                raise SystemExit(f"deliveries that should have arrived ended otherwise: {left}")
            most = max(most, resident_mib(os.getpid()))
            await asyncio.sleep(0.5)
        seconds, spent = time.perf_counter() - began, time.process_time() - cpu
        await anext(working, None)
        await anext(running, None)
    await database.close()
    columns = {"deliveries while one receiver hangs": "", "s": ".1f", "deliveries/s": ".0f", "CPU us of each": ".0f"}
    table = Table({**columns, "MiB more at most": ".0f"})
    name = f"{good} to {CHANNELS} channels, SQLite"
    table.row(name, seconds, good / seconds, spent / good * 1e6, most - memory)


async def fill(database: Database, secret_box: SecretBox, port: int, silent: int, number: int) -> tuple[int, str]:
    """Channels and their deliveries, and as many again for the silent one as for another; its id."""
    async with database.write() as connection:
        await provision(connection, "http://127.0.0.1", "acme", "web")
        org_id = str(await connection.scalar(organizations.select().with_only_columns(organizations.c.id)))
        owner = str(await connection.scalar(principals.select().with_only_columns(principals.c.id)))
        made: list[Channel] = []
        for target in [*([port] * CHANNELS), silent]:
            config = WebhookConfig(url=f"http://127.0.0.1:{target}/", secret=_SECRET)
            made.append(
                await channels.create(
                    connection,
                    secret_box,
                    org_id=org_id,
                    project_id=None,
                    name="x",
                    kind=Kind.WEBHOOK,
                    config=config,
                    enabled=True,
                    created_by=owner,
                )
            )
        rounds = number // CHANNELS
        at = to_milliseconds(datetime.now(UTC)) - timedelta(hours=1)
        for position in range(rounds):
            await store.insert(connection, made, MESSAGE, at + timedelta(milliseconds=position))
    return rounds * CHANNELS, made[-1].id


async def _left(database: Database, but: str) -> dict[str, int]:
    """How many deliveries are in each state, of the channels that answer."""
    table = deliveries.c
    counted = (
        sa.select(table.state, sa.func.count().label("number")).where(table.channel_id != but).group_by(table.state)
    )
    async with database.read() as connection:
        return {row.state: row.number for row in await connection.execute(counted)}
