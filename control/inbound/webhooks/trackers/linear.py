"""Linear: `Linear-Signature` over the body, which has the time it was sent.

Format: linear.app/developers/webhooks (data change webhooks). The name of an event is `type` and `action` of the body,
"Issue.update". Linear sends a delivery again with another time, so the same change may come in two bodies.
"""

from datetime import datetime
from typing import Final

import msgspec

from control.code.issue_links.addresses import identify
from control.inbound.integrations.tables import Hook
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
from control.inbound.webhooks.signatures import verify_body
from control.inbound.webhooks.trackers.events import (
    EventName,
    Milliseconds,
    TicketReport,
    TrackerEvent,
    parse_time,
)
from control.issues.tables import MAX_LINK_TITLE_LENGTH, LinkState

SYSTEM: Final = "linear"
REPLAY_WINDOW_S: Final = 60  # as Linear documents it
CLOSED_STATES: Final = frozenset({"completed", "canceled", "duplicate"})


class _Sent(msgspec.Struct):
    webhook_timestamp: Milliseconds = msgspec.field(name="webhookTimestamp")


class _Named(msgspec.Struct):
    type: EventName
    action: EventName


class _State(msgspec.Struct):
    type: str


class _Issue(msgspec.Struct, rename="camel"):
    title: str
    updated_at: str
    state: _State | None = None
    url: str | None = None


class _Body(msgspec.Struct):
    data: _Issue
    url: str | None = None


class Linear(Platform[TrackerEvent]):
    """How Linear signs and names its deliveries, and what they say."""

    def verify(self, headers: Headers, body: bytes, hook: Hook, now: float) -> bool:
        """Whether the body is signed, and was sent within a minute."""
        if not verify_body(hook.secrets, body, header(headers, "Linear-Signature")):
            return False
        try:
            sent = msgspec.json.decode(body, type=_Sent)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return abs(now - sent.webhook_timestamp / 1_000) <= REPLAY_WINDOW_S

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body names it)
        """Raises PayloadError."""
        named = decode(_Named, body, SYSTEM)
        name = f"{named.type}.{named.action}"
        return convert(EventName, name, SYSTEM)

    def parse(self, event: str, body: bytes, received_at: datetime) -> TrackerEvent:
        """Created and changed issues; everything else changes nothing. A removed issue is not a fixed one. Raises
        PayloadError.
        """
        if event not in ("Issue.create", "Issue.update"):
            return TrackerEvent(event, None)
        found = decode(_Body, body, event)
        issue, url = found.data, clean_url(found.data.url or found.url)
        if url is None:
            raise PayloadError("The issue has no address.")
        item = identify(url)
        if item.system != SYSTEM:
            raise PayloadError("The address of the issue is not one of linear.app.")
        state = None
        if issue.state is not None:
            state = LinkState.CLOSED if issue.state.type in CLOSED_STATES else LinkState.OPEN
        title = clean_line(issue.title, MAX_LINK_TITLE_LENGTH)
        return TrackerEvent(event, TicketReport(item, title, state, parse_time(issue.updated_at, received_at)))
