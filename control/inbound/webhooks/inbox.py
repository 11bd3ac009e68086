"""A queue in memory in which every holder has its turn: nobody waits for all that another one has put in."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
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
from control.inbound.integrations.tables import DeliveryStatus, Hook, Integration, StoredWebhookEvent
from control.inbound.webhooks.platform import PayloadError

T = TypeVar("T")


class FairQueue(Generic[T]):
    """At most `limit` items, and `limit_of_one` of one holder."""

    def __init__(self, limit: int, limit_of_one: int) -> None:
        self._limit = limit
        self._limit_of_one = limit_of_one
        self._size = 0
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()  # whose turn is next comes first; none is empty
        self._filled = asyncio.Event()

    def put(self, holder: str, item: T) -> None:
        """Raises asyncio.QueueFull."""
        if self._size >= self._limit or len(self._waiting.get(holder, ())) >= self._limit_of_one:
            raise asyncio.QueueFull
        self._of(holder).append(item)

    def put_back(self, items: Iterable[tuple[str, T]]) -> None:
        """What was taken with its holders, to be taken next, in this order."""
        for holder, item in reversed(list(items)):
            self._of(holder).appendleft(item)
            self._waiting.move_to_end(holder, last=False)

    async def take(self, most: int) -> list[T]:
        """Wait for an item; returns at most so many, one of each holder in turn."""
        await self._filled.wait()
        taken: list[T] = []
        while self._waiting and len(taken) < most:
            holder, of_holder = self._waiting.popitem(last=False)
            taken.append(of_holder.popleft())
            if of_holder:
                self._waiting[holder] = of_holder
        self._size -= len(taken)
        if not self._waiting:
            self._filled.clear()
        return taken

    def take_all(self) -> list[T]:
        """Everything that waits."""
        taken = [item for of_holder in self._waiting.values() for item in of_holder]
        self._waiting.clear()
        self._filled.clear()
        self._size = 0
        return taken

    def _of(self, holder: str) -> deque[T]:
        """The items of a holder, one of which will be added."""
        self._size += 1
        self._filled.set()
        return self._waiting.setdefault(holder, deque())


MAX_WAITING: Final = 1_000
MAX_WAITING_OF_ONE: Final = 500  # organization
MAX_BATCH: Final = 64
MAX_BATCH_S: Final = 0.1  # of one transaction: others write, too
PROCESSING_FAILED: Final = "The delivery could not be processed."

Apply = Callable[[AsyncConnection, datetime], Awaitable[msgspec.Struct]]
ApplyTogether = Callable[
    [AsyncConnection, Sequence[tuple[Integration, Any]], datetime], Awaitable[Sequence[msgspec.Struct | None]]
]
log = structlog.get_logger(__name__)


class HookChanged(Exception):
    """The integration was changed, disabled or deleted since its secret was read: the delivery is verified again."""


@dataclass(frozen=True, slots=True)
class VerifiedEvent:
    """A delivery to apply. `body`: sealed, None if it is not kept. `redelivered`: the one that is processed again.

    `apply_together` applies many of what integrations have sent (`content`), with a result for each; None for those
    that are to be applied one by one.
    """

    id: str
    hook: Hook
    key: str
    event: str
    body: bytes | None
    apply: Apply = field(repr=False)
    redelivered: StoredWebhookEvent | None = None
    apply_together: ApplyTogether | None = field(default=None, repr=False)
    content: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ProcessedEvent:
    """`duplicate`: it was applied before, and nothing has changed."""

    result: Mapping[str, Any]
    duplicate: bool


class _Waiting:
    __slots__ = ("delivery", "future", "outcome")

    def __init__(self, delivery: VerifiedEvent) -> None:
        self.delivery = delivery
        self.future: asyncio.Future[ProcessedEvent] = asyncio.get_running_loop().create_future()
        self.outcome: ProcessedEvent | Exception | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the delivery."""
        return self.delivery.hook.integration.id, self.delivery.key

    @property
    def holder(self) -> str:
        """Whose turn in the queue it uses."""
        return self.delivery.hook.integration.org_id


class Inbox:
    """One task per process, which applies what waits."""

    def __init__(self, database: Database, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._now = now
        self._queue: FairQueue[_Waiting] = FairQueue(MAX_WAITING, MAX_WAITING_OF_ONE)

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown; whoever still waits then is told to try again."""
        task = asyncio.create_task(self._run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for one in self._queue.take_all():
            _fail(one, ServiceUnavailable("The service is shutting down."))

    async def process(self, delivery: VerifiedEvent) -> ProcessedEvent:
        """Apply a delivery; it is applied although the caller is cancelled. Raises HookChanged, PayloadError, what
        `apply` raises, and DatabaseUnavailable; ServiceUnavailable if too many wait.
        """
        waiting = _Waiting(delivery)
        try:
            self._queue.put(waiting.holder, waiting)
        except asyncio.QueueFull:
            raise ServiceUnavailable("Too many webhooks wait to be processed.") from None
        return await asyncio.shield(waiting.future)

    async def _run(self) -> None:
        while True:
            batch = await self._queue.take(MAX_BATCH)
            try:
                await self._apply_all(batch)
            except asyncio.CancelledError:
                for one in batch:
                    _fail(one, ServiceUnavailable("The service is shutting down."))
                raise

    async def _apply_all(self, batch: list[_Waiting]) -> None:
        """Apply a batch; if its transaction fails, each delivery by itself: one may be the cause."""
        try:
            rest = await self._apply(batch)
        except Exception as error:  # noqa: BLE001 (whoever waits gets it)
            if len(batch) == 1 or isinstance(error, DatabaseUnavailable):
                for one in batch:
                    _fail(one, error)
                return
            for one in batch:
                await self._apply_all([one])
        else:
            self._queue.put_back((one.holder, one) for one in rest)

    async def _apply(self, batch: list[_Waiting]) -> list[_Waiting]:
        """Apply what the time of a transaction allows; returns the rest."""
        deadline = time.monotonic() + MAX_BATCH_S
        done: list[_Waiting] = []
        async with self._database.write() as connection:
            now = self._now()
            versions = await store.load_versions(connection, {one.delivery.hook.integration.id for one in batch})
            keys: dict[str, set[str]] = {}
            for one in batch:
                keys.setdefault(one.delivery.hook.integration.id, set()).add(one.delivery.key)
            known = await store.find_events(connection, keys)
            results = await _apply_together(connection, batch, versions, known, now)
            attempts: dict[tuple[str, str], tuple[EventAttempt, str]] = {}
            for one in sorted(batch, key=lambda one: one not in results):
                if one in results:
                    attempt: EventAttempt | None = _processed(one, results[one], now)
                elif time.monotonic() <= deadline or not done:
                    attempt = await self._apply_one(connection, one, versions, known, attempts, now)
                else:
                    break
                if attempt is not None:
                    attempts[one.key] = attempt, attempt.id or one.delivery.id
                done.append(one)
            stored = list(attempts.values())
            await store.record_attempts(connection, [one for one, _ in stored], [name for _, name in stored])
        for one in done:
            _answer(one)
        return [one for one in batch if one not in done]

    async def _apply_one(
        self,
        connection: AsyncConnection,
        one: _Waiting,
        versions: Mapping[str, int],
        known: Mapping[tuple[str, str], StoredWebhookEvent],
        attempts: Mapping[tuple[str, str], tuple[EventAttempt, str]],
        now: datetime,
    ) -> EventAttempt | None:
        """Apply one delivery in a savepoint; None if nothing is to be stored."""
        delivery = one.delivery
        integration = delivery.hook.integration
        if versions.get(integration.id) != integration.version:
            one.outcome = HookChanged()
            return None
        if one.key in attempts:
            before = attempts[one.key][0]
            if before.status is DeliveryStatus.PROCESSED and before.result is not None:
                one.outcome = ProcessedEvent(before.result, duplicate=True)
            else:
                one.outcome = ServiceUnavailable("The same delivery has just failed.")
            return None
        stored = known.get(one.key)
        if delivery.redelivered is None and stored is not None and stored.status is DeliveryStatus.PROCESSED:
            one.outcome = ProcessedEvent(stored.result or {}, duplicate=True)
            return None
        if delivery.redelivered is not None and stored is None:
            one.outcome = NotFound()
            return None
        result: Mapping[str, Any] | None = None
        error: str | None = None
        try:
            async with connection.begin_nested():
                result = msgspec.to_builtins(await delivery.apply(connection, now))
            one.outcome = ProcessedEvent(result, duplicate=False)
        except PayloadError as refusal:
            error, one.outcome = str(refusal), refusal
        except Exception as failure:  # noqa: BLE001 (its caller gets it; the others go on)
            error, one.outcome = failure.message if isinstance(failure, ApiError) else PROCESSING_FAILED, failure
        return _attempt(delivery, None if stored is None else stored.id, result, error, now)


async def _apply_together(
    connection: AsyncConnection,
    batch: Sequence[_Waiting],
    versions: Mapping[str, int],
    known: Mapping[tuple[str, str], StoredWebhookEvent],
    now: datetime,
) -> dict[_Waiting, Mapping[str, Any]]:
    """The results of those that were applied together. If one of them fails, all are applied one by one."""
    first: dict[tuple[str, str], _Waiting] = {}
    for one in batch:
        integration = one.delivery.hook.integration
        if versions.get(integration.id) == integration.version and one.key not in known:
            first.setdefault(one.key, one)
    groups: dict[ApplyTogether, list[_Waiting]] = {}
    for one in first.values():
        if one.delivery.apply_together is not None:
            groups.setdefault(one.delivery.apply_together, []).append(one)
    applied: dict[_Waiting, Mapping[str, Any]] = {}
    for apply, group in groups.items():
        contents = [(one.delivery.hook.integration, one.delivery.content) for one in group]
        try:
            async with connection.begin_nested():
                results = await apply(connection, contents, now)
        except Exception as error:  # noqa: BLE001 (whoever causes it gets it when they are applied one by one)
            log.debug("deliveries are applied one by one", reason=type(error).__name__)
            continue
        applied |= {
            one: msgspec.to_builtins(result) for one, result in zip(group, results, strict=True) if result is not None
        }
    return applied


def _processed(one: _Waiting, result: Mapping[str, Any], now: datetime) -> EventAttempt:
    one.outcome = ProcessedEvent(result, duplicate=False)
    return _attempt(one.delivery, None, result, None, now)


def _attempt(
    delivery: VerifiedEvent,
    stored_id: str | None,
    result: Mapping[str, Any] | None,
    error: str | None,
    now: datetime,
) -> EventAttempt:
    """An attempt to store; without a result it has failed."""
    integration = delivery.hook.integration
    return EventAttempt(
        id=stored_id,
        org_id=integration.org_id,
        integration_id=integration.id,
        delivery_key=delivery.key,
        event=delivery.event,
        status=DeliveryStatus.FAILED if result is None else DeliveryStatus.PROCESSED,
        result=result,
        error=error,
        body=delivery.body,
        now=now,
    )


def _answer(one: _Waiting) -> None:
    if one.future.done():
        return
    if isinstance(one.outcome, ProcessedEvent):
        one.future.set_result(one.outcome)
    elif one.outcome is not None:
        _fail(one, one.outcome)


def _fail(one: _Waiting, error: Exception) -> None:
    if not one.future.done():
        one.future.set_exception(error)
        one.future.exception()  # its caller may be gone
