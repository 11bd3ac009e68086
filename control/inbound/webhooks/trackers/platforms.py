"""Jira, Linear and PagerDuty: how each signs its webhooks, and how the contents of its events are parsed."""

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from yarl import URL

from chassis.changes import MAX_DETAIL_LENGTH, MAX_TITLE_LENGTH, ChangeKind
from control.code.issue_links.addresses import ExternalItem, identify
from control.inbound.integrations.tables import WebhookEndpoint
from control.inbound.webhooks.platform import (
    Headers,
    PayloadError,
    Platform,
    clean_line,
    clean_url,
    convert,
    decode,
    header,
)
from control.inbound.webhooks.signatures import verify_body, verify_versioned
from control.inbound.webhooks.trackers.effects import (
    ChangeReport,
    EventName,
    Milliseconds,
    TicketReport,
    TrackerEvent,
    check_change_time,
    check_time,
    parse_time,
)
from control.issues.tables import MAX_LINK_TITLE_LENGTH, LinkState

JIRA: Final = "jira"
DONE: Final = "done"  # the category of every status that ends an issue


class _JiraNamed(msgspec.Struct):
    event: EventName = msgspec.field(name="webhookEvent")


class _Category(msgspec.Struct):
    key: str


class _Status(msgspec.Struct):
    category: _Category | None = msgspec.field(name="statusCategory", default=None)


class _Fields(msgspec.Struct):
    summary: str
    status: _Status | None = None
    updated: str | None = None


class _JiraIssue(msgspec.Struct):
    key: str
    self_url: str = msgspec.field(name="self")
    fields: _Fields


class _JiraBody(msgspec.Struct):
    issue: _JiraIssue
    timestamp: Milliseconds


class Jira(Platform[TrackerEvent]):
    """Jira Cloud: `X-Hub-Signature` over the body, for webhooks that an administrator has created with a secret.

    Format: developer.atlassian.com/cloud/jira/platform/webhooks. Dynamic webhooks of apps are not signed like this.
    """

    def verify(self, headers: Headers, body: bytes, endpoint: WebhookEndpoint, now: float) -> bool:  # noqa: ARG002 (no time is signed)
        """Whether the body is signed."""
        return verify_body(endpoint.secrets, body, header(headers, "X-Hub-Signature"), prefix="sha256=")

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body names it)
        """The name of the event. Raises PayloadError."""
        return decode(_JiraNamed, body, JIRA).event

    def parse(self, event: str, body: bytes, received_at: datetime) -> TrackerEvent:
        """Parse created and changed issues. All other events change nothing. A deleted issue does not count as fixed.
        Raises PayloadError.
        """
        if event not in ("jira:issue_created", "jira:issue_updated"):
            return TrackerEvent(event, None)
        found = decode(_JiraBody, body, event)
        fields, state = found.issue.fields, None
        if fields.status is not None and fields.status.category is not None:
            state = LinkState.CLOSED if fields.status.category.key == DONE else LinkState.OPEN
        if fields.updated is None:
            updated_at = check_time(datetime.fromtimestamp(found.timestamp / 1_000, UTC), received_at)
        else:
            updated_at = parse_time(fields.updated, received_at)
        title = clean_line(fields.summary, MAX_LINK_TITLE_LENGTH)
        return TrackerEvent(event, TicketReport(_jira_item(found.issue), title, state, updated_at))


def _jira_item(issue: _JiraIssue) -> ExternalItem:
    """The item, with the address of its page. `self` is an address of the API on the same host. Raises PayloadError."""
    address = clean_url(issue.self_url)
    try:
        host = None if address is None else URL(address).host
    except ValueError:
        host = None
    page = None if host is None else clean_url(f"https://{host}/browse/{issue.key}")
    item = None if page is None else identify(page)
    if item is None or item.system != JIRA:
        raise PayloadError("The issue is not from Jira Cloud: its address or its key has another form.")
    return item


LINEAR: Final = "linear"
REPLAY_WINDOW_S: Final = 60  # as Linear documents it
CLOSED_STATES: Final = frozenset({"completed", "canceled", "duplicate"})


class _Sent(msgspec.Struct):
    webhook_timestamp: Milliseconds = msgspec.field(name="webhookTimestamp")


class _LinearNamed(msgspec.Struct):
    type: EventName
    action: EventName


class _State(msgspec.Struct):
    type: str


class _LinearIssue(msgspec.Struct, rename="camel"):
    title: str
    updated_at: str
    state: _State | None = None
    url: str | None = None


class _LinearBody(msgspec.Struct):
    data: _LinearIssue
    url: str | None = None


class Linear(Platform[TrackerEvent]):
    """Linear: `Linear-Signature` over the body, which contains the time when it was sent.

    Format: linear.app/developers/webhooks (data change webhooks). The name of an event is `type` and `action` of the
    body, for example "Issue.update". Linear repeats an event with another time, so the same change may arrive in two
    different bodies.
    """

    def verify(self, headers: Headers, body: bytes, endpoint: WebhookEndpoint, now: float) -> bool:
        """Whether the body is signed, and was sent within a minute."""
        if not verify_body(endpoint.secrets, body, header(headers, "Linear-Signature")):
            return False
        try:
            sent = msgspec.json.decode(body, type=_Sent)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return abs(now - sent.webhook_timestamp / 1_000) <= REPLAY_WINDOW_S

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body names it)
        """The name of the event. Raises PayloadError."""
        named = decode(_LinearNamed, body, LINEAR)
        return convert(EventName, f"{named.type}.{named.action}", LINEAR)

    def parse(self, event: str, body: bytes, received_at: datetime) -> TrackerEvent:
        """Parse created and changed issues. All other events change nothing. A removed issue does not count as fixed.
        Raises PayloadError.
        """
        if event not in ("Issue.create", "Issue.update"):
            return TrackerEvent(event, None)
        found = decode(_LinearBody, body, event)
        issue, url = found.data, clean_url(found.data.url or found.url)
        if url is None:
            raise PayloadError("The issue has no address.")
        item = identify(url)
        if item.system != LINEAR:
            raise PayloadError("The address of the issue is not on linear.app.")
        state = None
        if issue.state is not None:
            state = LinkState.CLOSED if issue.state.type in CLOSED_STATES else LinkState.OPEN
        title = clean_line(issue.title, MAX_LINK_TITLE_LENGTH)
        return TrackerEvent(event, TicketReport(item, title, state, parse_time(issue.updated_at, received_at)))


PAGERDUTY: Final = "pagerduty"
TITLES: Final = MappingProxyType(
    {
        "incident.triggered": "Incident triggered",
        "incident.acknowledged": "Incident acknowledged",
        "incident.resolved": "Incident resolved",
    }
)
_UNNAMED: Final = "without a title"

_EventId = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[!-~]+(?!\n)$")]


class _Event(msgspec.Struct):
    id: _EventId
    event_type: EventName
    occurred_at: str
    data: Any


class _PagerDutyBody(msgspec.Struct):
    event: _Event


class _NamedEvent(msgspec.Struct):
    event_type: EventName


class _NamedBody(msgspec.Struct):
    event: _NamedEvent


class _Service(msgspec.Struct):
    summary: str | None = None


class _Incident(msgspec.Struct):
    title: str | None = None
    html_url: str | None = None
    service: _Service | None = None
    urgency: str | None = None


class PagerDuty(Platform[TrackerEvent]):
    """PagerDuty, webhooks of version 3: `X-PagerDuty-Signature` over the body.

    Format: developer.pagerduty.com/docs/webhooks-overview. An incident becomes a change event when it is triggered,
    acknowledged and resolved. Each event of PagerDuty is recorded once.
    """

    def verify(self, headers: Headers, body: bytes, endpoint: WebhookEndpoint, now: float) -> bool:  # noqa: ARG002 (no time is signed)
        """Whether the body is signed."""
        return verify_versioned(endpoint.secrets, body, header(headers, "X-PagerDuty-Signature"))

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body names it)
        """The name of the event. Raises PayloadError."""
        return decode(_NamedBody, body, PAGERDUTY).event.event_type

    def parse(self, event: str, body: bytes, received_at: datetime) -> TrackerEvent:
        """Parse the contents of the event. Raises PayloadError."""
        title = TITLES.get(event)
        if title is None:
            return TrackerEvent(event, None)
        found = decode(_PagerDutyBody, body, event).event
        incident = convert(_Incident, found.data, event)
        report = ChangeReport(
            ChangeKind.GENERIC,
            clean_line(f"{title}: {incident.title or _UNNAMED}", MAX_TITLE_LENGTH) or title,
            check_change_time(parse_time(found.occurred_at, received_at), received_at),
            found.id,
            detail=_detail(incident),
            url=clean_url(incident.html_url),
        )
        return TrackerEvent(event, report)


def _detail(incident: _Incident) -> str | None:
    """The detail of the change, which names PagerDuty's service. The service of the change itself is a service of
    telemetry, by which changes are filtered.
    """
    service = None if incident.service is None else incident.service.summary
    named = (("Service", service), ("Urgency", incident.urgency))
    return clean_line("; ".join(f"{name}: {value}" for name, value in named if value), MAX_DETAIL_LENGTH)
