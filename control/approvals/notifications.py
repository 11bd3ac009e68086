"""Notifications about a request: that an approval is needed, and that the request was decided or has expired.

`ExpiryTask` records expired requests in the audit log, and notifies the channels that announced them. Nothing else
depends on this task: a request is EXPIRED when its time is over, even before the expiry is recorded.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
import sqlalchemy as sa
import structlog
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import organizations
from chassis.db.database import Database, DatabaseUnavailable, format_time
from chassis.runtime.periodic import FailureLog, PeriodicTask
from control.approvals import store
from control.approvals.bodies import request_body
from control.approvals.model import RequestRecord, Status
from control.approvals.policies.rules import RiskClass
from control.approvals.tables import OPEN, approval_requests
from control.audit.record import Actor, record
from control.http.page_links import NO_PAGES, PageLinks
from control.notify.channels import store as channels
from control.notify.channels.store import is_channel_id
from control.notify.deliveries import outbox
from control.notify.deliveries.outbox import AllChannels, ChannelIds, EnqueueResult
from control.notify.message import Fact, Message, Severity

_SEVERITY: Final = {
    RiskClass.LOW: Severity.INFO,
    RiskClass.MEDIUM: Severity.WARNING,
    RiskClass.HIGH: Severity.ERROR,
    RiskClass.CRITICAL: Severity.CRITICAL,
}
_STATUS_TITLES: Final = {Status.APPROVED: "Approved", Status.REJECTED: "Rejected", Status.EXPIRED: "Expired"}


@dataclass(frozen=True, slots=True)
class RequestLinks:
    """Links to the requests of an organization. `api_url`: base URL of this service. `chat_platforms`: the platforms
    whose users can approve from the message.
    """

    api_url: str
    pages: PageLinks
    org_slug: str
    chat_platforms: tuple[str, ...] = ()

    def page_link(self, request: RequestRecord) -> str | None:
        """The web page of the request, None if no page is configured."""
        return self.pages.approval_request(self.org_slug, request.id)

    def approve_command(self, request: RequestRecord) -> str:
        """The command that approves the request, for users without a web page."""
        headers = '-H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json"'
        return f"curl {headers} -d null {self.api_url}/orgs/{self.org_slug}/approval-requests/{request.id}/approve"


@dataclass(frozen=True, slots=True)
class LinkBuilder:
    """Builds `RequestLinks` for any organization."""

    api_url: str = ""
    pages: PageLinks = NO_PAGES
    chat_platforms: tuple[str, ...] = ()

    def for_org(self, org_slug: str) -> RequestLinks:
        """The links of one organization."""
        return RequestLinks(self.api_url, self.pages, org_slug, self.chat_platforms)


async def notify_requested(
    connection: AsyncConnection,
    request: RequestRecord,
    target: ChannelIds | AllChannels,
    links: RequestLinks,
    now: datetime,
) -> list[EnqueueResult]:
    """Enqueue a message for each channel of the target that has not been notified, and store which channels have to be
    notified when the request ends. There are at most `outbox.MAX_CHANNELS`, because one transaction enqueues all
    messages.
    """
    names = await store.principal_names(connection, involved_principals(request))
    message = requested_message(request, links, names, now)
    other_results: list[EnqueueResult] = []
    if request.told_channel_ids:
        target, other_results = await _not_yet_notified(connection, request, target)
    queued = await outbox.enqueue(connection, request.org_id, target, message, until=request.expires_at)
    notified = [one.channel_id for one in queued if one.delivery_id is not None]
    if notified:
        await store.set_notified_channels(connection, request, [*request.told_channel_ids, *notified])
    return queued + other_results


async def notify_resolved(
    connection: AsyncConnection, request: RequestRecord, links: RequestLinks, now: datetime
) -> None:
    """Enqueue a message about the end for the notified channels. It cancels announcements that are not sent yet."""
    if request.told_channel_ids:
        names = await store.principal_names(connection, involved_principals(request))
        message = resolved_message(request, links, names, now)
        await outbox.enqueue(connection, request.org_id, ChannelIds(request.told_channel_ids), message)


async def _not_yet_notified(
    connection: AsyncConnection, request: RequestRecord, target: ChannelIds | AllChannels
) -> tuple[ChannelIds, list[EnqueueResult]]:
    """The channels of the target that were not notified, within the limit, and the results for channels beyond it."""
    if isinstance(target, AllChannels):
        found = await channels.resolve_targets(
            connection, request.org_id, channel_ids=None, project_id=target.project_id
        )
        channel_ids = [one.id for one in found]
    else:
        channel_ids = list(target.channel_ids)
        valid_ids = [one for one in channel_ids if is_channel_id(one)]
        found = await channels.resolve_targets(connection, request.org_id, channel_ids=valid_ids, project_id=None)
    kinds = {one.id: one.kind for one in found if one.enabled}
    unnotified = [one for one in channel_ids if one not in request.told_channel_ids]
    capacity = outbox.MAX_CHANNELS - len(request.told_channel_ids)
    beyond = [one for one in unnotified if one in kinds][capacity:]
    other_results = [EnqueueResult(one, kinds[one], error=outbox.TOO_MANY) for one in beyond]
    return ChannelIds([one for one in unnotified if one not in beyond]), other_results


def requested_message(request: RequestRecord, links: RequestLinks, names: Mapping[str, str], now: datetime) -> Message:
    """The message that an approval is needed. `names`: the names of principals, by id."""
    summary = request.payload.get("summary") or ""
    return Message(
        type="approval.requested",
        subject=request.id,
        title=f"Approval needed: {_describe_action(request)}",
        text=summary,
        facts=tuple(_facts(request, names, links)),
        severity=_SEVERITY[request.risk_class],
        link=links.page_link(request),
        link_label="Open the request",
        approve_in=links.chat_platforms,
        data=_data(request, now),
    )


def resolved_message(request: RequestRecord, links: RequestLinks, names: Mapping[str, str], now: datetime) -> Message:
    """The message that the request was decided or has expired."""
    status = request.status_at(now)
    decider = request.decider_id and Fact("Decided by", names.get(request.decider_id, request.decider_id))
    return Message(
        type=f"approval.{status.lower()}",
        subject=request.id,
        title=f"{_STATUS_TITLES[status]}: {_describe_action(request)}",
        text=request.reason or "",
        facts=((decider,) if decider else ()),
        severity=Severity.INFO,
        resolved=True,
        link=links.page_link(request),
        link_label="Open the request",
        data=_data(request, now),
    )


def involved_principals(request: RequestRecord) -> set[str]:
    """Ids of the principals that the messages name."""
    return {one for one in (request.requester_id, request.on_behalf_of, request.decider_id) if one is not None}


def _describe_action(request: RequestRecord) -> str:
    return f"{request.action} on {request.target_type} {request.target_id}"


def _facts(request: RequestRecord, names: Mapping[str, str], links: RequestLinks) -> list[Fact]:
    facts = [
        Fact("Risk", request.risk_class.value),
        Fact("Requested by", names.get(request.requester_id, request.requester_id)),
    ]
    if request.on_behalf_of is not None:
        facts.append(Fact("On behalf of", names.get(request.on_behalf_of, request.on_behalf_of)))
    if request.payload.get("projectTag"):
        facts.append(Fact("Project", request.payload["projectTag"]))
    facts += [
        Fact("Approvals needed", str(request.min_approvers)),
        Fact("Reason", request.policy_reason),
        Fact("Expires", request.expires_at.strftime("%Y-%m-%d %H:%M UTC")),
    ]
    if not links.pages.exist:
        facts.append(Fact("Approve with", links.approve_command(request)))
    return facts


def _data(request: RequestRecord, now: datetime) -> dict[str, object]:
    return {"request": msgspec.to_builtins(request_body(request, now))}


POLL_S: Final = 5.0
PAGE_SIZE: Final = 500  # due requests in memory at once
AUDIT_TRACE_ID: Final = "(expiry)"  # replaces a request id, like `record.COMMAND_REQUEST_ID`

log = structlog.get_logger(__name__)

_DueRequest = sa.Row[str, str, str, datetime]


class ExpiryFailed(Exception):
    """The expiry of a request cannot be recorded because of a fault in its row. `code`, the request's id, identifies
    the failure in the log.
    """

    def __init__(self, request_id: str, cause: Exception) -> None:
        self.code = request_id
        self.message = f"{type(cause).__name__}: {cause}"
        super().__init__(self.message)


class ExpiryTask:
    """Polls for expired requests, one task per process. With several processes, one of them records each request."""

    def __init__(
        self,
        database: Database,
        link_builder: LinkBuilder,
        *,
        poll_s: float = POLL_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._link_builder = link_builder
        self._now = now
        self._failure_log = FailureLog(log, "recording an expired request failed")
        self._periodic_task = PeriodicTask(
            self._poll, poll_s, log, "polling for expired requests failed", run_immediately=True
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown."""
        self._periodic_task.start()
        yield
        await self._periodic_task.close()

    async def poll_once(self) -> int:
        """Record all due requests and return their number. Each is recorded in a transaction of its own, so that other
        writers wait for one request at most. A request that fails does not stop the others: it is retried at the next
        poll. Raises DatabaseUnavailable.
        """
        count, last, any_failed = 0, None, False
        while page := await self._next_page(last):
            for due in page:
                try:
                    count += await self._mark_expired(due)
                except DatabaseUnavailable:
                    raise
                except Exception as error:  # noqa: BLE001 (a row may hold anything)
                    any_failed = True
                    self._failure_log.failed(ExpiryFailed(due.id, error))
            last = page[-1]
        if not any_failed:
            self._failure_log.succeeded()
        return count

    async def _poll(self) -> None:
        await self.poll_once()

    async def _next_page(self, last: _DueRequest | None) -> list[_DueRequest]:
        """Due requests after the last one of the previous page, by expiry time."""
        columns = approval_requests.c
        statement = (
            sa.select(columns.id, columns.org_id, organizations.c.slug, columns.expires_at)
            .join_from(approval_requests, organizations, organizations.c.id == columns.org_id)
            .where(OPEN, columns.expires_at <= self._now(), organizations.c.deleted_at.is_(None))
            .order_by(columns.expires_at, columns.id)
            .limit(PAGE_SIZE)
        )
        if last is not None:
            same_time = (columns.expires_at == last.expires_at) & (columns.id > last.id)
            statement = statement.where((columns.expires_at > last.expires_at) | same_time)
        async with self._database.read() as connection:
            return list((await connection.execute(statement)).all())

    async def _mark_expired(self, due: _DueRequest) -> bool:
        """Record one expiry. False if another process, or a vote by a process with a slow clock, was faster."""
        async with self._database.write() as connection:
            now = self._now()
            if not await store.mark_expired(connection, due.id, now):
                return False
            request = await store.get(connection, due.org_id, due.id)
            data = {"action": request.action, "expiresAt": format_time(request.expires_at)}
            await record(connection, Actor(due.org_id), "approval_request.expire", due.id, data, AUDIT_TRACE_ID)
            await notify_resolved(connection, request, self._link_builder.for_org(due.slug), now)
        return True
