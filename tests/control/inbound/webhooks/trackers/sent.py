"""What trackers send, signed as they sign: by the vendors' descriptions, with nothing of the code under test."""

import base64
import hashlib
import hmac
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control


async def new_integration(control: Control, kind: str, tenant: Tenant | None = None, **more: Any) -> dict[str, Any]:
    """The answer to its creation."""
    tenant = tenant or control.acme
    body = {"kind": kind, "name": kind} | more
    status, made, _ = await control.call(
        "POST", f"/orgs/{tenant.organization.slug}/integrations", body, tenant.token.secret
    )
    assert status == 201, made
    return dict(made)


def signed(kind: str, secret: str, body: bytes) -> dict[str, str]:
    """The headers of a delivery."""
    key = standard_key(secret) if kind == "generic" else secret.encode()
    found = hmac.new(key, body, hashlib.sha256).hexdigest()
    return {
        "linear": {"Linear-Signature": found, "Linear-Event": "Issue", "Linear-Delivery": "234d1a4e"},
        "jira": {"X-Hub-Signature": f"sha256={found}", "X-Atlassian-Webhook-Identifier": "1"},
        "pagerduty": {"X-PagerDuty-Signature": f"v1={'0' * 64},v1={found}"},
        "generic": {"X-Signature-256": f"sha256={found}"},
    }[kind]


def standard(secret: str, body: bytes, message_id: str, at: float | None = None) -> dict[str, str]:
    """The headers of Standard Webhooks."""
    sent = str(int(time.time() if at is None else at))
    content = f"{message_id}.{sent}.".encode() + body
    signature = base64.b64encode(hmac.new(standard_key(secret), content, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": sent, "webhook-signature": f"v1,{signature}"}


def standard_key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))


async def send(
    control: Control,
    integration: dict[str, Any],
    body: object,
    *,
    secret: str | None = None,
    headers: dict[str, str] | None = None,
    path: str | None = None,
) -> tuple[int, Any]:
    """Status and answer. `body`: bytes as they are, else as JSON."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    given = signed(integration["kind"], secret or integration["secret"], raw) if headers is None else headers
    where = path or f"/webhooks/integrations/{integration['id']}"
    given = {"Content-Type": "application/json"} | given
    async with control.client.post(where, data=raw, headers=given) as answer:
        return answer.status, msgspec.json.decode(await answer.read())


def at(seconds: float = 0) -> datetime:
    """So many seconds from now."""
    return datetime.now(UTC) + timedelta(seconds=seconds)


def iso(seconds: float = 0) -> str:
    return at(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def linear_issue(state: str = "started", *, updated: str | None = None, **more: Any) -> dict[str, Any]:
    """An issue that was changed, with the fields that Linear documents."""
    return {
        "action": "update",
        "actor": {"id": "b5ea5f1f", "type": "user", "name": "Ada"},
        "createdAt": iso(),
        "data": {
            "id": "2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9",
            "createdAt": "2026-11-20T12:53:18.084Z",
            "updatedAt": updated or iso(),
            "title": "Totals are wrong",
            "identifier": "ENG-12",
            "url": "https://linear.app/shop/issue/ENG-12/totals-are-wrong",
            "state": {"id": "a2530cac", "color": "#f2c94c", "name": "A name", "type": state},
            "team": {"id": "9e383f51", "key": "ENG", "name": "Engineering"},
        },
        "updatedFrom": {"updatedAt": "2026-11-20T12:53:18.084Z", "stateId": "c02edc3a"},
        "url": "https://linear.app/shop/issue/ENG-12/totals-are-wrong",
        "type": "Issue",
        "webhookTimestamp": int(time.time() * 1_000),
        "webhookId": "000042e3",
    } | more


def jira_issue(category: str = "indeterminate", *, updated: str | None = None, **more: Any) -> dict[str, Any]:
    """An issue that was changed, with the fields that Jira Cloud documents."""
    host = "https://shop.atlassian.net"
    return {
        "timestamp": int(time.time() * 1_000),
        "webhookEvent": "jira:issue_updated",
        "user": {"self": f"{host}/rest/api/2/user?accountId=1", "accountId": "1", "displayName": "Ada"},
        "issue": {
            "self": f"{host}/rest/api/2/issue/10000",
            "key": "SHOP-9",
            "fields": {
                "summary": "Totals are wrong",
                "created": "2026-11-20T12:53:18.084+0100",
                "updated": updated or at().isoformat(timespec="milliseconds").replace("+00:00", "+0000"),
                "resolution": None,
                "status": {"name": "A name", "statusCategory": {"id": 4, "key": category, "name": "A name"}},
            },
        },
        "changelog": {"id": "1", "items": [{"field": "status", "from": "1", "fromString": "To Do", "to": "3"}]},
    } | more


def incident(event: str = "incident.triggered", **more: Any) -> dict[str, Any]:
    """An incident, with the fields that PagerDuty documents."""
    return {
        "event": {
            "id": "01BZYIL05THJDFF2Y08X9SVMTU",
            "event_type": event,
            "resource_type": "incident",
            "occurred_at": iso(-60),
            "agent": {"id": "PLH1HKV", "summary": "Ada", "type": "user_reference"},
            "data": {
                "id": "PGR0VU2",
                "self": "https://api.pagerduty.com/incidents/PGR0VU2",
                "html_url": "https://shop.pagerduty.com/incidents/PGR0VU2",
                "title": "The cart does not answer",
                "service": {"id": "PF9KMXH", "summary": "Cart", "type": "service_reference"},
                "priority": None,
                "urgency": "high",
            },
        }
        | more
    }
