"""PagerDuty Events v2: an incident for what a person has to see to, resolved when it is over.

Limits: summary 1 024 characters, deduplication key 255, 512 KB in all (developer.pagerduty.com/docs/events-api-v2).
It answers 202 for a yes, 400 for a no for good, 429 and 5xx for a not now.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET

from chassis.db.database import format_time
from control.channels.config import PagerConfig
from control.deliveries.platforms.outgoing_message import HttpRequest, OutgoingMessage, one_line, truncate

MAX_SUMMARY: Final = 1_024
MAX_DETAIL: Final = 4_000
MAX_FACTS: Final = 50
SOURCE: Final = "sluice"


def build_request(config: PagerConfig, outgoing: OutgoingMessage, url: str) -> HttpRequest:
    """What is about the same subject is about the same incident."""
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
