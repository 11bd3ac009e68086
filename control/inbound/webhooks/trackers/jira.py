"""Jira Cloud: `X-Hub-Signature` over the body, of webhooks that an administrator has created with a secret.

Format: developer.atlassian.com/cloud/jira/platform/webhooks. Dynamic webhooks of apps are not signed so.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec
from yarl import URL

from control.code.issue_links.addresses import ExternalItem, identify
from control.inbound.integrations.tables import Hook
from control.inbound.webhooks.platform import Headers, PayloadError, Platform, clean_line, clean_url, decode, header
from control.inbound.webhooks.signatures import verify_body
from control.inbound.webhooks.trackers.events import (
    EventName,
    Milliseconds,
    TicketReport,
    TrackerEvent,
    check_time,
    parse_time,
)
from control.issues.tables import MAX_LINK_TITLE_LENGTH, LinkState

SYSTEM: Final = "jira"
DONE: Final = "done"  # the category of every status that ends an issue


class _Named(msgspec.Struct):
    event: EventName = msgspec.field(name="webhookEvent")


class _Category(msgspec.Struct):
    key: str


class _Status(msgspec.Struct):
    category: _Category | None = msgspec.field(name="statusCategory", default=None)


class _Fields(msgspec.Struct):
    summary: str
    status: _Status | None = None
    updated: str | None = None


class _Issue(msgspec.Struct):
    key: str
    self_url: str = msgspec.field(name="self")
    fields: _Fields


class _Body(msgspec.Struct):
    issue: _Issue
    timestamp: Milliseconds


class Jira(Platform[TrackerEvent]):
    """How Jira signs and names its deliveries, and what they say."""

    def verify(self, headers: Headers, body: bytes, hook: Hook, now: float) -> bool:  # noqa: ARG002 (no time is signed)
        """Whether the body is signed."""
        return verify_body(hook.secrets, body, header(headers, "X-Hub-Signature"), prefix="sha256=")

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body names it)
        """Raises PayloadError."""
        return decode(_Named, body, SYSTEM).event

    def parse(self, event: str, body: bytes, received_at: datetime) -> TrackerEvent:
        """Created and changed issues; everything else changes nothing. A deleted issue is not a fixed one. Raises
        PayloadError.
        """
        if event not in ("jira:issue_created", "jira:issue_updated"):
            return TrackerEvent(event, None)
        found = decode(_Body, body, event)
        fields, state = found.issue.fields, None
        if fields.status is not None and fields.status.category is not None:
            state = LinkState.CLOSED if fields.status.category.key == DONE else LinkState.OPEN
        if fields.updated is None:
            updated_at = check_time(datetime.fromtimestamp(found.timestamp / 1_000, UTC), received_at)
        else:
            updated_at = parse_time(fields.updated, received_at)
        title = clean_line(fields.summary, MAX_LINK_TITLE_LENGTH)
        return TrackerEvent(event, TicketReport(_item(found.issue), title, state, updated_at))


def _item(issue: _Issue) -> ExternalItem:
    """The item as its page has it: `self` is an address of the API on the same host. Raises PayloadError."""
    address = clean_url(issue.self_url)
    try:
        host = None if address is None else URL(address).host
    except ValueError:
        host = None
    page = None if host is None else clean_url(f"https://{host}/browse/{issue.key}")
    item = None if page is None else identify(page)
    if item is None or item.system != SYSTEM:
        raise PayloadError("The issue is not one of Jira Cloud: neither its address nor its key may be others.")
    return item
