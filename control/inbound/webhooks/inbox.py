"""Applies verified webhook events, each once. The effects of an event and its result are stored in one transaction.

    process     waits until the event is applied, and returns its result, or the stored result if it was applied before
    _apply      one write transaction for waiting events, taken from the organizations in turn

A write transaction costs an fsync, so events that arrive together share one. Events that can be applied
together (`WebhookSource.apply_together`) share statements, too. Each other event has a savepoint. An event that fails
leaves no effect and is stored as failed. If the platform sends it again, it is processed again. If a request gets no
answer, because the process died or the client closed the connection, the platform sends the event again and gets the
stored result if there is one.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, DatabaseUnavailable
from chassis.errors import ApiError, NotFound, ServiceUnavailable
from control.inbound.integrations import store
from control.inbound.integrations.store import EventAttempt
from control.inbound.integrations.tables import DeliveryStatus, WebhookEndpoint
from control.inbound.webhooks.platform import ApplyTogether, PayloadError, WebhookSource
from control.inbound.webhooks.platform_events import AppliedEvent

MAX_WAITING: Final = 1_000
MAX_WAITING_OF_ONE: Final = 500  # of one organization
MAX_BATCH: Final = 64
MAX_BATCH_S: Final = 0.1  # per transaction, so that other writers need not wait
PROCESSING_FAILED: Final = "The delivery could not be processed."

T = TypeVar("T")
Key = tuple[str, str]  # integration and key of an event
log = structlog.get_logger(__name__)


class EndpointChanged(Exception):
    """The integration was changed, disabled or deleted since its secret was read. The event must be verified again."""


@dataclass(frozen=True, slots=True)
class VerifiedEvent:
    """An event to apply. `body`: encrypted, None if it is not kept. `content`: the parsed contents, or why they cannot
    be parsed. `is_repetition`: the event is stored already, and is processed again on demand.
    """

    id: str
    endpoint: WebhookEndpoint
    key: str
    name: str
    body: bytes | None
    source: WebhookSource
    content: Any = field(repr=False)
    is_repetition: bool = False


class Waiting:
    """An event that waits in the queue, and the answer to its sender."""

    __slots__ = ("answer", "event", "future")

    def __init__(self, event: VerifiedEvent) -> None:
        self.event = event
        self.future: asyncio.Future[AppliedEvent] = asyncio.get_running_loop().create_future()
        self.answer: AppliedEvent | Exception | None = None

    @property
    def key(self) -> Key:
        """Identifies the event."""
        return self.event.endpoint.integration.id, self.event.key

    def fail(self, error: Exception) -> None:
        """Answer the sender with an error, unless there is an answer already."""
        self.answer = error
        self.tell()

    def tell(self) -> None:
        """Answer the sender."""
        if self.future.done() or self.answer is None:
            return
        if isinstance(self.answer, AppliedEvent):
            self.future.set_result(self.answer)
        else:
            self.future.set_exception(self.answer)
            self.future.exception()  # the caller may have been cancelled


class EventQueue(Generic[T]):
    """Events in memory. Organizations take turns, so no event waits for all events of another organization."""

    def __init__(self, limit: int, limit_of_one: int) -> None:
        self._limit = limit
        self._limit_of_one = limit_of_one
        self._size = 0
        # The organization whose turn is next comes first. No queue is empty.
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._filled = asyncio.Event()

    def put(self, org_id: str, event: T) -> None:
        """Add an event. Raises ServiceUnavailable if too many wait."""
        of_org = self._waiting.get(org_id, deque())
        if self._size >= self._limit or len(of_org) >= self._limit_of_one:
            raise ServiceUnavailable("Too many webhooks are waiting to be processed.")
        of_org.append(event)
        self._waiting[org_id] = of_org
        self._size += 1
        self._filled.set()

    def put_back(self, events: Iterable[tuple[str, T]]) -> None:
        """Put back events that were taken, with their organizations. They are taken next, in this order, each
        organization in its turn.
        """
        for org_id, event in reversed(list(events)):
            self._waiting.setdefault(org_id, deque()).appendleft(event)
            self._waiting.move_to_end(org_id, last=False)
            self._size += 1
            self._filled.set()

    async def take(self, most: int) -> list[T]:
        """Wait for an event. Returns at most `most` events, taken from the organizations in turn."""
        await self._filled.wait()
        return self.take_now(most)

    def take_now(self, most: int) -> list[T]:
        """Take events without waiting."""
        taken: list[T] = []
        while self._waiting and len(taken) < most:
            org_id, of_org = self._waiting.popitem(last=False)
            taken.append(of_org.popleft())
            if of_org:
                self._waiting[org_id] = of_org
        self._size -= len(taken)
        if not self._waiting:
            self._filled.clear()
        return taken


class Inbox:
    """One task per process, which applies waiting events."""

    def __init__(self, database: Database, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._now = now
        self._queue = EventQueue[Waiting](MAX_WAITING, MAX_WAITING_OF_ONE)

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown. Senders that are still waiting are then told to try again."""
        task = asyncio.create_task(self._run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def process(self, event: VerifiedEvent) -> AppliedEvent:
        """Apply an event, even if the caller is cancelled. Raises EndpointChanged, PayloadError, the errors of `apply`,
        and DatabaseUnavailable. Raises ServiceUnavailable if too many events wait.
        """
        waiting = Waiting(event)
        self._queue.put(event.endpoint.integration.org_id, waiting)
        return await asyncio.shield(waiting.future)

    async def _run(self) -> None:
        batch: list[Waiting] = []
        try:
            while True:
                batch = await self._queue.take(MAX_BATCH)
                try:
                    rest = await self._apply(batch)
                    self._queue.put_back((one.event.endpoint.integration.org_id, one) for one in rest)
                except Exception as error:  # noqa: BLE001 (the senders get it)
                    await self._apply_each(batch, error)
        finally:
            for one in batch + self._queue.take_now(MAX_WAITING):
                one.fail(ServiceUnavailable("The service is shutting down."))

    async def _apply_each(self, batch: list[Waiting], error: Exception) -> None:
        """Apply each event in a transaction of its own, after a shared transaction has failed: one of the events may
        be the cause.
        """
        for one in batch:
            cause = error
            if len(batch) > 1 and not isinstance(error, DatabaseUnavailable):
                try:
                    await self._apply([one])
                    continue
                except Exception as own:  # noqa: BLE001 (the sender gets it)
                    cause = own
            one.fail(cause)

    async def _apply(self, batch: list[Waiting]) -> list[Waiting]:
        """Apply as many events as the time of a transaction allows. Returns the others."""
        deadline = time.monotonic() + MAX_BATCH_S
        for one in batch:
            one.answer = None
        async with self._database.write() as connection:
            transaction = await _load(connection, batch, self._now())
            await transaction.apply_together(batch)
            for one in batch:
                if one.answer is None and (time.monotonic() <= deadline or all(each.answer is None for each in batch)):
                    await transaction.apply_one(one)
            await store.record_attempts(connection, transaction.attempts.values(), transaction.now)
        for one in batch:
            one.tell()
        return [one for one in batch if one.answer is None]


@dataclass(frozen=True, slots=True)
class _Transaction:
    """A transaction. `versions`: the current versions of the integrations. `known`: the stored results of the events.
    `attempts`: the results to store.
    """

    connection: AsyncConnection
    now: datetime
    versions: Mapping[str, int]
    known: Mapping[Key, Any]
    attempts: dict[Key, EventAttempt] = field(default_factory=dict)

    async def apply_together(self, batch: Sequence[Waiting]) -> None:
        """Apply the events that can be applied together. If one of them fails, all are applied one by one."""
        groups: dict[ApplyTogether, dict[Key, Waiting]] = {}
        for one in batch:
            event, apply = one.event, one.event.source.apply_together
            is_new = one.key not in self.known and not event.is_repetition and self._is_current(one)
            if is_new and apply is not None and not isinstance(event.content, PayloadError):
                groups.setdefault(apply, {}).setdefault(one.key, one)
        for apply, group in groups.items():
            sent = [(one.event.endpoint.integration, one.event.content) for one in group.values()]
            try:
                async with self.connection.begin_nested():
                    results = await apply(self.connection, sent, self.now)
            except Exception as error:  # noqa: BLE001 (the cause gets it when events are applied one by one)
                log.debug("webhook events are applied one by one", reason=type(error).__name__)
                continue
            for one, result in zip(group.values(), results, strict=True):
                if result is not None:
                    self._keep(one, AppliedEvent(msgspec.to_builtins(result), duplicate=False))

    async def apply_one(self, one: Waiting) -> None:
        """Apply an event in a savepoint, unless it was applied before."""
        event, before, stored = one.event, self.attempts.get(one.key), self.known.get(one.key)
        if not self._is_current(one):
            one.answer = EndpointChanged()
        elif before is not None and before.result is None:
            one.answer = ServiceUnavailable("Another copy of the delivery has just failed. Send it again.")
        elif before is not None:
            one.answer = AppliedEvent(before.result or {}, duplicate=True)
        elif stored is None and event.is_repetition:
            one.answer = NotFound()
        elif stored is not None and stored.status == DeliveryStatus.PROCESSED and not event.is_repetition:
            one.answer = AppliedEvent(stored.result or {}, duplicate=True)
        else:
            await self._attempt(one)

    async def _attempt(self, one: Waiting) -> None:
        event = one.event
        try:
            if isinstance(event.content, PayloadError):
                raise event.content
            async with self.connection.begin_nested():
                result = await event.source.apply(self.connection, event.endpoint.integration, event.content, self.now)
            self._keep(one, AppliedEvent(msgspec.to_builtins(result), duplicate=False))
        except PayloadError as refusal:
            self._keep(one, refusal, str(refusal))
        except Exception as failure:  # noqa: BLE001 (its sender gets it; the others go on)
            self._keep(one, failure, failure.message if isinstance(failure, ApiError) else PROCESSING_FAILED)

    def _is_current(self, one: Waiting) -> bool:
        integration = one.event.endpoint.integration
        return self.versions.get(integration.id) == integration.version

    def _keep(self, one: Waiting, answer: AppliedEvent | Exception, error: str | None = None) -> None:
        """Keep the result of an event for storing. `error`: why there is no result."""
        event, stored = one.event, self.known.get(one.key)
        one.answer = answer
        self.attempts[one.key] = EventAttempt(
            id=event.id if stored is None else stored.id,
            is_new=stored is None,
            integration=event.endpoint.integration,
            key=event.key,
            event=event.name,
            body=event.body,
            result=answer.answer if isinstance(answer, AppliedEvent) else None,
            error=error,
        )


async def _load(connection: AsyncConnection, batch: Sequence[Waiting], now: datetime) -> _Transaction:
    keys: dict[str, set[str]] = {}
    for one in batch:
        keys.setdefault(one.event.endpoint.integration.id, set()).add(one.event.key)
    return _Transaction(
        connection, now, await store.load_versions(connection, keys), await store.find_events(connection, keys)
    )
