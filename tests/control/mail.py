"""A mail server on a real socket (aiosmtpd)."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass
class Office:
    """Takes mail, unless told what to say: by recipient, to the data, or nothing at all. `port`: while it is served."""

    port: int = 0
    taken: list[Envelope] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    recipients: dict[str, str] = field(default_factory=dict)
    data: str = "250 OK"
    hangs: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """With which the control service sends its mail here."""
        url = f"smtp://127.0.0.1:{self.port}"
        return {"smtp_url": url, "smtp_from": "sluice@example.org", "smtp_allow": ("127.0.0.0/8",)}

    async def handle_RCPT(  # noqa: N802  # aiosmtpd's names
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        said = self.recipients.get(address, "250 OK")
        if said.startswith("250"):
            envelope.rcpt_tos.append(address)
        return said

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.hangs:
            await asyncio.sleep(60)
        self.taken.append(envelope)
        implicit = server.transport is not None and server.transport.get_extra_info("sslcontext") is not None
        self.encrypted.append(session.ssl is not None or implicit)
        return self.data


@asynccontextmanager
async def serving(office: Office, *, implicit: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[int]:
    servers: list[SMTP] = []

    def protocol() -> SMTP:
        servers.append(SMTP(office, hostname="mail.test", **options))
        return servers[-1]

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=implicit)
    office.port = server.sockets[0].getsockname()[1]
    yield office.port
    server.close()
    for one in servers:
        if one._handler_coroutine is not None:
            one._handler_coroutine.cancel()
        if isinstance(one.transport, asyncio.WriteTransport):
            one.transport.abort()
    for _ in range(10):  # turns of the loop in which transports under TLS, then those below, close
        await asyncio.sleep(0)
