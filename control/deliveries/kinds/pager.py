"""PagerDuty Events v2: an incident for what a person has to see to, resolved when it is over.

Limits: summary 1 024 characters, deduplication key 255, 512 KB in all (developer.pagerduty.com/docs/events-api-v2).
It answers 202 for a yes, 400 for a no for good, 429 and 5xx for a not now.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET

from chassis.relational import format_time
from control.channels.config import PagerConfig
from control.deliveries.kinds.told import Request, Told, cut, one_line

MAX_SUMMARY: Final = 1_024
MAX_DETAIL: Final = 4_000
MAX_FACTS: Final = 50
SOURCE: Final = "sluice"


def request(config: PagerConfig, told: Told, url: str) -> Request:
    """What is about the same subject is about the same incident."""
    message = told.message
    body: dict[str, Any] = {
        "routing_key": config.routing_key,
        "event_action": "resolve" if message.resolved else "trigger",
        "dedup_key": f"sluice:{message.subject}",
        "client": "Sluice",
        "payload": {
            "summary": cut(one_line(message.title), MAX_SUMMARY),
            "source": SOURCE,
            "severity": message.severity if config.severity is UNSET else config.severity,
            "timestamp": format_time(told.created_at),
            "class": message.type,
            "custom_details": _details(told),
        },
    }
    if message.link is not None:
        body |= {"client_url": message.link, "links": [{"href": message.link, "text": message.link_label}]}
    return Request(url, msgspec.json.encode(body), {"Content-Type": "application/json"})


def _details(told: Told) -> dict[str, str]:
    facts = {one_line(fact.name): cut(fact.value, MAX_DETAIL) for fact in told.message.facts[:MAX_FACTS]}
    return ({"text": cut(told.message.text, MAX_DETAIL)} if told.message.text else {}) | facts
