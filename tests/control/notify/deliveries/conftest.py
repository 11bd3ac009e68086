"""A sender over a store of its own, with a receiver within its reach."""

import ipaddress
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.db.database import Database, to_milliseconds
from control.notify.channels import store as channels
from control.notify.channels.config import Kind, WebhookConfig
from control.notify.channels.store import Channel
from control.notify.channels.tables import State, deliveries
from control.notify.deliveries import store
from control.notify.deliveries.api import DELIVERIES
from control.notify.deliveries.leases import ClaimedDelivery, ConcurrencyLimits, claim_due
from control.notify.deliveries.outbox import AllChannels, ChannelIds, EnqueueResult, enqueue
from control.notify.deliveries.platforms.transports import Transports
from control.notify.deliveries.rules import AttemptResult
from control.notify.deliveries.sender import DeliveryMetrics, Sender
from control.notify.deliveries.store import WORKER_DELAY
from control.notify.message import Message
from control.outbound.egress import Egress
from control.outbound.egress_policy import EgressPolicy
from control.secrets.secret_box import KeyFile, SecretBox
from tests.chassis.auth.tenants import Tenant, new_tenant
from tests.control.receiver import SECRET
from tests.databases import WAIT_S

POLICY = EgressPolicy((ipaddress.ip_network("127.0.0.0/8"),), allow_http=True)
ALL = ConcurrencyLimits(channel=100, failing=1, organization=100)
FAILED, OK = AttemptResult(False, "No."), AttemptResult(True, "Yes.")
MESSAGE = Message(type="approval.requested", subject="apr_1", title="Approve it?")


@dataclass
class Clock:
    """Moves when a test says so."""

    at: datetime = field(default_factory=lambda: to_milliseconds(datetime.now(UTC)))

    def __call__(self) -> datetime:
        return self.at

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def keep_up(self) -> None:
        """Not to be behind what the store wrote down by the real one, however slow the machine is."""
        self.at = max(self.at, to_milliseconds(datetime.now(UTC)))


@dataclass
class Post:
    """What tests of deliveries need, of one organization."""

    database: Database
    sealer: SecretBox
    tenant: Tenant
    sender: Sender
    clock: Clock
    ways: Transports

    async def channel(self, url: str = "http://127.0.0.1:9", *, project: bool = False, enabled: bool = True) -> Channel:
        """By default one that cannot be reached."""
        async with self.database.write() as connection:
            return await channels.create(
                connection,
                self.sealer,
                org_id=self.tenant.organization.id,
                project_id=self.tenant.project.id if project else None,
                name="x",
                kind=Kind.WEBHOOK,
                config=WebhookConfig(url=url, secret=SECRET),
                enabled=enabled,
                created_by=self.tenant.owner_id,
            )

    async def queue(
        self, target: ChannelIds | AllChannels | None = None, message: Message = MESSAGE
    ) -> list[EnqueueResult]:
        async with self.database.write() as connection:
            queued = await enqueue(connection, self.tenant.organization.id, target or AllChannels(), message)
        self.clock.keep_up()
        return queued

    def past_head_start(self) -> None:
        """Later, when workers may claim what was queued now."""
        self.clock.pass_by(WORKER_DELAY.total_seconds() + 1)

    async def claim(self, limit: int = 100, places: ConcurrencyLimits = ALL) -> list[ClaimedDelivery]:
        async with self.database.write() as connection:
            return await claim_due(connection, self.clock(), limit=limit, concurrency=places)

    async def settle(self, claimed: ClaimedDelivery, outcome: AttemptResult) -> store.WrittenResult | None:
        async with self.database.write() as connection:
            return await store.write_result(connection, claimed, outcome, self.clock(), 0.5)

    async def listed(self, state: State | None = None) -> Sequence[sa.Row[Any]]:
        """Oldest first."""
        listed = DELIVERIES.rows.where(deliveries.c.org_id == self.tenant.organization.id).order_by(deliveries.c.id)
        if state is not None:
            listed = listed.where(deliveries.c.state == state.value)
        async with self.database.read() as connection:
            rows: Sequence[sa.Row[Any]] = (await connection.execute(listed)).all()
        return rows

    async def one(self) -> sa.Row[Any]:
        (found,) = await self.listed()
        return found

    async def found(self, channel: Channel) -> Channel:
        async with self.database.read() as connection:
            found = await channels.find(
                connection, channel.org_id, channel.project_id or self.tenant.project.id, channel.id
            )
        if found is None:
            raise LookupError(channel.id)
        return found


@pytest.fixture
async def post(migrated_url: str, tmp_path: Path) -> AsyncIterator[Post]:
    database, clock = Database(migrated_url, max_wait_s=WAIT_S), Clock()
    await database.start()
    egress = Egress(POLICY)
    running = egress.running()
    await anext(running)
    keys = KeyFile(tmp_path / "sealing.keys")
    keys.generate()
    sealer = SecretBox(keys)
    ways = Transports(egress, Egress(POLICY), None, "http://127.0.0.1:9", "http://127.0.0.1:9")
    sender = Sender(database, sealer, ways, DeliveryMetrics(None), now=clock, random=lambda: 0.5)
    yield Post(database, sealer, await new_tenant(database, "acme"), sender, clock, ways)
    await sender.finish(5)
    await anext(running, None)
    await database.close()
