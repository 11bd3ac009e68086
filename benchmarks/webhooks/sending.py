"""Deliveries, each another one, and what sends them."""

import asyncio
import hashlib
import hmac
import json
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import aiohttp

from control.notify.channels.config import secret_bytes
from tests.e2e.product import call

CONNECTIONS: Final = 16
SECRET: Final = "secret_of_benchmarks_only"  # noqa: S105 (it is none)
Request = tuple[str, str, dict[str, str], bytes]  # method, path, headers, body
Maker = Callable[[int], Request]


@dataclass(frozen=True)
class Sent:
    """Answers by status, and the seconds that they took."""

    statuses: dict[int, int]
    seconds: float


def read(token: str, _number: int) -> Request:
    """An authenticated read."""
    return "GET", "/orgs/acme", {"Authorization": f"Bearer {token}"}, b""


def _hex(text: bytes, secret: str | bytes = SECRET) -> str:
    key = secret.encode() if isinstance(secret, str) else secret
    return hmac.digest(key, text, "sha256").hex()


def payment(number: int) -> Request:
    """An event that changes the plan."""
    price = "price_business" if number % 2 else "price_team"
    event = {
        "id": f"evt_{number}",
        "type": "customer.subscription.updated",
        "created": 1_790_000_000 + max(number, 0),
        "data": {
            "object": {
                "id": "sub_1",
                "customer": "cus_1",
                "status": "active",
                "items": {"data": [{"price": {"id": price}, "current_period_end": 1_792_000_000}]},
            }
        },
    }
    body, at = json.dumps(event).encode(), int(time.time())
    return "POST", "/webhooks/payments", {"Stripe-Signature": f"t={at},v1={_hex(b'%d.' % at + body)}"}, body


def chat_command(number: int) -> Request:
    """A command of a chat."""
    fields = {"command": "/sluice", "text": "help", "team_id": "T1", "user_id": f"U{number + 2}", "channel_id": "C1"}
    fields |= {"trigger_id": f"{number + 2}.1", "response_url": "https://hooks.slack.com/commands/x"}
    body, at = urllib.parse.urlencode(fields).encode(), str(int(time.time()))
    signature = _hex(b"v0:" + at.encode() + b":" + body)
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": f"v0={signature}",
    }
    return "POST", "/webhooks/chat-a/commands", headers, body


def push(integration_id: str, secret: str, number: int) -> Request:
    """A push of one commit."""
    sha = hashlib.sha256(str(number).encode()).hexdigest()[:40]
    push = {
        "ref": "refs/heads/main",
        "before": "0" * 40,
        "after": sha,
        "repository": {"full_name": "shop/web", "default_branch": "main", "html_url": "https://github.com/shop/web"},
        "commits": [
            {
                "id": sha,
                "message": f"Change {number}",
                "timestamp": "2026-11-20T12:00:00Z",
                "distinct": True,
                "url": f"https://github.com/shop/web/commit/{sha}",
                "author": {"name": "Ada", "email": "ada@example.com"},
                "added": [],
                "removed": [],
                "modified": ["src/shop/cart.py"],
            }
        ],
    }
    body = json.dumps(push).encode()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": f"{number:032x}",
        "X-Hub-Signature-256": f"sha256={_hex(body, secret)}",
    }
    return "POST", f"/webhooks/scm/github?hook={integration_id}", headers, body


def change(integration_id: str, secret: str, number: int) -> Request:
    """A change event in generic JSON."""
    change = {"title": f"Deployment {number}", "environment": "production", "dedupeKey": str(number)}
    body = json.dumps({"event": "deploy.finished", "change": change}).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Event": "deploy.finished",
        "X-Delivery-Id": f"delivery-{number}",
        "X-Signature-256": f"sha256={_hex(body, secret_bytes(secret))}",
    }
    return "POST", f"/webhooks/integrations/{integration_id}", headers, body


def new_integration(url: str, token: str, kind: str) -> tuple[str, str]:
    """Id and secret of a new integration of the kind; `url` is that of the organization's integrations."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    made = call("POST", url, json.dumps({"kind": kind, "name": kind}).encode(), headers)
    if made.status != 201:
        raise SystemExit(f"no integration: {made.status}")
    return str(made.json()["id"]), str(made.json()["secret"])


def send(port: int, maker: Maker, seconds: float, numbers: range = range(10**9)) -> Sent:
    """Deliver one after another over some connections for so long. Blocks; meant for a process of its own."""
    return asyncio.run(_send_all(port, maker, seconds, iter(numbers)))


async def _send_all(port: int, maker: Maker, seconds: float, numbers: Iterator[int]) -> Sent:
    statuses: Counter[int] = Counter()
    begun = time.perf_counter()

    async def one(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            if time.perf_counter() > begun + seconds:
                return
            method, path, headers, body = maker(number)
            async with session.request(method, f"http://127.0.0.1:{port}{path}", headers=headers, data=body) as answer:
                await answer.read()
                statuses[answer.status] += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as session:
        await asyncio.gather(*(one(session) for _ in range(CONNECTIONS)))
    return Sent(dict(statuses), time.perf_counter() - begun)
