"""Notifications about a request: that an approval is needed, and that it was decided or has expired."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from control.approvals import store
from control.approvals.bodies import request_body
from control.approvals.model import RequestRecord, Status
from control.approvals.policies.rules import RiskClass
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
    """Links to the requests of an organization. `api_url`: base URL of this service; `chat_platforms`: those whose
    users can approve from the message.
    """

    api_url: str
    pages: PageLinks
    org_slug: str
    chat_platforms: tuple[str, ...] = ()

    def page_link(self, request: RequestRecord) -> str | None:
        """The web page of the request, None without one."""
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
    notified of its end. In total these are at most `outbox.MAX_CHANNELS`: one transaction enqueues their messages.
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
    """Enqueue a message about the end for notified channels. It cancels announcements that have not been sent."""
    if request.told_channel_ids:
        names = await store.principal_names(connection, involved_principals(request))
        message = resolved_message(request, links, names, now)
        await outbox.enqueue(connection, request.org_id, ChannelIds(request.told_channel_ids), message)


async def _not_yet_notified(
    connection: AsyncConnection, request: RequestRecord, target: ChannelIds | AllChannels
) -> tuple[ChannelIds, list[EnqueueResult]]:
    """The channels of the target that were not notified, within the limit; and the results for those beyond it."""
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
    """The message that an approval is needed. `names`: of principals, by id."""
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
