"""The operator's mail server, from a setting, and mail to it over a socket that the guarded egress has opened."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from email.policy import SMTP
from typing import Final
from urllib.parse import unquote, urlsplit

import aiosmtplib

from control.outbound.egress import Egress

_URL_FORMAT: Final = "must be smtp://user:password@host:port or smtps://user:password@host:port"
_DEFAULT_PORTS: Final = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailServer:
    """The operator's SMTP server: `smtp://user:password@host:587`, or `smtps://` for TLS from the first byte.

    `smtp` with a user name requires STARTTLS; without one STARTTLS is used if offered.
    """

    host: str
    port: int
    implicit_tls: bool
    user: str | None
    password: str | None
    sender: str

    @classmethod
    def parse(cls, url: str, sender: str) -> "MailServer":
        """Raises ValueError without quoting the URL, which may contain a password."""
        try:
            parts = urlsplit(url)
            port = parts.port or _DEFAULT_PORTS[parts.scheme]
        except (KeyError, ValueError):
            raise ValueError(_URL_FORMAT) from None
        if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError(_URL_FORMAT)
        user = None if parts.username is None else unquote(parts.username)
        password = None if parts.password is None else unquote(parts.password)
        return cls(parts.hostname, port, parts.scheme == "smtps", user, password, sender)

    def __repr__(self) -> str:  # a password must not be logged
        return f"MailServer({self.host}:{self.port})"


RESPONSE_TIMEOUT_S: Final = 10.0  # for each response of the server
TOTAL_TIMEOUT_S: Final = 17.0  # from the DNS look-up to the server's acceptance
QUIT_TIMEOUT_S: Final = 2.0
MAIL_POLICY: Final = SMTP.clone(cte_type="7bit")  # works with every server


async def submit(mail: bytes, recipients: list[str], egress: Egress, server: MailServer) -> dict[str, int]:
    """Send a mail, within TOTAL_TIMEOUT_S. Returns the refused recipients with their SMTP codes. Raises EgressError,
    SMTPException, OSError (which includes TimeoutError).
    """
    async with asyncio.timeout(TOTAL_TIMEOUT_S) as timeout:
        client = _client(server, await egress.connect(server.host, server.port), egress.tls)
        try:
            await client.connect()
            refused, _ = await client.sendmail(server.sender, recipients, mail)
            timeout.reschedule(None)  # the mail is accepted, whether or not QUIT succeeds
            await _quit(client)
        except aiosmtplib.SMTPRecipientsRefused as error:
            return {one.recipient: one.code for one in error.recipients}
        finally:
            _abort(client)
    return {address: response.code for address, response in refused.items()}


def _client(server: MailServer, connected: socket.socket, tls: ssl.SSLContext) -> aiosmtplib.SMTP:
    return aiosmtplib.SMTP(
        hostname=server.host,
        sock=connected,
        use_tls=server.implicit_tls,
        start_tls=False if server.implicit_tls else (True if server.user is not None else None),
        tls_context=tls,
        username=server.user,
        password=server.password,
        local_hostname=server.sender.rpartition("@")[2],  # for EHLO; the default is a DNS look-up each time
        timeout=RESPONSE_TIMEOUT_S,
    )


def _abort(client: aiosmtplib.SMTP) -> None:
    """Close at once, together with the socket, which the transport owns by now: TLS would wait for the peer's
    close_notify.
    """
    transport = client.transport
    client.close()
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


async def _quit(client: aiosmtplib.SMTP) -> None:
    """Send QUIT. The mail is accepted by then, so errors are ignored."""
    try:
        async with asyncio.timeout(QUIT_TIMEOUT_S):
            await client.quit()
    except (aiosmtplib.SMTPException, OSError):
        pass
