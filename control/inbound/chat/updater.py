"""Sends queued updates of messages in chats, and deletes what is no longer needed. One per process.

An update is sent at least once before it expires, or MAX_ATTEMPTS times: a platform takes few messages at such a URL.
An attempt that does not reach the platform does not count. Replacing a message twice makes no difference.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Final

import msgspec
import structlog
from aiohttp import web

from chassis.db.database import Database
from chassis.runtime.periodic import FailureLog, PeriodicTask
from control.identity.chat_links import repository as link_repository
from control.identity.chat_links.tables import ChatPlatform
from control.inbound.chat import update_queue
from control.inbound.chat.metrics import ChatMetrics, UpdateOutcome
from control.inbound.chat.update_queue import MAX_ATTEMPTS, ClaimedUpdate
from control.notify.deliveries.rules import from_reply
from control.outbound.egress import Egress, EgressError
from control.secrets.secret_box import SecretBox

POLL_S: Final = 1.0
RETRY_S: Final = 2.0  # until the next poll after one that failed
RETRY_DELAYS: Final = (timedelta(seconds=2), timedelta(seconds=15), timedelta(seconds=60))
MAX_RETRY_AFTER: Final = timedelta(minutes=5)
CLEANUP_INTERVAL_S: Final = 3_600.0
_HEADERS: Final = {"Content-Type": "application/json; charset=utf-8"}
_NOT_FOUND: Final = 404

log = structlog.get_logger(__name__)


class _Attempt(Enum):
    SENT = auto()
    REFUSED = auto()
    UNREACHED = auto()  # the platform has not seen it
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
        self._failure_log = FailureLog(log, "sending updates of chats failed")
        self._cleanup_task = PeriodicTask(
            self.cleanup, CLEANUP_INTERVAL_S, log, "deleting expired codes of chats failed", run_immediately=True
        )

    def wake(self) -> None:
        """Something was enqueued and committed: send it at once."""
        self._wakeup.set()

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown. An attempt that is interrupted is repeated by another process, or after a restart."""
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
        """Send what is due; returns the seconds until the next poll. Raises DatabaseUnavailable."""
        now = self._now()
        async with self._database.read() as connection:
            due = await update_queue.next_due(connection)
        if due is None or due > now:
            return POLL_S if due is None else min(POLL_S, (due - now).total_seconds())
        async with self._database.write() as connection:
            claimed = await update_queue.claim(connection, self._secret_box, now)
        await self._send_all(claimed)
        return 0.0

    async def cleanup(self) -> None:
        """Delete expired codes. Raises DatabaseUnavailable."""
        async with self._database.write() as connection:
            await link_repository.delete_expired_codes(connection, self._now())

    async def _send_all(self, claimed: list[ClaimedUpdate]) -> None:
        results = await asyncio.gather(*(self._send(one) for one in claimed))
        now, done = self._now(), []
        again: list[tuple[ClaimedUpdate, int, datetime]] = []
        for update, (attempt, wait) in zip(claimed, results, strict=True):
            attempts = update.attempts + (attempt is not _Attempt.UNREACHED)
            next_at = now + max(wait, RETRY_DELAYS[min(attempts, len(RETRY_DELAYS) - 1)])
            outcome = _final_outcome(update, attempt, attempts, next_at)
            if outcome is None:
                again.append((update, attempts, next_at))
                continue
            done.append(update)
            self._metrics.count(update.platform, outcome)
        async with self._database.write() as connection:
            await update_queue.finish(connection, done, again)

    async def _send(self, update: ClaimedUpdate) -> tuple[_Attempt, timedelta]:
        """What became of one attempt, and how long the platform wants to be left alone."""
        if update.expires_at <= self._now() or update.url is None:
            return _Attempt.REFUSED, timedelta()
        body = msgspec.json.encode(update.body)
        call = self._egress.patch if update.platform is ChatPlatform.CHAT_B else self._egress.post
        try:
            reply = await call(update.url, body, _HEADERS, account=update.org_id)
        except EgressError as error:
            return _Attempt.REFUSED if error.permanent else _Attempt.UNREACHED, timedelta()
        outcome = from_reply(reply, self._now())
        wait = min(timedelta(seconds=outcome.retry_after_s or 0), MAX_RETRY_AFTER)
        if outcome.ok:
            return _Attempt.SENT, wait
        # chat-b does not know a message before it has taken the answer to the interaction.
        not_yet = update.platform is ChatPlatform.CHAT_B and reply.status == _NOT_FOUND
        return _Attempt.REFUSED if outcome.permanent and not not_yet else _Attempt.REPEAT, wait


def _final_outcome(update: ClaimedUpdate, attempt: _Attempt, attempts: int, next_at: datetime) -> UpdateOutcome | None:
    """None: it is attempted again."""
    if attempt is _Attempt.SENT:
        return UpdateOutcome.SENT
    if next_at >= update.expires_at:
        return UpdateOutcome.EXPIRED
    if attempt is _Attempt.REFUSED or attempts >= MAX_ATTEMPTS:
        return UpdateOutcome.FAILED
    return None
