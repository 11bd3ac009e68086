"""Integrations of source control, and what their platforms send."""

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from chassis.db.database import to_milliseconds
from control.inbound.integrations import store
from control.inbound.integrations.tables import Integration, IntegrationConfig, IntegrationKind
from control.secrets.secret_box import SecretBox, load_key_source
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control

SECRET: Final = "a secret of this test"
EVENT_HEADERS: Final[Mapping[IntegrationKind, str]] = {
    IntegrationKind.GITHUB: "X-GitHub-Event",
    IntegrationKind.GITLAB: "X-Gitlab-Event",
    IntegrationKind.BITBUCKET: "X-Event-Key",
    IntegrationKind.GITEA: "X-Gitea-Event",
    IntegrationKind.FORGEJO: "X-Forgejo-Event",
}


def hex_of(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def standard(
    body: bytes, secret: str = SECRET, message_id: str | None = None, at: float | None = None
) -> dict[str, str]:
    """The headers of GitLab's signature."""
    stamp = str(int(time.time() if at is None else at))
    message_id = message_id or hashlib.sha256(body).hexdigest()[:32]
    key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    digest = hmac.new(key, f"{message_id}.{stamp}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": signature}


SIGNERS: Final[Mapping[IntegrationKind, Callable[[bytes, str], dict[str, str]]]] = {
    IntegrationKind.GITHUB: lambda body, secret: {"X-Hub-Signature-256": "sha256=" + hex_of(body, secret)},
    IntegrationKind.GITLAB: standard,
    IntegrationKind.BITBUCKET: lambda body, secret: {"X-Hub-Signature": "sha256=" + hex_of(body, secret)},
    IntegrationKind.GITEA: lambda body, secret: {"X-Gitea-Signature": hex_of(body, secret)},
    IntegrationKind.FORGEJO: lambda body, secret: {"X-Forgejo-Signature": hex_of(body, secret)},
}


def encoded(body: object) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def result(event: str, **changes: Any) -> dict[str, Any]:
    """The answer, with these effects."""
    return {
        "received": True,
        "event": event,
        "commitsUpserted": 0,
        "changeEventsCreated": 0,
        "proposalsMerged": [],
        "issuesReopened": [],
        "proposalsSuperseded": [],
        "commitsNotListed": 0,
    } | changes


@dataclass(frozen=True)
class Scm:
    """A running service, and how to send it something."""

    control: Control
    secret_box: SecretBox

    @classmethod
    def of(cls, control: Control, data: Path) -> "Scm":
        return cls(control, SecretBox(load_key_source("", data / "sealing.keys")))

    async def integrate(
        self,
        kind: IntegrationKind,
        *,
        secret: str = SECRET,
        tenant: Tenant | None = None,
        hook_id: str | None = None,
        enabled: bool = True,
        **config: Any,
    ) -> Integration:
        """A new integration."""
        tenant = tenant or self.control.acme
        async with self.control.checks.database.write() as connection:
            return await store.create_integration(
                connection,
                self.secret_box,
                org_id=tenant.organization.id,
                kind=kind,
                name=kind.value,
                enabled=enabled,
                config=IntegrationConfig(**config),
                hook_id=hook_id,
                secret=secret,
                created_by=tenant.owner_id,
                now=to_milliseconds(datetime.now(UTC)),
            )

    async def send(
        self,
        integration: Integration,
        event: str,
        body: object,
        *,
        secret: str = SECRET,
        headers: Mapping[str, str] | None = None,
        path: str | None = None,
    ) -> tuple[int, Any, Any]:
        """Send what the platform would; `headers` are instead of the signature."""
        raw = encoded(body)
        signed = SIGNERS[integration.kind](raw, secret) if headers is None else dict(headers)
        signed = {"Content-Type": "application/json", EVENT_HEADERS[integration.kind]: event} | signed
        path = path or f"/webhooks/scm/{integration.kind.value}?hook={integration.id}"
        async with self.control.client.post(path, data=BytesIO(raw), headers=signed) as answer:
            content = await answer.read()
            return answer.status, msgspec.json.decode(content) if content else None, answer.headers

    async def accepted(self, integration: Integration, event: str, body: object) -> Any:
        """The answer to something that is accepted."""
        status, answer, _ = await self.send(integration, event, body)
        assert status == 200, (event, answer)
        return answer

    async def rows(self, query: sa.Select[Any]) -> list[Any]:
        async with self.control.checks.database.read() as connection:
            return list((await connection.execute(query)).all())

    async def accepted_together(self, integration: Integration, sent: list[tuple[str, object]]) -> list[Any]:
        return list(await asyncio.gather(*(self.accepted(integration, event, body) for event, body in sent)))
