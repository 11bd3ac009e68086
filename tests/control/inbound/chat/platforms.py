"""What the chat platforms send, signed as they sign it, and what they get."""

import hashlib
import hmac
import itertools
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chassis.auth.tables import new_id
from chassis.db.database import Database
from control.audit.tables import audit_events
from control.identity import chat_links as link_repository
from control.identity.chat_links import ChatPlatform, ChatUser, StoredChatLink
from control.settings import ControlSettings
from proto.identity import Role
from tests.chassis.auth.tenants import Tenant
from tests.control.approvals.office import ASKED, REQUESTS, Member, new_member
from tests.control.conftest import Control

SECRETS: Final = ("chat-secret-of-tests", "chat-secret-before")
KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC_KEY: Final = KEY.public_key().public_bytes_raw().hex()
SETTINGS: Final = ControlSettings(
    chat_a_signing_secrets=SECRETS,
    chat_b_public_key=PUBLIC_KEY,
    egress_allow=("127.0.0.1/32",),
    egress_http=True,
    chat_hosts=("127.0.0.1",),
)
APP_ID: Final = "845027738276462632"
SUBCOMMAND: Final = 1
TEXT_OPTION: Final = 3
_numbers = itertools.count(1)


def signed_a(body: bytes, secret: str = SECRETS[0], at: float | None = None) -> dict[str, str]:
    timestamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": "v0=" + digest}


def signed_b(body: bytes, at: float | None = None) -> dict[str, str]:
    timestamp = str(int(time.time() if at is None else at))
    return {"X-Signature-Timestamp": timestamp, "X-Signature-Ed25519": KEY.sign(timestamp.encode() + body).hex()}


def slash_form(text: str, user: str = "U2147483697", team: str = "T0001", trigger: str | None = None) -> dict[str, str]:
    """As docs.slack.dev/interactivity/implementing-slash-commands has it."""
    return {
        "team_id": team,
        "enterprise_id": "E0001",
        "user_id": user,
        "user_name": "Steve",
        "command": "/sluice",
        "text": text,
        "response_url": "https://hooks.slack.com/commands/1234/5678",
        "trigger_id": trigger or f"13345224609.738474920.{next(_numbers)}",
        "api_app_id": "A123456",
    }


def press_payload(
    request_id: str, user: str = "U2147483697", team: str = "T0001", url: str | None = None, trigger: str | None = None
) -> dict[str, Any]:
    """As docs.slack.dev/reference/interaction-payloads/block_actions-payload has it."""
    return {
        "type": "block_actions",
        "user": {"id": user, "username": "steve", "name": "steve", "team_id": team},
        "api_app_id": "A123456",
        "container": {"type": "message", "message_ts": "1548261231.000200", "channel_id": "CBR2V3XEX"},
        "trigger_id": trigger or f"12466734323.1395872398.{next(_numbers)}",
        "team": {"id": team, "domain": "example"},
        "enterprise": None,
        "message": {"bot_id": "BAH5CA16Z", "type": "message", "text": "x", "user": "UAJ2RU415", "blocks": []},
        "response_url": url or "https://hooks.slack.com/actions/T0001/1232321423432/D09sSasdasdAS9091209",
        "actions": [{"action_id": "sluice_approve", "block_id": "=qXel", "value": request_id, "type": "button"}],
    }


def interaction(kind: int, data: dict[str, Any], user: str = "53908232506183680", id_: str = "") -> dict[str, Any]:
    """As docs.discord.com/developers/interactions/receiving-and-responding has it."""
    return {
        "type": kind,
        "data": data,
        "token": "A_UNIQUE_TOKEN",
        "member": {"user": {"id": user, "username": "Mason"}, "joined_at": "2017-03-13T19:19:14.040000+00:00"},
        "id": id_ or str(786008729715212338 + next(_numbers)),
        "application_id": APP_ID,
        "guild_id": "290926798626357999",
        "version": 1,
    }


def subcommand(name: str, **options: str) -> dict[str, Any]:
    given = [{"type": TEXT_OPTION, "name": key, "value": value} for key, value in options.items()]
    return {"type": 1, "name": "sluice", "options": [{"type": SUBCOMMAND, "name": name, "options": given}]}


@dataclass
class Chat:
    """The service, and people who write in chats."""

    control: Control

    @property
    def database(self) -> Database:
        return self.control.checks.database

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
        sent = BytesIO(body)  # the client warns of long bytes
        async with self.control.client.post(f"/webhooks/{path}", data=sent, headers=headers) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    async def slash(self, text: str, user: str = "U2147483697", **more: Any) -> tuple[int, Any]:
        body = urlencode(slash_form(text, user, **more)).encode()
        return await self.post("chat-a/commands", body, signed_a(body))

    async def says(self, text: str, user: str = "U2147483697", **more: Any) -> str:
        """The text of the answer to a command."""
        status, answer = await self.slash(text, user, **more)
        assert status == 200, answer
        assert answer["response_type"] == "ephemeral"
        return str(answer["text"])

    async def press(self, request_id: str, user: str = "U2147483697", **more: Any) -> tuple[int, Any]:
        payload = msgspec.json.encode(press_payload(request_id, user, **more)).decode()
        body = urlencode({"payload": payload}).encode()
        return await self.post("chat-a/interactivity", body, signed_a(body))

    async def event(self, event: object) -> tuple[int, Any]:
        body = msgspec.json.encode(event)
        return await self.post("chat-a/events", body, signed_a(body))

    async def interact(self, sent: object) -> tuple[int, Any]:
        body = msgspec.json.encode(sent)
        return await self.post("chat-b/interactions", body, signed_b(body))

    async def member(self, role: Role = Role.MEMBER, tenant: Tenant | None = None) -> Member:
        return await new_member(self.database, tenant or self.control.acme, role)

    async def linked(
        self,
        member: Member,
        user: str = "U2147483697",
        *,
        platform: ChatPlatform = ChatPlatform.CHAT_A,
        tenant: Tenant | None = None,
        is_federated: bool = False,
    ) -> str:
        """Link a chat user with a member; returns the id of the link."""
        chat_user = ChatUser(platform, "T0001" if platform is ChatPlatform.CHAT_A else "", user)
        org_id = (tenant or self.control.acme).organization.id
        link = StoredChatLink(new_id("chl"), org_id, member.id, chat_user, is_federated, datetime.now(UTC), None)
        async with self.database.write() as connection:
            await link_repository.add(connection, link)
        return link.id

    async def ask(self, by: Member | None = None, **body: Any) -> str:
        """The id of an approval request that waits."""
        status, answer, _ = await self.control.call("POST", REQUESTS, ASKED | body, None if by is None else by.token)
        assert status == 201, answer
        return str(answer["request"]["id"])

    async def two_must_approve(self) -> None:
        """A policy of acme from now on."""
        policy = {"name": "Two", "actionPattern": "deploy.**", "effect": "ASK", "riskClass": "HIGH", "minApprovers": 2}
        assert (await self.control.call("POST", "/orgs/acme/approval-policies", policy))[0] == 201

    async def request(self, request_id: str) -> Any:
        return (await self.control.call("GET", f"{REQUESTS}/{request_id}"))[1]

    async def count(self, table: sa.Table) -> int:
        async with self.database.read() as connection:
            return await connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0

    async def audited(self, *actions: str) -> list[tuple[str, str | None, str]]:
        """Action, token and object of events, oldest first."""
        columns = audit_events.c
        found = sa.select(columns.action, columns.token_id, columns.object_id).where(columns.action.in_(actions))
        async with self.database.read() as connection:
            return [tuple(row) for row in await connection.execute(found.order_by(columns.org_id, columns.seq))]
