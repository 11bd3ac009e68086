"""Webhooks on the real product: source control and a chat act on issues and approvals, and nobody else does."""

import hashlib
import hmac
import json
import secrets
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Deploy
from tests.e2e.product import Answer, Sluice, call, eventually
from tests.e2e.test_issues import raise_error, the_issue

SIGNING_SECRET = secrets.token_hex(16)
PASSWORD = "-".join(secrets.token_hex(4) for _ in range(4))
TEAM, REPOSITORY = "T0123", "shop/checkout"


class Chat:
    """A chat platform: what is posted to it, by path."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.posted: list[tuple[str, Any]] = []

    def under(self, path: str) -> list[Any]:
        return [body for where, body in list(self.posted) if where == path]


@contextmanager
def chat_platform() -> Iterator[Chat]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            platform.posted.append((self.path, json.loads(body)))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    platform = Chat(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield platform
    finally:
        server.shutdown()
        server.server_close()


class Person:
    """A member with a session."""

    def __init__(self, sluice: Sluice, name: str, role: str) -> None:
        self.sluice, self.name = sluice, name
        invited = api(sluice, "POST", "/invitations", {"email": f"{name}@shop.example", "role": role})
        accepted = {"inviteToken": invited["inviteToken"], "name": name, "password": PASSWORD}
        answer = send(sluice, "POST", "/auth/invitations/accept", accepted, sluice.token)
        assert answer.status == 201, answer.body
        self.token, self.id = answer.json()["tokens"]["accessToken"], answer.json()["user"]["id"]

    def api(self, method: str, path: str, body: object = None, status: int = 201) -> Any:
        return api(self.sluice, method, path, body, status, self.token)


def send(sluice: Sluice, method: str, path: str, body: object, token: str) -> Answer:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return call(method, sluice.url_of(path) + path, None if body is None else json.dumps(body).encode(), headers)


def api(sluice: Sluice, method: str, path: str, body: object = None, status: int = 201, token: str = "") -> Any:
    """The JSON of a request below the organization, as the owner if nobody else is named."""
    answer = send(sluice, method, f"/orgs/{sluice.org}{path}", body, token or sluice.token)
    assert answer.status == status, (method, path, answer.body)
    return answer.json() if answer.body else None


def delivered(sluice: Sluice, hook: dict[str, Any], event: str, payload: object) -> Any:
    """What a delivery of GitHub is answered."""
    body = json.dumps(payload).encode()
    signature = hmac.new(hook["secret"].encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "X-GitHub-Event": event,
        "X-Hub-Signature-256": f"sha256={signature}",
        "Content-Type": "application/json",
    }
    url = urllib.parse.urlsplit(hook["url"])
    answer = call("POST", f"{sluice.control_url}{url.path}?{url.query}", body, headers)
    assert answer.status == 200, answer.body
    return answer.json()


def chat_a(sluice: Sluice, where: str, fields: dict[str, str]) -> Answer:
    """A signed form of the chat platform."""
    body = urllib.parse.urlencode(fields).encode()
    at = str(int(time.time()))
    signature = hmac.new(SIGNING_SECRET.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"X-Slack-Signature": f"v0={signature}", "X-Slack-Request-Timestamp": at}
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    return call("POST", f"{sluice.control_url}/webhooks/chat-a/{where}", body, headers)


def command(sluice: Sluice, user: str, text: str, chat: Chat) -> str:
    """What `/sluice TEXT` is answered."""
    fields = {"command": "/sluice", "text": text, "team_id": TEAM, "user_id": user, "channel_id": "C1"}
    fields |= {"trigger_id": secrets.token_hex(8), "response_url": f"{chat.url}/commands/{user}"}
    answer = chat_a(sluice, "commands", fields)
    assert answer.status == 200, answer.body
    said = answer.json()
    assert said["response_type"] == "ephemeral"
    return str(said["text"])


def press(sluice: Sluice, user: str, button: dict[str, Any], chat: Chat) -> None:
    """Press a button of a message."""
    payload = {
        "type": "block_actions",
        "team": {"id": TEAM},
        "user": {"id": user},
        "trigger_id": secrets.token_hex(8),
        "response_url": f"{chat.url}/pressed/{user}",
        "container": {"type": "message", "message_ts": "1.2", "channel_id": "C1"},
        "actions": [{**button, "action_ts": "1.3"}],
    }
    answer = chat_a(sluice, "interactivity", {"payload": json.dumps(payload)})
    assert (answer.status, answer.json()) == (200, {"ok": True}), answer.body


def proposal(issue: dict[str, Any], number: int, state: str, **more: Any) -> dict[str, Any]:
    """A pull request of GitHub that fixes the issue."""
    return {
        "action": {"open": "opened"}.get(state, "closed"),
        "number": number,
        "pull_request": {
            "number": number,
            "title": f"Retry the charge {number}",
            "body": f"Fixes {issue['shortId']}",
            "state": "open" if state == "open" else "closed",
            "merged": state == "merged",
            "merge_commit_sha": f"{number:040x}" if state == "merged" else None,
            "html_url": f"https://github.com/{REPOSITORY}/pull/{number}",
            "updated_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "user": {"login": "ada"},
            "head": {"ref": "retry", "sha": "a" * 40},
            **more,
        },
        "repository": repository(),
    }


def repository() -> dict[str, Any]:
    return {"id": 1, "full_name": REPOSITORY, "default_branch": "main", "html_url": f"https://github.com/{REPOSITORY}"}


@pytest.fixture
def chat() -> Iterator[Chat]:
    with chat_platform() as platform:
        yield platform


@pytest.mark.parametrize(
    "deploy", ["embedded-sqlite", pytest.param("apart-postgresql", marks=pytest.mark.long)], indirect=True
)
def test_a_merge_resolves_a_release_reopens_and_a_linked_human_approves(
    deploy: Deploy, tmp_path: Path, chat: Chat
) -> None:
    settings = {
        "SLUICE_CONTROL_CHAT_A_SIGNING_SECRETS": SIGNING_SECRET,
        "SLUICE_CONTROL_CHAT_HOSTS": "127.0.0.1",
        "SLUICE_CONTROL_EGRESS_ALLOW": "127.0.0.0/8",
        "SLUICE_CONTROL_EGRESS_HTTP": "true",
    }
    sluice = deploy(tmp_path, **settings)
    try:
        the_issue_lives(sluice, chat)
        the_human_decides(sluice, chat)
        sluice.stop()
    finally:
        sluice.kill()


def the_issue_lives(sluice: Sluice, chat: Chat) -> None:
    channels = f"/projects/{sluice.project}/notification-channels"
    channel = api(
        sluice,
        "POST",
        channels,
        {"name": "x", "kind": "chat-a", "config": {"webhookUrl": f"{chat.url}/channel"}, "scope": "project"},
    )
    api(sluice, "PUT", f"{channels}/{channel['id']}/subscriptions", {"events": ["issue.new", "issue.regression"]}, 200)
    config = {"projects": [sluice.project]}
    hook = api(sluice, "POST", "/integrations", {"kind": "github", "name": "shop", "config": config})
    raise_error(sluice, "Declined", "1.4.1")
    issue = eventually(lambda: the_issue(sluice, "Declined"), "the issue")
    eventually(lambda: any("Declined" in json.dumps(one) for one in chat.under("/channel")), "the channel is told")

    assert delivered(sluice, hook, "ping", {"zen": "x", "hook_id": 1, "repository": repository()})["received"] is True
    delivered(sluice, hook, "pull_request", proposal(issue, 16, "open"))
    delivered(sluice, hook, "pull_request", proposal(issue, 17, "open"))
    merged = delivered(sluice, hook, "pull_request", proposal(issue, 17, "merged"))
    assert merged["proposalsMerged"] == [f"{REPOSITORY}#17"]
    assert merged["proposalsSuperseded"] == [f"{REPOSITORY}#16"]
    path = f"/projects/{sluice.project}/issues/{issue['id']}"
    assert api(sluice, "GET", path, None, 200)["status"] == "resolved"

    release = {"tag_name": "1.4.2", "name": "1.4.2", "draft": False, "prerelease": False, "target_commitish": "main"}
    release |= {"html_url": f"https://github.com/{REPOSITORY}/releases/1.4.2", "id": 5}
    release["published_at"] = release["created_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    released = delivered(
        sluice, hook, "release", {"action": "published", "release": release, "repository": repository()}
    )
    assert released["changeEventsCreated"] == 1
    deployment = {"id": 6, "sha": "a" * 40, "ref": "1.4.2", "environment": "production", "task": "deploy"}
    deployment |= {"created_at": release["created_at"], "updated_at": release["created_at"]}
    status = {"id": 7, "state": "success", "environment": "production", "created_at": release["created_at"]}
    status |= {"updated_at": release["created_at"]}
    body = {"action": "created", "deployment_status": status, "deployment": deployment, "repository": repository()}
    assert delivered(sluice, hook, "deployment_status", body)["changeEventsCreated"] == 1
    changes = sluice.explore("/changes?hours=1")["data"]
    assert {one["kind"] for one in changes} == {"release", "deployment"}

    raise_error(sluice, "Declined", "1.4.2")
    eventually(lambda: api(sluice, "GET", path, None, 200)["regressedAt"], "it is reopened")


def the_human_decides(sluice: Sluice, chat: Chat) -> None:
    ada, bob, eve = (Person(sluice, name, "ADMIN") for name in ("ada", "bob", "eve"))
    for person, user in ((ada, "UADA"), (bob, "UBOB"), (eve, "UEVE")):
        code = person.api("POST", "/chat-links")["code"]
        assert person.name in command(sluice, user, f"link {code}", chat)
    channel = api(
        sluice,
        "POST",
        f"/projects/{sluice.project}/notification-channels",
        {"name": "approvals", "kind": "chat-a", "config": {"webhookUrl": f"{chat.url}/approvals"}},
    )
    wanted = {"action": "deploy.production", "targetType": "service", "targetId": "checkout"}
    made = ada.api("POST", "/approval-requests", {**wanted, "channelIds": [channel["id"]]})["request"]
    where = f"/approval-requests/{made['id']}"
    (message,) = eventually(lambda: chat.under("/approvals"), "the message")
    (button,) = [
        element
        for block in message["blocks"]
        for element in block.get("elements", [])
        if element.get("action_id") == "sluice_approve"
    ]

    def status() -> str:
        return str(api(sluice, "GET", where, None, 200)["status"])

    press(sluice, "UNOBODY", button, chat)
    eventually(lambda: chat.under("/pressed/UNOBODY"), "the stranger is told")
    press(sluice, "UADA", button, chat)
    eventually(lambda: chat.under("/pressed/UADA"), "the requester is told")
    api(sluice, "DELETE", f"/members/{eve.id}", None, 204)
    press(sluice, "UEVE", button, chat)
    eventually(lambda: chat.under("/pressed/UEVE"), "who has left is told")
    assert status() == "PENDING"
    press(sluice, "UBOB", button, chat)
    assert status() == "APPROVED"
    replaced = eventually(lambda: chat.under("/pressed/UBOB"), "the message is replaced")
    assert "sluice_approve" not in json.dumps(replaced)
    assert any(one.get("replace_original") for one in replaced)
    assert "/sluice link CODE" in command(sluice, "UNOBODY", "nonsense", chat)
