"""PagerDuty Events v2: an incident that needs a person's attention, resolved when its subject is.

Limits: summary 1 024 characters, deduplication key 255, 512 KB in total (developer.pagerduty.com/docs/events-api-v2).
The API responds with 202 on success, 400 for a permanent error, 429 and 5xx for a transient one.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET

from chassis.db.database import format_time
from control.notify.channels.config import PagerConfig
from control.notify.deliveries.platforms.outgoing_message import HttpRequest, OutgoingMessage, one_line, truncate

MAX_SUMMARY: Final = 1_024
MAX_DETAIL: Final = 4_000
MAX_FACTS: Final = 50
SOURCE: Final = "sluice"


def build_request(config: PagerConfig, outgoing: OutgoingMessage, url: str) -> HttpRequest:
    """Messages of the same subject belong to the same incident."""
    message = outgoing.message
    body: dict[str, Any] = {
        "routing_key": config.routing_key,
        "event_action": "resolve" if message.resolved else "trigger",
        "dedup_key": f"sluice:{message.subject}",
        "client": "Sluice",
        "payload": {
            "summary": truncate(one_line(message.title), MAX_SUMMARY),
            "source": SOURCE,
            "severity": message.severity if config.severity is UNSET else config.severity,
            "timestamp": format_time(outgoing.created_at),
            "class": message.type,
            "custom_details": _details(outgoing),
        },
    }
    if message.link is not None:
        body |= {"client_url": message.link, "links": [{"href": message.link, "text": message.link_label}]}
    return HttpRequest(url, msgspec.json.encode(body), {"Content-Type": "application/json"})


def _details(outgoing: OutgoingMessage) -> dict[str, str]:
    facts = {one_line(fact.name): truncate(fact.value, MAX_DETAIL) for fact in outgoing.message.facts[:MAX_FACTS]}
    return ({"text": truncate(outgoing.message.text, MAX_DETAIL)} if outgoing.message.text else {}) | facts
