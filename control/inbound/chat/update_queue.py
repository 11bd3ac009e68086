"""Messages to replace or add in a chat, through a URL that the platform gave with the request.

    enqueue     stores an update in the transaction of the change that it shows
    claim       claims a due update by moving its next attempt into the future; if the process dies, the update
                becomes due again
    finish      deletes finished updates, and plans the next attempt of failed ones, unless another process has
                claimed them meanwhile

These functions run in the caller's transaction. A URL permits posting, as a secret does, and is stored encrypted.

`ChatUpdater` is the background task of a process that sends due updates. An update is sent at least once before it
expires, or attempted MAX_ATTEMPTS times, because a platform accepts few messages at such a URL. An attempt that does
not reach the platform does not count. Replacing a message twice makes no difference.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata, new_id
from chassis.db.database import Database, UtcTime, enum_check, text, to_milliseconds
from chassis.runtime.periodic import FailureLog, PeriodicTask
from control.identity import chat_links as link_repository
from control.identity.chat_links import ChatPlatform
from control.notify.deliveries.rules import from_reply
from control.outbound.egress import Egress, EgressError
from control.secrets.secret_box import DecryptionError, SecretBox

# Updates that are sent after the answer, through a URL that the platform gave with the request.
chat_updates: Final = sa.Table(
    "chat_updates",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("platform", text(16), nullable=False),
    sa.Column("url", sa.LargeBinary, info={"sealed": True}, nullable=False),  # permits posting to the chat
    sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("next_attempt_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),  # from then on, the platform accepts nothing at the URL
    sa.Column("created_at", UtcTime, nullable=False),
    enum_check("platform", ChatPlatform),
    sa.Index(None, "next_attempt_at"),
    sa.Index(None, "org_id"),
)


class UpdateOutcome(StrEnum):
    """The result of an update."""

    SENT = "sent"
    FAILED = "failed"  # the platform refused it, or it failed too often
    EXPIRED = "expired"  # the platform does not accept it any more


class ChatMetrics:
    """Counts updates by platform and result."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._updates: Final = Counter(
            "sluice_chat_updates",
            "Updates of messages in chats by platform and outcome: sent, failed (refused, or too many attempts), or "
            "expired.",
            ("platform", "outcome"),
            registry=registry,
        )
        for platform in ChatPlatform:
            for outcome in UpdateOutcome:
                self._updates.labels(platform.value, outcome.value)

    def count(self, platform: str, outcome: UpdateOutcome) -> None:
        """Count one update."""
        self._updates.labels(platform, outcome.value).inc()


LEASE: Final = timedelta(seconds=60)  # longer than an attempt takes
MAX_ATTEMPTS: Final = 3  # that reach the platform
MAX_CLAIMED: Final = 16
LIFETIMES: Final = {ChatPlatform.CHAT_A: timedelta(minutes=30), ChatPlatform.CHAT_B: timedelta(minutes=15)}


class NewUpdate(NamedTuple):
    """An update to send. `attempts`: how many of the MAX_ATTEMPTS attempts it is denied. `delay`: the time before the
    first attempt.
    """

    platform: ChatPlatform
    url: str
    body: Mapping[str, Any]
    attempts: int = 0
    delay: timedelta = timedelta()


async def enqueue(
    connection: AsyncConnection, secret_box: SecretBox, org_id: str, updates: Sequence[NewUpdate], now: datetime
) -> None:
    """Store updates. Raises EncryptionUnavailable."""
    now = to_milliseconds(now)
    rows = [_row(secret_box, org_id, one, now) for one in updates]
    if rows:
        await connection.execute(chat_updates.insert(), rows)


async def next_due(connection: AsyncConnection) -> datetime | None:
    """When the next attempt is due. None if there is no update."""
    due: datetime | None = await connection.scalar(
        sa.select(chat_updates.c.next_attempt_at).order_by(chat_updates.c.next_attempt_at).limit(1)
    )
    return due


async def claim(connection: AsyncConnection, now: datetime) -> tuple[Sequence[Any], datetime]:
    """Claim up to MAX_CLAIMED due updates. Returns their rows, and the time until which they are claimed, which
    identifies the claim.
    """
    claimed_until = to_milliseconds(now) + LEASE
    statement = sa.select(chat_updates).where(chat_updates.c.next_attempt_at <= now)
    rows = (await connection.execute(statement.order_by(chat_updates.c.next_attempt_at).limit(MAX_CLAIMED))).all()
    of_rows = chat_updates.c.id.in_([row.id for row in rows])
    await connection.execute(chat_updates.update().where(of_rows).values(next_attempt_at=claimed_until))
    return rows, claimed_until


async def finish(
    connection: AsyncConnection,
    done: Sequence[str],
    again: Sequence[tuple[str, int, datetime]],
    claimed_until: datetime,
) -> None:
    """Delete finished updates. `again`: updates that failed, with the number of attempts and the time of the next
    attempt.
    """
    if done:
        await connection.execute(chat_updates.delete().where(chat_updates.c.id.in_(done)))
    for update_id, attempts, at in again:
        is_ours = (chat_updates.c.id == update_id) & (chat_updates.c.next_attempt_at == claimed_until)
        await connection.execute(
            chat_updates.update().where(is_ours).values(attempts=attempts, next_attempt_at=to_milliseconds(at))
        )


def _row(secret_box: SecretBox, org_id: str, update: NewUpdate, now: datetime) -> dict[str, Any]:
    id_ = new_id("chu")
    return {
        "id": id_,
        "org_id": org_id,
        "platform": update.platform.value,
        "url": secret_box.encrypt(update.url.encode(), table=chat_updates.name, row=id_, org=org_id, column="url"),
        "body": dict(update.body),
        "attempts": update.attempts,
        "next_attempt_at": now + update.delay,
        "expires_at": now + LIFETIMES[update.platform],
        "created_at": now,
    }


POLL_S: Final = 1.0
RETRY_S: Final = 2.0  # until the next poll after a failed one
RETRY_DELAYS: Final = (timedelta(seconds=2), timedelta(seconds=15), timedelta(seconds=60))
MAX_RETRY_AFTER: Final = timedelta(minutes=5)
CLEANUP_INTERVAL_S: Final = 3_600.0
_HEADERS: Final = {"Content-Type": "application/json; charset=utf-8"}
_NOT_FOUND: Final = 404

log = structlog.get_logger(__name__)


class _Attempt(Enum):
    SENT = auto()
    REFUSED = auto()
    UNREACHED = auto()  # the request has not reached the platform
    REPEAT = auto()


class ChatUpdater:
    """The background task of a process."""

    def __init__(
        self,
        database: Database,
        secret_box: SecretBox,
        egress: Egress,
        metrics: ChatMetrics,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._secret_box = secret_box
        self._egress = egress
        self._metrics = metrics
        self._now = now
        self._wakeup = asyncio.Event()
        self._failure_log = FailureLog(log, "sending updates of chat messages failed")
        self._cleanup_task = PeriodicTask(
            self.cleanup, CLEANUP_INTERVAL_S, log, "deleting expired codes of chat links failed", run_immediately=True
        )

    def wake(self) -> None:
        """Send at once, because an update was enqueued and committed."""
        self._wakeup.set()

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown. Another process repeats an interrupted attempt, or this one after a restart."""
        task = asyncio.create_task(self._run())
        self._cleanup_task.start()
        yield
        task.cancel()
        await asyncio.gather(task, self._cleanup_task.close(), return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._wakeup.clear()
            try:
                wait_s = await self.poll_once()
            except Exception as error:  # noqa: BLE001  # any failure is retried at the next poll
                self._failure_log.failed(error)
                wait_s = RETRY_S
            else:
                self._failure_log.succeeded()
            try:
                async with asyncio.timeout(wait_s):
                    await self._wakeup.wait()
            except TimeoutError:
                pass

    async def poll_once(self) -> float:
        """Send due updates. Returns the seconds until the next poll. Raises DatabaseUnavailable."""
        now = self._now()
        async with self._database.read() as connection:
            due = await next_due(connection)
        if due is None or due > now:
            return POLL_S if due is None else min(POLL_S, (due - now).total_seconds())
        async with self._database.write() as connection:
            claimed, claimed_until = await claim(connection, now)
        await self._send_all(claimed, claimed_until)
        return 0.0

    async def cleanup(self) -> None:
        """Delete expired codes. Raises DatabaseUnavailable."""
        async with self._database.write() as connection:
            await link_repository.delete_expired_codes(connection, self._now())

    async def _send_all(self, claimed: Sequence[Any], claimed_until: datetime) -> None:
        results = await asyncio.gather(*(self._send(one) for one in claimed))
        now, done = self._now(), []
        again: list[tuple[str, int, datetime]] = []
        for update, (attempt, wait) in zip(claimed, results, strict=True):
            attempts = update.attempts + (attempt is not _Attempt.UNREACHED)
            next_at = now + max(wait, RETRY_DELAYS[min(attempts, len(RETRY_DELAYS) - 1)])
            outcome = _final_outcome(update.expires_at, attempt, attempts, next_at)
            if outcome is None:
                again.append((update.id, attempts, next_at))
                continue
            done.append(update.id)
            self._metrics.count(update.platform, outcome)
        async with self._database.write() as connection:
            await finish(connection, done, again, claimed_until)

    async def _send(self, update: Any) -> tuple[_Attempt, timedelta]:
        """Make one attempt. Returns its result, and how long the platform asks to wait before the next attempt."""
        place = {"table": chat_updates.name, "row": update.id, "org": update.org_id, "column": "url"}
        try:
            url = self._secret_box.decrypt(bytes(update.url), **place).decode()
        except DecryptionError:
            return _Attempt.REFUSED, timedelta()
        if update.expires_at <= self._now():
            return _Attempt.REFUSED, timedelta()
        body = msgspec.json.encode(update.body)
        call = self._egress.patch if update.platform == ChatPlatform.CHAT_B else self._egress.post
        try:
            reply = await call(url, body, _HEADERS, account=update.org_id)
        except EgressError as error:
            return _Attempt.REFUSED if error.permanent else _Attempt.UNREACHED, timedelta()
        outcome = from_reply(reply, self._now())
        wait = min(timedelta(seconds=outcome.retry_after_s or 0), MAX_RETRY_AFTER)
        if outcome.ok:
            return _Attempt.SENT, wait
        # chat-b does not know a message before it has received the answer to the interaction.
        not_yet = update.platform == ChatPlatform.CHAT_B and reply.status == _NOT_FOUND
        return _Attempt.REFUSED if outcome.permanent and not not_yet else _Attempt.REPEAT, wait


def _final_outcome(expires_at: datetime, attempt: _Attempt, attempts: int, next_at: datetime) -> UpdateOutcome | None:
    """The final result of an update. None if another attempt follows."""
    if attempt is _Attempt.SENT:
        return UpdateOutcome.SENT
    if next_at >= expires_at:
        return UpdateOutcome.EXPIRED
    if attempt is _Attempt.REFUSED or attempts >= MAX_ATTEMPTS:
        return UpdateOutcome.FAILED
    return None
