"""The outbox, as the rest of control sees it: `enqueue` inside a transaction, `attempt` after its commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from control.deliveries.message import Message


@dataclass(frozen=True, slots=True)
class Named:
    """The channels of these ids, in this order; one that there is none of, or a disabled one, gets an error."""

    channel_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Everyone:
    """Every enabled channel of the organization, and of the project when there is one."""

    project_id: int | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    """One delivery that waits (`delivery_id`), or why there is none (`error`: `not_found`, `disabled`)."""

    channel_id: str
    kind: str
    delivery_id: str | None = None
    error: str | None = None


class Delivery(msgspec.Struct, frozen=True, rename="camel"):
    """How far one delivery got, as specification 4.1 shows it."""

    channel_id: str | None
    kind: str
    delivered: bool
    error: str | None


async def enqueue(
    connection: AsyncConnection, org_id: str, target: Named | Everyone, message: Message
) -> list[Queued]:
    """One delivery per channel of the target, in the caller's transaction; the answer keeps the target's order."""
    raise NotImplementedError


class Attempts(Protocol):
    """What sends at once; `control.deliveries.sending.Sender` is it."""

    async def attempt(self, queued: Sequence[Queued], budget_s: float = 3.0) -> list[Delivery]:
        """Call after the commit. One answer per `queued`, in order; `error` is `queued` for what goes on later."""
