"""PagerDuty, webhooks of version 3: `X-PagerDuty-Signature` over the body.

Format: developer.pagerduty.com/docs/webhooks-overview. An incident is a change event when it is triggered,
acknowledged and resolved: once for each event of PagerDuty.
"""

from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from chassis.changes.tables import MAX_DETAIL_LENGTH, MAX_TITLE_LENGTH, ChangeKind
from control.inbound.integrations.tables import Hook
from control.inbound.webhooks.platform import Headers, Platform, clean_line, clean_url, convert, decode, header
from control.inbound.webhooks.signatures import verify_versioned
from control.inbound.webhooks.trackers.events import (
    ChangeReport,
    EventName,
    TrackerEvent,
    check_change_time,
    parse_time,
)

SYSTEM: Final = "pagerduty"
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


class _Body(msgspec.Struct):
    event: _Event


class _Named(msgspec.Struct):
    event_type: EventName


class _NamedBody(msgspec.Struct):
    event: _Named


class _Service(msgspec.Struct):
    summary: str | None = None


class _Incident(msgspec.Struct):
    title: str | None = None
    html_url: str | None = None
    service: _Service | None = None
    urgency: str | None = None


class PagerDuty(Platform[TrackerEvent]):
    """How PagerDuty signs and names its deliveries, and what they say."""

    def verify(self, headers: Headers, body: bytes, hook: Hook, now: float) -> bool:  # noqa: ARG002 (no time is signed)
        """Whether the body is signed."""
        return verify_versioned(hook.secrets, body, header(headers, "X-PagerDuty-Signature"))

    def event_name(self, headers: Headers, body: bytes) -> str:  # noqa: ARG002 (the body names it)
        """Raises PayloadError."""
        return decode(_NamedBody, body, SYSTEM).event.event_type

    def parse(self, event: str, body: bytes, received_at: datetime) -> TrackerEvent:
        """Raises PayloadError."""
        title = TITLES.get(event)
        if title is None:
            return TrackerEvent(event, None)
        found = decode(_Body, body, event).event
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
    """PagerDuty's service is not one of telemetry: changes are filtered by that."""
    service = None if incident.service is None else incident.service.summary
    named = (("Service", service), ("Urgency", incident.urgency))
    return clean_line("; ".join(f"{name}: {value}" for name, value in named if value), MAX_DETAIL_LENGTH)
