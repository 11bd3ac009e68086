"""Webhooks of trackers as their platforms or anybody else may send them: verified, named and parsed.

The first byte chooses the platform, the second what is arbitrary: the body, which is then signed, or, before a NUL, the
headers of the signature, with a secret that never signs. Nothing is accepted that was not signed; a signed body is
refused in words that quote nothing of it, or what it says can be stored.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from multidict import CIMultiDict, CIMultiDictProxy

from chassis.changes import MAX_DEDUPE_KEY_LENGTH, MAX_DETAIL_LENGTH, MAX_TITLE_LENGTH
from control.code.issue_links.addresses import ExternalItem
from control.inbound.integrations.tables import (
    MAX_EVENT_LENGTH,
    Integration,
    IntegrationConfig,
    IntegrationKind,
    WebhookEndpoint,
)
from control.inbound.webhooks.api import SOURCES
from control.inbound.webhooks.platform import PayloadError
from control.inbound.webhooks.trackers.effects import MAX_AHEAD, ChangeReport, IssueReport, TrackerEvent
from control.issues.tables import MAX_EXTERNAL_ID_LENGTH, MAX_LINK_TITLE_LENGTH, MAX_SYSTEM_LENGTH
from proto.identity import MAX_URL_LENGTH, UNPRINTABLE
from tests.fuzz.targets.scim_mutation import Mutate, changed

KINDS: Final = tuple(kind for kind in SOURCES if not kind.is_source_control)
NOW: Final = datetime(2026, 11, 20, tzinfo=UTC)
SIGNS: Final = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE="
NEVER_SIGNS: Final = "whsec_bmV2ZXJuZXZlcm5ldmVybmV2ZXJuZXZlcm5ldmVyISE="
_SIGNATURES: Final = {
    IntegrationKind.LINEAR: "Linear-Signature",
    IntegrationKind.JIRA: "X-Hub-Signature",
    IntegrationKind.PAGERDUTY: "X-PagerDuty-Signature",
    IntegrationKind.GENERIC: "X-Signature-256",
}
_PREFIXES: Final = {IntegrationKind.LINEAR: "", IntegrationKind.PAGERDUTY: "v1="}
_UNPRINTABLE: Final = re.compile(f"[{UNPRINTABLE}\ud800-\udfff]")
_INTEGRATION: Final[dict[str, Any]] = {
    "id": "int_" + "0" * 26,
    "org_id": "org_" + "0" * 26,
    "org_slug": "acme",
    "name": "x",
    "enabled": True,
    "config": IntegrationConfig(),
    "hook_id": None,
    "version": 1,
    "previous_secret_until": None,
    "created_by": None,
    "created_at": NOW,
    "updated_at": NOW,
}


def check(data: bytes) -> None:
    kind = KINDS[(data[0] if data else 0) % len(KINDS)]
    rest = data[2:]
    if data[1:2] in (b"", b"\0"):
        check_body(kind, rest)
    else:
        head, _, body = rest.partition(b"\0")
        check_headers(kind, head.decode("utf-8", "surrogateescape"), body)


def endpoint(kind: IntegrationKind, secret: str) -> WebhookEndpoint:
    return WebhookEndpoint(Integration(kind=kind, **_INTEGRATION), (secret.encode(),))


def check_headers(kind: IntegrationKind, head: str, body: bytes) -> None:
    """One line for each header of a signature; a line twice is a repeated header."""
    lines = head.split("\n")
    names = (_SIGNATURES[kind], "webhook-id", "webhook-timestamp", "webhook-signature")
    headers = CIMultiDict((names[number % len(names)], line) for number, line in enumerate(lines))
    assert not SOURCES[kind].platform.verify(
        CIMultiDictProxy(headers), body, endpoint(kind, NEVER_SIGNS), NOW.timestamp()
    )
    key = SOURCES[kind].platform.delivery_id(CIMultiDictProxy(headers))
    assert key is None or (0 < len(key) <= 128 and key.isascii() and key.isprintable())


def check_body(kind: IntegrationKind, body: bytes) -> None:
    platform = SOURCES[kind].platform
    key = base64.b64decode(SIGNS.removeprefix("whsec_")) if kind is IntegrationKind.GENERIC else SIGNS.encode()
    digest = hmac.new(key, body, hashlib.sha256).hexdigest()
    headers = CIMultiDictProxy(CIMultiDict({_SIGNATURES[kind]: _PREFIXES.get(kind, "sha256=") + digest}))
    verified = platform.verify(headers, body, endpoint(kind, SIGNS), NOW.timestamp())
    assert verified or kind is IntegrationKind.LINEAR
    assert not platform.verify(headers, body + b" ", endpoint(kind, SIGNS), NOW.timestamp())
    assert not platform.verify(headers, body, endpoint(kind, NEVER_SIGNS), NOW.timestamp())
    try:
        name = platform.event_name(headers, body)
        assert re.fullmatch(r"[\w:.-]+", name, re.ASCII)
        assert len(name) <= MAX_EVENT_LENGTH
        check_event(platform.parse(name, body, NOW), name)
    except PayloadError as refusal:
        assert len(str(refusal)) <= 400
        assert str(refusal).isprintable()


def check_event(event: TrackerEvent, name: str) -> None:
    assert event.name == name
    report = event.report
    if report is None:
        return
    for field in fields(report):
        value = getattr(report, field.name)
        if isinstance(value, str):
            check_text(field.name, value)
        elif isinstance(value, datetime):
            assert datetime(1970, 1, 1, tzinfo=UTC) <= value <= NOW + MAX_AHEAD
            assert value.microsecond % 1_000 == 0
        elif isinstance(value, ExternalItem):
            assert 0 < len(value.system) <= MAX_SYSTEM_LENGTH
            assert 0 < len(value.external_id) <= MAX_EXTERNAL_ID_LENGTH
            assert not _UNPRINTABLE.search(value.system + value.external_id)
    if isinstance(report, ChangeReport):
        assert len(report.key) <= MAX_DEDUPE_KEY_LENGTH - 30 - 21
    elif isinstance(report, IssueReport):
        assert len(report.issue.short_ids) + len(report.issue.issue_ids) == 1


def check_text(name: str, text: str) -> None:
    limits = {"title": MAX_TITLE_LENGTH, "url": MAX_URL_LENGTH, "detail": MAX_DETAIL_LENGTH}
    assert 0 < len(text) <= limits.get(name, 200) or name == "detail"
    assert len(text) <= MAX_LINK_TITLE_LENGTH or name in ("url", "detail")
    text.encode()
    assert "\0" not in text if name == "detail" else not _UNPRINTABLE.search(text)


def mutate(data: bytes, max_size: int, random: Random, mutate: Mutate) -> bytes:
    if random.random() < 0.05:
        data = bytes((random.randrange(len(KINDS)), random.randrange(2))) + data[2:]
    if data[1:2] == b"\0":
        return data[:2] + changed(data[2:], max_size - 2, random, mutate)
    return data[:2] + mutate(data[2:], max_size - 2)


def examples() -> Iterator[bytes]:
    """Inputs to begin with: what each platform documents, and signatures of each form."""
    time = "2026-11-19T12:00:00.000Z"
    issue = {"title": "T", "updatedAt": time, "state": {"type": "completed"}, "url": "https://linear.app/a/issue/B-1"}
    linear = {"type": "Issue", "action": "update", "data": issue, "webhookTimestamp": int(NOW.timestamp() * 1_000)}
    status = {"statusCategory": {"key": "done"}}
    inner = {"summary": "T", "updated": "2026-11-19T12:00:00.000+0100", "status": status}
    ticket = {"key": "A-1", "self": "https://a.atlassian.net/rest/api/2/issue/1", "fields": inner}
    jira = {"webhookEvent": "jira:issue_updated", "timestamp": 1_763_550_000_000, "issue": ticket}
    incident = {"title": "T", "html_url": "https://a.pagerduty.com/i/1", "service": {"summary": "S"}, "urgency": "high"}
    event = {"id": "1", "event_type": "incident.triggered", "occurred_at": time, "data": incident}
    item = {"url": "https://a.example.com/1", "system": "desk", "id": "1", "title": "T", "state": "open"}
    change = {"title": "T", "kind": "flag", "at": time, "detail": "D", "environment": "e", "service": "s"}
    change |= {"release": "1", "url": "https://a.example.com/", "project": "web", "dedupeKey": "k"}
    generic = (
        {"event": "issue.closed", "item": item | {"updatedAt": time}},
        {"event": "issue.reopened", "issue": "WEB-1"},
        {"event": "issue.updated", "issue": "iss_" + "0" * 26},
        {"event": "link.created", "issue": "WEB-1", "item": item},
        {"event": "link.deleted", "issue": "WEB-1", "item": {"system": "desk", "id": "1"}},
        {"event": "change.flag", "change": change},
        {"event": "deploy.done", "change": {"title": "T"}},
        {"event": "ping"},
    )
    bodies = ((0, linear), (1, jira), (2, {"event": event}), *((3, body) for body in generic))
    for number, body in bodies:
        yield bytes((number, 0)) + json.dumps(body).encode()
    for number in range(len(KINDS)):
        yield bytes((number, 0)) + b'{"event":"\\ud800","type":"Issue","webhookTimestamp":1e400}'
        for head in (
            "0" * 64,
            "sha256=" + "0" * 64,
            f"v1={'0' * 64},v1={'1' * 64}",
            f"\nm\n1795132800\nv1,{'A' * 43}=",
        ):
            yield bytes((number, 1)) + head.encode() + b"\0{}"
