"""Generic JSON, which any system can send. The format is described in docs/webhooks.md.

The body is signed as in Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`), or with
`X-Signature-256` over the body alone. If a request has one of the first three headers, only Standard Webhooks counts:
`X-Signature-256` does not help if that signature is wrong.
"""

import hashlib
import re
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chassis.changes import (
    MAX_DETAIL_LENGTH,
    MAX_NAME_LENGTH,
    MAX_TITLE_LENGTH,
    ChangeKind,
)
from control.code.issue_links.addresses import ExternalItem, identify_named
from control.http.field_types import Slug, TimeInput, Url, line, lines
from control.inbound.integrations.tables import WebhookEndpoint
from control.inbound.webhooks.platform import Headers, PayloadError, Platform, decode, header
from control.inbound.webhooks.signatures import verify_body, verify_standard
from control.inbound.webhooks.trackers.effects import (
    ChangeReport,
    EventName,
    IssueReport,
    LinkCreated,
    LinkDeleted,
    TicketReport,
    TrackerEvent,
    check_change_time,
    parse_time,
)
from control.issues.references import MAX_SHORT_ID_LENGTH, References, parse_short_id
from control.issues.tables import (
    MAX_EXTERNAL_ID_LENGTH,
    MAX_LINK_TITLE_LENGTH,
    MAX_SYSTEM_LENGTH,
    LinkState,
    is_issue_id,
)
from control.notify.channels.config import secret_bytes

SYSTEM: Final = "generic"
STANDARD_HEADERS: Final = ("webhook-id", "webhook-timestamp", "webhook-signature")
MAX_KEY_LENGTH: Final = 120
STATES: Final = {"issue.closed": LinkState.CLOSED, "issue.reopened": LinkState.OPEN}
_DELIVERY_ID: Final = re.compile(r"[!-~]{1,64}")

_Name = Annotated[str, line(MAX_NAME_LENGTH)]
_System = Annotated[str, Meta(min_length=1, max_length=MAX_SYSTEM_LENGTH, pattern=r"^[a-z][a-z0-9-]*(?!\n)$")]


class _Item(msgspec.Struct, rename="camel"):
    """An item of another system, named by its address, or by system and id."""

    url: Url | None = None
    system: _System | None = None
    id: Annotated[str, line(MAX_EXTERNAL_ID_LENGTH)] | None = None
    title: Annotated[str, line(MAX_LINK_TITLE_LENGTH)] | None = None
    state: LinkState | None = None
    updated_at: TimeInput | None = None


class _Change(msgspec.Struct, rename="camel"):
    title: Annotated[str, line(MAX_TITLE_LENGTH)]
    kind: ChangeKind | None = None
    at: TimeInput | None = None
    detail: Annotated[str, lines(MAX_DETAIL_LENGTH)] | None = None
    environment: _Name | None = None
    service: _Name | None = None
    release: _Name | None = None
    url: Url | None = None
    project: Slug | None = None
    dedupe_key: Annotated[str, line(MAX_KEY_LENGTH)] | None = None


class _Named(msgspec.Struct):
    event: EventName


class _Body(msgspec.Struct):
    issue: Annotated[str, Meta(min_length=1, max_length=MAX_SHORT_ID_LENGTH)] | None = None
    item: _Item | None = None
    change: _Change | None = None


class Generic(Platform[TrackerEvent]):
    """How generic events are signed and named, and how their contents are parsed."""

    def verify(self, headers: Headers, body: bytes, endpoint: WebhookEndpoint, now: float) -> bool:
        """Whether the body is signed, and, if a time is signed, whether the time is within the window."""
        keys = [secret_bytes(secret.decode("ascii")) for secret in endpoint.secrets]
        if not any(name in headers for name in STANDARD_HEADERS):
            return verify_body(keys, body, header(headers, "X-Signature-256"), prefix="sha256=")
        message_id, time, signature = (header(headers, name) for name in STANDARD_HEADERS)
        return verify_standard(keys, body, message_id, time, signature, now)

    def delivery_id(self, headers: Headers) -> str | None:
        """The header `webhook-id`, which is signed. None with `X-Signature-256`."""
        message_id = header(headers, STANDARD_HEADERS[0])
        if message_id is None:
            return None
        if _DELIVERY_ID.fullmatch(message_id) is not None:
            return message_id
        return hashlib.sha256(message_id.encode("utf-8", "surrogateescape")).hexdigest()

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body names it)
        """The name of the event. Raises PayloadError."""
        return decode(_Named, body, SYSTEM).event

    def parse(self, event: str, body: bytes, received_at: datetime) -> TrackerEvent:
        """Parse the contents of the event. Raises PayloadError."""
        found = decode(_Body, body, event)
        if event in ("issue.updated", "issue.closed", "issue.reopened"):
            return TrackerEvent(event, _issue_report(event, found, received_at))
        if event in ("link.created", "link.deleted"):
            return TrackerEvent(event, _link_report(event, found, received_at))
        if event.startswith(("change.", "deploy.")):
            return TrackerEvent(event, _change_report(event, found.change, body, received_at))
        return TrackerEvent(event, None)


def _issue_report(event: str, body: _Body, received_at: datetime) -> TicketReport | IssueReport | None:
    """The report about an item of another system, or about a Sluice issue."""
    state = STATES.get(event)
    if body.item is not None:
        given = body.item
        updated_at = _time(given.updated_at, received_at)
        return TicketReport(_item(given), given.title, state or given.state, updated_at)
    if body.issue is None:
        raise PayloadError(f"The event {event} requires item or issue.")
    issue = _issue(body.issue)
    return None if state is None else IssueReport(issue, state)


def _link_report(event: str, body: _Body, received_at: datetime) -> LinkCreated | LinkDeleted:
    if body.issue is None or body.item is None:
        raise PayloadError(f"The event {event} requires issue and item.")
    issue, given = _issue(body.issue), body.item
    if event == "link.deleted":
        return LinkDeleted(issue, _item(given))
    if given.url is None:
        raise PayloadError(f"The event {event} requires item.url.")
    updated_at = _time(given.updated_at, received_at)
    return LinkCreated(issue, _item(given), given.url, given.title, given.state, updated_at)


def _change_report(event: str, given: _Change | None, body: bytes, received_at: datetime) -> ChangeReport:
    if given is None:
        raise PayloadError(f"The event {event} requires change.")
    default = ChangeKind.DEPLOYMENT if event.startswith("deploy.") else ChangeKind.GENERIC
    return ChangeReport(
        given.kind or default,
        given.title,
        check_change_time(_time(given.at, received_at), received_at),
        given.dedupe_key or hashlib.sha256(body).hexdigest(),
        detail=given.detail,
        environment=given.environment,
        service=given.service,
        release=given.release,
        url=given.url,
        project=given.project,
    )


def _item(given: _Item) -> ExternalItem:
    """The item. Raises PayloadError."""
    if given.url is not None:
        return identify_named(given.url, given.system, given.id)
    if given.system is None or given.id is None:
        raise PayloadError("The item requires url, or system and id.")
    return ExternalItem(given.system, given.id)


def _issue(text: str) -> References:
    """The Sluice issue. Raises PayloadError."""
    if is_issue_id(text):
        return References(issue_ids=(text,))
    short_id = parse_short_id(text)
    if short_id is None:
        raise PayloadError("The issue must be a short id, such as WEB-12, or an id.")
    return References(short_ids=(short_id,))


def _time(text: str | None, received_at: datetime) -> datetime:
    return parse_time(received_at.isoformat() if text is None else text, received_at)
